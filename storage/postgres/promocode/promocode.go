// Package promocode has the SQL of promo codes.
package promocode

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
	links "github.com/tributary-hq/tributary/storage/postgres/link"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

const promoCodeColumns = `
	c.id, c.workspace_id, c.mode, c.program_id, c.participant_id, c.code, c.discount_type, c.discount_value, c.currency,
	c.max_redemptions, c.redemptions, c.expires_at, c.active, c.sync_to_processor, c.sync_status, c.version,
	c.created_at, c.updated_at`

type promoCodeRow struct {
	ID             affiliate.PromoCodeID   `db:"id"`
	WorkspaceID    affiliate.WorkspaceID   `db:"workspace_id"`
	Mode           affiliate.Mode          `db:"mode"`
	ProgramID      affiliate.ProgramID     `db:"program_id"`
	ParticipantID  affiliate.ParticipantID `db:"participant_id"`
	Code           string                  `db:"code"`
	DiscountType   promocode.DiscountType  `db:"discount_type"`
	DiscountValue  int64                   `db:"discount_value"`
	Currency       *string                 `db:"currency"`
	MaxRedemptions *int64                  `db:"max_redemptions"`
	Redemptions    int64                   `db:"redemptions"`
	ExpiresAt      *time.Time              `db:"expires_at"`
	Active         bool                    `db:"active"`
	Sync           bool                    `db:"sync_to_processor"`
	SyncStatus     promocode.SyncStatus    `db:"sync_status"`
	Version        int                     `db:"version"`
	CreatedAt      time.Time               `db:"created_at"`
	UpdatedAt      time.Time               `db:"updated_at"`
}

func (r promoCodeRow) promoCode() promocode.PromoCode {
	return promocode.PromoCode{
		ID:             r.ID,
		Scope:          affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode},
		Program:        r.ProgramID,
		Participant:    r.ParticipantID,
		Code:           r.Code,
		DiscountType:   r.DiscountType,
		DiscountValue:  r.DiscountValue,
		Currency:       r.Currency,
		MaxRedemptions: r.MaxRedemptions,
		Redemptions:    r.Redemptions,
		ExpiresAt:      r.ExpiresAt,
		Active:         r.Active,
		Sync:           r.Sync,
		SyncStatus:     r.SyncStatus,
		Version:        r.Version,
		CreatedAt:      r.CreatedAt,
		UpdatedAt:      r.UpdatedAt,
	}
}

// errConcurrentErasure means that an erasure has replaced the requested promo code while the
// transaction was running. It is a serialization failure, so InTx starts this transaction
// again.
var errConcurrentErasure = &pgconn.PgError{Code: postgres.CodeSerializationFailure, Message: "the promo code was erased"}

// Create stores a promo code of a participant. If a fixed discount has no
// currency, it gets the programme's currency. A unique index makes sure that no two promo
// codes have the same code. Errors: NOT_FOUND if the programme does not exist,
// VALIDATION_ERROR if the participant is not valid, PROGRAM_STATE_INVALID,
// PARTICIPANT_ERASED, PROMO_CODE_TAKEN.
func Create(ctx context.Context, db *postgres.DB, c promocode.PromoCode, by affiliate.Actor) (promocode.PromoCode, error) {
	const insert = `
		insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, currency,
			max_redemptions, expires_at, active, sync_to_processor, sync_status, version, created_at, updated_at)
		select @workspace, @id, @program, @participant, @mode, @code, @discount_type, @discount_value, @currency,
			@max_redemptions, @expires_at, @active, @sync, @sync_status, @version, @created_at, @updated_at
		where not exists (` + links.SelectErasedValue + `)`
	var created promocode.PromoCode
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		created = c
		created.Active, created.Redemptions, created.Version, created.UpdatedAt = true, 0, 1, c.CreatedAt
		program, err := programs.LockOpen(ctx, tx, c.Scope, c.Program)
		if err != nil {
			return err
		}
		if _, err := links.LockNewOwner(ctx, tx, c.Scope, c.Program, c.Participant, by); err != nil {
			return err
		}
		if c.DiscountType == promocode.DiscountFixed && c.Currency == nil {
			created.Currency = &program.Currency
		}
		args := promoCodeArgs(created)
		args["kind"], args["digests"] = privacy.ErasedPromoCode, tx.ErasureKeys().Digests(c.Scope, privacy.ErasedPromoCode, c.Code)
		tag, err := tx.Exec(ctx, insert, args)
		if err := postgres.RefuseIfNone(tag, err, affiliate.ReasonPromoCodeTaken); err != nil {
			return postgres.Refusal(err)
		}
		// The insert may have waited for an erasure that has replaced this code. Its digest was
		// not visible to the insert.
		const erased = `select exists (` + links.SelectErasedValue + `)`
		var replaced bool
		if err := tx.QueryRow(ctx, erased, args).Scan(&replaced); err != nil {
			return err
		}
		if replaced {
			return errConcurrentErasure
		}
		change := postgres.CountChange{What: postgres.PromoCodeCount, ID: c.ID.UUID, N: 1}
		if err := postgres.ChangeCounts(ctx, tx, c.Scope.Workspace, c.Program, change); err != nil {
			return err
		}
		event := affiliate.NewEvent(c.Scope, affiliate.EventPromoCodeCreated, c.CreatedAt, created.Object(), nil)
		return promoCodeChanged(ctx, tx, created, "promo_code.create", c.CreatedAt, by, nil, created.Object(), event)
	})
	return created, err
}

