package attribution

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

func bps(n int64) program.Rate  { return program.Rate{Bps: &n} }
func flat(n int64) program.Rate { return program.Rate{FlatCents: &n} }

// everyLevel returns a participant with a rate at each level: 1 percent at the most
// specific level, 2 percent at the next level, and so on.
func everyLevel() Earner {
	return Earner{
		Currency: "EUR",
		Rule: RuleSnapshot{
			Override: new(bps(100)),
			Group:    &GroupRate{Rate: bps(300)},
			Rules: program.Rules{
				Type: program.Percentage, RateBps: new(int64(700)), NetBasis: program.Gross,
				Products:     []program.ProductRate{{ProductID: "book", Rate: bps(200)}},
				Tiers:        []program.Tier{{MinConversions: new(int64(0)), RateBps: 400}},
				Events:       []program.EventRate{{EventType: affiliate.Renewal, Rate: bps(500)}, {EventType: affiliate.Purchase}},
				LaterRateBps: new(int64(600)),
			},
		},
	}
}

func TestCalculate_UsesMostSpecificRate(t *testing.T) {
	e := everyLevel()
	in := Inputs{
		EventType: affiliate.Renewal, Sale: Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}}, IsRecurring: true, ProductIDs: []string{"book"},
	}
	for i, level := range []struct {
		source RateSource
		remove func()
	}{
		{FromParticipant, func() { e.Rule.Override = nil }},
		{FromProduct, func() { e.Rule.Rules.Products = nil }},
		{FromGroup, func() { e.Rule.Group = nil }},
		{FromTier, func() { e.Rule.Rules.Tiers = nil }},
		{FromEvent, func() { e.Rule.Rules.Events = []program.EventRate{{EventType: affiliate.Renewal}} }},
		{FromLaterPayments, func() { e.Rule.Rules.LaterRateBps = nil }},
		{FromProgram, func() {}},
	} {
		calc := e.calculate(in, nil)
		if want := int64(i+1) * 100; calc.Source != level.source || calc.AmountCents != want || *calc.RateBps != want || calc.Parts != nil {
			t.Errorf("calculation %+v, want rate and amount %d from %s", calc, want, level.source)
		}
		level.remove()
	}
}

// The test sets rates at random levels. The most specific rate must apply. For an event
// without a price, the most specific flat amount must apply, if there is one.
func TestCalculate_UsesFirstApplicableRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type level struct {
			source RateSource
			rate   program.Rate
		}
		var levels []level
		add := func(source RateSource, rate *program.Rate) *program.Rate {
			if rate != nil {
				levels = append(levels, level{source, *rate})
			}
			return rate
		}
		percentages := rapid.Map(rapid.Int64Range(0, affiliate.WholeBps), bps)
		e := Earner{Currency: "EUR"}
		e.Rule.Override = add(FromParticipant, maybe(t, rates(), "override"))
		if product := add(FromProduct, maybe(t, rates(), "product")); product != nil {
			e.Rule.Rules.Products = []program.ProductRate{{ProductID: "song", Rate: flat(1)}, {ProductID: "book", Rate: *product}}
		}
		if group := add(FromGroup, maybe(t, rates(), "group")); group != nil {
			e.Rule.Group = &GroupRate{Rate: *group}
		}
		if tier := add(FromTier, maybe(t, percentages, "tier")); tier != nil {
			e.Rule.Rules.Tiers = []program.Tier{{MinRevenueCents: new(int64(0)), RateBps: *tier.Bps}}
		}
		if event := add(FromEvent, maybe(t, rates(), "event")); event != nil {
			e.Rule.Rules.Events = []program.EventRate{{EventType: affiliate.Purchase, Rate: bps(1)}, {EventType: affiliate.Renewal, Rate: *event}}
		}
		if later := add(FromLaterPayments, maybe(t, percentages, "later")); later != nil {
			e.Rule.Rules.LaterRateBps = later.Bps
		}
		own := rates().Draw(t, "own")
		add(FromProgram, &own)
		e.Rule.Rules.Type, e.Rule.Rules.RateBps, e.Rule.Rules.FlatCents = program.Percentage, own.Bps, own.FlatCents
		if own.FlatCents != nil {
			e.Rule.Rules.Type = program.Flat
		}

		in := Inputs{EventType: affiliate.Renewal, ProductIDs: []string{"book", "book"}}
		want := levels[0]
		if rapid.Bool().Draw(t, "priced") {
			in.Sale.Money = affiliate.Money{Cents: affiliate.MaxAmountCents, Currency: "EUR"}
		} else {
			for i := len(levels) - 1; i >= 0; i-- {
				if levels[i].rate.FlatCents != nil {
					want = levels[i]
				}
			}
		}
		calc := e.calculate(in, nil)
		if calc.Source != want.source || !reflect.DeepEqual(program.Rate{Bps: calc.RateBps, FlatCents: calc.FlatCents}, want.rate) {
			t.Fatalf("calculation %+v, want the rate %+v", calc, want)
		}
		if amount := affiliate.OrZero(want.rate.FlatCents) + affiliate.Share(in.Sale.Cents, affiliate.OrZero(want.rate.Bps)); calc.AmountCents != amount {
			t.Fatalf("amount %d, want %d", calc.AmountCents, amount)
		}
	})
}

