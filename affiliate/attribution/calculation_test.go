package attribution

import (
	"math/big"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// exactAmount computes the amount of a calculation with rational numbers, from the parts
// that the calculation lists. It rounds half up once, and does not apply caps.
func exactAmount(calc Calculation, unpriced bool) int64 {
	if len(calc.Parts) == 0 {
		if calc.FlatCents != nil {
			return *calc.FlatCents
		}
		return halfUp(exactConversion(calc, big.NewRat(calc.BaseAmountCents**calc.RateBps, affiliate.WholeBps)))
	}
	whole := new(big.Rat)
	for _, part := range calc.Parts {
		whole.Add(whole, big.NewRat(part.AmountCents, 1))
	}
	sum, flats, orderPaid := new(big.Rat), int64(0), false
	for _, part := range calc.Parts {
		switch {
		case part.LeftOut:
		case part.FlatCents != nil && part.Source == FromProduct:
			flats += *part.FlatCents * part.Quantity
		case part.FlatCents != nil:
			if !orderPaid {
				flats += *part.FlatCents
			}
			orderPaid = true
		case !unpriced:
			weight := big.NewRat(1, int64(len(calc.Parts)))
			if whole.Sign() > 0 {
				weight = new(big.Rat).Quo(big.NewRat(part.AmountCents, 1), whole)
			}
			share := new(big.Rat).Mul(weight, big.NewRat(calc.BaseAmountCents, 1))
			sum.Add(sum, share.Mul(share, big.NewRat(*part.RateBps, affiliate.WholeBps)))
		}
	}
	return halfUp(exactConversion(calc, sum)) + flats
}

// halfUp returns r rounded half up, which is the floor of (2n + d) ÷ 2d.
func halfUp(r *big.Rat) int64 {
	double := new(big.Int).Lsh(r.Num(), 1)
	double.Add(double, r.Denom())
	return double.Quo(double, new(big.Int).Lsh(r.Denom(), 1)).Int64()
}

// exactConversion converts the amount with the exchange rate of the calculation.
func exactConversion(calc Calculation, amount *big.Rat) *big.Rat {
	if calc.FXRate == nil {
		return amount
	}
	rate, _ := new(big.Rat).SetString(*calc.FXRate)
	amount = new(big.Rat).Mul(amount, rate)
	for range affiliate.CurrencyExponent(calc.Currency) {
		amount.Mul(amount, big.NewRat(10, 1))
	}
	for range affiliate.CurrencyExponent(calc.BaseCurrency) {
		amount.Quo(amount, big.NewRat(10, 1))
	}
	return amount
}

// withRates adds an exchange rate to euros to about half of the inputs whose sale is in
// another currency.
func withRates(t *rapid.T, in Inputs) Inputs {
	if from := in.Sale.Currency; from != "" && from != "EUR" {
		if rate := maybe(t, fxRates(from, "EUR"), "rate of exchange"); rate != nil {
			in.Rates = map[string]FXRate{"EUR": *rate}
		}
	}
	return in
}

// fxRates generates rates between 0.001 and 10,000 with three decimals.
func fxRates(from, to string) *rapid.Generator[FXRate] {
	return rapid.Custom(func(t *rapid.T) FXRate {
		thousandths := rapid.OneOf(rapid.Int64Range(1, 2_000), rapid.Int64Range(1, 10_000_000)).Draw(t, "thousandths")
		return FXRate{Base: from, Quote: to, Date: FXDay(clickedAt), Rate: big.NewRat(thousandths, 1_000).FloatString(3)}
	})
}

func TestCalculate_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, e := withRates(t, attributionInputs().Draw(t, "inputs")), earners().Draw(t, "earner")
		calc := e.calculate(in, in.recurringIndex(e.Program))
		unpriced := !in.hasPrice()
		known := in.Sale.Currency == e.Currency || len(in.Rates) > 0
		bounded := !unpriced && (known || calc.Currency == in.Sale.Currency)
		base := halfUp(exactConversion(calc, big.NewRat(calc.BaseAmountCents, 1)))
		most := e.Rule.Rules.CapCents

		want := exactAmount(calc, unpriced)
		if most != nil && calc.Currency == e.Currency {
			if calc.CappedAtOrderCap != (want > *most) {
				t.Fatalf("CappedAtOrderCap is wrong for the amount %d and the cap %d: %+v", want, *most, calc)
			}
			want = min(want, *most)
		}
		if bounded {
			if calc.CappedAtBase != (want > base) {
				t.Fatalf("CappedAtBase is wrong for the amount %d and the base %d: %+v", want, base, calc)
			}
			want = min(want, base)
		}
		switch {
		case calc.AmountCents != want:
			t.Fatalf("amount %d, want %d: %+v", calc.AmountCents, want, calc)
		case calc.AmountCents < 0:
			t.Fatalf("the amount is negative: %+v", calc)
		case (calc.FXRate != nil) != (!unpriced && len(in.Rates) > 0), (calc.FXRate == nil) != (calc.FXDate == nil):
			t.Fatalf("exchange rate %v of %v, want both or none of them; rates %v: %+v", calc.FXRate, calc.FXDate, in.Rates, calc)
		case most != nil && calc.Currency == e.Currency && calc.AmountCents > *most:
			t.Fatalf("the amount is above the cap of %d: %+v", *most, calc)
		case (calc.RateBps == nil) == (calc.FlatCents == nil), calc.RateBps != nil != (calc.Type() == program.Percentage):
			t.Fatalf("Type() = %s, rate %v, flat amount %v", calc.Type(), calc.RateBps, calc.FlatCents)
		case calc.RateBps != nil && (*calc.RateBps < 0 || *calc.RateBps > affiliate.WholeBps):
			t.Fatalf("rate %d is not between 0 and %d: %+v", *calc.RateBps, affiliate.WholeBps, calc)
		case calc.Currency != e.Currency && (calc.Currency != in.Sale.Currency || calc.Type() != program.Percentage):
			t.Fatalf("the amount is in %s, the programme in %s, the sale in %s: %+v", calc.Currency, e.Currency, in.Sale.Currency, calc)
		case slices.Contains(calc.ReviewReasons, ReviewFXRateMissing) != (!unpriced && !known):
			t.Fatalf("review reasons %q, but an exchange rate is missing: %v", calc.ReviewReasons, !unpriced && !known)
		}
		mixed := false
		for _, part := range calc.Parts {
			mixed = mixed || part.Source != calc.Parts[0].Source
			if part.LeftOut != (part.FlatCents != nil && calc.Currency != e.Currency) {
				t.Fatalf("LeftOut of part %+v is wrong; the amount is in %s, the programme in %s", part, calc.Currency, e.Currency)
			}
		}
		if mixed != (calc.Source == FromMixed) {
			t.Fatalf("the source is %s, but the parts have different sources: %v", calc.Source, mixed)
		}
	})
}

