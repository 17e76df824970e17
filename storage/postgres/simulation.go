package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// seePromoCode is findPromoCode without its lock.
const seePromoCode = `
	select x.id, x.mode, x.active, x.expires_at, x.max_redemptions, x.redemptions, ` + earnerColumns + `
	from promo_codes x` + earnerOfX + `
	where x.workspace_id = $1 and x.mode in ('test', 'live') and x.code = $3
	order by x.mode = $2 desc
	limit 1`

// SeeSignals finds what lockSignals and learnFacts find for a conversion, as one
// snapshot has it. It locks nothing, waits for nobody, and cannot write: the
// transaction is read-only. So what it finds may change before anybody decides.
func (s *Store) SeeSignals(ctx context.Context, c affiliate.Conversion, in affiliate.AttributionInputs) (affiliate.AttributionInputs, error) {
	found := in
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, snapshot, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		if c.CustomerRef != nil {
			found.Customer = queueCustomer(batch, c.Scope, *c.CustomerRef)
		}
		if c.PromoCode != nil {
			batch.Queue(seePromoCode, c.Scope.Workspace, c.Scope.Mode, c.PromoCode).Query(func(rows pgx.Rows) (err error) {
				found.FoundPromoCode, err = collectPromoCode(rows)
				return err
			})
		}
		if batch.Len() > 0 {
			if err := tx.SendBatch(ctx, batch).Close(); err != nil {
				return fmt.Errorf("signals: %w", err)
			}
		}
		var err error
		found, err = learnFacts(ctx, tx, c, found)
		return err
	})
	return found, err
}
