package affiliate

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func cents() *rapid.Generator[int64] { return rapid.Int64Range(0, MaxAmountCents) }

func sales() *rapid.Generator[Sale] {
	return rapid.Custom(func(t *rapid.T) Sale {
		return Sale{
			Paid:          Money{cents().Draw(t, "amount"), rapid.SampledFrom([]string{"EUR", "JPY", "KWD"}).Draw(t, "currency")},
			TaxCents:      cents().Draw(t, "tax"),
			ShippingCents: cents().Draw(t, "shipping"),
			FeeCents:      cents().Draw(t, "fee"),
		}
	})
}

func ruleSets() *rapid.Generator[Rules] {
	return rapid.Custom(func(t *rapid.T) Rules {
		r := Rules{NetBasis: rapid.SampledFrom([]NetBasis{Gross, NetOfTax, NetOfTaxShipping, NetOfTaxShippingAndFee}).Draw(t, "basis")}
		if rapid.Bool().Draw(t, "flat") {
			flat := cents().Draw(t, "flat amount")
			r.Type, r.FlatCents = Flat, &flat
		} else {
			rate := rapid.Int64Range(0, WholeBps).Draw(t, "rate")
			r.Type, r.RateBps = Percentage, &rate
		}
		return r
	})
}

// calculateSimple returns the calculation for a purchase under the given rules. currency
// is the currency of the programme.
func calculateSimple(rules Rules, sale Sale, currency string) Calculation {
	return Earner{Currency: currency, Rule: RuleSnapshot{Rules: rules}}.calculate(AttributionInputs{EventType: Purchase, Sale: sale}, nil)
}

func TestCalculate_AmountIsBetweenZeroAndBase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sale, rules := sales().Draw(t, "sale"), ruleSets().Draw(t, "rules")
		calc := calculateSimple(rules, sale, "EUR")
		if calc.AmountCents < 0 || calc.BaseAmountCents < 0 || calc.BaseAmountCents > sale.Paid.Cents {
			t.Fatalf("amount %d of base %d, want both to be at least 0, and the base at most %d", calc.AmountCents, calc.BaseAmountCents, sale.Paid.Cents)
		}
		if calc.Currency == sale.Paid.Currency && calc.AmountCents > calc.BaseAmountCents {
			t.Fatalf("the amount %d is above the base %d", calc.AmountCents, calc.BaseAmountCents)
		}
		if foreign := sale.Paid.Currency != "EUR"; foreign != slices.Contains(calc.ReviewReasons, ReviewFXRateMissing) {
			t.Fatalf("review reasons %q of a sale in %s", calc.ReviewReasons, sale.Paid.Currency)
		}
	})
}

func TestCalculate_PercentageIsRoundedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sale := sales().Draw(t, "sale")
		rate := rapid.Int64Range(0, WholeBps).Draw(t, "rate")
		rules := Rules{Type: Percentage, RateBps: &rate, NetBasis: NetOfTaxShipping}
		base := max(0, sale.Paid.Cents-sale.TaxCents-sale.ShippingCents)
		if got, want := calculateSimple(rules, sale, "EUR").AmountCents, roundedQuotient(base, rate, WholeBps).Int64(); got != want {
			t.Fatalf("amount %d for base %d and %d bps, want %d", got, base, rate, want)
		}
	})
}

func TestCalculate_LargerSaleNeverLowersAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small, rules := sales().Draw(t, "sale"), ruleSets().Draw(t, "rules")
		large := small
		large.Paid.Cents = rapid.Int64Range(small.Paid.Cents, MaxAmountCents).Draw(t, "larger")
		if a, b := calculateSimple(rules, small, "EUR").AmountCents, calculateSimple(rules, large, "EUR").AmountCents; a > b {
			t.Fatalf("the amount is %d for a sale of %d, but %d for a sale of %d", a, small.Paid.Cents, b, large.Paid.Cents)
		}
	})
}

func TestNetBasis_DeductsAtLeastAsMuchAsThePrevious(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sale := sales().Draw(t, "sale")
		before := sale.Paid.Cents
		for _, basis := range []NetBasis{Gross, NetOfTax, NetOfTaxShipping, NetOfTaxShippingAndFee} {
			base := sale.BaseCents(basis)
			if base > before || base < 0 {
				t.Fatalf("the base is %d with %s, but %d with the previous basis", base, basis, before)
			}
			before = base
		}
	})
}