// withHigherRates returns e with all percentages raised by moreBps and all flat amounts
// by moreCents, so that equal rates stay equal.
func withHigherRates(e Earner, moreBps, moreCents int64) Earner {
	raise := func(r program.Rate) program.Rate {
		if r.Bps != nil {
			r.Bps = new(*r.Bps + moreBps)
		}
		if r.FlatCents != nil {
			r.FlatCents = new(*r.FlatCents + moreCents)
		}
		return r
	}
	if e.Rule.Override != nil {
		e.Rule.Override = new(raise(*e.Rule.Override))
	}
	if e.Rule.Group != nil {
		e.Rule.Group = &GroupRate{Rate: raise(e.Rule.Group.Rate)}
	}
	r := &e.Rule.Rules
	own := raise(program.Rate{Bps: r.RateBps, FlatCents: r.FlatCents})
	r.RateBps, r.FlatCents = own.Bps, own.FlatCents
	r.LaterRateBps = raise(program.Rate{Bps: r.LaterRateBps}).Bps
	r.Tiers, r.Products, r.Events = slices.Clone(r.Tiers), slices.Clone(r.Products), slices.Clone(r.Events)
	for i := range r.Tiers {
		r.Tiers[i].RateBps += moreBps
	}
	for i := range r.Products {
		r.Products[i].Rate = raise(r.Products[i].Rate)
	}
	for i := range r.Events {
		r.Events[i].Rate = raise(r.Events[i].Rate)
	}
	return e
}

