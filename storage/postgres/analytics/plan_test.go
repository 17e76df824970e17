package analytics

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// Every statement finds its rows with an index, in a database with several workspaces of the
// same size. The reports read the rows of the selected days only.
func TestStatements_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := pgtest.Open(t, time.Now)
	shop := f.NewShop(affiliate.ModeLive)
	var participants []pgtest.Participant
	for _, s := range []*pgtest.Shop{shop, shop.InOtherMode(), f.NewShop(affiliate.ModeLive), f.NewShop(affiliate.ModeLive)} {
		for range 20 {
			participants = append(participants, s.Join("Pat"))
		}
		fill(f, s)
	}
	f.VacuumAnalyze()
	scope, p := shop.Scope, participants[0]
	first, last := analytics.DayOf(lastDay)-6, analytics.DayOf(lastDay)
	program := []analytics.Target{{Workspace: scope.Workspace, Owner: analytics.Owner{Program: shop.Program}}}
	participant := []analytics.Target{{Workspace: scope.Workspace, Owner: analytics.Owner{Program: p.Program, Participant: p.ID}}}
	link := []analytics.Target{{Workspace: scope.Workspace, Owner: analytics.Owner{Program: p.Program, Participant: p.ID, Link: p.Link}}}
	args := func(targets []analytics.Target, d analytics.Dimension) pgx.NamedArgs {
		return targetArgs(scope.Mode, targets, d, first, last)
	}
	keys := postgres.Arrays(scope, []analytics.Key{{
		Owner: analytics.Owner{Program: shop.Program, Participant: p.ID, Link: p.Link}, Day: last, Dimension: analytics.Country, Value: "v1",
	}})
	values := valueArgs(scope, map[analytics.DayValues][]string{{Dimension: analytics.Country, Day: last}: {"v1", "v2"}})

	byDay := `analytics_days_pkey on .*\n.*Cond: .*dimension.*day >= .*day <= `
	for name, tc := range map[string]struct {
		sql  string
		args pgx.NamedArgs
		plan string
	}{
		"quarters of a programme":         {selectDays, args(program, analytics.Total), byDay},
		"quarters of a participant":       {selectDays, args(participant, analytics.Total), byDay},
		"totals of a programme":           {selectTotalsOfDays, args(program, analytics.Total), byDay},
		"totals of a programme on a day":  {selectTotalsOfEdges, args(program, analytics.Total), byDay},
		"values of a programme":           {selectValuesOfDays, args(program, analytics.SubID), byDay},
		"values of a programme on a day":  {selectValuesOfEdges, args(program, analytics.SubID), byDay},
		"values of a participant":         {selectValuesOfDays, args(participant, analytics.SubID), byDay},
		"values of a link":                {selectValuesOfDays, args(link, analytics.SubID), byDay},
		"participants of a programme":     {selectOwnersOfDays, args(program, analytics.Total), `analytics_days_by_owner on .*\n.*Cond: .*day >= .*day <= `},
		"participants on a day":           {selectOwnersOfEdges, args(program, analytics.Total), `analytics_days_by_owner on .*\n.*Cond: .*day >= .*day <= `},
		"links of a participant":          {selectLinksOfDays, args(participant, analytics.Total), byDay},
		"links of a participant on a day": {selectLinksOfEdges, args(participant, analytics.Total), byDay},
		"sums by keys":                    {selectSums, keys, `analytics_days_pkey on .*\n.*Cond: .*value = .*link_id = `},
		"deletion of sums":                {deleteSums, keys, `analytics_days_pkey on .*\n.*Cond: .*value = .*link_id = `},
		"deletion of unused values":       {deleteUnused, keys, `analytics_days_by_value`},
		"sums of replaced values":         {takeValueSums, values, `analytics_days_by_value on .*\n.*Cond: .*day = .*value = `},
		"deletion of values":              {deleteValues, values, `analytics_values_pkey on .*\n.*Cond: .*value = `},
	} {
		plan := f.Plan(tc.sql, tc.args)
		if strings.Contains(plan, "Seq Scan") || !regexp.MustCompile(tc.plan).MatchString(plan) {
			t.Errorf("%s: the plan does not match %s, or reads a whole table\n%s", name, tc.plan, plan)
		}
	}
	conversion := []affiliate.ConversionID{affiliate.NewID[affiliate.ConversionID](lastDay)}
	for name, tc := range map[string]struct {
		sql  string
		args []any
		plan string
	}{
		"next entries of the log":  {selectNext, []any{scope.Workspace, scope.Mode, maxEntries, maxClickBytes, maxConversions}, `analytics_log_pkey`},
		"entries of the log":       {takeEntries, []any{scope.Workspace, scope.Mode, []int64{1, 2}}, `analytics_log_pkey`},
		"whether entries wait":     {hasWaiting, []any{scope.Workspace, scope.Mode}, `analytics_log_pkey`},
		"current conversions":      {currentConversions, []any{scope.Workspace, scope.Mode, conversion}, `(?s)on conversions\n[^\n]*Cond: [^\n]*id = n.id.* on attribution_decisions\n[^\n]*Cond: [^\n]*id = conversions.decision_id`},
		"counted conversions":      {countedConversions, []any{scope.Workspace, scope.Mode, conversion}, `analytics_conversions_pkey`},
		"first conversions":        {selectFirsts, []any{scope.Workspace, scope.Mode, []string{"c1"}}, `analytics_conversions_by_customer`},
		"customers":                {selectCustomers, []any{scope.Workspace, scope.Mode, []string{"c1"}}, `analytics_customers_pkey`},
		"values of a day":          {selectValues, []any{scope.Workspace, scope.Mode, analytics.SubID, lastDay}, `analytics_values_pkey`},
		"clicks of a participant":  {selectClickSums, []any{scope.Workspace, scope.Mode, p.ID, []analytics.Dimension{analytics.SubID}, 100}, `analytics_days_pkey on .*\n.*Cond: .*participant_id = `},
		"deciding clicks":          {selectClickValues, []any{scope.Workspace, scope.Mode, []affiliate.ClickID{}, []time.Time{}, lastDay, lastDay}, `Index Scan using clicks_`},
		"labels of participants":   {labelsOfParticipants, []any{[]affiliate.WorkspaceID{scope.Workspace}, scope.Mode, []string{p.ID.String()}}, `participants\w*( on participants)?\n.*Cond: \(+workspace_id = w.workspace_id`},
		"participants of partners": {selectParticipations, []any{p.Partner, scope.Mode}, `participants_by_partner`},
	} {
		// The other tables are small in this test, so Postgres would read them whole.
		plan := f.PlanWith("set local enable_seqscan = off", tc.sql, tc.args...)
		if strings.Contains(plan, "Seq Scan") || !regexp.MustCompile(tc.plan).MatchString(plan) {
			t.Errorf("%s: the plan does not match %s, or reads a whole table\n%s", name, tc.plan, plan)
		}
	}
	// The cohorts are sums. Only the conversions of some hours of each month are read.
	months := []time.Time{lastDay.AddDate(0, -1, 0), lastDay}
	for _, tc := range []struct {
		name, sql string
		targets   []analytics.Target
		plan      string
	}{
		{"sums of cohorts", selectCohorts, program, `analytics_cohorts_pkey on .*\n.*Cond: .*link_id = .*cohort >= .*cohort <= `},
		{"conversions in windows", selectWindows, program, `analytics_conversions_by_time on .*\n.*Cond: .*occurred_at >= .*occurred_at < `},
		{"conversions of a participant in windows", selectWindows, participant, `analytics_conversions_by_participant on .*\n.*Cond: .*participant_id = .*occurred_at >= .*occurred_at < `},
	} {
		args := args(tc.targets, analytics.Total)
		args["froms"], args["tos"] = months, []time.Time{months[0].Add(time.Hour), months[1].Add(time.Hour)}
		if plan := f.Plan(tc.sql, args); strings.Contains(plan, "Seq Scan") || !regexp.MustCompile(tc.plan).MatchString(plan) {
			t.Errorf("%s: the plan does not match %s, or reads a whole table\n%s", tc.name, tc.plan, plan)
		}
	}
}

