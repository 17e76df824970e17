package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// manyDecisions stores 12,000 decisions in each mode of the fixture's workspace, one per
// minute. One in fifty decisions belongs to the other programme and has a rare reason.
// One in ten decisions is superseded. Another workspace gets four times as many
// decisions.
func (s *sales) manyDecisions(other affiliate.ProgramID) {
	s.Helper()
	owner := s.asOwner()
	run := func(sql string, args ...any) {
		s.Helper()
		if _, err := owner.Exec(s.Context(), sql, args...); err != nil {
			s.Fatal(err)
		}
	}
	run(`set session_replication_role = replica`) // disable foreign keys, because the clicks do not exist
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		run(`
			with made as (
				insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency, tax_cents, shipping_cents,
					fee_cents, discount_cents, occurred_at, created_at, source, status, attributed, reason_code, decision_id, program_id, click_id,
					product_ids, is_recurring, fraud_score, fraud_signals, version)
				select $1, gen_random_uuid(), $2, 'order-' || n, 'purchase', 100, 'EUR', 0, 0, 0, 0, at, at, 'api', 'recorded', n % 50 > 0,
					case when n % 50 = 0 then 'CLICK_EXPIRED' else 'CLICK_MATCHED' end, gen_random_uuid(),
					case when n % 50 > 0 then $3::uuid end, gen_random_uuid(), '{}', false, 0, '[]', 1
				from generate_series(1, 12000) n cross join lateral (select $4::timestamptz - n * interval '1 minute' as at) as instant
				returning *)
			insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, method, reason_code, explanation, engine_version,
				program_id, trace, decided_at)
			select workspace_id, decision_id, id, mode, attributed, 'click', reason_code, 'E', '2', program_id,
				jsonb_build_object('program', jsonb_build_object('id', case when attributed then $3::uuid else $5::uuid end)), created_at
			from made`, s.scope.Workspace, mode, s.program, salesDay, other)
	}
	run(`
		insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, method, reason_code, explanation, engine_version,
			program_id, trace, supersedes, decided_at)
		select workspace_id, gen_random_uuid(), conversion_id, mode, true, 'manual', 'MANUALLY_REASSIGNED', 'E', '2', program_id, trace, id,
			decided_at + interval '1 second'
		from attribution_decisions where extract(minute from decided_at)::integer % 10 = 0`)
	run(`
		insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, reason_code, explanation, engine_version, trace, decided_at)
		select $1, gen_random_uuid(), gen_random_uuid(), mode, attributed, reason_code, explanation, engine_version, trace, decided_at
		from attribution_decisions, generate_series(1, 4)`, affiliate.NewID[affiliate.Workspace](salesDay))
	run(`
		update conversions c set decision_id = d.id
		from attribution_decisions d where d.conversion_id = c.id and d.supersedes is not null`)
	pgtest.VacuumAnalyze(s, owner, "attribution_decisions", "conversions")
}

func (s *sales) planOf(sql string, args ...any) string {
	s.Helper()
	rows, _ := s.sql.Query(s.Context(), "explain (costs off) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.Fatalf("explain %s: %v", sql, err)
	}
	return strings.Join(lines, "\n")
}

// checkDecisionPlan checks that the plan contains all texts of has, no scan of a whole
// table and no join that reads a whole table.
func checkDecisionPlan(t *testing.T, what, plan string, has ...string) {
	t.Helper()
	flat := inOneLine(plan)
	for _, part := range has {
		if !strings.Contains(flat, part) {
			t.Errorf("%s: the plan does not contain %q\n%s", what, part, plan)
		}
	}
	for _, part := range []string{"Seq Scan on attribution_decisions", "Seq Scan on conversions", "Hash Join", "Merge Join"} {
		if strings.Contains(flat, part) {
			t.Errorf("%s: the plan contains %q\n%s", what, part, plan)
		}
	}
}