func TestCalculate_HigherRateNeverLowersAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, e := withRates(t, attributionInputs().Draw(t, "inputs")), earners().Draw(t, "earner")
		more := withHigherRates(e, rapid.Int64Range(0, affiliate.WholeBps/2).Draw(t, "more bps"), rapid.Int64Range(0, 10_000).Draw(t, "more cents"))
		index := in.recurringIndex(e.Program)
		before, after := e.calculate(in, index), more.calculate(in, index)
		if after.AmountCents < before.AmountCents || after.Source != before.Source {
			t.Fatalf("calculation %+v\nwith higher rates %+v", before, after)
		}
	})
}

func TestCalculate_OrderLines(t *testing.T) {
	const usd = "USD"
	products := []program.ProductRate{{ProductID: "book", Rate: bps(1000)}, {ProductID: "film", Rate: bps(5000)}, {ProductID: "cup", Rate: flat(150)}}
	percent := program.Rules{Type: program.Percentage, RateBps: new(int64(2000)), NetBasis: program.Gross, Products: products}
	fixed := program.Rules{Type: program.Flat, FlatCents: new(int64(700)), NetBasis: program.Gross, Products: products}
	capped := percent
	capped.CapCents = new(int64(1_000))
	net := percent
	net.NetBasis = program.NetOfTax
	for name, tc := range map[string]struct {
		rules    program.Rules
		sale     Sale
		items    []LineItem
		amount   int64
		kind     program.CommissionType
		rate     int64 // basis points or minor units, by kind
		source   RateSource
		currency string
		parts    int
	}{
		"weighted by amount": {
			percent,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
			[]LineItem{{"book", 1, 7_500}, {"film", 1, 2_500}},
			2_000, program.Percentage, 2_000, FromProduct, "EUR", 2,
		},
		"line amounts are only weights": { // they add up to half of the paid amount
			percent,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
			[]LineItem{{"book", 1, 3_750}, {"film", 1, 1_250}},
			2_000, program.Percentage, 2_000, FromProduct, "EUR", 2,
		},
		"percentages of the net base": {
			net,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}, TaxCents: 2_000},
			[]LineItem{{"book", 1, 7_500}, {"film", 1, 2_500}},
			1_600, program.Percentage, 2_000, FromProduct, "EUR", 2,
		},
		"a line without a rate of its own": {
			percent,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
			[]LineItem{{"book", 1, 5_000}, {"other", 1, 5_000}},
			1_500, program.Percentage, 1_500, FromMixed, "EUR", 2,
		},
		"no line with a rate of its own": {
			percent,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
			[]LineItem{{"other", 1, 5_000}, {"another", 1, 5_000}},
			2_000, program.Percentage, 2_000, FromProgram, "EUR", 0,
		},
		"rounded once, not for each line": { // 0.5 + 0.5, and not 1 + 1
			percent,
			Sale{Money: affiliate.Money{Cents: 10, Currency: "EUR"}},
			[]LineItem{{"book", 1, 5}, {"book", 1, 5}},
			1, program.Percentage, 1_000, FromProduct, "EUR", 2,
		},
		"lines with amount 0 have equal weights": {
			percent,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
			[]LineItem{{"book", 1, 0}, {"film", 7, 0}},
			3_000, program.Percentage, 3_000, FromProduct, "EUR", 2,
		},
		"flat amount of a product, paid for each unit": {
			percent,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
			[]LineItem{{"cup", 3, 5_000}, {"cup", 1, 5_000}},
			600, program.Flat, 600, FromProduct, "EUR", 2,
		},
		"flat rate of the order and flat products": { // 150 × 2 + 700 once
			fixed,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
			[]LineItem{{"cup", 2, 2_000}, {"other", 5, 4_000}, {"another", 1, 4_000}},
			1_000, program.Flat, 1_000, FromMixed, "EUR", 3,
		},
		"flat product and a percentage": { // 150 × 2 + 10 percent of four fifths
			percent,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
			[]LineItem{{"cup", 2, 2_000}, {"book", 1, 8_000}},
			1_100, program.Percentage, 1_100, FromProduct, "EUR", 2,
		},
		"above the base": {
			percent,
			Sale{Money: affiliate.Money{Cents: 100, Currency: "EUR"}},
			[]LineItem{{"cup", 2, 50}, {"book", 1, 50}},
			100, program.Percentage, affiliate.WholeBps, FromProduct, "EUR", 2,
		},
		"above the cap": { // the effective rate is computed before the cap is applied
			capped,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
			[]LineItem{{"film", 1, 5_000}, {"other", 1, 5_000}},
			1_000, program.Percentage, 3_500, FromMixed, "EUR", 2,
		},
		"another currency, percentages": {
			capped,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: usd}},
			[]LineItem{{"book", 1, 5_000}, {"film", 1, 5_000}},
			3_000, program.Percentage, 3_000, FromProduct, usd, 2,
		},
		"another currency, flat": {
			capped,
			Sale{Money: affiliate.Money{Cents: 100, Currency: usd}},
			[]LineItem{{"cup", 5, 100}},
			750, program.Flat, 750, FromProduct, "EUR", 1,
		},
		"another currency, flat and percentage": { // euros are not added to dollars
			percent,
			Sale{Money: affiliate.Money{Cents: 10_000, Currency: usd}},
			[]LineItem{{"cup", 5, 5_000}, {"book", 1, 5_000}},
			500, program.Percentage, 500, FromProduct, usd, 2,
		},
		"order of 0": {
			percent,
			Sale{Money: affiliate.Money{Cents: 0, Currency: "EUR"}},
			[]LineItem{{"book", 1, 0}, {"film", 1, 0}},
			0, program.Percentage, 0, FromProduct, "EUR", 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			calc := Earner{Currency: "EUR", Rule: RuleSnapshot{Rules: tc.rules}}.calculate(
				Inputs{EventType: affiliate.Purchase, Sale: tc.sale, LineItems: tc.items}, nil)
			rate := program.Rate{FlatCents: &tc.rate}
			if tc.kind == program.Percentage {
				rate = program.Rate{Bps: &tc.rate}
			}
			if calc.AmountCents != tc.amount || calc.Currency != tc.currency {
				t.Errorf("amount %d %s, want %d %s", calc.AmountCents, calc.Currency, tc.amount, tc.currency)
			}
			if calc.Type() != tc.kind || !reflect.DeepEqual(program.Rate{Bps: calc.RateBps, FlatCents: calc.FlatCents}, rate) || calc.Source != tc.source {
				t.Errorf("%s with rate %v or flat amount %v from %s, want %s with %d from %s",
					calc.Type(), calc.RateBps, calc.FlatCents, calc.Source, tc.kind, tc.rate, tc.source)
			}
			if len(calc.Parts) != tc.parts {
				t.Errorf("%d parts, want %d", len(calc.Parts), tc.parts)
			}
		})
	}
}

