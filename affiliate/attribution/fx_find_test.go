package attribution

import (
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// ratesOn returns rates of one date. Each pair is written as "EUR USD 1.08".
func ratesOn(date string, pairs ...string) []FXRate {
	day, _ := time.Parse(time.DateOnly, date)
	var rates []FXRate
	for _, pair := range pairs {
		cells := strings.Fields(pair)
		rates = append(rates, FXRate{Base: cells[0], Quote: cells[1], Date: day, Rate: cells[2]})
	}
	return rates
}

func TestFindRate(t *testing.T) {
	for name, tc := range map[string]struct {
		rates      []FXRate
		rate, date string // empty if there is no rate
	}{
		"the pair itself":               {ratesOn("2026-03-10", "USD EUR 0.92000"), "0.92", "2026-03-10"},
		"oldest allowed date":           {ratesOn("2026-03-03", "USD EUR 0.92"), "0.92", "2026-03-03"},
		"a day too old":                 {ratesOn("2026-03-02", "USD EUR 0.92"), "", ""},
		"date after the sale":           {ratesOn("2026-03-11", "USD EUR 0.92"), "", ""},
		"the inverse":                   {ratesOn("2026-03-10", "EUR USD 1.08"), "0.9259259259", "2026-03-10"},
		"finite inverse":                {ratesOn("2026-03-10", "EUR USD 1.6"), "0.625", "2026-03-10"},
		"common base":                   {ratesOn("2026-03-10", "GBP USD 1.27", "GBP EUR 1.17"), "0.9212598425", "2026-03-10"},
		"common base, rounded up":       {ratesOn("2026-03-10", "GBP USD 3", "GBP EUR 2"), "0.6666666667", "2026-03-10"},
		"two common bases":              {ratesOn("2026-03-10", "GBP USD 1", "GBP EUR 3", "CHF USD 1", "CHF EUR 2"), "2", "2026-03-10"},
		"no common base":                {ratesOn("2026-03-10", "GBP USD 1", "CHF EUR 2"), "", ""},
		"common base, different dates":  {append(ratesOn("2026-03-10", "GBP USD 1.27"), ratesOn("2026-03-09", "GBP EUR 1.17")...), "", ""},
		"pair before inverse":           {ratesOn("2026-03-10", "EUR USD 2", "USD EUR 0.7"), "0.7", "2026-03-10"},
		"inverse before common base":    {ratesOn("2026-03-10", "CHF USD 1", "CHF EUR 3", "EUR USD 2"), "0.5", "2026-03-10"},
		"later date before direct pair": {append(ratesOn("2026-03-09", "USD EUR 0.7"), ratesOn("2026-03-10", "CHF USD 1", "CHF EUR 3")...), "3", "2026-03-10"},
		"very large":                    {ratesOn("2026-03-10", "EUR USD 0.000000000007"), "142857142900", "2026-03-10"},
		"very small":                    {ratesOn("2026-03-10", "EUR USD 700000000000"), "0.000000000001428571429", "2026-03-10"},
		"a power of ten":                {ratesOn("2026-03-10", "EUR USD 1000"), "0.001", "2026-03-10"},
		"rounded up to 1":               {ratesOn("2026-03-10", "EUR USD 1.00000000001"), "1", "2026-03-10"},
		"no rates":                      {nil, "", ""},
		"only rates of other pairs":     {ratesOn("2026-03-10", "USD GBP 0.92", "GBP JPY 190"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			at := time.Date(2026, 3, 10, 23, 59, 59, 0, time.UTC)
			got, ok := FindRate(tc.rates, "USD", "EUR", FXDay(at))
			if ok != (tc.rate != "") || ok && (got.Rate != tc.rate || got.Date.Format(time.DateOnly) != tc.date || got.Base != "USD" || got.Quote != "EUR") {
				t.Errorf("FindRate returns %+v, %v; want rate %q of %q", got, ok, tc.rate, tc.date)
			}
		})
	}
}

func TestFXDay_IsTheUTCDay(t *testing.T) {
	at := time.Date(2026, 3, 10, 23, 30, 0, 0, time.FixedZone("", -2*3600))
	if got, want := FXDay(at).Format(time.DateTime), "2026-03-11 00:00:00"; got != want {
		t.Errorf("FXDay(%s) = %s, want %s", at, got, want)
	}
}

// A rounded rate must have at most ten significant digits. It must differ from the exact
// rate by at most half of a unit of its last digit.
func TestSignificant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		exact := big.NewRat(rapid.Int64Range(1, 1<<40).Draw(t, "numerator"), rapid.Int64Range(1, 1<<40).Draw(t, "denominator"))
		written := significant(exact)
		digits := strings.TrimLeft(strings.ReplaceAll(written, ".", ""), "0")
		if strings.Contains(written, ".") && strings.HasSuffix(written, "0") {
			t.Fatalf("%s ends with zeros", written)
		}
		if len(strings.TrimRight(digits, "0")) > 10 {
			t.Fatalf("%s has more than 10 significant digits", written)
		}
		got, ok := new(big.Rat).SetString(written)
		if !ok {
			t.Fatalf("%q is not a number", written)
		}
		difference := new(big.Rat).Sub(got, exact)
		limit := new(big.Rat).Quo(exact, big.NewRat(2_000_000_000, 1))
		if difference.Abs(difference).Cmp(limit) > 0 {
			t.Fatalf("%s differs too much from %s", written, exact.FloatString(30))
		}
	})
}

