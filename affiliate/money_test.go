package affiliate_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
)

func TestMulDiv_MatchesArbitraryPrecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64().Draw(t, "a")
		b := rapid.Int64().Draw(t, "b")
		c := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-20, 20)).Draw(t, "c")
		if c == 0 {
			c = 1
		}
		want := affiliatetest.RoundedQuotient(a, b, c)
		got, ok := affiliate.MulDiv(a, b, c)
		if ok != want.IsInt64() {
			t.Fatalf("MulDiv(%d, %d, %d) returns %v, but the exact result is %s", a, b, c, ok, want)
		}
		if ok && got != want.Int64() {
			t.Fatalf("MulDiv(%d, %d, %d) = %d, want %s", a, b, c, got, want)
		}
	})
}

func TestMulDiv_EdgeCases(t *testing.T) {
	for _, tc := range []struct {
		a, b, c, want int64
		ok            bool
	}{
		{5, 1, 10, 1, true},   // half is rounded up
		{-5, 1, 10, -1, true}, // minus half is rounded away from zero
		{4, 1, 10, 0, true},
		{1, 1, 3, 0, true},
		{2, 1, 3, 1, true},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64, true},
		{math.MinInt64, 1, 1, math.MinInt64, true},
		{math.MinInt64, -1, 1, 0, false},
		{math.MaxInt64, 2, 1, 0, false},
		{1, 1, 0, 0, false},
	} {
		got, ok := affiliate.MulDiv(tc.a, tc.b, tc.c)
		if got != tc.want || ok != tc.ok {
			t.Errorf("MulDiv(%d, %d, %d) = %d, %v; want %d, %v", tc.a, tc.b, tc.c, got, ok, tc.want, tc.ok)
		}
	}
}
