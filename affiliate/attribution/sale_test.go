package attribution

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/program"
)

func cents() *rapid.Generator[int64] { return rapid.Int64Range(0, affiliate.MaxAmountCents) }

func sales() *rapid.Generator[Sale] {
	return rapid.Custom(func(t *rapid.T) Sale {
		return Sale{
			Money:         affiliate.Money{Cents: cents().Draw(t, "amount"), Currency: rapid.SampledFrom([]string{"EUR", "JPY", "KWD"}).Draw(t, "currency")},
			TaxCents:      cents().Draw(t, "tax"),
			ShippingCents: cents().Draw(t, "shipping"),
			FeeCents:      cents().Draw(t, "fee"),
		}
	})
}

func ruleSets() *rapid.Generator[program.Rules] {
	return rapid.Custom(func(t *rapid.T) program.Rules {
		r := program.Rules{NetBasis: rapid.SampledFrom([]program.NetBasis{program.Gross, program.NetOfTax, program.NetOfTaxShipping, program.NetOfTaxShippingAndFee}).Draw(t, "basis")}
		if rapid.Bool().Draw(t, "flat") {
			flat := cents().Draw(t, "flat amount")
			r.Type, r.FlatCents = program.Flat, &flat
		} else {
			rate := rapid.Int64Range(0, affiliate.WholeBps).Draw(t, "rate")
			r.Type, r.RateBps = program.Percentage, &rate
		}
		return r
	})
}

// calculateSimple returns the calculation for a purchase under the given rules. currency
// is the currency of the programme.
func calculateSimple(rules program.Rules, sale Sale, currency string) Calculation {
	return Earner{Currency: currency, Rule: RuleSnapshot{Rules: rules}}.calculate(Inputs{EventType: affiliate.Purchase, Sale: sale}, nil)
}

func TestCalculate_AmountIsBetweenZeroAndBase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sale, rules := sales().Draw(t, "sale"), ruleSets().Draw(t, "rules")
		calc := calculateSimple(rules, sale, "EUR")
		if calc.AmountCents < 0 || calc.BaseAmountCents < 0 || calc.BaseAmountCents > sale.Cents {
			t.Fatalf("amount %d of base %d, want both to be at least 0, and the base at most %d", calc.AmountCents, calc.BaseAmountCents, sale.Cents)
		}
		if calc.Currency == sale.Currency && calc.AmountCents > calc.BaseAmountCents {
			t.Fatalf("the amount %d is above the base %d", calc.AmountCents, calc.BaseAmountCents)
		}
		if foreign := sale.Currency != "EUR"; foreign != slices.Contains(calc.ReviewReasons, ReviewFXRateMissing) {
			t.Fatalf("review reasons %q of a sale in %s", calc.ReviewReasons, sale.Currency)
		}
	})
}

func TestCalculate_PercentageIsRoundedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sale := sales().Draw(t, "sale")
		rate := rapid.Int64Range(0, affiliate.WholeBps).Draw(t, "rate")
		rules := program.Rules{Type: program.Percentage, RateBps: &rate, NetBasis: program.NetOfTaxShipping}
		base := max(0, sale.Cents-sale.TaxCents-sale.ShippingCents)
		if got, want := calculateSimple(rules, sale, "EUR").AmountCents, affiliatetest.RoundedQuotient(base, rate, affiliate.WholeBps).Int64(); got != want {
			t.Fatalf("amount %d for base %d and %d bps, want %d", got, base, rate, want)
		}
	})
}

func TestCalculate_LargerSaleNeverLowersAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small, rules := sales().Draw(t, "sale"), ruleSets().Draw(t, "rules")
		large := small
		large.Cents = rapid.Int64Range(small.Cents, affiliate.MaxAmountCents).Draw(t, "larger")
		if a, b := calculateSimple(rules, small, "EUR").AmountCents, calculateSimple(rules, large, "EUR").AmountCents; a > b {
			t.Fatalf("the amount is %d for a sale of %d, but %d for a sale of %d", a, small.Cents, b, large.Cents)
		}
	})
}

