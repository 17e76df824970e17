package commission_test

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func TestGetCommission_ReturnsSourceOfRate(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	somePartner := m.somePartner()
	bps, cents := int64(1250), int64(700)
	group := affiliate.GroupRate{ID: affiliate.NewID[affiliate.Group](w.now()), Name: "Gold", Rate: affiliate.Rate{FlatCents: &cents}}
	for name, tc := range map[string]struct {
		rule affiliate.RuleSnapshot
		want *affiliatev1.RuleSnapshot
	}{
		"before rates had sources": {affiliate.RuleSnapshot{Version: 1}, &affiliatev1.RuleSnapshot{Version: 1, Source: "program"}},
		"the participant, in a group": {
			affiliate.RuleSnapshot{Version: 3, Override: &affiliate.Rate{Bps: &bps}, Group: &group, Source: affiliate.FromParticipant},
			&affiliatev1.RuleSnapshot{
				Version: 3, CommissionOverride: &affiliatev1.CommissionRate{Percentage: proto.Float64(12.5)},
				GroupId: proto.String(group.ID.String()), GroupName: proto.String("Gold"), GroupRate: &affiliatev1.CommissionRate{FlatAmountCents: &cents},
				Source: "participant",
			},
		},
		"a mixed order": {affiliate.RuleSnapshot{Version: 2, Source: affiliate.FromMixed}, &affiliatev1.RuleSnapshot{Version: 2, Source: "mixed"}},
	} {
		tc.rule.Rules = affiliate.DefaultRules()
		stored, err := json.Marshal(tc.rule)
		if err != nil {
			t.Fatal(err)
		}
		id := m.commission(somePartner, map[string]any{"rule_snapshot": string(stored)})
		got, err := w.service.GetCommission(m.call(), &affiliatev1.GetCommissionRequest{ProgramId: m.program.String(), CommissionId: id.String()})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rules := got.RuleSnapshot.Rules
		if got.RuleSnapshot.Rules = nil; !proto.Equal(got.RuleSnapshot, tc.want) || rules.GetPercentage() != 20 || !rules.GetRecurring().GetEnabled() {
			t.Errorf("%s: %v with rules %v, want %v", name, got.RuleSnapshot, rules, tc.want)
		}
	}
}
