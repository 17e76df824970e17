package commission_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// The numbers of rows are so large that the use of an index is cheaper than a scan of the
// table.
const (
	// ownRows is the number of commissions in the fixture's scope. A tenth of them is in
	// the fixture's programme.
	ownRows = 11_000
	// otherRows is the number of commissions in each of two other scopes.
	otherRows = 20_000
)

func newLargeCommissionFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	fill := func(s *pgtest.Shop, rows int) {
		for range 9 {
			f.NewProgram(s.Scope)
		}
		s.JoinMany(1000)
		f.ExecWithoutForeignKeys(`
			with p as (
				select array_agg(id) as ids, array_agg(partner_id) as partners,
					(select array_agg(id order by id <> $2) from programs where workspace_id = $1 and mode = $3) as programs
				from participants where workspace_id = $1 and mode = $3
			)
			insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id,
				external_transaction_id, promo_code, status, commission_type, event_type, rate_bps, amount_cents, original_amount_cents,
				currency, base_amount_cents, sale_amount_cents, sale_currency, needs_review, review_reasons, dispute_status,
				hold_until, auto_approve_at, rule_snapshot, version, created_at, updated_at)
			select $1, gen_random_uuid(), $3, p.programs[1 + n % 10],
				p.ids[1 + n % 1000], p.partners[1 + n % 1000], gen_random_uuid(), gen_random_uuid(),
				'Order-' || n, case when n % 100 = 0 then 'Spring' || n end, case when n % 20 = 0 then 'pending' else 'approved' end,
				'percentage', 'purchase', 2000, n, n, 'EUR', n, n, 'EUR', n % 1000 = 0, '{}', 'none',
				$4::timestamptz + (case when n % 3 > 0 then 7200 end - n) * interval '1 minute', $4::timestamptz + (n - 1000) * interval '1 minute', '{}', 1, $4::timestamptz - n * interval '1 minute', $4
			from p, generate_series(1, $5::integer) n`, s.Scope.Workspace, s.Program, s.Scope.Mode, f.Now(), rows)
		f.Exec(`
			insert into commission_counts (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot, n, amount_cents)
			select workspace_id, mode, grain, starts, program_id, status, needs_review, currency, amount_cents % 16, count(*), sum(amount_cents)
			from commissions c
			cross join lateral (values
				('ever', date '0001-01-01'),
				('month', date_trunc('month', c.created_at at time zone 'UTC')::date),
				('day', (c.created_at at time zone 'UTC')::date)) as g (grain, starts)
			where workspace_id = $1 and mode = $2
			group by 1, 2, 3, 4, 5, 6, 7, 8, 9`, s.Scope.Workspace, s.Scope.Mode)
	}
	fill(f.Shop, ownRows)
	fill(f.InOtherMode(), otherRows)
	fill(f.NewShop(affiliate.ModeLive), otherRows)
	f.VacuumAnalyze()
	return f
}

// The checks share one fixture, because its creation takes a long time.
func TestCommissions_PlansAndTotals(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newLargeCommissionFixture(t)
	checkCommissionPlans(t, f)
	checkCommissionTotals(t, f)
	checkPendingPlans(t, f)
}

