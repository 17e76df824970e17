package analytics

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// cohortRow is a sum of a cohort.
type cohortRow struct {
	analytics.CohortKey
	analytics.CohortCounts
}

var (
	// addCohorts adds changes to stored sums.
	addCohorts = `
		insert into analytics_cohorts as s (workspace_id, mode, ` + postgres.Names[cohortRow]() + `)
		select @workspace, @mode, k.* from ` + postgres.Unnest[cohortRow]("k") + `
		on conflict (workspace_id, mode, program_id, participant_id, link_id, cohort, month, currency) do update
		set customers = s.customers + excluded.customers, conversions = s.conversions + excluded.conversions,
			revenue_cents = s.revenue_cents + excluded.revenue_cents, commission_cents = s.commission_cents + excluded.commission_cents`
	deleteEmptyCohorts = `
		delete from analytics_cohorts s
		using ` + postgres.Unnest[analytics.CohortKey]("k") + `
		where s.workspace_id = @workspace and s.mode = @mode and s.program_id = k.program_id and s.participant_id = k.participant_id
			and s.link_id = k.link_id and s.cohort = k.cohort and s.month = k.month and s.currency = k.currency
			and s.customers = 0 and s.conversions = 0 and s.revenue_cents = 0 and s.commission_cents = 0`
)

// AddCohorts adds changes to the stored sums of cohorts, and deletes the sums that are then zero.
func AddCohorts(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, changes analytics.CohortSums) error {
	var rows []cohortRow
	for key, counts := range changes {
		if counts != (analytics.CohortCounts{}) {
			rows = append(rows, cohortRow{key, counts})
		}
	}
	batch := &pgx.Batch{}
	if len(rows) > 0 {
		args := postgres.Arrays(scope, rows)
		batch.Queue(addCohorts, args)
		batch.Queue(deleteEmptyCohorts, args)
	}
	return postgres.Send(ctx, tx, batch)
}

// selectCohorts adds up the sums of targets.
var selectCohorts = `
	select s.cohort, s.month, s.currency, sum(s.customers)::bigint as customers, sum(s.conversions)::bigint as conversions,
		sum(s.revenue_cents)::bigint as revenue_cents, sum(s.commission_cents)::bigint as commission_cents
	from ` + postgres.Unnest[analytics.Target]("t") + `
	cross join lateral (
		select s.* from analytics_cohorts s
		where s.workspace_id = t.workspace_id and s.mode = @mode and s.program_id = t.program_id and s.participant_id = t.participant_id
			and s.link_id = t.link_id and s.cohort between @first and @last
		offset 0) as s
	group by s.cohort, s.month, s.currency`

// selectWindows selects the conversions of customers in windows of time, with the position of their target.
// It finds the conversions of a participant by participant and time, all other conversions by time.
var selectWindows = `
	select t.target, ` + countedColumns + `
	from unnest(` + postgres.ArrayParams[analytics.Target]() + `) with ordinality as t (` + postgres.Names[analytics.Target]() + `, target)
	cross join unnest(@froms::timestamptz[], @tos::timestamptz[]) as w (starts, ends)
	cross join lateral (
		select c.* from analytics_conversions c
		where t.participant_id = '00000000-0000-0000-0000-000000000000'
			and c.workspace_id = t.workspace_id and c.mode = @mode and c.occurred_at >= w.starts and c.occurred_at < w.ends
			and (t.program_id = '00000000-0000-0000-0000-000000000000' or c.program_id = t.program_id)
		union all
		select c.* from analytics_conversions c
		where t.participant_id <> '00000000-0000-0000-0000-000000000000'
			and c.workspace_id = t.workspace_id and c.mode = @mode and c.participant_id = t.participant_id
			and c.occurred_at >= w.starts and c.occurred_at < w.ends
			and (t.link_id = '00000000-0000-0000-0000-000000000000' or c.link_id = t.link_id)
	) as c
	where c.customer_ref is not null and c.program_id <> '00000000-0000-0000-0000-000000000000'`

// Cohorts adds the cohorts of targets to a report. A target without a programme is a whole
// workspace.
func (r *Reader) Cohorts(ctx context.Context, mode affiliate.Mode, targets []analytics.Target, report *analytics.CohortReport) error {
	first, last := report.Months()
	args := targetArgs(mode, targets, analytics.Total, 0, 0)
	args["first"], args["last"] = first.Time(), last.Time()
	type sum struct {
		Cohort   analytics.Month
		Month    analytics.Month
		Currency string
		analytics.CohortCounts
	}
	sums, err := postgres.List[sum](ctx, r.tx, selectCohorts, args)
	if err != nil {
		return err
	}
	for _, s := range sums {
		report.Add(s.Cohort, s.Month, s.Currency, s.CohortCounts)
	}
	return r.moveCustomers(ctx, mode, targets, report, args)
}

// moveCustomers moves the customers with conversions in the windows of a report to the report's months.
func (r *Reader) moveCustomers(ctx context.Context, mode affiliate.Mode, targets []analytics.Target, report *analytics.CohortReport, args pgx.NamedArgs) error {
	var froms, tos []time.Time
	for _, w := range report.Windows() {
		froms, tos = append(froms, w.From.Time()), append(tos, w.To.Time())
	}
	args["froms"], args["tos"] = froms, tos
	type windowRow struct {
		Target int
		analytics.Conversion
	}
	found, err := postgres.List[windowRow](ctx, r.tx, selectWindows, args)
	if err != nil {
		return err
	}
	byTarget := make([]map[string][]analytics.Conversion, len(targets)) // by customer
	refs := map[affiliate.WorkspaceID]map[string]bool{}
	for _, row := range found {
		target, c := row.Target-1, row.Conversion
		if byTarget[target] == nil {
			byTarget[target] = map[string][]analytics.Conversion{}
		}
		byTarget[target][c.Customer] = append(byTarget[target][c.Customer], c)
		workspace := targets[target].Workspace
		if refs[workspace] == nil {
			refs[workspace] = map[string]bool{}
		}
		refs[workspace][c.Customer] = true
	}
	for workspace, refs := range refs {
		customers, err := listCustomers(ctx, r.tx, "read customers for cohorts", selectCustomers, workspace, mode, slices.Collect(maps.Keys(refs)))
		if err != nil {
			return err
		}
		for i, t := range targets {
			if t.Workspace != workspace {
				continue
			}
			for ref, conversions := range byTarget[i] {
				if c := customers[ref]; c != nil {
					report.Move(t.Owner, c, conversions)
				}
			}
		}
	}
	return nil
}
