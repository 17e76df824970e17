package conversion_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

func TestStats_AreExact(t *testing.T) {
	f := newFixture(t, pgtest.Rules(func(r *program.Rules) {
		r.Type, r.RateBps, r.FlatCents = program.Flat, nil, new(int64(500))
		r.Events = []program.EventRate{{EventType: affiliate.Purchase}, {EventType: affiliate.Signup}}
	}))
	click := f.NewClick(f.pat)
	first := f.mustReport(purchase("order-1", click.ID))
	inDollars := purchase("order-2", click.ID)
	inDollars.Currency = new("usd")
	f.mustReport(inDollars)
	signup := lead("signup-1", click.ID)
	signup.EventType = affiliatev1.EventType_EVENT_TYPE_SIGNUP
	f.mustReport(signup)
	f.mustReport(lead("lead-1", click.ID))
	f.mustReport(purchaseWithCode("unattributed", "unknown"))

	f.wantStats(f.pat, "EUR", stats{conversions: 2, signups: 1, revenue: 10_000, commission: 1_500})
	f.wantStats(f.pat, "USD", stats{conversions: 1, revenue: 10_000})
	f.wantStats(f.pat, "", stats{conversions: 1})
	f.Exec(`delete from stats_deltas where clicks > 0`)
	f.wantRows(5, `stats_deltas`)
	f.wantRows(4, `stats_deltas d join links l on l.id = d.link_id and l.participant_id = d.participant_id where d.conversions = 1`)

	// A rejection subtracts the commission and nothing else.
	if err := f.moveCommission(first, commission.MoveReject); err != nil {
		t.Fatal(err)
	}
	f.wantStats(f.pat, "EUR", stats{conversions: 2, signups: 1, revenue: 10_000, commission: 1_000})
}

// wantCommission reports a purchase of 100 EUR and compares the amount of its commission.
func (f *fixture) wantCommission(external string, click affiliate.ClickID, want int64) {
	f.Helper()
	if got := f.mustReport(purchase(external, click)).GetCommission().GetAmountCents(); got != want {
		f.Errorf("the purchase %q earns %d, want %d", external, got, want)
	}
}

// The tier depends on the participant's earlier conversions: those in the totals and
// those in the deltas, which are not yet added to the totals. The rate of the
// participant's group replaces the rate of the tier, and the participant's own rate
// (override) replaces both. The external ids say what each purchase tests.
func TestReport_RateFollowsTierGroupAndOverride(t *testing.T) {
	f := newFixture(t, pgtest.Rules(func(r *program.Rules) { r.Tiers = []program.Tier{{MinConversions: new(int64(2)), RateBps: 4000}} }))
	click := f.NewClick(f.pat).ID
	f.wantCommission("first", click, 3_000)
	f.wantCommission("second", click, 3_000)
	f.wantCommission("third", click, 4_000)
	f.Exec(`delete from stats_deltas`)
	f.wantCommission("totals of 0 and no deltas", click, 3_000)
	f.Exec(`update participant_totals set conversions = 1 where participant_id = $1`, f.pat.ID)
	f.wantCommission("totals of 1 and a delta", click, 4_000)
	f.setRules(func(r *program.Rules) {
		r.Tiers = []program.Tier{{MinRevenueCents: new(int64(30_000)), RateBps: 6000}}
	})
	inDollars := purchase("another currency, which does not count", click)
	inDollars.Currency = new("usd")
	f.mustReport(inDollars)
	f.wantCommission("revenue of 20000 in the deltas", click, 3_000)
	f.wantCommission("revenue of 30000 in the deltas", click, 6_000)

	group := affiliate.NewID[affiliate.GroupID](f.clock.Now())
	f.Insert("groups", pgtest.Row{
		"workspace_id": f.Scope.Workspace, "id": group, "program_id": f.Program, "name": "Gold", "rate_bps": 4500,
		"created_at": f.clock.Now(), "updated_at": f.clock.Now(),
	})
	f.Exec(`update participants set group_id = $1`, group)
	f.wantCommission("group", click, 4_500)
	f.Exec(`update participants set override_flat_amount_cents = 777`)
	f.wantCommission("override", click, 777)
	f.wantRows(1, `commissions where external_transaction_id = 'group' and rule_snapshot->>'source' = 'group'
		and rule_snapshot->'group'->>'id' = $1 and rule_snapshot->'group'->>'name' = 'Gold'`, group.String())
	f.wantRows(1, `commissions where external_transaction_id = 'override' and flat_amount_cents = 777
		and rule_snapshot->'override'->>'flat_amount_cents' = '777'`)
}

// Tiers do not count conversions that were refunded in full. Of partially refunded
// conversions, they count the revenue that is not refunded.
func TestTiers_CountAmountsThatAreNotRefunded(t *testing.T) {
	f := newFixture(t, pgtest.Rules(func(r *program.Rules) { r.Tiers = []program.Tier{{MinConversions: new(int64(2)), RateBps: 4000}} }))
	click := f.NewClick(f.pat).ID
	f.wantCommission("order-1", click, 3_000)
	f.wantCommission("order-2", click, 3_000)
	f.mustRefund("order-1", "refund-1", 0)
	f.mustRefund("order-2", "refund-2", 9_999)
	f.wantCommission("1 conversion is left", click, 3_000)
	if _, err := counters.Fold(t.Context(), f.DB, 1_000); err != nil {
		t.Fatal(err)
	}
	f.wantCommission("2 conversions are left", click, 4_000)
	f.setRules(func(r *program.Rules) {
		r.Tiers = []program.Tier{{MinRevenueCents: new(int64(20_002)), RateBps: 5000}, {MinRevenueCents: new(int64(20_001)), RateBps: 4500}}
	})
	f.wantCommission("200.01 EUR are left", click, 4_500)
	f.wantRows(1, `participant_totals where participant_id = $1 and conversions = 3`, f.pat.ID)
}
