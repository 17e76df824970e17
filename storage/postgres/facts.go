package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// readFacts reads, in one round trip, what decisions need in addition to their signals.
// It must run after lockSignals because it depends on the participants to whom the
// signals lead.
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

// queueFacts reads the facts for fraud rules and the exchange rates.
func queueFacts(batch *pgx.Batch, all ...*signals) {
	queueFraudFacts(batch, all)
	for _, s := range all {
		queueRates(batch, s.conversion, &s.inputs)
	}
}
