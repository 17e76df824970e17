package conversion_test

import (
	"context"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
)

// stats is the sum of the deltas of one participant in one currency.
type stats struct{ conversions, signups, revenue, commission int64 }

func (w *world) stats(participant affiliate.ParticipantID, currency string) (s stats) {
	w.Helper()
	err := w.SQL.QueryRow(context.Background(), `
		select coalesce(sum(conversions), 0)::bigint, coalesce(sum(signups), 0)::bigint,
			coalesce(sum(revenue_cents), 0)::bigint, coalesce(sum(commission_cents), 0)::bigint
		from stats_deltas d join participants t on t.workspace_id = d.workspace_id and t.mode = d.mode and t.program_id = d.program_id and t.id = d.participant_id
		where d.participant_id = $1 and d.currency = $2`, participant, currency).
		Scan(&s.conversions, &s.signups, &s.revenue, &s.commission)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) wantStats(participant affiliate.ParticipantID, currency string, want stats) {
	w.Helper()
	if got := w.stats(participant, currency); got != want {
		w.Errorf("%s: %+v, want %+v", currency, got, want)
	}
}

func TestStats_AreExact(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set rules = '{"commission_type":"flat","flat_amount_cents":500,"hold_period_days":30,"auto_approval":true,"net_basis":"gross",
		"events":[{"event_type":"purchase"},{"event_type":"signup"}]}'`)
	click := w.clickOf(w.participant)
	w.mustReport(purchase("order-1", click.ID))
	foreign := purchase("order-2", click.ID)
	foreign.Currency = ptr("usd")
	w.mustReport(foreign)
	for external, event := range map[string]affiliatev1.EventType{
		"signup-1": affiliatev1.EventType_EVENT_TYPE_SIGNUP, "lead-1": affiliatev1.EventType_EVENT_TYPE_LEAD,
	} {
		req := purchase(external, click.ID)
		req.EventType, req.AmountCents, req.Currency = event, nil, nil
		w.mustReport(req)
	}
	w.mustReport(withCode("unattributed", "unknown"))

	w.wantStats(w.participant, "EUR", stats{conversions: 2, signups: 1, revenue: 10_000, commission: 1_500})
	w.wantStats(w.participant, "USD", stats{conversions: 1, revenue: 10_000})
	w.wantStats(w.participant, "", stats{conversions: 1})
	w.wantCount(5, `stats_deltas`)
	w.wantCount(4, `stats_deltas d join links l on l.id = d.link_id and l.participant_id = d.participant_id where d.conversions = 1`)
	w.wantCount(5, `stats_deltas where hour = date_trunc('hour', hour, 'UTC') and hour = date_trunc('hour', (select created_at from conversions limit 1), 'UTC')`)

	// A rejection subtracts the commission and nothing else.
	var id, program affiliate.ID[affiliate.Commission]
	if err := w.SQL.QueryRow(t.Context(), `select id, program_id from commissions where external_transaction_id = 'order-1'`).Scan(&id, &program); err != nil {
		t.Fatal(err)
	}
	user := affiliate.NewID[affiliate.User](w.now())
	_, err := commissionservice.Move(t.Context(), stores.Commission(w.Store), affiliate.CommissionTransition{
		Scope: w.scope, Program: w.program, Commission: id, Move: affiliate.MoveReject, Actor: affiliate.Actor{User: &user}, At: w.now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.wantStats(w.participant, "EUR", stats{conversions: 2, signups: 1, revenue: 10_000, commission: 1_000})
}

// The tier depends on the participant's earlier conversions, both those in the totals and
// those in the deltas. The group's rate and the participant's own rate replace it.
func TestReport_RateFollowsTierGroupAndOverride(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set rules = rules || '{"tiers":[{"min_conversions":2,"rate_bps":4000}]}'`)
	click := w.clickOf(w.participant)
	earned := func(external string) int64 {
		return w.mustReport(purchase(external, click.ID)).GetCommission().GetAmountCents()
	}
	for i, want := range []int64{3_000, 3_000, 4_000} {
		if got := earned(string(rune('a' + i))); got != want {
			t.Errorf("conversion %d earns %d, want %d", i+1, got, want)
		}
	}
	w.Exec(`delete from stats_deltas`)
	if got := earned("sums without deltas"); got != 3_000 {
		t.Errorf("%d", got)
	}
	w.Exec(`update participant_totals set conversions = 1 where participant_id = $1`, w.participant)
	if got := earned("a sum and a delta"); got != 4_000 {
		t.Errorf("%d", got)
	}
	w.Exec(`update programs set rules = rules || '{"tiers":[{"min_revenue_cents":30000,"rate_bps":6000}]}'`)
	usd := purchase("another currency counts nothing", click.ID)
	usd.Currency = ptr("usd")
	w.mustReport(usd)
	if got := earned("20000 in the deltas"); got != 3_000 {
		t.Errorf("%d", got)
	}
	if got := earned("30000 in the deltas"); got != 6_000 {
		t.Errorf("%d", got)
	}

	group := affiliate.NewID[affiliate.Group](w.now())
	w.Exec(`insert into groups (workspace_id, id, program_id, name, rate_bps, created_at, updated_at) values ($1, $2, $3, 'Gold', 4500, $4, $4)`,
		w.scope.Workspace, group, w.program, w.now())
	w.Exec(`update participants set group_id = $1`, group)
	if got := earned("group"); got != 4_500 {
		t.Errorf("%d", got)
	}
	w.Exec(`update participants set override_flat_amount_cents = 777`)
	if got := earned("override"); got != 777 {
		t.Errorf("%d", got)
	}
	w.wantCount(1, `commissions where external_transaction_id = 'group' and rule_snapshot->'group'->>'id' = $1 and rule_snapshot->'group'->>'name' = 'Gold' and rule_snapshot->>'source' = 'group'`, group.String())
	w.wantCount(1, `commissions where external_transaction_id = 'override' and rule_snapshot->'override'->>'flat_amount_cents' = '777' and flat_amount_cents = 777`)
}
