package analytics

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
)

// fromTargets joins the targets to their sums of a dimension in a range of days. Each target
// is one search in the primary key. A target with a link reads the sums of all links of the
// participant.
const fromTargets = `
	from unnest(@workspaces::uuid[], @programs::uuid[], @participants::uuid[], @links::uuid[]) as t (workspace_id, program_id, participant_id, link_id)
	cross join lateral (
		select s.* from analytics_days s
		where s.workspace_id = t.workspace_id and s.mode = @mode and s.program_id = t.program_id and s.participant_id = t.participant_id
			and s.dimension = @dimension and s.day between @first and @last
			and (t.link_id = '00000000-0000-0000-0000-000000000000' or s.link_id = t.link_id)
		offset 0) as s`

// fromOwners joins programmes to the totals of their participants and links.
const fromOwners = `
	from unnest(@workspaces::uuid[], @programs::uuid[]) as t (workspace_id, program_id)
	cross join lateral (
		select s.* from analytics_days s
		where s.workspace_id = t.workspace_id and s.mode = @mode and s.program_id = t.program_id and s.day between @first and @last
			and s.dimension = '' and s.participant_id <> '00000000-0000-0000-0000-000000000000'
		offset 0) as s`

const sumOfCounts = `
	coalesce(sum(s.clicks), 0)::bigint, coalesce(sum(s.unique_clicks), 0)::bigint, coalesce(sum(s.bot_clicks), 0)::bigint,
	coalesce(sum(s.conversions), 0)::bigint, coalesce(sum(s.signups), 0)::bigint, coalesce(sum(s.new_customers), 0)::bigint,
	coalesce(sum(s.approved), 0)::bigint, coalesce(sum(s.paid), 0)::bigint,
	coalesce(sum(s.orders), 0)::bigint, coalesce(sum(s.revenue_cents), 0)::bigint, coalesce(sum(s.refunded_cents), 0)::bigint,
	coalesce(sum(s.commission_cents), 0)::bigint`

const (
	selectDays = `select s.day, s.currency, s.quarters ` + fromTargets
	// The statements with the suffix Edges return the sums of single days, of which only some
	// quarters belong to the period.
	selectTotalsOfDays  = `select s.program_id, s.currency, ` + sumOfCounts + fromTargets + ` group by s.program_id, s.currency`
	selectTotalsOfEdges = `select s.program_id, s.currency, s.day, s.quarters ` + fromTargets
	selectValuesOfDays  = `select s.value, s.currency, ` + sumOfCounts + fromTargets + ` group by s.value, s.currency`
	selectValuesOfEdges = `select s.value, s.currency, s.day, s.quarters ` + fromTargets
	selectOwnersOfDays  = `select s.participant_id, s.link_id, s.currency, ` + sumOfCounts + fromOwners + ` group by s.participant_id, s.link_id, s.currency`
	selectOwnersOfEdges = `select s.participant_id, s.link_id, s.currency, s.day, s.quarters ` + fromOwners
	selectLinksOfDays   = `select s.participant_id, s.link_id, s.currency, ` + sumOfCounts + fromTargets + ` group by s.participant_id, s.link_id, s.currency`
	selectLinksOfEdges  = `select s.participant_id, s.link_id, s.currency, s.day, s.quarters ` + fromTargets
)

// targetArgs returns the arguments of fromTargets and fromOwners.
func targetArgs(mode affiliate.Mode, targets []analytics.Target, dimension analytics.Dimension, first, last analytics.Day) pgx.NamedArgs {
	var workspaces, programs, participants, links []uuid.UUID
	for _, t := range targets {
		workspaces, programs = append(workspaces, t.Workspace.UUID), append(programs, t.Program.UUID)
		participants, links = append(participants, t.Participant.UUID), append(links, t.Link.UUID)
	}
	return pgx.NamedArgs{
		"workspaces": workspaces, "programs": programs, "participants": participants, "links": links,
		"mode": mode, "dimension": dimension, "first": first.Time(), "last": last.Time(),
	}
}