func TestCalculate_EventWithoutPriceEarnsFlatAmount(t *testing.T) {
	signups := func(own program.Rate) []program.EventRate {
		return []program.EventRate{{EventType: affiliate.Signup, Rate: own}}
	}
	for name, tc := range map[string]struct {
		rule   RuleSnapshot
		items  []LineItem
		source RateSource
		amount int64
		kind   program.CommissionType
	}{
		"flat rate of the event": {
			RuleSnapshot{Rules: program.Rules{Type: program.Percentage, RateBps: new(int64(1000)), Events: signups(flat(500))}},
			nil, FromEvent, 500, program.Flat,
		},
		"percentage of the participant is skipped": {
			RuleSnapshot{Override: new(bps(5000)), Rules: program.Rules{Type: program.Flat, FlatCents: new(int64(300))}},
			nil, FromProgram, 300, program.Flat,
		},
		"percentage of the event is skipped": {
			RuleSnapshot{Rules: program.Rules{Type: program.Flat, FlatCents: new(int64(300)), Events: signups(bps(1000))}},
			nil, FromProgram, 300, program.Flat,
		},
		"no flat amount anywhere": {
			RuleSnapshot{Override: new(bps(5000)), Rules: program.Rules{Type: program.Percentage, RateBps: new(int64(1000))}},
			nil, FromParticipant, 0, program.Percentage,
		},
		"flat rate of a product, percentage of the participant is skipped": {
			RuleSnapshot{Override: new(bps(5000)), Rules: program.Rules{
				Type: program.Percentage, RateBps: new(int64(1000)), Products: []program.ProductRate{{ProductID: "book", Rate: flat(200)}},
			}},
			[]LineItem{{"book", 3, 0}},
			FromProduct, 600, program.Flat,
		},
		"percentage of a product is skipped": {
			RuleSnapshot{Rules: program.Rules{Type: program.Flat, FlatCents: new(int64(300)), Products: []program.ProductRate{{ProductID: "book", Rate: bps(200)}}}},
			[]LineItem{{"book", 3, 0}, {"film", 1, 0}},
			FromProgram, 300, program.Flat,
		},
		"flat rate of one product, percentage of another": {
			RuleSnapshot{Rules: program.Rules{
				Type: program.Percentage, RateBps: new(int64(1000)), Products: []program.ProductRate{{ProductID: "book", Rate: bps(200)}, {ProductID: "film", Rate: flat(70)}},
			}},
			[]LineItem{{"book", 3, 0}, {"film", 2, 0}},
			FromProduct, 140, program.Percentage,
		},
		"never above the cap": {
			RuleSnapshot{Rules: program.Rules{Type: program.Flat, FlatCents: new(int64(300)), CapCents: new(int64(250))}},
			nil, FromProgram, 250, program.Flat,
		},
	} {
		t.Run(name, func(t *testing.T) {
			calc := Earner{Currency: "EUR", Rule: tc.rule}.calculate(Inputs{EventType: affiliate.Signup, LineItems: tc.items}, nil)
			if calc.Source != tc.source || calc.AmountCents != tc.amount || calc.Type() != tc.kind || calc.Currency != "EUR" || len(calc.ReviewReasons) > 0 ||
				(calc.Parts != nil) != (tc.source == FromProduct) {
				t.Errorf("calculation %+v, want the amount %d EUR (%s) from %s, without review", calc, tc.amount, tc.kind, tc.source)
			}
		})
	}
}