func TestParseRate(t *testing.T) {
	for in, want := range map[string]string{
		"1.0800": "1.08", "0.92": "0.92", "190": "190", "007.5": "7.5", "100": "100", "0.000000000001": "0.000000000001", "999999999999": "999999999999",
		"": "", "0": "", "0.000": "", "-1": "", "+1": "", "1e3": "", "1/3": "", ".5": "", "5.": "", "1,08": "", "1.2.3": "", "NaN": "", "Inf": "", " 1": "", "0x1": "", "1_000": "",
		"1000000000000": "", "0.0000000000001": "",
	} {
		got, ok := ParseRate(in)
		if got != want || ok != (want != "") {
			t.Errorf("ParseRate(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
}

func TestCalculate_ExchangeRateOfOneChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sale, rules := orders().Draw(t, "sale"), fullRules().Draw(t, "rules")
		in := Inputs{EventType: affiliate.Purchase, Sale: sale, LineItems: lineItems().Draw(t, "lines"), OccurredAt: clickedAt}
		e := Earner{Currency: "EUR", Rule: RuleSnapshot{Rules: rules}}
		in.Sale.Currency = "EUR"
		own := e.calculate(in, nil)
		in.Sale.Currency = "USD"
		in.Rates = map[string]FXRate{"EUR": {Base: "USD", Quote: "EUR", Date: FXDay(clickedAt), Rate: "1"}}
		foreign := e.calculate(in, nil)
		if own.AmountCents != foreign.AmountCents || own.Currency != foreign.Currency || own.CappedAtBase != foreign.CappedAtBase ||
			own.CappedAtOrderCap != foreign.CappedAtOrderCap || !sameRate(program.Rate{Bps: own.RateBps, FlatCents: own.FlatCents}, program.Rate{Bps: foreign.RateBps, FlatCents: foreign.FlatCents}) {
			t.Fatalf("the calculation in euros is %+v\nthe calculation in dollars with rate 1 is %+v", own, foreign)
		}
	})
}

