package server_test

import (
	"math"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Every rate must be unchanged after its conversion to a percentage and back.
func TestBasisPoints_RoundTrip(t *testing.T) {
	for bps := int64(0); bps <= affiliate.WholeBps; bps++ {
		if back, ok := server.BasisPoints(*server.Percentage(&bps)); !ok || back != bps {
			t.Fatalf("BasisPoints(Percentage(%d)) returned %d, %t, want %d, true", bps, back, ok, bps)
		}
	}
	for _, wrong := range []float64{0.001, 33.333, 99.999, 100.01, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)} {
		if bps, ok := server.BasisPoints(wrong); ok {
			t.Errorf("BasisPoints(%v) returned %d, true, want false", wrong, bps)
		}
	}
	if got := server.Percentage(nil); got != nil {
		t.Errorf("Percentage(nil) returned %v, want nil", *got)
	}
}

func TestRates(t *testing.T) {
	bps, cents := int64(1250), int64(0)
	for name, tc := range map[string]struct {
		message      *affiliatev1.CommissionRate
		rate         *program.Rate
		invalidField string
	}{
		"no rate":          {nil, nil, ""},
		"percentage":       {&affiliatev1.CommissionRate{Percentage: proto.Float64(12.5)}, &program.Rate{Bps: &bps}, ""},
		"flat amount of 0": {&affiliatev1.CommissionRate{FlatAmountCents: &cents}, &program.Rate{FlatCents: &cents}, ""},
		"empty rate":       {&affiliatev1.CommissionRate{}, nil, "rate.percentage"},
		"two rates":        {&affiliatev1.CommissionRate{Percentage: proto.Float64(12.5), FlatAmountCents: &cents}, nil, "rate.flat_amount_cents"},
		"three decimals":   {&affiliatev1.CommissionRate{Percentage: proto.Float64(12.505)}, nil, "rate.percentage"},
	} {
		var found affiliate.Violations
		got := server.ParseRate(tc.message, "rate", &found)
		if tc.invalidField != "" {
			if len(found) != 1 || found[0].Field != tc.invalidField {
				t.Errorf("%s: ParseRate found %v, want one violation of the field %s", name, found, tc.invalidField)
			}
			continue
		}
		if len(found) > 0 || !reflect.DeepEqual(got, tc.rate) {
			t.Errorf("%s: ParseRate returned %+v and found %v, want %+v and nothing", name, got, found, tc.rate)
		}
		if back := server.Rate(tc.rate); !proto.Equal(back, tc.message) {
			t.Errorf("%s: Rate returned %v, want %v", name, back, tc.message)
		}
	}
}
