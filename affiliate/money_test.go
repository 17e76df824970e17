package affiliate

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// roundedQuotient returns a × b ÷ c, computed with arbitrary precision and rounded half
// away from zero.
func roundedQuotient(a, b, c int64) *big.Int {
	product := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	divisor := big.NewInt(c)
	negative := product.Sign()*divisor.Sign() < 0
	product.Abs(product)
	divisor.Abs(divisor)
	// (2p + d) / 2d is p/d rounded half up.
	product.Lsh(product, 1).Add(product, divisor)
	product.Quo(product, new(big.Int).Lsh(divisor, 1))
	if negative {
		product.Neg(product)
	}
	return product
}

func TestMulDiv_MatchesArbitraryPrecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64().Draw(t, "a")
		b := rapid.Int64().Draw(t, "b")
		c := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-20, 20)).Draw(t, "c")
		if c == 0 {
			c = 1
		}
		want := roundedQuotient(a, b, c)
		got, ok := MulDiv(a, b, c)
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
		got, ok := MulDiv(tc.a, tc.b, tc.c)
		if got != tc.want || ok != tc.ok {
			t.Errorf("MulDiv(%d, %d, %d) = %d, %v; want %d, %v", tc.a, tc.b, tc.c, got, ok, tc.want, tc.ok)
		}
	}
}