func TestCalculate_PartsListEveryLine(t *testing.T) {
	rules := program.Rules{Type: program.Percentage, RateBps: new(int64(2000)), NetBasis: program.Gross, Products: []program.ProductRate{{ProductID: "cup", Rate: flat(150)}}}
	calc := Earner{Currency: "EUR", Rule: RuleSnapshot{Rules: rules}}.calculate(Inputs{
		EventType: affiliate.Purchase, Sale: Sale{Money: affiliate.Money{Cents: 10_000, Currency: "USD"}}, LineItems: []LineItem{{"cup", 2, 3_000}, {"other", 1, 7_000}},
	}, nil)
	want := []CalculationPart{
		{ProductID: "cup", AmountCents: 3_000, Quantity: 2, FlatCents: new(int64(150)), Source: FromProduct, LeftOut: true},
		{ProductID: "other", AmountCents: 7_000, Quantity: 1, RateBps: new(int64(2000)), Source: FromProgram},
	}
	if !reflect.DeepEqual(calc.Parts, want) {
		t.Errorf("parts %+v\nwant  %+v", calc.Parts, want)
	}
}

func TestCalculate_LargestOrders(t *testing.T) {
	lines := make([]LineItem, 100)
	for i := range lines {
		lines[i] = LineItem{[]string{"book", "cup"}[i%2], 1_000_000, affiliate.MaxAmountCents}
	}
	for name, tc := range map[string]struct {
		book, cup program.Rate
		currency  string
		want      int64
	}{
		"percentages":                              {bps(affiliate.WholeBps), bps(affiliate.WholeBps), "EUR", affiliate.MaxAmountCents},
		"flat":                                     {flat(affiliate.MaxAmountCents), flat(affiliate.MaxAmountCents), "EUR", affiliate.MaxAmountCents},
		"flat, in another currency":                {flat(affiliate.MaxAmountCents), flat(affiliate.MaxAmountCents), "USD", affiliate.MaxAmountCents},
		"flat, sum does not fit into 64 bits":      {flat(1 << 62), flat(1 << 62), "USD", affiliate.MaxAmountCents},
		"flat and percentage":                      {bps(affiliate.WholeBps), flat(affiliate.MaxAmountCents), "EUR", affiliate.MaxAmountCents},
		"flat and percentage, in another currency": {bps(affiliate.WholeBps), flat(affiliate.MaxAmountCents), "USD", affiliate.MaxAmountCents / 2},
		"flat, event without a price":              {flat(affiliate.MaxAmountCents), flat(affiliate.MaxAmountCents), "", affiliate.MaxAmountCents},
	} {
		t.Run(name, func(t *testing.T) {
			rules := program.Rules{Type: program.Percentage, RateBps: new(int64(0)), NetBasis: program.Gross, Products: []program.ProductRate{{ProductID: "book", Rate: tc.book}, {ProductID: "cup", Rate: tc.cup}}}
			in := Inputs{EventType: affiliate.Purchase, LineItems: lines}
			if tc.currency != "" {
				in.Sale.Money = affiliate.Money{Cents: affiliate.MaxAmountCents, Currency: tc.currency}
			}
			if calc := (Earner{Currency: "EUR", Rule: RuleSnapshot{Rules: rules}}).calculate(in, nil); calc.AmountCents != tc.want {
				t.Errorf("amount %d, want %d", calc.AmountCents, tc.want)
			}
		})
	}
}