func TestCalculate_ProductRatesWithoutOrderLines(t *testing.T) {
	rules := program.Rules{Type: program.Percentage, RateBps: new(int64(1000)), NetBasis: program.Gross, Products: []program.ProductRate{
		{ProductID: "book", Rate: bps(500)}, {ProductID: "film", Rate: bps(500)}, {ProductID: "song", Rate: bps(600)}, {ProductID: "cup", Rate: flat(250)}, {ProductID: "mug", Rate: flat(250)},
	}}
	for name, tc := range map[string]struct {
		products []string
		source   RateSource
		amount   int64
	}{
		"no product":                        {nil, FromProgram, 1_000},
		"one product":                       {[]string{"book"}, FromProduct, 500},
		"the same product twice":            {[]string{"book", "book"}, FromProduct, 500},
		"two products with the same rate":   {[]string{"book", "film"}, FromProduct, 500},
		"two products with different rates": {[]string{"book", "song"}, FromProgram, 1_000},
		"the second product has no rate":    {[]string{"book", "other"}, FromProgram, 1_000},
		"the first product has no rate":     {[]string{"other", "book"}, FromProgram, 1_000},
		"a flat amount is paid once":        {[]string{"cup", "mug"}, FromProduct, 250},
		"a flat amount and a percentage":    {[]string{"cup", "book"}, FromProgram, 1_000},
	} {
		t.Run(name, func(t *testing.T) {
			in := Inputs{EventType: affiliate.Purchase, Sale: Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}}, ProductIDs: tc.products}
			calc := Earner{Currency: "EUR", Rule: RuleSnapshot{Rules: rules}}.calculate(in, nil)
			if calc.Source != tc.source || calc.AmountCents != tc.amount || calc.Parts != nil {
				t.Errorf("amount %d from %s with parts %v, want %d from %s without parts", calc.AmountCents, calc.Source, calc.Parts, tc.amount, tc.source)
			}
		})
	}
}

// If the report has order lines, the list of product ids is not used.
func TestCalculate_OrderLinesTakePrecedenceOverProductIDs(t *testing.T) {
	rules := program.Rules{Type: program.Percentage, RateBps: new(int64(1000)), NetBasis: program.Gross, Products: []program.ProductRate{{ProductID: "book", Rate: bps(500)}}}
	in := Inputs{
		EventType: affiliate.Purchase, Sale: Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}}, ProductIDs: []string{"book"}, LineItems: []LineItem{{"other", 1, 10_000}},
	}
	if calc := (Earner{Currency: "EUR", Rule: RuleSnapshot{Rules: rules}}).calculate(in, nil); calc.Source != FromProgram || calc.AmountCents != 1_000 {
		t.Errorf("amount %d from %s, want 1000 from %s", calc.AmountCents, calc.Source, FromProgram)
	}
}

func TestCalculate_TierStartsAtItsThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		byRevenue := rapid.Bool().Draw(t, "by revenue")
		low := rapid.Int64Range(1, 1_000_000).Draw(t, "low")
		high := low + rapid.Int64Range(2, 1_000_000).Draw(t, "more")
		tier := func(threshold, rate int64) program.Tier {
			if byRevenue {
				return program.Tier{MinRevenueCents: &threshold, RateBps: rate}
			}
			return program.Tier{MinConversions: &threshold, RateBps: rate}
		}
		rules := program.Rules{Type: program.Percentage, RateBps: new(int64(100)), NetBasis: program.Gross, Tiers: []program.Tier{tier(low, 200), tier(high, 300)}}
		for _, tc := range []struct {
			total, rate int64
			source      RateSource
		}{
			{0, 100, FromProgram},
			{low - 1, 100, FromProgram},
			{low, 200, FromTier},
			{low + 1, 200, FromTier},
			{high - 1, 200, FromTier},
			{high, 300, FromTier},
			{high + 1, 300, FromTier},
		} {
			// The total that the thresholds do not refer to must have no effect.
			totals := PriorTotals{Conversions: tc.total, RevenueCents: 10 * high}
			if byRevenue {
				totals = PriorTotals{Conversions: 10 * high, RevenueCents: tc.total}
			}
			e := Earner{Currency: "EUR", Rule: RuleSnapshot{Rules: rules}, PriorTotals: totals}
			calc := e.calculate(Inputs{EventType: affiliate.Purchase, Sale: Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}}}, nil)
			if *calc.RateBps != tc.rate || calc.Source != tc.source || *calc.PriorTotals != totals {
				t.Fatalf("total %d, thresholds %d and %d: calculation %+v, want rate %d from %s and totals %v",
					tc.total, low, high, calc, tc.rate, tc.source, totals)
			}
		}
	})
}

