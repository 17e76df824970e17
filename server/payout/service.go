// Package payout serves the paying of partners: batches of payouts, and what
// becomes of each payout. The proto service has the drawing of the statuses,
// affiliate/payout.go the table of moves.
//
// It guarantees that a commission is in at most one open payout, whatever runs at
// a time; that a batch which is asked for twice under one Idempotency-Key is made
// once; that what a payout pays is judged anew when it is confirmed, sent and tried
// again; and that the ledger holds exactly what was sent.
//
// It moves no money: the merchant exports a batch, sends the money and tells what
// has become of it. What is refunded while a payout is on its way does not stop
// it; it becomes a debt, which the next payout nets.
package payout

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Config is what the service is made of.
type Config struct {
	Store Store
	// Seal opens payout accounts, for exports.
	Seal Opener
	// Now is the clock.
	Now func() time.Time
}

// Service is affiliate.v1.PayoutService.
type Service struct {
	affiliatev1.UnimplementedPayoutServiceServer

	store Store
	seal  Opener
	now   func() time.Time
}

// New makes the service.
func New(c Config) *Service { return &Service{store: c.Store, seal: c.Seal, now: c.Now} }

// at is the instant of a call: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// PreviewPayouts shows what a batch would contain.
func (s *Service) PreviewPayouts(ctx context.Context, req *affiliatev1.PreviewPayoutsRequest) (*affiliatev1.PayoutPreview, error) {
	page := server.PageOf(req)
	of := selection(server.PrincipalFrom(ctx).Scope(), req, s.at())
	due, err := s.store.PayoutsDue(ctx, of)
	if err != nil {
		return nil, err
	}
	first := min(page.Offset(), int64(len(due)))
	last := min(first+int64(page.Size), int64(len(due)))
	data := make([]*affiliatev1.PayoutPreviewLine, 0, last-first)
	for _, d := range due[first:last] {
		data = append(data, previewLine(d))
	}
	return &affiliatev1.PayoutPreview{
		Data: data, Total: int64(len(due)), Cutoff: server.Timestamp(of.Cutoff), Totals: toTotals(previewTotals(due)),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both came in as int32
	}, nil
}

// CreatePayoutBatch makes a batch of drafts. Each commission is in one of the
// batches that are made at the same time.
func (s *Service) CreatePayoutBatch(ctx context.Context, req *affiliatev1.CreatePayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	text, ok, _ := server.IdempotencyKeyFrom(ctx)
	if !ok {
		return nil, affiliate.Refuse(affiliate.ReasonIdempotencyKeyRequired)
	}
	scope, at := server.PrincipalFrom(ctx).Scope(), s.at()
	key := affiliate.IdempotencyKey{
		Method: affiliatev1.PayoutService_CreatePayoutBatch_FullMethodName, Key: text, Fingerprint: server.Fingerprint(nil, req), At: at,
	}
	wanted := affiliate.NewPayoutBatch{PayoutSelection: selection(scope, req, at), By: server.ActorFrom(ctx), At: at}
	response := &affiliatev1.PayoutBatch{}
	replayed := false
	err := s.store.InTx(ctx, func(tx Tx) error {
		stored, err := tx.ClaimKey(ctx, scope, key)
		if err != nil {
			return err
		}
		if replayed = stored != nil; replayed {
			return proto.Unmarshal(stored, response)
		}
		// The participants to lock are known from a first look without locks.
		candidates, err := tx.PayoutsDue(ctx, wanted.PayoutSelection)
		if err != nil {
			return err
		}
		due, free, err := tx.LockPayoutsDue(ctx, wanted.PayoutSelection, affiliate.BatchParticipants(candidates))
		if err != nil {
			return err
		}
		draft, err := wanted.Draft(due, free)
		if err != nil {
			return err
		}
		batch, err := tx.InsertPayoutBatch(ctx, draft, wanted.By)
		if err != nil {
			return err
		}
		response = toBatch(batch)
		if stored, err = proto.Marshal(response); err != nil {
			return err
		}
		return tx.StoreResponse(ctx, scope, key, stored)
	})
	if err != nil {
		return nil, err
	}
	if replayed {
		server.MarkReplayed(ctx)
	}
	return response, nil
}

// ListPayoutBatches pages through the mode's batches.
func (s *Service) ListPayoutBatches(ctx context.Context, req *affiliatev1.ListPayoutBatchesRequest) (*affiliatev1.ListPayoutBatchesResponse, error) {
	page := server.PageOf(req)
	status := affiliate.PayoutBatchStatus(server.Word(req.GetStatus()))
	batches, total, err := s.store.PayoutBatches(ctx, server.PrincipalFrom(ctx).Scope(), status, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.PayoutBatch, len(batches))
	for i, b := range batches {
		data[i] = toBatch(b)
	}
	return &affiliatev1.ListPayoutBatchesResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both came in as int32
	}, nil
}

// GetPayoutBatch reads one batch.
func (s *Service) GetPayoutBatch(ctx context.Context, req *affiliatev1.GetPayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	return batchCall(req, func(id affiliate.PayoutBatchID) (affiliate.PayoutBatch, error) {
		return s.store.PayoutBatch(ctx, server.PrincipalFrom(ctx).Scope(), id)
	})
}

// ConfirmPayoutBatch releases a draft.
func (s *Service) ConfirmPayoutBatch(ctx context.Context, req *affiliatev1.ConfirmPayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	return batchCall(req, func(id affiliate.PayoutBatchID) (affiliate.PayoutBatch, error) {
		return s.store.ConfirmPayoutBatch(ctx, server.PrincipalFrom(ctx).Scope(), id, s.at(), server.ActorFrom(ctx))
	})
}