func TestNetBasis_DeductsAtLeastAsMuchAsThePrevious(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sale := sales().Draw(t, "sale")
		before := sale.Cents
		for _, basis := range []program.NetBasis{program.Gross, program.NetOfTax, program.NetOfTaxShipping, program.NetOfTaxShippingAndFee} {
			base := sale.BaseCents(basis)
			if base > before || base < 0 {
				t.Fatalf("the base is %d with %s, but %d with the previous basis", base, basis, before)
			}
			before = base
		}
	})
}

func TestCalculate_SimpleRules(t *testing.T) {
	rate := func(bps int64) program.Rules {
		return program.Rules{Type: program.Percentage, RateBps: &bps, NetBasis: program.Gross}
	}
	flat := func(cents int64) program.Rules {
		return program.Rules{Type: program.Flat, FlatCents: &cents, NetBasis: program.Gross}
	}
	net := func(r program.Rules, b program.NetBasis) program.Rules { r.NetBasis = b; return r }
	sale := Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}, TaxCents: 1_900, ShippingCents: 500, FeeCents: 320}
	for name, tc := range map[string]struct {
		rules    program.Rules
		sale     Sale
		base     int64
		amount   int64
		currency string
		capped   bool
		flagged  bool
	}{
		"30 percent gross":                {rate(3000), sale, 10_000, 3_000, "EUR", false, false},
		"net of tax":                      {net(rate(3000), program.NetOfTax), sale, 8_100, 2_430, "EUR", false, false},
		"net of tax, shipping":            {net(rate(3000), program.NetOfTaxShipping), sale, 7_600, 2_280, "EUR", false, false},
		"net of everything":               {net(rate(3000), program.NetOfTaxShippingAndFee), sale, 7_280, 2_184, "EUR", false, false},
		"half a cent, rounded up":         {rate(50), Sale{Money: affiliate.Money{Cents: 100, Currency: "EUR"}}, 100, 1, "EUR", false, false},
		"under half a cent, rounded down": {rate(49), Sale{Money: affiliate.Money{Cents: 100, Currency: "EUR"}}, 100, 0, "EUR", false, false},
		"deductions above the amount":     {net(rate(3000), program.NetOfTax), Sale{Money: affiliate.Money{Cents: 100, Currency: "EUR"}, TaxCents: 200}, 0, 0, "EUR", false, false},
		"largest amount":                  {rate(affiliate.WholeBps), Sale{Money: affiliate.Money{Cents: affiliate.MaxAmountCents, Currency: "EUR"}}, affiliate.MaxAmountCents, affiliate.MaxAmountCents, "EUR", false, false},
		"flat":                            {flat(1_000), sale, 10_000, 1_000, "EUR", false, false},
		"flat above its base":             {flat(1_000), Sale{Money: affiliate.Money{Cents: 500, Currency: "EUR"}}, 500, 500, "EUR", true, false},
		"percentage of a dollar sale":     {rate(3000), Sale{Money: affiliate.Money{Cents: 10_000, Currency: "USD"}}, 10_000, 3_000, "USD", false, true},
		"flat for a dollar sale":          {flat(1_000), Sale{Money: affiliate.Money{Cents: 500, Currency: "USD"}}, 500, 1_000, "EUR", false, true},
		"flat without a price":            {flat(1_000), Sale{}, 0, 1_000, "EUR", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := calculateSimple(tc.rules, tc.sale, "EUR")
			if got.BaseAmountCents != tc.base || got.AmountCents != tc.amount || got.Currency != tc.currency ||
				got.CappedAtBase != tc.capped || (len(got.ReviewReasons) > 0) != tc.flagged {
				t.Errorf("calculation %+v; want base %d, amount %d %s, capped %v, flagged %v", got, tc.base, tc.amount, tc.currency, tc.capped, tc.flagged)
			}
		})
	}
}

// ref returns a pointer to a copy of value.
