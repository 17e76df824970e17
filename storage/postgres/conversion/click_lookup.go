package conversion

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// earnerColumns select attribution.Earner from programs p and participants t.
//
// Only commission rules with tiers need prior_totals. The value is the sum of
// the stored totals and of the deltas that are not yet added to the totals, read in one
// snapshot. Conversions that were refunded in full are subtracted, because a refund
// reduces the revenue in the totals but not the number of conversions.
const earnerColumns = `
	p.id as program_id, p.name as program_name, p.status as program_status, p.currency,
	p.attribution_model as model, p.signal_precedence as precedence, p.attribution_window_days as window_days,
	p.fraud_policy, p.fraud_settings,
	t.id as participant_id, t.partner_id, t.partner_email, t.status as participant_status, t.erased_at is not null as participant_erased,
	jsonb_build_object(
		'version', p.rules_version, 'rules', p.rules,
		'override', case when num_nonnulls(t.override_rate_bps, t.override_flat_amount_cents) > 0 then
			jsonb_build_object('rate_bps', t.override_rate_bps, 'flat_amount_cents', t.override_flat_amount_cents) end,
		'group', (
			select jsonb_build_object('id', g.id, 'name', g.name, 'rate_bps', g.rate_bps, 'flat_amount_cents', g.flat_amount_cents)
			from groups g where g.workspace_id = t.workspace_id and g.id = t.group_id
		)
	) as rule,
	case when p.rules ? 'tiers' then ` + priorTotals + ` else '{}' end as prior_totals`

// priorTotals returns the earlier totals of participant t in programme p.
const priorTotals = `(
		select jsonb_build_object('conversions', coalesce(sum(n.conversions), 0) - (
			select count(*) from conversions r
			where r.workspace_id = t.workspace_id and r.mode = t.mode and r.participant_id = t.id and r.status = 'refunded'
		), 'revenue_cents', coalesce(sum(n.revenue_cents), 0))
		from (
			select s.conversions, s.revenue_cents
			from participant_totals s
			where s.workspace_id = t.workspace_id and s.participant_id = t.id
			union all
			select d.conversions, case when d.currency = p.currency then d.revenue_cents else 0 end
			from stats_deltas d
			where d.workspace_id = t.workspace_id and d.participant_id = t.id and d.mode = t.mode
		) as n
	)`

// earnerOfX joins programs p and participants t to rows x that have the ids of both. Each
// join is one search in the primary key. The lateral join with a limit keeps the planner
// from a merge join with all rows of the workspace, regardless of the statistics.
const earnerOfX = `
	cross join lateral (
		select p.* from programs p where p.workspace_id = x.workspace_id and p.id = x.program_id and p.mode = x.mode limit 1) as p
	cross join lateral (
		select t.* from participants t where t.workspace_id = x.workspace_id and t.id = x.participant_id and t.mode = x.mode limit 1) as t`

// selectClicks reads clicks by their keys. clicked_at is the time inside the id. $5 and
// $6 are the first and the last of these times, so that Postgres opens few partitions.
// The statement returns the mode instead of filtering by it, because the caller must
// distinguish a click of the other mode from an unknown click.
var selectClicks = `
	select n.n, x.mode, x.received_at, x.expires_at, x.link_id, ` + postgres.Columns[attribution.ClickTraits]("x") + `, ` + earnerColumns + `
	from unnest($1::integer[], $2::uuid[], $3::uuid[], $4::timestamptz[]) as n (n, workspace_id, id, clicked_at)
	cross join lateral (
		select c.* from clicks c
		where c.workspace_id = n.workspace_id and c.id = n.id and c.clicked_at = n.clicked_at and c.clicked_at between $5 and $6
		limit 1) as x` + earnerOfX

// Clicks looks up clicks for decisions, in shared round trips, from several goroutines.
type Clicks struct {
	lookups *postgres.Lookups[*clickLookup]
}

// NewClicks returns a Clicks that uses db.
func NewClicks(db *postgres.DB) *Clicks { return &Clicks{postgres.NewLookups(db, findClicks)} }

