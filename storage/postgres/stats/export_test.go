package stats

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate/analytics"
)

// Statements whose query plans the tests check.
const (
	FoldStatsSQL = foldStats
)

// AddDeltas does the same as Queue in its own round trip.
func AddDeltas(ctx context.Context, tx pgx.Tx, deltas ...analytics.StatsDelta) error {
	batch := &pgx.Batch{}
	Queue(batch, deltas...)
	return tx.SendBatch(ctx, batch).Close()
}

// FoldIn does the work of Fold in the given transaction.
func FoldIn(ctx context.Context, tx pgx.Tx, limit int) (int64, error) {
	return foldDeltas(ctx, tx, limit)
}
