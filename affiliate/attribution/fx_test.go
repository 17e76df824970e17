package attribution_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
)

func TestFXRate_Convert(t *testing.T) {
	for name, tc := range map[string]struct {
		base, quote, rate string
		amount            *big.Rat
		want              int64
	}{
		"between currencies with cents":            {"USD", "EUR", "0.92", big.NewRat(1000, 1), 920},
		"half a cent, up":                          {"USD", "EUR", "0.5", big.NewRat(1, 1), 1},
		"less than half a cent, down":              {"USD", "EUR", "0.4999999999", big.NewRat(1, 1), 0},
		"minus half a cent, down":                  {"USD", "EUR", "0.5", big.NewRat(-1, 1), -1},
		"yen from cents":                           {"EUR", "JPY", "163.27", big.NewRat(1000, 1), 1633}, // 10.00 EUR = 1632.7 JPY
		"cents from yen":                           {"JPY", "EUR", "0.0061", big.NewRat(1000, 1), 610},  // 1000 JPY = 6.10 EUR
		"thousandths from cents":                   {"EUR", "KWD", "0.3333", big.NewRat(100, 1), 333},   // 1.00 EUR = 0.333 KWD
		"cents from thousandths":                   {"KWD", "EUR", "3", big.NewRat(1005, 1), 302},       // 1.005 KWD = 3.015 EUR
		"thousandths from yen":                     {"JPY", "KWD", "0.002", big.NewRat(1, 1), 2},
		"yen from thousandths":                     {"KWD", "JPY", "500", big.NewRat(1, 1), 1}, // 0.001 KWD = 0.5 JPY
		"a fraction of a cent":                     {"USD", "EUR", "0.5", big.NewRat(333, 1000), 0},
		"0.5 is not rounded before the conversion": {"USD", "EUR", "0.8", big.NewRat(1, 2), 0},
		"amount of 0":                              {"USD", "EUR", "1.1", new(big.Rat), 0},
		"a rate of many digits":                    {"EUR", "VND", "28123.456789012345678901234567890", big.NewRat(100, 1), 28123},
		"the largest":                              {"USD", "EUR", "1", big.NewRat(math.MaxInt64, 1), math.MaxInt64},
		"the smallest":                             {"USD", "EUR", "1", big.NewRat(math.MinInt64, 1), math.MinInt64},
	} {
		before := new(big.Rat).Set(tc.amount)
		got, ok := attribution.FXRate{Base: tc.base, Quote: tc.quote, Rate: tc.rate}.Convert(tc.amount)
		if !ok || got != tc.want {
			t.Errorf("%s: Convert(%s) = %d, %v; want %d", name, tc.amount, got, ok, tc.want)
		}
		if tc.amount.Cmp(before) != 0 {
			t.Errorf("%s: Convert changed its argument", name)
		}
	}
}

func TestFXRate_ConvertRejectsInvalidRateAndOverflow(t *testing.T) {
	for _, rate := range []string{"", "0", "0.000", "-1", "one", "NaN", "Infinity", "1.2.3", "1,5"} {
		if got, ok := (attribution.FXRate{Base: "USD", Quote: "EUR", Rate: rate}).Convert(big.NewRat(100, 1)); ok || got != 0 {
			t.Errorf("Convert with the rate %q returns %d, %v; want 0, false", rate, got, ok)
		}
	}
	for _, amount := range []int64{math.MaxInt64, math.MinInt64} {
		if _, ok := (attribution.FXRate{Base: "USD", Quote: "EUR", Rate: "1.00000000000000000001"}).Convert(big.NewRat(amount, 1)); !ok {
			t.Errorf("Convert(%d) returns false, although the rounded result fits into 64 bits", amount)
		}
		if got, ok := (attribution.FXRate{Base: "JPY", Quote: "EUR", Rate: "1"}).Convert(big.NewRat(amount, 1)); ok {
			t.Errorf("Convert(%d) = %d, although 100 × the amount does not fit into 64 bits", amount, got)
		}
	}
}

// The result must differ from the exact value by at most half a minor unit. Exactly half
// a unit must be rounded away from zero. The conversion of the negative amount must give
// the negative result.
func TestFXRate_ConvertRoundsHalfAwayFromZero(t *testing.T) {
	exponent := map[string]int{"EUR": 2, "JPY": 0, "KWD": 3, "USD": 2}
	currency := rapid.SampledFrom([]string{"EUR", "JPY", "KWD", "USD"})
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.Int64Range(1, 1e12).Draw(t, "rate's digits")
		decimals := rapid.IntRange(0, 12).Draw(t, "rate's decimals")
		rate := new(big.Rat).SetFrac(big.NewInt(digits), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil))
		r := attribution.FXRate{Base: currency.Draw(t, "base"), Quote: currency.Draw(t, "quote"), Rate: rate.FloatString(decimals)}
		amount := big.NewRat(rapid.Int64Range(0, affiliate.MaxAmountCents).Draw(t, "amount"), rapid.SampledFrom([]int64{1, 2, 10_000}).Draw(t, "over"))

		exact := new(big.Rat).Mul(amount, rate)
		for range exponent[r.Quote] {
			exact.Mul(exact, big.NewRat(10, 1))
		}
		for range exponent[r.Base] {
			exact.Quo(exact, big.NewRat(10, 1))
		}
		got, ok := r.Convert(amount)
		if limit := new(big.Rat).SetInt64(math.MaxInt64); !ok {
			if exact.Cmp(limit) < 0 {
				t.Fatalf("Convert returns false, although the result %s fits into 64 bits", exact.FloatString(3))
			}
			return
		}
		// For positive amounts, got − ½ ≤ exact < got + ½.
		difference := new(big.Rat).Sub(exact, new(big.Rat).SetInt64(got))
		if difference.Cmp(big.NewRat(1, 2)) >= 0 || difference.Cmp(big.NewRat(-1, 2)) < 0 {
			t.Fatalf("%s is rounded to %d", exact.FloatString(3), got)
		}
		if back, ok := r.Convert(new(big.Rat).Neg(amount)); !ok || back != -got {
			t.Fatalf("Convert of the amount is %d, but of the negative amount %d, %v", got, back, ok)
		}
	})
}