func checkCommissionPlans(t *testing.T, f *fixture) {
	t.Helper()
	yes := true
	// The period starts and ends at noon, so the first and the last day are incomplete.
	from, before := f.Now().AddDate(0, 0, -9), f.Now()
	newest := commission.Order{By: commission.SortCreatedAt}
	oldest := commission.Order{By: commission.SortCreatedAt, Ascending: true}
	first := affiliate.Page{Number: 1, Size: 20}
	scans := pgtest.ScansOf("commissions", "commission_counts")
	participant := f.Shop.AnyParticipant().ID
	// A bitmap scan returns rows without an order, so a plan that contains it also sorts.
	// Plans that must not sort must not contain these texts.
	sortingScans := append([]string{"Bitmap"}, scans...)
	counts := []string{"commission_counts_pkey"}

	for _, c := range []struct {
		name      string
		filter    commission.Filter
		order     commission.Order
		page      affiliate.Page
		required  []string // texts that the plan of the page must contain
		forbidden []string // texts that the plan of the page must not contain
		total     []string // texts that the plan of the total must contain
		stats     []string // texts that the plan of the stats must contain
	}{
		{
			"default",
			commission.Filter{},
			newest, first,
			[]string{"Limit -> Index Scan using commissions_by_age on commissions c"},
			sortingScans, counts, counts,
		},
		{
			"a deep page",
			commission.Filter{},
			newest,
			affiliate.Page{Number: 400, Size: 20},
			[]string{"Limit -> Index Scan using commissions_by_age on commissions c", "created_at < '"},
			sortingScans, counts, counts,
		},
		{
			"a deep page, oldest first",
			commission.Filter{},
			oldest,
			affiliate.Page{Number: 400, Size: 20},
			[]string{"Index Scan Backward using commissions_by_age on commissions c", "created_at >= '"},
			scans, counts, counts,
		},
		{
			"one status",
			commission.Filter{Status: commission.Pending},
			newest, first,
			[]string{"Limit -> Index Scan using commissions_by_status on commissions c"},
			sortingScans, counts, counts,
		},
		{
			"one programme",
			commission.Filter{Program: &f.Program},
			newest, first,
			[]string{"Limit -> Index Scan using commissions_by_program on commissions c"},
			sortingScans, counts, counts,
		},
		{
			"a range of instants",
			commission.Filter{Created: affiliate.Period{From: &from, Before: &before}},
			newest, first,
			[]string{"Limit -> Index Scan using commissions_by_age on commissions c"},
			sortingScans,
			append([]string{"Index Only Scan using commissions_by_age on commissions"}, counts...),
			append([]string{"commissions_by_age"}, counts...),
		},
		{
			"a range of one status",
			commission.Filter{Status: commission.Approved, Created: affiliate.Period{From: &from, Before: &before}},
			newest, first,
			[]string{"Limit -> Index Scan using commissions_by_"},
			sortingScans,
			append([]string{"Index Only Scan using commissions_by_status on commissions"}, counts...),
			counts,
		},
		{
			"one participant",
			commission.Filter{Participant: &participant},
			newest, first,
			[]string{"Index Scan using commissions_by_participant on commissions c"},
			scans,
			[]string{"Index Only Scan using commissions_by_participant on commissions"},
			[]string{"commissions_by_participant"},
		},
		{
			"the review queue",
			commission.Filter{NeedsReview: &yes},
			newest, first,
			[]string{"Limit -> Index Scan using commissions_flagged on commissions c"},
			sortingScans, counts, counts,
		},
		{
			"on hold",
			commission.Filter{HoldActive: &yes, NeedsReview: new(bool), At: f.Now()},
			newest, first,
			[]string{"Limit", "commissions_by_"},
			scans,
			[]string{"Limit -> Index Only Scan using commissions_by_hold on commissions"},
			[]string{"commissions_by_"},
		},
		{
			"ready, of a programme",
			commission.Filter{HoldActive: new(bool), NeedsReview: new(bool), Program: &f.Program, At: f.Now()},
			newest, first,
			[]string{"Limit", "commissions_by_"},
			scans,
			[]string{"Limit", "commissions_by_hold"},
			[]string{"commissions_by_"},
		},
		{
			"search for an order",
			commission.Filter{Search: "ORDER-777"},
			newest, first,
			[]string{"commissions_by_external", "commissions_by_promo_code"},
			scans,
			[]string{"commissions_by_external", "Limit"},
			[]string{"commissions_by_external", "Limit"},
		},
		{
			"search for a partner",
			commission.Filter{Search: "jane 777"},
			newest, first,
			[]string{"commissions_by_external", "commissions_by_promo_code", "commissions_by_participant"},
			scans,
			[]string{"commissions_by_participant"},
			[]string{"commissions_by_participant"},
		},
		{
			"search for an id",
			commission.Filter{Search: "0192aa"},
			newest, first,
			[]string{"commissions_pkey"},
			scans,
			[]string{"commissions_pkey"},
			[]string{"commissions_pkey"},
		},
	} {
		sql, err := commissions.CommissionStatements(t.Context(), f.DB, f.Scope, c.filter, c.order, c.page)
		if err != nil {
			t.Fatal(err)
		}
		pgtest.CheckPlan(t, c.name, f.Plan(sql.Page, sql.PageArgs...), c.required, c.forbidden)
		pgtest.CheckPlan(t, c.name+", total", f.Plan(sql.Total, sql.TotalArgs...), c.total, scans)
		pgtest.CheckPlan(t, c.name+", stats", f.Plan(sql.Stats, sql.StatsArgs...), c.stats, scans)
		if c.filter.Search != "" {
			indexes := slices.DeleteFunc(slices.Clone(c.total), func(index string) bool { return !strings.HasPrefix(index, "commissions_") })
			pgtest.CheckPlan(t, c.name+", export", f.Plan(sql.Export, sql.ExportArgs...), indexes, []string{"Seq Scan on commissions", "commissions_by_age"})
			continue
		}
		// An export reads all matching rows. It may use any plan without a scan of the
		// whole table.
		pgtest.CheckPlan(t, c.name+", export", f.PlanWith(commissions.ExportPlan, sql.Export, sql.ExportArgs...), nil, scans)
	}

	// The store reads from commission_counts on which day a deep page starts. Therefore
	// the statement must skip fewer rows than one day has. The fixture has one commission
	// per minute.
	sql, err := commissions.CommissionStatements(t.Context(), f.DB, f.Scope, commission.Filter{}, newest, affiliate.Page{Number: 400, Size: 20})
	if offset, ok := sql.PageArgs[len(sql.PageArgs)-1].(int64); err != nil || !ok || offset >= 24*60 {
		t.Errorf("a deep page skips %d rows (error %v), want fewer than %d", offset, err, 24*60)
	}

	// An export must return its first row before it has read the last row, so the plan
	// must not sort.
	sql, err = commissions.CommissionStatements(t.Context(), f.DB, f.Scope, commission.Filter{}, newest, first)
	if err != nil {
		t.Fatal(err)
	}
	pgtest.CheckPlan(t, "export of everything", f.PlanWith(commissions.ExportPlan, sql.Export, sql.ExportArgs...), []string{"Index Scan using commissions_by_age on commissions c"}, []string{"Sort"})

	// All commissions match this search. An index in the order of the list is then
	// cheaper than the indexes for searches. The plan must not sort all matching rows.
	sql, err = commissions.CommissionStatements(t.Context(), f.DB, f.Scope, commission.Filter{Search: "order"}, newest, first)
	if err != nil {
		t.Fatal(err)
	}
	pgtest.CheckPlan(t, "search for everything", f.Plan(sql.Page, sql.PageArgs...), []string{"Limit -> Index Scan using commissions_by_age on commissions c"}, sortingScans)

	f.CheckSearchPlan(func(db *postgres.DB) ([]affiliate.Hit, error) {
		return commissions.Search(t.Context(), db, f.Scope, "order")
	}, "Index Scan using commissions_by_external", "commissions_pkey")

	pgtest.CheckPlan(t, "sweep", f.Plan(commissions.SelectDue, f.Now(), time.Time{}, affiliate.CommissionID{}, 1000),
		[]string{"commissions_due"}, scans)
	pgtest.CheckPlan(t, "lock", f.Plan(commissions.LockCommissionsSQL, f.Scope.Workspace, f.Scope.Mode, []affiliate.CommissionID{{}}),
		[]string{"Index Scan using commissions_pkey on commissions"}, scans)
	update, args := commissions.UpdateCommissionsSQL(commission.Commission{Scope: f.Scope}, commission.Commission{})
	pgtest.CheckPlan(t, "change", f.Plan(update, args...), []string{"Nested Loop -> Values Scan on \"*VALUES*\" -> Index Scan using commissions_pkey on commissions"}, sortingScans)
}

