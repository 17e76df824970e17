// Package stats has the SQL of the totals of participants and links. Transactions insert deltas,
// and a job adds these to the totals, so that no transaction waits for a row of totals.
package stats

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// foldStats adds deltas to the totals and deletes the deltas, in one statement, so that a reader that
// sums a total and its deltas sees each delta exactly once. Amounts in another currency than that of
// the programme are not added. The statement has no condition on the workspace, because it processes
// the deltas of all workspaces.
//
// A call skips the deltas that a concurrent call has locked. To prevent deadlocks, all
// calls lock the rows of the totals in the same order: table by table, and by key
// within each table. Deltas are never updated, so the ctid of a locked delta does not
// change.
//
// The cost depends on the number of deltas, not on the number of participants. If the
// participant or link of a delta no longer exists, the delta is only deleted.
const foldStats = `
	with taken as (
		delete from stats_deltas d
		where d.ctid = any (array(
			select ctid from stats_deltas order by workspace_id, id limit $1 for update skip locked
		))
		returning d.workspace_id, d.participant_id, d.link_id, d.currency, d.clicks, d.signups, d.conversions, d.revenue_cents, d.commission_cents
	), grouped as (
		select workspace_id, participant_id, currency, sum(clicks) as clicks, sum(signups) as signups,
			sum(conversions) as conversions, sum(revenue_cents) as revenue_cents, sum(commission_cents) as commission_cents
		from taken
		group by workspace_id, participant_id, currency
	), counted as (
		select g.*, t.program_id, g.currency = (
			select p.currency from programs p where p.workspace_id = t.workspace_id and p.id = t.program_id) as own_currency
		from grouped g
		join participants t on t.workspace_id = g.workspace_id and t.id = g.participant_id
	), totals as (
		insert into participant_totals as s (workspace_id, participant_id, program_id,
			clicks, signups, conversions, revenue_cents, commission_cents)
		select workspace_id, participant_id, program_id, sum(clicks), sum(signups), sum(conversions),
			coalesce(sum(revenue_cents) filter (where own_currency), 0),
			coalesce(sum(commission_cents) filter (where own_currency), 0)
		from counted
		group by workspace_id, participant_id, program_id
		order by workspace_id, participant_id
		on conflict (workspace_id, participant_id) do update
		set clicks = s.clicks + excluded.clicks, signups = s.signups + excluded.signups,
			conversions = s.conversions + excluded.conversions, revenue_cents = s.revenue_cents + excluded.revenue_cents,
			commission_cents = s.commission_cents + excluded.commission_cents
	), links as (
		insert into link_totals as s (workspace_id, link_id, clicks, conversions)
		select l.workspace_id, l.id, t.clicks, t.conversions
		from (
			select workspace_id, link_id, sum(clicks) as clicks, sum(conversions) as conversions
			from taken
			group by workspace_id, link_id
		) t
		join links l on l.workspace_id = t.workspace_id and l.id = t.link_id
		order by l.workspace_id, l.id
		on conflict (workspace_id, link_id) do update
		set clicks = s.clicks + excluded.clicks, conversions = s.conversions + excluded.conversions
	)
	select count(*) from taken`

// Fold adds at most limit deltas to the totals and returns the number of these
// deltas. If the number is less than limit, no other deltas exist, or other calls have
// locked them. Any number of processes can call Fold at the same time. A call can be
// interrupted at any time, because it is a single statement.
func Fold(ctx context.Context, db *postgres.DB, limit int) (folded int64, err error) {
	return foldDeltas(ctx, db, limit)
}

func foldDeltas(ctx context.Context, db postgres.Queryer, limit int) (int64, error) {
	return postgres.Value[int64](ctx, db, foldStats, limit)
}

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
