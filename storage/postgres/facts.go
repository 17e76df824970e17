package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// readFacts reads, in one round trip, what decisions need to know besides their
// signals. It comes behind lockSignals, because it depends on whom the signals
// lead to.
func readFacts(ctx context.Context, tx pgx.Tx, all ...*signals) error {
	batch := &pgx.Batch{}
	queueFacts(batch, all...)
	if batch.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("facts: %w", err)
	}
	return nil
}

// queueFacts reads what fraud rules look at, and rates of exchange.
func queueFacts(batch *pgx.Batch, all ...*signals) {
	queueFraudFacts(batch, all)
	for _, s := range all {
		queueRates(batch, s.conversion, &s.inputs)
	}
}
