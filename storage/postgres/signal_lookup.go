package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
)

// lockPromoCode comes before findPromoCode for the reason that findBinding gives.
const lockPromoCode = `
	select from promo_codes
	where workspace_id = $1 and mode = $2 and code = $3
	for no key update`

// seePromoCode prefers the mode's own code, and gives the other mode's only where
// it has none: a signal of the other mode has to be told from an unknown one.
const seePromoCode = `
	select x.id, x.mode, x.active, x.expires_at, x.max_redemptions, x.redemptions, ` + earnerColumns + `
	from promo_codes x` + earnerOfX + `
	where x.workspace_id = $1 and x.mode in ('test', 'live') and x.code = $3
	order by x.mode = $2 desc
	limit 1`

// findPromoCode is seePromoCode of what stays as it is until the transaction ends.
const findPromoCode = seePromoCode + `
	for no key update of x`

// lockSignals finds, in one round trip, the customer and the promo code that a
// conversion names, and keeps both from changing until the transaction ends. All
// transactions take them in this order, and before everything else that they
// lock, so that none waits for another in a circle.
func lockSignals(ctx context.Context, tx pgx.Tx, c affiliate.Conversion, in affiliate.AttributionInputs) (affiliate.AttributionInputs, error) {
	if c.CustomerRef == nil && c.PromoCode == nil {
		return in, nil
	}
	batch := &pgx.Batch{}
	if c.CustomerRef != nil {
		batch.Queue(lockCustomer, c.Scope.Workspace, c.Scope.Mode, c.CustomerRef, c.CreatedAt)
	}
	if c.PromoCode != nil {
		batch.Queue(lockPromoCode, c.Scope.Workspace, c.Scope.Mode, c.PromoCode)
	}
	if c.CustomerRef != nil {
		in.Customer = queueCustomer(batch, c.Scope, *c.CustomerRef)
	}
	if c.PromoCode != nil {
		queuePromoCode(batch, findPromoCode, c, &in)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return in, fmt.Errorf("signals: %w", err)
	}
	return in, nil
}

// queuePromoCode finds the promo code that a conversion names.
func queuePromoCode(batch *pgx.Batch, find string, c affiliate.Conversion, into *affiliate.AttributionInputs) {
	batch.Queue(find, c.Scope.Workspace, c.Scope.Mode, c.PromoCode).Query(func(rows pgx.Rows) (err error) {
		into.FoundPromoCode, err = collectPromoCode(rows)
		return err
	})
}

func collectPromoCode(rows pgx.Rows) (*affiliate.FoundPromoCode, error) {
	type codeRow struct {
		ID             affiliate.PromoCodeID
		Mode           affiliate.Mode
		Active         bool
		ExpiresAt      *time.Time
		MaxRedemptions *int64
		Redemptions    int64
		earnerRow
	}
	codes, err := pgx.CollectRows(rows, pgx.RowToStructByName[codeRow])
	if err != nil || len(codes) == 0 {
		return nil, err
	}
	code := codes[0]
	return &affiliate.FoundPromoCode{
		ID: code.ID, Mode: code.Mode, Active: code.Active, ExpiresAt: optionalUTC(code.ExpiresAt),
		MaxRedemptions: code.MaxRedemptions, Redemptions: code.Redemptions, Earner: code.earner(),
	}, nil
}

// redeem uses up one redemption. The code is locked and was seen to have one
// left; the condition holds the database to it.
const redeem = `
	update promo_codes set redemptions = redemptions + 1
	where workspace_id = $1 and mode = $2 and id = $3 and (max_redemptions is null or redemptions < max_redemptions)`

func queueRedemption(batch *pgx.Batch, scope affiliate.Scope, code affiliate.PromoCodeID) {
	batch.Queue(redeem, scope.Workspace, scope.Mode, code).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("promo code %s has no redemption left", code)
		}
		return nil
	})
}

// usedUp reports whether a decision takes a code's last redemption.
func usedUp(in affiliate.AttributionInputs, d affiliate.Decision) bool {
	code := in.FoundPromoCode
	return d.Redeems != nil && code.MaxRedemptions != nil && code.Redemptions+1 >= *code.MaxRedemptions
}