func TestCalculate_Caps(t *testing.T) {
	for name, tc := range map[string]struct {
		maximum          int64
		rate             program.Rate
		sale             affiliate.Money
		amount           int64
		cappedAtOrderCap bool
		cappedAtBase     bool
	}{
		"below the cap":                       {3_001, bps(3000), affiliate.Money{Cents: 10_000, Currency: "EUR"}, 3_000, false, false},
		"at the cap":                          {3_000, bps(3000), affiliate.Money{Cents: 10_000, Currency: "EUR"}, 3_000, false, false},
		"above the cap":                       {2_999, bps(3000), affiliate.Money{Cents: 10_000, Currency: "EUR"}, 2_999, true, false},
		"a flat amount":                       {900, flat(1_000), affiliate.Money{Cents: 10_000, Currency: "EUR"}, 900, true, false},
		"above the cap and the base":          {900, flat(1_000), affiliate.Money{Cents: 500, Currency: "EUR"}, 500, true, true},
		"above the base only":                 {1_000, flat(1_000), affiliate.Money{Cents: 500, Currency: "EUR"}, 500, false, true},
		"cap of 0":                            {0, bps(3000), affiliate.Money{Cents: 10_000, Currency: "EUR"}, 0, true, false},
		"in another currency":                 {100, bps(3000), affiliate.Money{Cents: 10_000, Currency: "USD"}, 3_000, false, false},
		"flat for a sale in another currency": {100, flat(1_000), affiliate.Money{Cents: 500, Currency: "USD"}, 100, true, false},
		"flat without a price":                {100, flat(1_000), affiliate.Money{}, 100, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			rule := RuleSnapshot{Override: &tc.rate, Rules: program.Rules{Type: program.Percentage, RateBps: new(int64(0)), NetBasis: program.Gross, CapCents: &tc.maximum}}
			calc := Earner{Currency: "EUR", Rule: rule}.calculate(Inputs{EventType: affiliate.Purchase, Sale: Sale{Money: tc.sale}}, nil)
			if calc.AmountCents != tc.amount || calc.CappedAtOrderCap != tc.cappedAtOrderCap || calc.CappedAtBase != tc.cappedAtBase {
				t.Errorf("amount %d, capped at the order cap %v, capped at the base %v; want %d, %v, %v",
					calc.AmountCents, calc.CappedAtOrderCap, calc.CappedAtBase, tc.amount, tc.cappedAtOrderCap, tc.cappedAtBase)
			}
		})
	}
}
