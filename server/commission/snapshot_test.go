package commission_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func TestGetCommission_ReturnsSourceOfRate(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	p := f.Join("Some Body")
	bps, cents := int64(1250), int64(700)
	group := affiliate.GroupRate{ID: affiliate.NewID[affiliate.GroupID](f.Now()), Name: "Gold", Rate: affiliate.Rate{FlatCents: &cents}}
	for name, tc := range map[string]struct {
		rule affiliate.RuleSnapshot
		want *affiliatev1.RuleSnapshot
	}{
		"rate of a participant in a group": {
			affiliate.RuleSnapshot{Version: 3, Override: &affiliate.Rate{Bps: &bps}, Group: &group, Source: affiliate.FromParticipant},
			&affiliatev1.RuleSnapshot{
				Version: 3, CommissionOverride: &affiliatev1.CommissionRate{Percentage: new(12.5)},
				GroupId: new(group.ID.String()), GroupName: new("Gold"), GroupRate: &affiliatev1.CommissionRate{FlatAmountCents: &cents},
				Source: "participant",
			},
		},
		"order with several rates": {affiliate.RuleSnapshot{Version: 2, Source: affiliate.FromMixed}, &affiliatev1.RuleSnapshot{Version: 2, Source: "mixed"}},
	} {
		tc.rule.Rules = affiliate.DefaultRules()
		c := f.NewCommission(p, func(c *affiliate.Commission) { c.Rule = tc.rule })
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
