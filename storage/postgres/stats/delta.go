package stats

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var insertDeltas = postgres.RowsOf[statsDeltaRow](`insert into stats_deltas ({columns}) values {rows}`)

type statsDeltaRow struct {
	WorkspaceID     affiliate.WorkspaceID              `db:"workspace_id"`
	ID              affiliate.ID[analytics.StatsDelta] `db:"id"`
	Mode            affiliate.Mode                     `db:"mode"`
	ProgramID       affiliate.ProgramID                `db:"program_id"`
	ParticipantID   affiliate.ParticipantID            `db:"participant_id"`
	LinkID          *affiliate.LinkID                  `db:"link_id"`
	Currency        string                             `db:"currency"`
	Clicks          int64                              `db:"clicks"`
	Signups         int64                              `db:"signups"`
	Conversions     int64                              `db:"conversions"`
	RevenueCents    int64                              `db:"revenue_cents"`
	CommissionCents int64                              `db:"commission_cents"`
}

// Queue adds the inserts of stats deltas to a batch. These inserts never wait for
// other transactions.
func Queue(batch *pgx.Batch, deltas ...analytics.StatsDelta) {
	rows := make([]statsDeltaRow, len(deltas))
	for i, d := range deltas {
		rows[i] = statsDeltaRow{
			WorkspaceID:     d.Scope.Workspace,
			ID:              affiliate.NewID[affiliate.ID[analytics.StatsDelta]](d.At),
			Mode:            d.Scope.Mode,
			ProgramID:       d.Program,
			ParticipantID:   d.Participant,
			LinkID:          d.Link,
			Currency:        d.Currency,
			Clicks:          d.Clicks,
			Signups:         d.Signups,
			Conversions:     d.Conversions,
			RevenueCents:    d.RevenueCents,
			CommissionCents: d.CommissionCents,
		}
	}
	insertDeltas.Queue(batch, rows...)
}
