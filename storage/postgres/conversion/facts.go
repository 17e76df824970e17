package conversion

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// readFacts reads the facts that decisions need in addition to their signals (click,
// promo code and customer), in one round trip. It must run after lockSignals, because the
// facts depend on the participants to whom the signals lead.
func readFacts(ctx context.Context, tx pgx.Tx, all ...*signals) error {
	batch := &pgx.Batch{}
	queueFacts(batch, all...)
	if batch.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("read facts for decisions: %w", err)
	}
	return nil
}

// queueFacts queues the statements that read the facts for fraud rules and the exchange
// rates.
func queueFacts(batch *pgx.Batch, all ...*signals) {
	queueFraudFacts(batch, all)
	for _, s := range all {
		queueRates(batch, s.conversion, &s.inputs)
	}
}