func TestCalculate_SimpleRules(t *testing.T) {
	rate := func(bps int64) Rules { return Rules{Type: Percentage, RateBps: &bps, NetBasis: Gross} }
	flat := func(cents int64) Rules { return Rules{Type: Flat, FlatCents: &cents, NetBasis: Gross} }
	net := func(r Rules, b NetBasis) Rules { r.NetBasis = b; return r }
	sale := Sale{Paid: Money{10_000, "EUR"}, TaxCents: 1_900, ShippingCents: 500, FeeCents: 320}
	for name, tc := range map[string]struct {
		rules    Rules
		sale     Sale
		base     int64
		amount   int64
		currency string
		capped   bool
		flagged  bool
	}{
		"30 percent gross":                {rate(3000), sale, 10_000, 3_000, "EUR", false, false},
		"net of tax":                      {net(rate(3000), NetOfTax), sale, 8_100, 2_430, "EUR", false, false},
		"net of tax, shipping":            {net(rate(3000), NetOfTaxShipping), sale, 7_600, 2_280, "EUR", false, false},
		"net of everything":               {net(rate(3000), NetOfTaxShippingAndFee), sale, 7_280, 2_184, "EUR", false, false},
		"half a cent, rounded up":         {rate(50), Sale{Paid: Money{100, "EUR"}}, 100, 1, "EUR", false, false},
		"under half a cent, rounded down": {rate(49), Sale{Paid: Money{100, "EUR"}}, 100, 0, "EUR", false, false},
		"deductions above the amount":     {net(rate(3000), NetOfTax), Sale{Paid: Money{100, "EUR"}, TaxCents: 200}, 0, 0, "EUR", false, false},
		"largest amount":                  {rate(WholeBps), Sale{Paid: Money{MaxAmountCents, "EUR"}}, MaxAmountCents, MaxAmountCents, "EUR", false, false},
		"flat":                            {flat(1_000), sale, 10_000, 1_000, "EUR", false, false},
		"flat above its base":             {flat(1_000), Sale{Paid: Money{500, "EUR"}}, 500, 500, "EUR", true, false},
		"percentage of a dollar sale":     {rate(3000), Sale{Paid: Money{10_000, "USD"}}, 10_000, 3_000, "USD", false, true},
		"flat for a dollar sale":          {flat(1_000), Sale{Paid: Money{500, "USD"}}, 500, 1_000, "EUR", false, true},
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

func TestNewCommission_StatusAndDueDates(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		holdDays int
		auto     bool
		flagged  bool
		status   CommissionStatus
		hold     *time.Time
		approve  *time.Time
	}{
		"hold, automatic":             {30, true, false, CommissionPending, daysAfter(at, 30), daysAfter(at, 30)},
		"hold, manual approval":       {30, false, false, CommissionPending, daysAfter(at, 30), nil},
		"hold, flagged":               {30, true, true, CommissionPending, daysAfter(at, 30), daysAfter(at, 30)},
		"no hold, automatic":          {0, true, false, CommissionApproved, nil, daysAfter(at, 0)},
		"no hold, manual approval":    {0, false, false, CommissionPending, nil, nil},
		"no hold, automatic, flagged": {0, true, true, CommissionPending, nil, daysAfter(at, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			calc := Calculation{AmountCents: 5, FlatCents: ref[int64](5), ReviewReasons: []string{}}
			if tc.flagged {
				calc.ReviewReasons = []string{ReviewFXRateMissing}
			}
			rules := Rules{HoldDays: tc.holdDays, AutoApproval: tc.auto}
			code, index := "spring10", 2
			d := Decision{PromoCode: &code, RecurringIndex: &index, Earning: &Earning{Earner: Earner{Rule: RuleSnapshot{Version: 3, Rules: rules, Source: FromParticipant, Override: &Rate{FlatCents: ref[int64](5)}}}, Calculation: calc}}
			c := NewCommission(NewID[CommissionID](at), Conversion{}, d, at)
			if c.Status != tc.status || !equalTimes(c.HoldUntil, tc.hold) || !equalTimes(c.AutoApproveAt, tc.approve) {
				t.Errorf("status %s, hold until %v, approve at %v; want %s, %v, %v", c.Status, c.HoldUntil, c.AutoApproveAt, tc.status, tc.hold, tc.approve)
			}
			if approved := c.Status == CommissionApproved; approved != (c.ApprovedAt != nil) || approved != (c.ApprovedBy != nil) {
				t.Errorf("status %s, but approved at %v by %v", c.Status, c.ApprovedAt, c.ApprovedBy)
			}
			if c.Version != 1 || c.OriginalAmountCents != 5 || !reflect.DeepEqual(c.Rule, d.Earning.Earner.Rule) ||
				*c.PromoCode != code || *c.RecurringIndex != index {
				t.Errorf("commission %+v\nwant version 1, original amount 5, and the rule, promo code and index of the decision", c)
			}
		})
	}
}

// The type of a commission depends on the applied rate, not on the type of the
// programme's rules.
func TestNewCommission_HasTypeOfAppliedRate(t *testing.T) {
	for name, tc := range map[string]struct {
		override Rate
		want     CommissionType
	}{
		"flat":       {Rate{FlatCents: ref[int64](700)}, Flat},
		"percentage": {Rate{Bps: ref[int64](0)}, Percentage},
	} {
		for _, rules := range []Rules{{Type: Percentage, RateBps: ref[int64](3000)}, {Type: Flat, FlatCents: ref[int64](100)}} {
			t.Run(name+" in "+string(rules.Type), func(t *testing.T) {
				in := matchingInputs()
				in.FoundClick.Earner.Rule = RuleSnapshot{Version: 1, Rules: rules, Override: &tc.override}
				c := NewCommission(NewID[CommissionID](clickedAt), Conversion{}, Attribute(in), clickedAt)
				if c.Type != tc.want || !reflect.DeepEqual(Rate{c.RateBps, c.FlatCents}, tc.override) || c.Rule.Source != FromParticipant {
					t.Errorf("type %s, rate %v, flat amount %v, source %s; want %s with %+v from %s",
						c.Type, c.RateBps, c.FlatCents, c.Rule.Source, tc.want, tc.override, FromParticipant)
				}
			})
		}
	}
}

// ref returns a pointer to a copy of value.
func ref[T any](value T) *T { return &value }

func daysAfter(t time.Time, days int) *time.Time {
	t = t.Add(time.Duration(days) * 24 * time.Hour)
	return &t
}

func equalTimes(a, b *time.Time) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Equal(*b))
}
