package commission_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func TestGetCommission_ReturnsSourceOfRate(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	p := f.Join("Some Body")
	bps, cents := int64(1250), int64(700)
	group := attribution.GroupRate{ID: affiliate.NewID[affiliate.GroupID](f.Now()), Name: "Gold", Rate: program.Rate{FlatCents: &cents}}
	for name, tc := range map[string]struct {
		rule attribution.RuleSnapshot
		want *affiliatev1.RuleSnapshot
	}{
		"rate of a participant in a group": {
			attribution.RuleSnapshot{Version: 3, Override: &program.Rate{Bps: &bps}, Group: &group, Source: attribution.FromParticipant},
			&affiliatev1.RuleSnapshot{
				Version: 3, CommissionOverride: &affiliatev1.CommissionRate{Percentage: new(12.5)},
				GroupId: new(group.ID.String()), GroupName: new("Gold"), GroupRate: &affiliatev1.CommissionRate{FlatAmountCents: &cents},
				Source: "participant",
			},
		},
		"order with several rates": {attribution.RuleSnapshot{Version: 2, Source: attribution.FromMixed}, &affiliatev1.RuleSnapshot{Version: 2, Source: "mixed"}},
	} {
		tc.rule.Rules = program.DefaultRules()
		c := f.NewCommission(p, func(c *commission.Commission) { c.Rule = tc.rule })
		got, err := f.on(c).get()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rules := got.RuleSnapshot.Rules
		if rules.GetPercentage() != 20 || !rules.GetRecurring().GetEnabled() {
			t.Errorf("%s: GetCommission returned the rules %v, want the default rules", name, rules)
		}
		if got.RuleSnapshot.Rules = nil; !proto.Equal(got.RuleSnapshot, tc.want) {
			t.Errorf("%s: GetCommission returned the snapshot %v, want %v", name, got.RuleSnapshot, tc.want)
		}
	}
}
