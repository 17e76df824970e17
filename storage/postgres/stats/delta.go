package stats

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var insertDeltas = postgres.RowsOf[statsDeltaRow](`insert into stats_deltas ({columns}) values {rows}`)

type statsDeltaRow struct {
	ID affiliate.ID[analytics.StatsDelta]
	analytics.StatsDelta
}

// Queue adds the inserts of stats deltas to a batch. These inserts never wait for
// other transactions.
func Queue(batch *pgx.Batch, deltas ...analytics.StatsDelta) {
	rows := make([]statsDeltaRow, len(deltas))
	for i, d := range deltas {
		rows[i] = statsDeltaRow{affiliate.NewID[affiliate.ID[analytics.StatsDelta]](d.At), d}
	}
	insertDeltas.Queue(batch, rows...)
}