// lastDay is the newest day with sums.
var lastDay = time.Date(2026, 5, 30, 0, 0, 0, 0, time.UTC)

// fill inserts sums of 30 days for all participants of a shop and for its programme, and counted
// conversions.
func fill(f *pgtest.Fixture, s *pgtest.Shop) {
	f.Helper()
	w, mode := s.Scope.Workspace, s.Scope.Mode
	f.Exec(`
		insert into analytics_days (workspace_id, mode, program_id, participant_id, dimension, day, value, currency, link_id, clicks, quarters)
		select t.workspace_id, t.mode, t.program_id, o.participant_id, d.dimension, $3::date - back, case when d.dimension = '' then '' else 'v' || v end, '', o.link_id, 1, '\x'
		from participants t
		join links l on l.workspace_id = t.workspace_id and l.participant_id = t.id
		cross join lateral (values (t.id, l.id), ('00000000-0000-0000-0000-000000000000'::uuid, '00000000-0000-0000-0000-000000000000'::uuid)) as o (participant_id, link_id)
		cross join (values ('', 1), ('country', 3), ('sub_id', 10)) as d (dimension, n)
		cross join generate_series(0, 29) back
		cross join lateral generate_series(1, d.n) v
		where t.workspace_id = $1 and t.mode = $2
		on conflict do nothing`, w, mode, lastDay)
	f.Exec(`
		insert into analytics_values (workspace_id, mode, dimension, day, value, weight)
		select distinct workspace_id, mode, dimension, day, value, 1 from analytics_days where workspace_id = $1 and mode = $2 and dimension <> ''`, w, mode)
	f.Exec(`
		insert into analytics_conversions (workspace_id, mode, conversion_id, program_id, participant_id, link_id, occurred_at, event_type,
			dimension_values, customer_ref, currency, amount_cents, refunded_cents, commission_status, commission_cents, commission_currency)
		select $1, $2, gen_random_uuid(), t.program_id, t.id, t.id, $3::timestamptz - n * interval '1 minute', 'purchase', '{}', 'c' || n % 500, 'EUR', 1, 0, 'paid', 1, 'EUR'
		from participants t, generate_series(1, 200) n where t.workspace_id = $1 and t.mode = $2`, w, mode, lastDay)
	f.Exec(`
		insert into analytics_customers (workspace_id, mode, customer_ref, conversion_id, first_at, program_id, participant_id, link_id, activity)
		select $1, $2, 'c' || n, gen_random_uuid(), $3, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), '\x' from generate_series(0, 499) n`, w, mode, lastDay)
	f.Exec(`
		insert into analytics_cohorts (workspace_id, mode, program_id, participant_id, link_id, cohort, month, currency, customers, conversions, revenue_cents, commission_cents)
		select t.workspace_id, t.mode, t.program_id, o.id, '00000000-0000-0000-0000-000000000000', date '2026-05-01' - cohort * interval '1 month',
			date '2026-05-01' - (cohort - n) * interval '1 month', '', 1, 1, 1, 1
		from participants t
		cross join lateral (values (t.id), ('00000000-0000-0000-0000-000000000000'::uuid)) as o (id)
		cross join generate_series(0, 23) cohort
		cross join lateral generate_series(0, cohort) n
		where t.workspace_id = $1 and t.mode = $2
		on conflict do nothing`, w, mode)
	f.Exec(`insert into analytics_log (workspace_id, mode) select $1, $2 from generate_series(1, 500)`, w, mode)
}
