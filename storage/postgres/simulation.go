package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// SeeSignals finds what lockSignals and readFacts find for a conversion, as one
// snapshot has it. It locks nothing, waits for nobody, and cannot write: the
// transaction is read-only. So what it finds may change before anybody decides.
func (s *Store) SeeSignals(ctx context.Context, c affiliate.Conversion, in affiliate.AttributionInputs) (affiliate.AttributionInputs, error) {
	seen := signals{conversion: c, inputs: in}
	err := s.inSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		if c.CustomerRef != nil {
			seen.inputs.Customer = queueCustomer(batch, c.Scope, *c.CustomerRef)
		}
		if c.PromoCode != nil {
			queuePromoCode(batch, c, &seen.inputs)
		}
		if batch.Len() > 0 {
			if err := tx.SendBatch(ctx, batch).Close(); err != nil {
				return fmt.Errorf("signals: %w", err)
			}
		}
		return readFacts(ctx, tx, &seen)
	})
	return seen.inputs, err
}