// clickLookup is one call of Find.
type clickLookup struct {
	workspace affiliate.WorkspaceID
	id        affiliate.ClickID
	found     *attribution.FoundClick // nil if there is no such click
}

// Find returns a workspace's click, in either mode, with everything that an
// attribution decision needs. It returns nil if there is no such click.
func (c *Clicks) Find(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*attribution.FoundClick, error) {
	if _, ok := id.Time(); !ok {
		// The service only issues ids of version 7, which contain a time.
		return nil, nil
	}
	l := &clickLookup{workspace: workspace, id: id}
	if err := c.lookups.Do(ctx, l); err != nil {
		return nil, err
	}
	return l.found, nil
}

// findClicks looks up the clicks of several calls of Find in one round trip.
func findClicks(ctx context.Context, pool *pgxpool.Pool, lookups []*clickLookup) error {
	batch := &pgx.Batch{}
	eachSpan(len(lookups), func(i int) time.Time { at, _ := lookups[i].id.Time(); return at }, func(indexes []int, first, last time.Time) {
		workspaces, ids, times := make([]affiliate.WorkspaceID, len(indexes)), make([]affiliate.ClickID, len(indexes)), make([]time.Time, len(indexes))
		for j, i := range indexes {
			workspaces[j], ids[j] = lookups[i].workspace, lookups[i].id
			times[j], _ = lookups[i].id.Time()
		}
		batch.Queue(selectClicks, indexes, workspaces, ids, times, first, last).Query(func(rows pgx.Rows) error { return collectClicks(rows, lookups) })
	})
	return pool.SendBatch(ctx, batch).Close()
}

// spanDays is the maximum number of days, and of partitions, that a statement covers.
const spanDays = 32

// eachSpan groups the indexes from 0 to n-1 by their times, into spans of spanDays days, and
// calls onSpan with each group and its first and last time. Without the groups, one old click
// would make a statement open all partitions from its day to today.
func eachSpan(n int, timeOf func(int) time.Time, onSpan func(indexes []int, first, last time.Time)) {
	spans := map[int64][]int{}
	for i := range n {
		span := timeOf(i).Unix() / (spanDays * 24 * 60 * 60)
		spans[span] = append(spans[span], i)
	}
	for _, indexes := range spans {
		byTime := func(a, b int) int { return timeOf(a).Compare(timeOf(b)) }
		onSpan(indexes, timeOf(slices.MinFunc(indexes, byTime)), timeOf(slices.MaxFunc(indexes, byTime)))
	}
}

// EachClickSpan groups the ids of clicks by the times in the ids, as eachSpan does. It calls
// onSpan with the ids and the times of each group, and with the first and the last of these
// times. It leaves out ids without a time, which no click has.
func EachClickSpan(ids []affiliate.ClickID, onSpan func(ids []affiliate.ClickID, times []time.Time, first, last time.Time)) {
	times := make([]time.Time, 0, len(ids))
	ids = slices.DeleteFunc(slices.Clone(ids), func(id affiliate.ClickID) bool {
		at, ok := id.Time()
		if ok {
			times = append(times, at)
		}
		return !ok
	})
	eachSpan(len(ids), func(i int) time.Time { return times[i] }, func(indexes []int, first, last time.Time) {
		spanIDs, spanTimes := make([]affiliate.ClickID, len(indexes)), make([]time.Time, len(indexes))
		for j, i := range indexes {
			spanIDs[j], spanTimes[j] = ids[i], times[i]
		}
		onSpan(spanIDs, spanTimes, first, last)
	})
}

func collectClicks(rows pgx.Rows, lookups []*clickLookup) error {
	type clickRow struct {
		N int
		attribution.FoundClick
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[clickRow])
	for _, row := range found {
		lookups[row.N].found = &row.FoundClick
	}
	return err
}

// FindEarner returns the earner of a click that is not stored yet. It returns nil if the
// programme has no such participant.
func FindEarner(ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID) (*attribution.Earner, error) {
	const find = `
		select ` + earnerColumns + `
		from participants t
		join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id and p.mode = t.mode
		where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and t.id = $4`
	earners, err := postgres.List[attribution.Earner](ctx, db, find, scope.Workspace, scope.Mode, program, participant)
	if err != nil || len(earners) == 0 {
		return nil, err
	}
	return &earners[0], nil
}