func checkCommissionTotals(t *testing.T, f *fixture) {
	t.Helper()
	newest := commission.Order{By: commission.SortCreatedAt}
	items, total, err := commissions.List(t.Context(), f.DB, f.Scope, commission.Filter{Search: "order-"}, newest, affiliate.Page{Number: 1, Size: 20})
	if err != nil || total != affiliate.MaxSearchTotal+1 || len(items) != 20 {
		t.Fatalf("the search returned %d items and the total %d (error %v), want 20 and %d", len(items), total, err, affiliate.MaxSearchTotal+1)
	}
	all, exact, err := commissions.List(t.Context(), f.DB, f.Scope, commission.Filter{}, newest, affiliate.Page{Number: 1, Size: 20})
	if err != nil || exact <= affiliate.MaxSearchTotal || exact != int64(f.Count(`select count(*) from commissions where workspace_id = $1 and mode = 'live'`, f.Scope.Workspace)) {
		t.Fatalf("the total without a search is %d (error %v), want the number of rows", exact, err)
	}
	for i := range all {
		if all[i].ID != items[i].ID {
			t.Fatal("the first page of the search does not have the newest commissions")
		}
	}
	_, beyond, err := commissions.List(t.Context(), f.DB, f.Scope, commission.Filter{Search: "order-"}, newest, affiliate.Page{Number: 2000, Size: 100})
	if err != nil || beyond != affiliate.MaxSearchTotal+1 {
		t.Errorf("a page after the end has the total %d (error %v), want %d", beyond, err, affiliate.MaxSearchTotal+1)
	}
}

func checkPendingPlans(t *testing.T, f *fixture) {
	t.Helper()
	p := f.AnyParticipant()
	f.ExecWithoutForeignKeys(`
		insert into commission_history (workspace_id, commission_id, seq, at, actor, to_status, amount_cents)
		select workspace_id, id, 1, created_at, 'system', status, amount_cents from commissions limit 20000`)
	f.VacuumAnalyze("commission_history")
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		plan := f.PlanWith(`set local plan_cache_mode = `+mode, commissions.SelectPendingOf, pgx.NamedArgs{
			"workspace": f.Scope.Workspace, "mode": f.Scope.Mode, "participant": p.ID, "partner": p.Partner,
			"review_reason": participant.ReviewParticipantSuspended, "flagged": false,
			"after": f.Now().AddDate(0, -1, 0), "after_id": affiliate.CommissionID{}, "since": f.Now(),
			"code": "participant_suspended", "limit": 500,
		})
		// The statement reads one chunk of the pending commissions. It must start where
		// the previous chunk ended, without reading the earlier rows again.
		pgtest.CheckPlan(t, mode, plan, []string{"commissions_by_partner_status", "ROW(created_at, id) >", "commission_history_pkey"}, []string{"Seq Scan"})
	}
}
