package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

const promoCodeBatch = 500

// SyncPromoCode makes a promo code at the processor equal to the promo code of the
// programme. A promotion code cannot be changed, so it is deactivated and a new one is
// created if the terms differ. Without a connection, the status stays pending until an
// account is connected. After an error, the status is failed until another attempt succeeds.
func (s *Service) SyncPromoCode(ctx context.Context, job promocode.SyncPromoCode) error {
	scope := affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}
	for name, processor := range s.Processors {
		connection, err := processors.Connection(ctx, s.DB, scope, name)
		if err != nil {
			return err
		}
		if connection == nil {
			continue
		}
		key, err := s.keyOf(*connection)
		if err != nil {
			return err
		}
		if err := s.syncPromoCode(ctx, scope, job.PromoCode, account{connection.Account, key, processor}); err != nil {
			return err
		}
	}
	return nil
}

type account struct {
	id, key   string
	processor Processor
}

var errPromoCodeChanged = errors.New("the promo code was changed while it was synced")

func (s *Service) syncPromoCode(ctx context.Context, scope affiliate.Scope, id affiliate.PromoCodeID, a account) error {
	code, err := processors.PromoCode(ctx, s.DB, scope, id)
	isDeleted := errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound))
	if err != nil && !isDeleted {
		return err
	}
	existing, err := processors.ActivePromotionCodes(ctx, s.DB, scope, a.id, id)
	if err != nil {
		return err
	}
	wanted, usable := code.ForProcessor(s.now())
	usable = usable && !isDeleted
	terms := code.ProcessorTerms()
	isCurrent := false
	for _, promotion := range existing {
		if usable && promotion.Terms == terms && !isCurrent {
			isCurrent = true
			continue
		}
		if err := s.endPromotionCode(ctx, scope, promotion.PromotionCode, a); err != nil {
			return s.promoCodeFailed(ctx, code, err)
		}
	}
	if usable && !isCurrent {
		if err := s.createPromotionCode(ctx, wanted, terms, a); err != nil {
			return s.promoCodeFailed(ctx, code, err)
		}
	}
	if isDeleted || !code.Sync {
		return nil
	}
	var current bool
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		current, err = processors.SetSyncStatus(ctx, tx, code, promocode.SyncSynced)
		return err
	})
	if err == nil && !current {
		// The change has inserted its own job, which can have run before this one has ended.
		return errPromoCodeChanged
	}
	return err
}

// createPromotionCode creates a promotion code and stores its ids. A repeated call after a
// lost response returns the same ids, because the idempotency key is the same.
func (s *Service) createPromotionCode(ctx context.Context, code promocode.PromoCode, terms string, a account) error {
	left := int64(-1)
	if code.MaxRedemptions != nil {
		left = *code.MaxRedemptions
	}
	idempotencyKey := fmt.Sprintf("%s %d %d %s", code.ID, code.Version, left, terms)
	created, err := a.processor.CreatePromotionCode(ctx, a.key, idempotencyKey, code)
	if err != nil {
		return fmt.Errorf("create a promotion code: %w", err)
	}
	created.Terms = terms
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error { return processors.PutPromotionCode(ctx, tx, a.id, code, created, s.now()) })
}

func (s *Service) endPromotionCode(ctx context.Context, scope affiliate.Scope, promotionCode string, a account) error {
	if err := a.processor.DeactivatePromotionCode(ctx, a.key, promotionCode); err != nil {
		return fmt.Errorf("deactivate a promotion code: %w", err)
	}
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error { return processors.EndPromotionCode(ctx, tx, scope, promotionCode) })
}

// promoCodeFailed stores that a promo code could not be synced and returns the error, so
// that another attempt follows.
func (s *Service) promoCodeFailed(ctx context.Context, code promocode.PromoCode, err error) error {
	s.Log.LogAttrs(ctx, slog.LevelWarn, "a promo code could not be synced with the payment processor",
		slog.String("promo_code", code.ID.String()), slog.Any("error", err))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	return errors.Join(err, s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		_, err := processors.SetSyncStatus(ctx, tx, code, promocode.SyncFailed)
		return err
	}))
}

// SyncPromoCodes inserts a job for each promo code of a scope that must exist at the
// processor.
func (s *Service) SyncPromoCodes(ctx context.Context, job processor.SyncPromoCodes) error {
	scope := affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}
	var after affiliate.PromoCodeID
	for {
		ids, err := processors.SyncedPromoCodes(ctx, s.DB, scope, after, promoCodeBatch)
		if err != nil || len(ids) == 0 {
			return err
		}
		jobs := make([]affiliate.Job, len(ids))
		for i, id := range ids {
			jobs[i] = promocode.SyncPromoCode{Workspace: scope.Workspace, Mode: scope.Mode, PromoCode: id}
		}
		if err := s.DB.InTx(ctx, func(tx *postgres.Tx) error { return tx.Enqueue(ctx, jobs...) }); err != nil {
			return err
		}
		after = ids[len(ids)-1]
	}
}
