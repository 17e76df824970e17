package conversion_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// manyDecisions stores 3,000 decisions in each mode of the fixture's workspace, one per
// minute. One in fifty decisions belongs to the other programme and has a rare reason.
// One in ten decisions is superseded. Another workspace gets four times as many
// decisions.
func (s *sales) manyDecisions(other affiliate.ProgramID) {
	s.Helper()
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		s.ExecWithoutForeignKeys(`
			with made as (
				insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency, tax_cents, shipping_cents,
					fee_cents, discount_cents, occurred_at, created_at, source, status, attributed, reason_code, decision_id, program_id, click_id,
					product_ids, is_recurring, fraud_score, fraud_signals, version)
				select $1, gen_random_uuid(), $2, 'order-' || n, 'purchase', 100, 'EUR', 0, 0, 0, 0, at, at, 'api', 'recorded', n % 50 > 0,
					case when n % 50 = 0 then 'CLICK_EXPIRED' else 'CLICK_MATCHED' end, gen_random_uuid(),
					case when n % 50 > 0 then $3::uuid end, gen_random_uuid(), '{}', false, 0, '[]', 1
				from generate_series(1, 3000) n cross join lateral (select $4::timestamptz - n * interval '1 minute' as at) as instant
				returning *)
			insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, method, reason_code, explanation, engine_version,
				program_id, trace, decided_at)
			select workspace_id, decision_id, id, mode, attributed, 'click', reason_code, 'E', '2', program_id,
				jsonb_build_object('program', jsonb_build_object('id', case when attributed then $3::uuid else $5::uuid end)), created_at
			from made`, s.Scope.Workspace, mode, s.Program, pgtest.Noon, other)
	}
	s.ExecWithoutForeignKeys(`
		insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, method, reason_code, explanation, engine_version,
			program_id, trace, supersedes, decided_at)
		select workspace_id, gen_random_uuid(), conversion_id, mode, true, 'manual', 'MANUALLY_REASSIGNED', 'E', '2', program_id, trace, id,
			decided_at + interval '1 second'
		from attribution_decisions where extract(minute from decided_at)::integer % 10 = 0`)
	s.ExecWithoutForeignKeys(`
		insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, reason_code, explanation, engine_version, trace, decided_at)
		select $1, gen_random_uuid(), gen_random_uuid(), mode, attributed, reason_code, explanation, engine_version, trace, decided_at
		from attribution_decisions, generate_series(1, 4)`, affiliate.NewID[affiliate.WorkspaceID](pgtest.Noon))
	s.ExecWithoutForeignKeys(`
		update conversions c set decision_id = d.id
		from attribution_decisions d where d.conversion_id = c.id and d.supersedes is not null`)
	s.VacuumAnalyze("attribution_decisions", "conversions")
}

// checkDecisionPlan checks that the plan contains all texts in required, but neither a
// scan of a whole table nor a join that reads a whole table.
func checkDecisionPlan(t *testing.T, what, plan string, required ...string) {
	t.Helper()
	pgtest.CheckPlan(t, what, plan, required, append(pgtest.ScansOf("attribution_decisions", "conversions"), "Hash Join", "Merge Join"))
}