func promoCodeArgs(c promocode.PromoCode) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": c.Scope.Workspace, "mode": c.Scope.Mode, "id": c.ID, "program": c.Program, "participant": c.Participant,
		"code": c.Code, "discount_type": c.DiscountType, "discount_value": c.DiscountValue, "currency": c.Currency,
		"max_redemptions": c.MaxRedemptions, "expires_at": c.ExpiresAt, "active": c.Active, "sync": c.Sync,
		"sync_status": c.SyncStatus, "version": c.Version, "created_at": c.CreatedAt, "updated_at": c.UpdatedAt,
	}
}

const (
	selectPromoCode = `
		select ` + promoCodeColumns + `
		from promo_codes c
		where c.workspace_id = @workspace and c.mode = @mode and c.program_id = @program and c.id = @id`
	ownerOfPromoCode = `
		select participant_id from promo_codes
		where workspace_id = @workspace and mode = @mode and program_id = @program and id = @id`
)

func promoCodeKeyArgs(scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "id": id}
}

// Get returns one promo code. Errors: NOT_FOUND.
func Get(ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID) (promocode.PromoCode, error) {
	row, err := postgres.OneRow[promoCodeRow](db.Query(ctx, selectPromoCode, promoCodeKeyArgs(scope, program, id)))
	return row.promoCode(), err
}

// Update changes the fields that the patch contains. If nothing changes, it
// writes no audit record and no event. Errors: NOT_FOUND, PARTICIPANT_ERASED, and
// VALIDATION_ERROR if the code cannot exist at a payment processor.
func Update(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID,
	patch promocode.Patch, at time.Time, by affiliate.Actor,
) (promocode.PromoCode, error) {
	// The statement does not write the number of redemptions, which only conversions
	// change.
	const update = `
		update promo_codes
		set active = @active, max_redemptions = @max_redemptions, expires_at = @expires_at, sync_to_processor = @sync,
			sync_status = @sync_status, version = @version, updated_at = @updated_at
		where workspace_id = @workspace and mode = @mode and id = @id`
	var after promocode.PromoCode
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		args := promoCodeKeyArgs(scope, program, id)
		if err := links.LockOwner(ctx, tx, ownerOfPromoCode, args); err != nil {
			return err
		}
		row, err := postgres.OneRow[promoCodeRow](tx.Query(ctx, selectPromoCode+` for no key update`, args))
		if err != nil {
			return err
		}
		before := row.promoCode()
		after = before.Patch(patch)
		if err := after.CheckSync(); err != nil {
			return err
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || oldValues == nil {
			return err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if _, err := tx.Exec(ctx, update, promoCodeArgs(after)); err != nil {
			return err
		}
		var events []affiliate.Event
		if before.Active && !after.Active {
			events = append(events, affiliate.NewEvent(scope, affiliate.EventPromoCodeDeactivated, at, after.Object(), oldValues))
		}
		if before.Sync && !after.Sync {
			if err := tx.Enqueue(ctx, after.SyncJob()); err != nil {
				return err
			}
		}
		return promoCodeChanged(ctx, tx, after, "promo_code.update", at, by, oldValues, newValues, events...)
	})
	return after, err
}

// Delete deletes a promo code. Its code can then be used for a new promo code.
// Conversions keep the text of the code. The status of the participant and of the
// programme does not matter. Errors: NOT_FOUND.
func Delete(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.PromoCodeID, at time.Time, by affiliate.Actor,
) error {
	const remove = `
		delete from promo_codes c
		where c.workspace_id = @workspace and c.mode = @mode and c.program_id = @program and c.id = @id
		returning ` + promoCodeColumns
	return db.InTx(ctx, func(tx *postgres.Tx) error {
		row, err := postgres.OneRow[promoCodeRow](tx.Query(ctx, remove, promoCodeKeyArgs(scope, program, id)))
		if err != nil {
			return err
		}
		change := postgres.CountChange{What: postgres.PromoCodeCount, ID: id.UUID, N: -1}
		if err := postgres.ChangeCounts(ctx, tx, scope.Workspace, program, change); err != nil {
			return err
		}
		c := row.promoCode()
		before := c.Object()
		var events []affiliate.Event
		if c.Active {
			c.Active, c.Version = false, c.Version+1
			oldValues := map[string]bool{"active": true}
			events = append(events, affiliate.NewEvent(scope, affiliate.EventPromoCodeDeactivated, at, c.Object(), oldValues))
		}
		return promoCodeChanged(ctx, tx, c, "promo_code.delete", at, by, before, nil, events...)
	})
}

// promoCodeChanged stores everything that follows from a change of a promo code: the
// audit record, the events, the job that updates the participant's promo code in the edge
// directory, and the job that updates it at the payment processor.
func promoCodeChanged(
	ctx context.Context, tx *postgres.Tx, c promocode.PromoCode, action string, at time.Time, by affiliate.Actor, oldValues, newValues any, events ...affiliate.Event,
) error {
	err := tx.Audit(ctx, affiliate.AuditLine{
		Workspace: c.Scope.Workspace, Mode: &c.Scope.Mode, Actor: by, At: at,
		Action: action, ResourceType: "promo_code", ResourceID: c.ID, Before: oldValues, After: newValues,
	})
	if err != nil {
		return err
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return err
	}
	jobs := []affiliate.Job{affiliate.SyncDirectory{Workspace: c.Scope.Workspace, Participant: &c.Participant}}
	if c.Sync {
		jobs = append(jobs, c.SyncJob())
	}
	return tx.Enqueue(ctx, jobs...)
}
