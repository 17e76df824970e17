package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

const insertDeltas = `
	insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, link_id, hour, currency,
		clicks, signups, conversions, revenue_cents, commission_cents)
	values %s`

var deltaRows = rowsOf(insertDeltas, 13)

// queueDeltas adds to counts in the transaction of what changes them, without
// touching a row that another transaction could want.
func queueDeltas(batch *pgx.Batch, deltas ...affiliate.StatsDelta) {
	rows := make([][]any, len(deltas))
	for i, d := range deltas {
		rows[i] = []any{
			d.Scope.Workspace, affiliate.NewID[affiliate.StatsDelta](d.At), d.Scope.Mode,
			d.Program, d.Participant, d.Link, d.At.UTC().Truncate(time.Hour), d.Currency,
			d.Clicks, d.Signups, d.Conversions, d.RevenueCents, d.CommissionCents,
		}
	}
	deltaRows.queue(batch, rows...)
}

// addDeltas is queueDeltas in a round trip of its own.
func addDeltas(ctx context.Context, tx pgx.Tx, deltas ...affiliate.StatsDelta) error {
	batch := &pgx.Batch{}
	queueDeltas(batch, deltas...)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("stats: %w", err)
	}
	return nil
}