// CancelPayoutBatch cancels what is not sent.
func (s *Service) CancelPayoutBatch(ctx context.Context, req *affiliatev1.CancelPayoutBatchRequest) (*affiliatev1.PayoutBatch, error) {
	return batchCall(req, func(id affiliate.PayoutBatchID) (affiliate.PayoutBatch, error) {
		return s.store.CancelPayoutBatch(ctx, server.PrincipalFrom(ctx).Scope(), id, s.at(), server.ActorFrom(ctx))
	})
}

func batchCall(
	req interface{ GetBatchId() string }, do func(affiliate.PayoutBatchID) (affiliate.PayoutBatch, error),
) (*affiliatev1.PayoutBatch, error) {
	id, err := server.PathID[affiliate.PayoutBatch](req.GetBatchId())
	if err != nil {
		return nil, err
	}
	batch, err := do(id)
	if err != nil {
		return nil, err
	}
	return toBatch(batch), nil
}

// ListPayouts pages through the mode's payouts.
func (s *Service) ListPayouts(ctx context.Context, req *affiliatev1.ListPayoutsRequest) (*affiliatev1.ListPayoutsResponse, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	items, total, err := s.store.Payouts(ctx, server.PrincipalFrom(ctx).Scope(), affiliate.PayoutFilter{
		Status:      affiliate.PayoutStatus(server.Word(req.GetStatus())),
		Program:     optionalID[affiliate.Program](req.ProgramId),
		Participant: optionalID[affiliate.Participant](req.ParticipantId),
		Batch:       optionalID[affiliate.PayoutBatch](req.BatchId),
		Created:     created,
	}, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.Payout, len(items))
	for i, p := range items {
		data[i] = toProto(p)
	}
	return &affiliatev1.ListPayoutsResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both came in as int32
	}, nil
}

// GetPayout reads one payout.
func (s *Service) GetPayout(ctx context.Context, req *affiliatev1.GetPayoutRequest) (*affiliatev1.PayoutDetail, error) {
	id, err := server.PathID[affiliate.Payout](req.GetPayoutId())
	if err != nil {
		return nil, err
	}
	p, err := s.store.Payout(ctx, server.PrincipalFrom(ctx).Scope(), id)
	if err != nil {
		return nil, err
	}
	return toDetail(p), nil
}

// MarkPayoutPaid tells that the money has arrived.
func (s *Service) MarkPayoutPaid(ctx context.Context, req *affiliatev1.MarkPayoutPaidRequest) (*affiliatev1.Payout, error) {
	t := affiliate.PayoutTransition{Move: affiliate.MoveMarkPaid, Reference: &req.Reference, PaidAt: s.at()}
	if req.GetPaidAt() != nil {
		t.PaidAt = req.GetPaidAt().AsTime().Truncate(time.Millisecond)
	}
	return s.move(ctx, req, t)
}

// MarkPayoutFailed tells that it could not be paid.
func (s *Service) MarkPayoutFailed(ctx context.Context, req *affiliatev1.MarkPayoutFailedRequest) (*affiliatev1.Payout, error) {
	return s.move(ctx, req, affiliate.PayoutTransition{Move: affiliate.MoveMarkFailed, Reason: &req.Reason})
}

// RetryPayout tries a failed payout again.
func (s *Service) RetryPayout(ctx context.Context, req *affiliatev1.RetryPayoutRequest) (*affiliatev1.Payout, error) {
	return s.move(ctx, req, affiliate.PayoutTransition{Move: affiliate.MoveRetry})
}

// CancelPayout gives a payout up.
func (s *Service) CancelPayout(ctx context.Context, req *affiliatev1.CancelPayoutRequest) (*affiliatev1.Payout, error) {
	return s.move(ctx, req, affiliate.PayoutTransition{Move: affiliate.MoveCancel})
}

func (s *Service) move(ctx context.Context, req interface{ GetPayoutId() string }, t affiliate.PayoutTransition) (*affiliatev1.Payout, error) {
	id, err := server.PathID[affiliate.Payout](req.GetPayoutId())
	if err != nil {
		return nil, err
	}
	t.Actor, t.At = server.ActorFrom(ctx), s.at()
	p, err := s.store.MovePayout(ctx, server.PrincipalFrom(ctx).Scope(), id, t)
	if err != nil {
		return nil, err
	}
	return toProto(p), nil
}

// ListPartnerPayouts pages through the partner's own payouts.
func (s *Service) ListPartnerPayouts(ctx context.Context, req *affiliatev1.ListPartnerPayoutsRequest) (*affiliatev1.ListPartnerPayoutsResponse, error) {
	created, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	caller, page := server.PrincipalFrom(ctx), server.PageOf(req)
	items, total, err := s.store.PartnerPayouts(ctx, caller.User, caller.Mode, affiliate.PayoutFilter{
		Status:  affiliate.PayoutStatus(server.Word(req.GetStatus())),
		Program: optionalID[affiliate.Program](req.ProgramId),
		Created: created,
	}, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.PartnerPayout, len(items))
	for i, p := range items {
		data[i] = toPartner(p)
	}
	return &affiliatev1.ListPartnerPayoutsResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both came in as int32
	}, nil
}

// optionalID reads a filter that the contract's annotations have checked.
func optionalID[T any](text *string) *affiliate.ID[T] {
	if text == nil {
		return nil
	}
	// What is no UUID becomes the zero id, which nothing has.
	id, _ := affiliate.ParseID[T](*text)
	return &id
}
