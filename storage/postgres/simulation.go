package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
)

// ReadSignals reads the same inputs for a conversion as lockSignals and readFacts, in
// one snapshot. It uses a read-only transaction, takes no locks and does not wait for
// other transactions. The data may therefore change before a real decision is made.
func (s *Store) ReadSignals(ctx context.Context, c conversion.Conversion, in attribution.Inputs) (attribution.Inputs, error) {
	result := signals{conversion: c, inputs: in}
	err := s.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		if c.CustomerRef != nil {
			result.inputs.Customer = queueCustomerReads(batch, c.Scope, *c.CustomerRef)
		}
		if c.PromoCode != nil {
			queuePromoCode(batch, c, &result.inputs)
		}
		if batch.Len() > 0 {
			if err := tx.SendBatch(ctx, batch).Close(); err != nil {
				return fmt.Errorf("read customers and promo codes: %w", err)
			}
		}
		return readFacts(ctx, tx, &result)
	})
	return result.inputs, err
}