func TestCalculate_ConvertedAmountGrowsWithTheSale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SampledFrom([]string{"USD", "JPY", "KWD"}).Draw(t, "sale's currency")
		to := rapid.SampledFrom([]string{"EUR", "ISK", "BHD"}).Draw(t, "programme's currency")
		rate := fxRates(from, to).Draw(t, "rate")
		e := Earner{Currency: to, Rule: RuleSnapshot{Rules: fullRules().Draw(t, "rules")}}
		in := Inputs{
			EventType: affiliate.Purchase, OccurredAt: clickedAt, LineItems: lineItems().Draw(t, "lines"), Rates: map[string]FXRate{to: rate},
			Sale: Sale{Money: affiliate.Money{Cents: rapid.Int64Range(0, 1_000_000).Draw(t, "amount"), Currency: from}},
		}
		small := e.calculate(in, nil)
		base, _ := rate.Convert(new(big.Rat).SetInt64(in.Sale.Cents))
		if base > affiliate.MaxAmountCents {
			return
		}
		if small.Currency != to || small.AmountCents > base || small.AmountCents < 0 || len(small.ReviewReasons) > 0 {
			t.Fatalf("calculation %+v, want an amount between 0 and %d %s without review reasons", small, base, to)
		}
		in.Sale.Cents += rapid.Int64Range(0, 1_000_000).Draw(t, "more")
		if base, _ := rate.Convert(new(big.Rat).SetInt64(in.Sale.Cents)); base > affiliate.MaxAmountCents {
			return // not converted, and flagged for review
		}
		if large := e.calculate(in, nil); large.AmountCents < small.AmountCents {
			t.Fatalf("calculation %+v\nfor a larger sale %+v", small, large)
		}
	})
}

func TestCalculate_SalesInAnotherCurrency(t *testing.T) {
	rates := func(rate FXRate) map[string]FXRate { return map[string]FXRate{rate.Quote: rate} }
	usd := rates(ratesOn("2026-03-09", "USD EUR 0.9259259259")[0])
	yen := rates(ratesOn("2026-03-10", "JPY EUR 0.00621")[0])
	dinar := rates(ratesOn("2026-03-10", "KWD JPY 489.57")[0])
	percent := program.Rules{Type: program.Percentage, RateBps: new(int64(3000)), NetBasis: program.Gross, Products: []program.ProductRate{{ProductID: "cup", Rate: flat(150)}}}
	capped := percent
	capped.CapCents = new(int64(2_000))
	net := percent
	net.NetBasis = program.NetOfTax
	fixed := program.Rules{Type: program.Flat, FlatCents: new(int64(700)), NetBasis: program.Gross}
	for name, tc := range map[string]struct {
		rules    program.Rules
		sale     Sale
		items    []LineItem
		rates    map[string]FXRate
		program  string
		amount   int64
		currency string
		flagged  bool

		cappedAtOrderCap, cappedAtBase bool
	}{
		"dollars to euros":                    {percent, Sale{Money: affiliate.Money{Cents: 10_000, Currency: "USD"}}, nil, usd, "EUR", 2_778, "EUR", false, false, false}, // 3000 × 0.9259259259
		"of the net base":                     {net, Sale{Money: affiliate.Money{Cents: 10_000, Currency: "USD"}, TaxCents: 1_000}, nil, usd, "EUR", 2_500, "EUR", false, false, false},
		"rounded once":                        {percent, Sale{Money: affiliate.Money{Cents: 5, Currency: "USD"}}, nil, usd, "EUR", 1, "EUR", false, false, false}, // 1.39, not round(round(1.5) × 0.93) = 2
		"above the cap":                       {capped, Sale{Money: affiliate.Money{Cents: 10_000, Currency: "USD"}}, nil, usd, "EUR", 2_000, "EUR", false, true, false},
		"yen to cents":                        {percent, Sale{Money: affiliate.Money{Cents: 10_000, Currency: "JPY"}}, nil, yen, "EUR", 1_863, "EUR", false, false, false},   // 3000 × 0.00621 = 18.63
		"mils to yen":                         {percent, Sale{Money: affiliate.Money{Cents: 10_000, Currency: "KWD"}}, nil, dinar, "JPY", 1_469, "JPY", false, false, false}, // 3 × 489.57
		"flat below the base":                 {fixed, Sale{Money: affiliate.Money{Cents: 1_000, Currency: "USD"}}, nil, usd, "EUR", 700, "EUR", false, false, false},        // of 926
		"flat above the base":                 {fixed, Sale{Money: affiliate.Money{Cents: 500, Currency: "USD"}}, nil, usd, "EUR", 463, "EUR", false, false, true},           // 462.96
		"flat without a rate":                 {fixed, Sale{Money: affiliate.Money{Cents: 500, Currency: "USD"}}, nil, nil, "EUR", 700, "EUR", true, false, false},
		"percentage without a rate":           {capped, Sale{Money: affiliate.Money{Cents: 10_000, Currency: "USD"}}, nil, unrelatedRate("GBP"), "EUR", 3_000, "USD", true, false, false},
		"converted base is too large":         {percent, Sale{Money: affiliate.Money{Cents: affiliate.MaxAmountCents, Currency: "KWD"}}, nil, rates(ratesOn("2026-03-10", "KWD VND 85000")[0]), "VND", 300_000_000_000, "KWD", true, false, false},
		"flat and percentage":                 {percent, Sale{Money: affiliate.Money{Cents: 10_000, Currency: "USD"}}, []LineItem{{"cup", 2, 5_000}, {"other", 1, 5_000}}, usd, "EUR", 1_689, "EUR", false, false, false}, // 300 + 1500 × 0.93
		"flat and percentage, above the base": {percent, Sale{Money: affiliate.Money{Cents: 100, Currency: "USD"}}, []LineItem{{"cup", 2, 50}, {"other", 1, 50}}, usd, "EUR", 93, "EUR", false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := Inputs{EventType: affiliate.Purchase, Sale: tc.sale, LineItems: tc.items, Rates: tc.rates}
			calc := Earner{Currency: tc.program, Rule: RuleSnapshot{Rules: tc.rules}}.calculate(in, nil)
			if calc.AmountCents != tc.amount || calc.Currency != tc.currency || (len(calc.ReviewReasons) > 0) != tc.flagged {
				t.Errorf("amount %d %s, review reasons %q; want %d %s, flagged %v",
					calc.AmountCents, calc.Currency, calc.ReviewReasons, tc.amount, tc.currency, tc.flagged)
			}
			if calc.CappedAtOrderCap != tc.cappedAtOrderCap || calc.CappedAtBase != tc.cappedAtBase {
				t.Errorf("capped at the order cap %v, capped at the base %v; want %v, %v",
					calc.CappedAtOrderCap, calc.CappedAtBase, tc.cappedAtOrderCap, tc.cappedAtBase)
			}
			for _, part := range calc.Parts {
				if part.LeftOut {
					t.Errorf("LeftOut is set for part %+v", part)
				}
			}
		})
	}
}