// WaitingConversions returns at most limit conversions that wait for the given click,
// ordered by id, with the hashes that the fraud rules compare.
func WaitingConversions(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, click affiliate.ClickID, limit int) ([]conversion.StoredConversion, error) {
	read := `
		select ` + conversionColumns + `
		from awaited_clicks a
		join conversions c on c.workspace_id = a.workspace_id and c.mode = a.mode and c.id = a.conversion_id
		where a.workspace_id = $1 and a.click_id = $2
		order by a.conversion_id
		limit $3`
	return postgres.List[conversion.StoredConversion](ctx, db, read, workspace, click, limit)
}

const deleteAwaitedClick = `delete from awaited_clicks where workspace_id = $1 and mode = $2 and conversion_id = $3 and click_id = $4`

// StopAwaiting makes a conversion stop waiting for its click. It changes nothing else.
func StopAwaiting(ctx context.Context, tx *postgres.Tx, c conversion.Conversion) error {
	return postgres.Exec(ctx, tx, deleteAwaitedClick, c.Workspace, c.Mode, c.ID, c.Click)
}

// selectStoredAwaited returns the given awaited clicks that are stored. For each awaited click
// it searches one partition of clicks. The lateral join with a limit keeps the planner from
// joining whole partitions.
const selectStoredAwaited = `
	select a.workspace_id as workspace, a.click_id as click
	from unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) as a (workspace_id, click_id, clicked_at)
	cross join lateral (
		select 1 from clicks c
		where c.workspace_id = a.workspace_id and c.id = a.click_id and c.clicked_at = a.clicked_at
		limit 1) as found`

// ArrivedClicks returns the awaited clicks of the whole deployment that are now stored.
// clicks.Store enqueues jobs for most of these clicks itself, but it cannot see a waiting
// conversion whose transaction has not committed yet. ArrivedClicks finds the clicks of such
// conversions. One call checks at most limit awaited clicks after the given cursor. The result
// next is the cursor for the next call. It is the zero value when no awaited clicks are left to
// check.
func ArrivedClicks(ctx context.Context, db *postgres.DB, cursor click.AwaitedClick, limit int) (arrived []click.AwaitedClick, next click.AwaitedClick, err error) {
	const page = `
		select distinct workspace_id as workspace, click_id as click
		from awaited_clicks
		where (workspace_id, click_id) > ($1, $2)
		order by workspace_id, click_id
		limit $3`
	awaited, err := postgres.List[click.AwaitedClick](ctx, db, page, cursor.Workspace, cursor.Click, limit)
	if err != nil || len(awaited) == 0 {
		return nil, next, err
	}
	if len(awaited) == limit {
		next = awaited[limit-1]
	}
	workspaces, clicks, times := make([]uuid.UUID, len(awaited)), make([]uuid.UUID, len(awaited)), make([]time.Time, len(awaited))
	for i, a := range awaited {
		workspaces[i], clicks[i] = a.Workspace.UUID, a.Click.UUID
		times[i], _ = a.Click.Time()
	}
	arrived, err = postgres.List[click.AwaitedClick](ctx, db, selectStoredAwaited, workspaces, clicks, times)
	return arrived, next, err
}

// DropExpiredAwaited deletes at most limit expired rows of awaited_clicks, of all
// workspaces, and returns the number of deleted rows.
func DropExpiredAwaited(ctx context.Context, db *postgres.DB, now time.Time, limit int) (int64, error) {
	const drop = `
		delete from awaited_clicks a
		using (
			select workspace_id, click_id, conversion_id from awaited_clicks
			where expires_at <= $1
			order by expires_at
			limit $2
			for update skip locked) as expired
		where a.workspace_id = expired.workspace_id and a.click_id = expired.click_id and a.conversion_id = expired.conversion_id`
	tag, err := db.Exec(ctx, drop, now, limit)
	return tag.RowsAffected(), err
}