func TestCalculate_LaterRateStartsWithSecondPayment(t *testing.T) {
	for name, tc := range map[string]struct {
		in    Inputs
		index *int
		later bool
	}{
		"first payment":  {Inputs{EventType: affiliate.Purchase, Customer: &FoundCustomer{}}, new(1), false},
		"second payment": {Inputs{EventType: affiliate.Purchase, Customer: &FoundCustomer{}}, new(2), true},
		"renewal that is the first known payment": {Inputs{EventType: affiliate.Renewal, Customer: &FoundCustomer{}, IsRecurring: true}, new(1), false},
		"renewal without a customer":              {Inputs{EventType: affiliate.Renewal}, nil, true},
		"recurring purchase without a customer":   {Inputs{EventType: affiliate.Purchase, IsRecurring: true}, nil, true},
		"purchase without a customer":             {Inputs{EventType: affiliate.Purchase}, nil, false},
		"custom event of a known customer":        {Inputs{EventType: affiliate.Custom, Customer: &FoundCustomer{}, IsRecurring: true}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.Sale.Money = affiliate.Money{Cents: 10_000, Currency: "EUR"}
			rules := program.Rules{Type: program.Flat, FlatCents: new(int64(900)), NetBasis: program.Gross, LaterRateBps: new(int64(500))}
			calc := Earner{Currency: "EUR", Rule: RuleSnapshot{Rules: rules}}.calculate(tc.in, tc.index)
			wantSource, wantCents := FromProgram, int64(900)
			if tc.later {
				wantSource, wantCents = FromLaterPayments, 500
			}
			if calc.Source != wantSource || calc.AmountCents != wantCents {
				t.Errorf("amount %d from %s, want %d from %s", calc.AmountCents, calc.Source, wantCents, wantSource)
			}
		})
	}
}

func TestRules_RateText(t *testing.T) {
	percent := program.Rules{Type: program.Percentage, RateBps: new(int64(2000))}
	fixed := program.Rules{Type: program.Flat, FlatCents: new(int64(500))}
	with := func(r program.Rules, change func(*program.Rules)) program.Rules {
		change(&r)
		return r
	}
	year := program.Recurring{MaxMonths: new(12)}
	for want, tc := range map[string]struct {
		rules program.Rules
		own   *program.Rate
	}{
		"20% of each sale":                {rules: percent},
		"20% of each sale, for 12 months": {rules: with(percent, func(r *program.Rules) { r.Recurring = year })},
		"20% of each sale, for 1 month, for at most 6 payments of a customer": {rules: with(percent, func(r *program.Rules) {
			r.Recurring = program.Recurring{MaxMonths: new(1), MaxPayments: new(6)}
		})},
		"22.5% of each sale, for 12 months": {
			rules: with(percent, func(r *program.Rules) {
				r.Recurring, r.LaterRateBps, r.Tiers = year, new(int64(1000)), []program.Tier{{RateBps: 3000}}
			}),
			own: &program.Rate{Bps: new(int64(2250))},
		},
		"20% of each sale, 10% from a customer's second payment on, 30% after many sales, with other rates in some cases": {
			rules: with(percent, func(r *program.Rules) {
				r.LaterRateBps, r.Tiers, r.Products = new(int64(1000)), []program.Tier{{RateBps: 2500}, {RateBps: 3000}}, []program.ProductRate{{ProductID: "p"}}
			}),
		},
		"20% of a customer's first sale": {rules: with(percent, func(r *program.Rules) { r.Recurring.FirstPaymentOnly = true })},
		"5.00 EUR for each sale":         {rules: fixed},
		"5.00 EUR for each conversion":   {rules: with(fixed, func(r *program.Rules) { r.Events = []program.EventRate{{EventType: affiliate.Signup}} })},
		"7.00 EUR for each sale":         {rules: percent, own: &program.Rate{FlatCents: new(int64(700))}},
	} {
		if got := tc.rules.RateText(tc.own, "EUR"); got != want {
			t.Errorf("RateText returned %q, want %q", got, want)
		}
	}
}