func TestDecisions_PlansAndTotals(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	s := newSales(t)
	other := s.NewProgram(s.Scope)
	s.manyDecisions(other)
	const (
		inOrder = "Limit -> Index Scan using attribution_decisions_by_"
		// The plan may sort the rows, because there are only a few.
		byIndex = "attribution_decisions_by_"
		inIndex = "Limit -> Index Only Scan using attribution_decisions_by_"
	)
	from, before := pgtest.Noon.Add(-3*time.Hour), pgtest.Noon.Add(-time.Hour)
	for name, tc := range map[string]struct {
		filter attribution.DecisionFilter
		total  int64  // -1 means that the test counts the rows itself
		plan   string // text that the plan of the page must contain
		count  string // text that the plan of the total must contain
	}{
		"all":         {attribution.DecisionFilter{}, -1, inOrder, inIndex},
		"attributed":  {attribution.DecisionFilter{Attributed: new(true)}, -1, inOrder, byIndex},
		"refused":     {attribution.DecisionFilter{Attributed: new(false)}, -1, inOrder, inIndex + "refusal"},
		"a reason":    {attribution.DecisionFilter{Reason: attribution.WhyClickExpired}, 60, inOrder, inIndex + "reason"},
		"a programme": {attribution.DecisionFilter{Program: &other}, -1, byIndex, byIndex + "program"},
		"a few hours": {attribution.DecisionFilter{Decided: affiliate.Period{From: &from, Before: &before}}, -1, inOrder, inIndex},
		"all together": {
			attribution.DecisionFilter{Attributed: new(true), Reason: attribution.WhyReassigned, Program: &s.Program, Decided: affiliate.Period{From: &from}}, -1, byIndex, byIndex,
		},
	} {
		pageSQL, pageArgs, countSQL, countArgs := conversions.DecisionListSQL(s.Scope, tc.filter)
		checkDecisionPlan(t, name, s.Plan(pageSQL, pageArgs...), tc.plan, "Index Scan using attribution_decisions_superseding on attribution_decisions s")
		checkDecisionPlan(t, name+", total", s.Plan(countSQL, countArgs...), tc.count)

		page, total, err := conversions.ListDecisions(t.Context(), s.DB, s.Scope, tc.filter, affiliate.Page{Number: 1, Size: 20})
		if err != nil {
			t.Fatal(err)
		}
		limit := fmt.Sprintf("limit %d", affiliate.MaxTotal+1)
		if !strings.Contains(countSQL, limit) {
			t.Errorf("%s: the statement for the total does not contain %q", name, limit)
		}
		want := tc.total
		if want < 0 {
			if err := s.SQL.QueryRow(t.Context(), strings.Replace(countSQL, limit, "", 1), countArgs...).Scan(&want); err != nil {
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
	none, total, err := conversions.ListDecisions(t.Context(), s.DB, s.Scope, attribution.DecisionFilter{}, affiliate.Page{Number: 1000, Size: 100})
	if err != nil || len(none) != 0 || total != int64(s.Count(`select count(*) from attribution_decisions where workspace_id = $1 and mode = $2`, s.Scope.Workspace, s.Scope.Mode)) {
		t.Errorf("a page after the end has %d decisions and the total %d, %v, want 0 and the number of rows", len(none), total, err)
	}

	var conversion affiliate.ConversionID
	var click affiliate.ClickID
	var external string
	err = s.SQL.QueryRow(t.Context(), `select id, click_id, external_transaction_id from conversions where mode = 'live' limit 1`).Scan(&conversion, &click, &external)
	if err != nil {
		t.Fatal(err)
	}
	checkDecisionPlan(t, "one", s.Plan(conversions.SelectDecisionSQL, s.Scope.Workspace, s.Scope.Mode, conversion),
		"conversions_pkey", "attribution_decisions_pkey", "attribution_decisions_superseding")
	pageSQL, pageArgs, countSQL, countArgs := conversions.DecisionListSQL(s.Scope, attribution.DecisionFilter{Conversion: &conversion})
	checkDecisionPlan(t, "of a conversion", s.Plan(pageSQL, pageArgs...), "Scan Backward using attribution_decisions_by_conversion", "attribution_decisions_superseding")
	checkDecisionPlan(t, "number of a conversion", s.Plan(countSQL, countArgs...), "attribution_decisions_by_conversion")
	checkDecisionPlan(t, "by the merchant's id", s.Plan(conversions.SelectDecisionOfExternalSQL, s.Scope.Workspace, s.Scope.Mode, external),
		"Index Scan using conversions_", "attribution_decisions_pkey", "attribution_decisions_superseding")
	checkDecisionPlan(t, "conversions of a click", s.Plan(conversions.ConversionsOfClickSQL, s.Scope.Workspace, s.Scope.Mode, click, 100), "conversions_by_click")
}

// The look-up of a click must read only one partition. The time in the id of the click
// determines this partition.
func TestAttributedClick_ReadsOnePartition(t *testing.T) {
	s := newSales(t)
	s.partitionClicks()
	click := s.click(pgtest.Noon)
	args := fmt.Sprintf("'%s', 'live', '%s', '%s'", s.Scope.Workspace, click, pgtest.Noon.Format(time.RFC3339Nano))
	for mode, plan := range s.ExecutedPlans(conversions.SelectClickSQL, args) {
		pgtest.CheckReadsOnePartition(t, mode, plan, "clicks_20260310_")
	}
}

// A simulation of a decision must read a promo code with an index and must lock no rows.
func TestFindPromoCode_UsesIndexAndLocksNothing(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	s := newSales(t)
	s.manySignals()
	s.VacuumAnalyze()
	var code string
	if err := s.SQL.QueryRow(t.Context(), `select code from promo_codes limit 1`).Scan(&code); err != nil {
		t.Fatal(err)
	}
	plan := s.Plan(conversions.FindPromoCodeSQL, s.Scope.Workspace, s.Scope.Mode, code)
	checkDecisionPlan(t, "code", plan, "promo_codes_code", "participants_pkey")
	if strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "LockRows") {
		t.Errorf("the plan scans a table or locks rows\n%s", plan)
	}
}
