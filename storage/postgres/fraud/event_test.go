package fraud_test

import (
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	frauds "github.com/tributary-hq/tributary/storage/postgres/fraud"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestFraudEvents_UseIndexes(t *testing.T) {
	t.Parallel()
	s := pgtest.OpenNoonShop(t)
	participant := s.Join("Pat")
	s.ExecWithoutForeignKeys(`
		insert into fraud_events (workspace_id, id, mode, program_id, participant_id, conversion_id, score, signals, action, status, created_at)
		select case when n % 3 = 0 then gen_random_uuid() else $1 end, gen_random_uuid(), case when n % 3 = 1 then 'test' else 'live' end,
			case when n % 30 = 2 then $2 else gen_random_uuid() end, $3, gen_random_uuid(), 60, '[]', 'flagged',
			case when n % 60 = 2 then 'open' else 'dismissed' end, $4::timestamptz - n * interval '1 minute'
		from generate_series(1, 15000) n`, s.Scope.Workspace, s.Program, participant.ID, pgtest.Noon)
	s.VacuumAnalyze()
	day := pgtest.Noon.AddDate(0, 0, -1)
	for name, tc := range map[string]struct {
		filter fraud.EventFilter
		index  string // index that the plan of the page must use
		total  string // text that the plan of the total must contain
	}{
		"all":       {fraud.EventFilter{}, "fraud_events_by_age", "Limit -> Index Only Scan using fraud_events_by_"},
		"open":      {fraud.EventFilter{Status: fraud.EventOpen}, "fraud_events_by_status", "Limit -> Index Only Scan using fraud_events_by_status"},
		"programme": {fraud.EventFilter{Program: &s.Program}, "fraud_events_by_program", "Limit -> Index Only Scan using fraud_events_by_program"},
		"a day":     {fraud.EventFilter{Created: affiliate.Period{From: &day}}, "fraud_events_by_age", "Limit -> Index Only Scan using fraud_events_by_age"},
	} {
		page, count, args := frauds.FraudEventListSQL(s.Scope, tc.filter)
		plan := s.Plan(page, args)
		if !strings.Contains(pgtest.InOneLine(plan), "Limit -> Index Scan using "+tc.index) || strings.Contains(plan, "Seq Scan on fraud_events") {
			t.Errorf("%s: the plan of the page does not use %s\n%s", name, tc.index, plan)
		}
		if plan := s.Plan(count, args); !strings.Contains(pgtest.InOneLine(plan), tc.total) || strings.Contains(plan, "Seq Scan on fraud_events") {
			t.Errorf("%s: the plan of the total does not contain %q\n%s", name, tc.total, plan)
		}
	}
	// With two conditions, the plan must use an index for at least one of them.
	_, count, args := frauds.FraudEventListSQL(s.Scope, fraud.EventFilter{Status: fraud.EventOpen, Program: &s.Program})
	if plan := s.Plan(count, args); !strings.Contains(plan, "Index Scan on fraud_events_by_") && !strings.Contains(plan, "Index Scan using fraud_events_by_") {
		t.Errorf("open events of a programme: the plan of the total uses no index\n%s", plan)
	}
}
