package program

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestGroup_Patch(t *testing.T) {
	thousand, five := int64(1000), int64(500)
	percent, fixed := Rate{Bps: &thousand}, Rate{FlatCents: &five}
	for _, tc := range []struct {
		name  string
		from  Rate
		patch GroupPatch
		want  Rate
		wrong []string
	}{
		{name: "nothing", from: percent, want: percent},
		{name: "to flat", from: percent, patch: GroupPatch{FlatCents: affiliate.Set(five)}, want: fixed},
		{name: "to percentage", from: fixed, patch: GroupPatch{Bps: affiliate.Set(thousand)}, want: percent},
		{name: "to percentage, flat amount cleared", from: fixed, patch: GroupPatch{Bps: affiliate.Set(thousand), FlatCents: affiliate.Clear[int64]()}, want: percent},
		{name: "unset rate cleared", from: fixed, patch: GroupPatch{Bps: affiliate.Clear[int64]()}, want: fixed},
		{name: "only rate cleared", from: fixed, patch: GroupPatch{FlatCents: affiliate.Clear[int64]()}, wrong: []string{"percentage"}},
		{name: "both cleared", from: percent, patch: GroupPatch{Bps: affiliate.Clear[int64](), FlatCents: affiliate.Clear[int64]()}, wrong: []string{"percentage"}},
		{name: "both given", from: percent, patch: GroupPatch{Bps: affiliate.Set(thousand), FlatCents: affiliate.Set(five)}, wrong: []string{"flat_amount_cents"}},
		{name: "name cleared", from: percent, patch: GroupPatch{Name: affiliate.Clear[string](), Bps: affiliate.Clear[int64]()}, wrong: []string{"name", "percentage"}},
	} {
		got, err := Group{Name: "G", Rate: tc.from}.Patch(tc.patch)
		var wrong []string
		var refused *affiliate.Error
		if errors.As(err, &refused) {
			wrong = violationFields(refused.Violations)
		}
		if !slices.Equal(wrong, tc.wrong) || err == nil && !reflect.DeepEqual(got.Rate, tc.want) {
			t.Errorf("%s: rate %+v, error %v; want %+v, violations of %q", tc.name, got.Rate, err, tc.want, tc.wrong)
		}
	}
	if got, err := (Group{Name: "G", Rate: fixed}).Patch(GroupPatch{Name: affiliate.Set("H")}); err != nil || got.Name != "H" || !reflect.DeepEqual(got.Rate, fixed) {
		t.Errorf("patch of the name: %+v, error %v; want name H and the same rate", got, err)
	}
}
