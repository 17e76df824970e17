package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// learnFacts reads, in one round trip, what a decision needs to know besides its
// signals: what fraud rules look at, and rates of exchange. It comes behind
// lockSignals, because it depends on whom the signals lead to.
func learnFacts(ctx context.Context, tx pgx.Tx, c affiliate.Conversion, in affiliate.AttributionInputs) (affiliate.AttributionInputs, error) {
	batch := &pgx.Batch{}
	queueFraudFacts(batch, c, &in)
	queueRates(batch, c, &in)
	if batch.Len() == 0 {
		return in, nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return in, fmt.Errorf("facts: %w", err)
	}
	return in, nil
}