// unrelatedRate returns a rate from dollars to the given currency.
func unrelatedRate(to string) map[string]FXRate {
	return map[string]FXRate{to: {Base: "USD", Quote: to, Rate: "190"}}
}

func TestAttribute_MinimumOrderInAnotherCurrency(t *testing.T) {
	for name, tc := range map[string]struct {
		cents  int64
		rates  map[string]FXRate
		earns  bool
		detail string
	}{
		"large enough": {5_400, map[string]FXRate{"EUR": ratesOn("2026-03-09", "USD EUR 0.9259259259")[0]}, true, "order 54.00 USD (50.00 EUR), minimum 50.00 EUR"},
		"too small":    {5_399, map[string]FXRate{"EUR": ratesOn("2026-03-09", "USD EUR 0.9259259259")[0]}, false, "order 53.99 USD (49.99 EUR), minimum 50.00 EUR"},
		"no rate":      {1, nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := matchingInputs()
			in.FoundClick.Currency = "EUR"
			in.FoundClick.Rule.Rules = program.Rules{Type: program.Percentage, RateBps: new(int64(3000)), NetBasis: program.Gross, MinOrderCents: new(int64(5_000))}
			in.Sale.Money, in.Rates = affiliate.Money{Cents: tc.cents, Currency: "USD"}, tc.rates
			d := Attribute(in)
			detail := ""
			for _, step := range d.Trace.Steps {
				if step.Check == "rules.order_large_enough" {
					detail = step.Detail
				}
			}
			if (d.Earning != nil) != tc.earns || detail != tc.detail {
				t.Errorf("the detail of the step is %q, earns %+v; want %q, a commission: %v", detail, d.Earning, tc.detail, tc.earns)
			}
		})
	}
}