// Quarters returns the figures of targets by quarter of an hour. It reads one row for each
// target, day and currency, and for each link if a target has a participant.
func (s *Store) Quarters(ctx context.Context, mode affiliate.Mode, targets []analytics.Target, p analytics.Period) (analytics.QuarterFigures, error) {
	first, last := p.Days()
	found := analytics.QuarterFigures{}
	rows, err := s.db.Pool().Query(ctx, selectDays, targetArgs(mode, targets, analytics.Total, first, last))
	if err != nil {
		return nil, fmt.Errorf("read analytics: %w", err)
	}
	var day time.Time
	var currency string
	var encoded []byte
	_, err = pgx.ForEachRow(rows, []any{&day, &currency, &encoded}, func() error {
		quarters, err := analytics.DecodeQuarters(encoded)
		found.Add(p, analytics.DayOf(day), currency, quarters)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read analytics: %w", err)
	}
	return found, nil
}

// Totals returns the figures of the programmes of targets. The figures of the conversions that
// are not attributed have the zero id.
func (s *Store) Totals(
	ctx context.Context, mode affiliate.Mode, targets []analytics.Target, p analytics.Period,
) (map[affiliate.ProgramID]*analytics.Figures, error) {
	g := groups[affiliate.ProgramID]{figures: map[affiliate.ProgramID]*analytics.Figures{}, period: p}
	var program affiliate.ProgramID
	err := g.read(ctx, s, selectTotalsOfDays, selectTotalsOfEdges, func(first, last analytics.Day) pgx.NamedArgs {
		return targetArgs(mode, targets, analytics.Total, first, last)
	}, []any{&program}, func() affiliate.ProgramID { return program })
	return g.figures, err
}

// Values returns the figures of the values of a dimension. The figures of the values that are
// not counted separately have the key analytics.OtherValues.
func (s *Store) Values(
	ctx context.Context, mode affiliate.Mode, targets []analytics.Target, dimension analytics.Dimension, p analytics.Period,
) (map[string]*analytics.Figures, error) {
	g := groups[string]{figures: map[string]*analytics.Figures{}, period: p}
	var value string
	err := g.read(ctx, s, selectValuesOfDays, selectValuesOfEdges, func(first, last analytics.Day) pgx.NamedArgs {
		return targetArgs(mode, targets, dimension, first, last)
	}, []any{&value}, func() string { return value })
	return g.figures, err
}

// Owners returns the figures of the participants and links of targets. The keys have no
// programme.
func (s *Store) Owners(ctx context.Context, mode affiliate.Mode, targets []analytics.Target, p analytics.Period) (map[analytics.Owner]*analytics.Figures, error) {
	var programs, participants []analytics.Target
	for _, t := range targets {
		switch {
		case t.Program.IsZero(): // conversions that are not attributed
		case t.Participant.IsZero():
			programs = append(programs, t)
		default:
			participants = append(participants, t)
		}
	}
	g := groups[analytics.Owner]{figures: map[analytics.Owner]*analytics.Figures{}, period: p}
	var key analytics.Owner
	columns, keyOf := []any{&key.Participant, &key.Link}, func() analytics.Owner { return key }
	if len(programs) > 0 {
		err := g.read(ctx, s, selectOwnersOfDays, selectOwnersOfEdges, func(first, last analytics.Day) pgx.NamedArgs {
			return targetArgs(mode, programs, analytics.Total, first, last)
		}, columns, keyOf)
		if err != nil {
			return nil, err
		}
	}
	if len(participants) > 0 {
		err := g.read(ctx, s, selectLinksOfDays, selectLinksOfEdges, func(first, last analytics.Day) pgx.NamedArgs {
			return targetArgs(mode, participants, analytics.Total, first, last)
		}, columns, keyOf)
		if err != nil {
			return nil, err
		}
	}
	return g.figures, nil
}

// groups collects figures by a key.
type groups[K comparable] struct {
	figures map[K]*analytics.Figures
	period  analytics.Period
}

func (g *groups[K]) add(key K, currency string, counts analytics.Counts) {
	if counts == (analytics.Counts{}) {
		return
	}
	if g.figures[key] == nil {
		g.figures[key] = &analytics.Figures{}
	}
	g.figures[key].Add(currency, counts)
}

// read adds the figures of a period: of its whole days with the statement ofDays, and of the
// days that it contains only in part with ofEdges. Both return the columns of the key first.
func (g *groups[K]) read(
	ctx context.Context, s *Store, ofDays, ofEdges string, args func(first, last analytics.Day) pgx.NamedArgs, columns []any, key func() K,
) error {
	batch := &pgx.Batch{}
	if first, last := g.period.Whole(); first <= last {
		batch.Queue(ofDays, args(first, last)).Query(func(rows pgx.Rows) error {
			var currency string
			var counts analytics.Counts
			targets := append(columns[:len(columns):len(columns)], &currency)
			for i := range counts {
				targets = append(targets, &counts[i])
			}
			_, err := pgx.ForEachRow(rows, targets, func() error { g.add(key(), currency, counts); return nil })
			return err
		})
	}
	for _, edge := range g.period.Edges() {
		batch.Queue(ofEdges, args(edge, edge)).Query(func(rows pgx.Rows) error {
			var currency string
			var day time.Time
			var encoded []byte
			_, err := pgx.ForEachRow(rows, append(columns[:len(columns):len(columns)], &currency, &day, &encoded), func() error {
				quarters, err := analytics.DecodeQuarters(encoded)
				for _, quarter := range quarters {
					if g.period.Contains(edge.First() + analytics.Quarter(quarter.Index)) {
						g.add(key(), currency, quarter.Counts)
					}
				}
				return err
			})
			return err
		})
	}
	if batch.Len() == 0 {
		return nil
	}
	if err := s.db.Pool().SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("read analytics: %w", err)
	}
	return nil
}

