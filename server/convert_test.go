package server_test

import (
	"math"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Every rate must be unchanged after its conversion to a percentage and back.
func TestBasisPoints_RoundTrip(t *testing.T) {
	for bps := int64(0); bps <= affiliate.WholeBps; bps++ {
		if back, ok := server.BasisPoints(*server.Percentage(&bps)); !ok || back != bps {
			t.Fatalf("%d becomes %d, %v", bps, back, ok)
		}
	}
	for _, wrong := range []float64{0.001, 33.333, 99.999, 100.01, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)} {
		if bps, ok := server.BasisPoints(wrong); ok {
			t.Errorf("%v is accepted as %d basis points", wrong, bps)
		}
	}
	if server.Percentage(nil) != nil {
		t.Error("a nil rate has a percentage")
	}
}

func TestRates(t *testing.T) {
	bps, cents := int64(1250), int64(0)
	for name, tc := range map[string]struct {
		message *affiliatev1.CommissionRate
		rate    *affiliate.Rate
		wrong   string
	}{
		"none":               {nil, nil, ""},
		"a percentage":       {&affiliatev1.CommissionRate{Percentage: proto.Float64(12.5)}, &affiliate.Rate{Bps: &bps}, ""},
		"a flat amount of 0": {&affiliatev1.CommissionRate{FlatAmountCents: &cents}, &affiliate.Rate{FlatCents: &cents}, ""},
		"neither":            {&affiliatev1.CommissionRate{}, nil, "rate.percentage"},
		"both":               {&affiliatev1.CommissionRate{Percentage: proto.Float64(12.5), FlatAmountCents: &cents}, nil, "rate.flat_amount_cents"},
		"too many decimals":  {&affiliatev1.CommissionRate{Percentage: proto.Float64(12.505)}, nil, "rate.percentage"},
	} {
		var found affiliate.Violations
		got := server.ParseRate(tc.message, "rate", &found)
		if tc.wrong != "" {
			if len(found) != 1 || found[0].Field != tc.wrong {
				t.Errorf("%s: %v", name, found)
			}
			continue
		}
		if len(found) > 0 || !reflect.DeepEqual(got, tc.rate) || !proto.Equal(server.Rate(tc.rate), tc.message) {
			t.Errorf("%s: parsed as %v, %v; converted to %v", name, got, found, server.Rate(tc.rate))
		}
	}
}
