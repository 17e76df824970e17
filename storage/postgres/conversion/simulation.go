package conversion

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// ReadSignals adds the stored promo code, customer and participant to the inputs of a
// decision about a conversion. It also adds a promo code of the other mode, so that the
// caller can refuse the request. It reads the same inputs as lockSignals and readFacts, in
// one snapshot. It uses a read-only transaction, takes no locks and does not wait for
// other transactions. The data may therefore change before a real decision is made.
func ReadSignals(ctx context.Context, db *postgres.DB, c conversion.Conversion, in attribution.Inputs) (attribution.Inputs, error) {
	result := signals{conversion: c, inputs: in}
	err := db.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
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