func TestDecisions_PlansAndTotals(t *testing.T) {
	t.Parallel()
	s := newSales(t)
	other := affiliate.NewID[affiliate.Program](salesDay)
	s.manyDecisions(other)
	s.exec(`insert into programs select (jsonb_populate_record(p, jsonb_build_object('id', $2::uuid, 'slug', 'other'))).* from programs p where p.id = $1`, s.program, other)
	const (
		inOrder = "Limit -> Index Scan using attribution_decisions_by_"
		// The plan may sort the rows, because there are only a few.
		byIndex = "attribution_decisions_by_"
		inIndex = "Limit -> Index Only Scan using attribution_decisions_by_"
	)
	yes, no := true, false
	from, before := salesDay.Add(-3*time.Hour), salesDay.Add(-time.Hour)
	for name, tc := range map[string]struct {
		filter affiliate.DecisionFilter
		total  int64  // -1 means that the test counts the rows itself
		plan   string // text that the plan of the page must contain
		count  string // text that the plan of the total must contain
	}{
		"all":         {affiliate.DecisionFilter{}, -1, inOrder, inIndex},
		"attributed":  {affiliate.DecisionFilter{Attributed: &yes}, -1, inOrder, byIndex},
		"refused":     {affiliate.DecisionFilter{Attributed: &no}, -1, inOrder, inIndex + "refusal"},
		"a reason":    {affiliate.DecisionFilter{Reason: affiliate.WhyClickExpired}, 240, inOrder, inIndex + "reason"},
		"a programme": {affiliate.DecisionFilter{Program: &other}, -1, byIndex, byIndex + "program"},
		"a few hours": {affiliate.DecisionFilter{Decided: affiliate.Period{From: &from, Before: &before}}, -1, inOrder, inIndex},
		"all together": {
			affiliate.DecisionFilter{Attributed: &yes, Reason: affiliate.WhyReassigned, Program: &s.program, Decided: affiliate.Period{From: &from}}, -1, byIndex, byIndex,
		},
	} {
		pageSQL, pageArgs, countSQL, countArgs := postgres.DecisionListSQL(s.scope, tc.filter)
		checkDecisionPlan(t, name, s.planOf(pageSQL, pageArgs...), tc.plan, "Index Scan using attribution_decisions_superseding on attribution_decisions s")
		checkDecisionPlan(t, name+", total", s.planOf(countSQL, countArgs...), tc.count)

		page, total, err := s.store.Decisions(t.Context(), s.scope, tc.filter, affiliate.Page{Number: 1, Size: 20})
		if err != nil {
			t.Fatal(err)
		}
		want := tc.total
		if want < 0 {
			if err := s.sql.QueryRow(t.Context(), strings.Replace(countSQL, "limit 100001", "", 1), countArgs...).Scan(&want); err != nil {
				t.Fatal(err)
			}
		}
		if total != want || len(page) != int(min(want, 20)) || want == 0 {
			t.Errorf("%s: the page has %d decisions and the total is %d, want the total %d", name, len(page), total, want)
		}
		for i := 1; i < len(page); i++ {
			if page[i].DecidedAt.After(page[i-1].DecidedAt) {
				t.Errorf("%s: the decision from %s is listed after the older decision from %s", name, page[i].DecidedAt, page[i-1].DecidedAt)
			}
		}
	}
	none, total, err := s.store.Decisions(t.Context(), s.scope, affiliate.DecisionFilter{}, affiliate.Page{Number: 1000, Size: 100})
	if err != nil || len(none) != 0 || total != int64(s.count(`attribution_decisions where workspace_id = $1 and mode = $2`, s.scope.Workspace, s.scope.Mode)) {
		t.Errorf("a page after the end has %d decisions and the total %d, %v, want 0 and the number of rows", len(none), total, err)
	}

	var conversion affiliate.ConversionID
	var click affiliate.ClickID
	var external string
	err = s.sql.QueryRow(t.Context(), `select id, click_id, external_transaction_id from conversions where mode = 'test' limit 1`).Scan(&conversion, &click, &external)
	if err != nil {
		t.Fatal(err)
	}
	checkDecisionPlan(t, "one", s.planOf(postgres.SelectDecisionSQL, s.scope.Workspace, s.scope.Mode, conversion),
		"conversions_pkey", "attribution_decisions_pkey", "attribution_decisions_superseding")
	checkDecisionPlan(t, "by the merchant's id", s.planOf(postgres.SelectDecisionOfExternalSQL, s.scope.Workspace, s.scope.Mode, external),
		"Index Scan using conversions_", "attribution_decisions_pkey", "attribution_decisions_superseding")
	checkDecisionPlan(t, "conversions of a click", s.planOf(postgres.ConversionsOfClickSQL, s.scope.Workspace, s.scope.Mode, click, 100), "conversions_by_click")
}

// The look-up of a click must read only one partition. The time in the id of the click
// determines this partition.
func TestAttributedClick_ReadsOnePartition(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay)
	s.exec(`prepare click as ` + postgres.SelectClickSQL)
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		s.exec(`set plan_cache_mode = ` + mode)
		plan := strings.Join(s.explain(fmt.Sprintf("click('%s', 'test', '%s', '%s')", s.scope.Workspace, click, salesDay.Format(time.RFC3339Nano))), "\n")
		for _, line := range strings.Split(plan, "\n") {
			if strings.Contains(line, " on clicks_") && !strings.Contains(line, "never executed") && !strings.Contains(line, "clicks_20260310") {
				t.Errorf("%s: the plan reads another partition\n%s", mode, plan)
			}
		}
		if !strings.Contains(plan, "clicks_20260310") {
			t.Errorf("%s: the plan does not read clicks_20260310\n%s", mode, plan)
		}
	}
}

// A simulation of a decision must read a promo code with an index and must lock no rows.
func TestFindPromoCode_UsesIndexAndLocksNothing(t *testing.T) {
	t.Parallel()
	s := newSales(t)
	s.manySignals()
	pgtest.VacuumAnalyze(t, s.asOwner())
	var code string
	if err := s.sql.QueryRow(t.Context(), `select code from promo_codes limit 1`).Scan(&code); err != nil {
		t.Fatal(err)
	}
	plan := s.planOf(postgres.FindPromoCodeSQL, s.scope.Workspace, s.scope.Mode, code)
	checkDecisionPlan(t, "code", plan, "promo_codes_code", "participants_pkey")
	if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "LockRows") {
		t.Errorf("the plan scans a table or locks rows\n%s", plan)
	}
}