const cohortColumns = `c.workspace_id, c.program_id, c.customer_ref, c.conversion_id, c.occurred_at, c.event_type, c.currency, c.amount_cents,
	c.commission_status, c.commission_cents, c.commission_currency`

// selectCohorts groups the conversions of customers by the month of the customer's first
// attributed conversion and by their own month. @months has the starts of the months. The inner
// query has a row for each customer and month, because hashing these rows is much faster than
// count(distinct). The cost grows with the number of the conversions.
const selectCohorts = `
	select cohort, month, count(*), coalesce(sum(firsts), 0)::bigint, sum(conversions)::bigint, coalesce(sum(revenue), 0)::bigint, coalesce(sum(commission), 0)::bigint
	from (
		select width_bucket(u.first_at, @months::timestamptz[]) - 1 as cohort, width_bucket(c.occurred_at, @months::timestamptz[]) - 1 as month,
		count(*) filter (where c.conversion_id = u.conversion_id) as firsts, count(*) as conversions,
		sum(c.amount_cents) filter (where c.event_type in ('purchase', 'renewal') and c.currency = @currency) as revenue,
		sum(c.commission_cents) filter (where c.commission_status in ('pending', 'approved', 'paid') and c.commission_currency = @currency) as commission
	from unnest(@workspaces::uuid[], @programs::uuid[], @participants::uuid[], @links::uuid[]) as t (workspace_id, program_id, participant_id, link_id)
	cross join lateral (
		select ` + cohortColumns + ` from analytics_conversions c
		where t.participant_id = '00000000-0000-0000-0000-000000000000'
			and c.workspace_id = t.workspace_id and c.mode = @mode and c.program_id = t.program_id and c.customer_ref is not null
		union all
		select ` + cohortColumns + ` from analytics_conversions c
		where t.participant_id <> '00000000-0000-0000-0000-000000000000'
			and c.workspace_id = t.workspace_id and c.mode = @mode and c.participant_id = t.participant_id and c.customer_ref is not null
			and (t.link_id = '00000000-0000-0000-0000-000000000000' or c.link_id = t.link_id)
	) as c
	join analytics_customers u on u.workspace_id = c.workspace_id and u.workspace_id = any(@workspaces::uuid[])
		and u.mode = @mode and u.customer_ref = c.customer_ref
	where c.program_id <> '00000000-0000-0000-0000-000000000000' and u.first_at >= @first and u.first_at < @last and c.occurred_at < @last
	group by c.workspace_id, c.customer_ref, 1, 2
	) as customers
	group by 1, 2`

// Cohorts returns the conversions of the customers whose first conversion was in one of the
// months. months has the starts of the months; end is the end of the last month.
func (s *Store) Cohorts(
	ctx context.Context, mode affiliate.Mode, targets []analytics.Target, months []analytics.Quarter, from, to analytics.Quarter, currency string,
) ([]analytics.CohortCell, error) {
	args := targetArgs(mode, targets, analytics.Total, 0, 0)
	times := make([]time.Time, len(months))
	for i, month := range months {
		times[i] = month.Time()
	}
	args["months"], args["first"], args["last"], args["currency"] = times, from.Time(), to.Time(), currency
	rows, err := s.db.Pool().Query(ctx, selectCohorts, args)
	if err != nil {
		return nil, fmt.Errorf("read cohorts: %w", err)
	}
	cells, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (analytics.CohortCell, error) {
		var c analytics.CohortCell
		err := row.Scan(&c.Cohort, &c.Month, &c.Customers, &c.FirstCustomers, &c.Conversions, &c.RevenueCents, &c.CommissionCents)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("read cohorts: %w", err)
	}
	return cells, nil
}
