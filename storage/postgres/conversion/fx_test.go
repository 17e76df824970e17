package conversion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/server/fx"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func rate(base, quote, date, rate string) attribution.FXRate {
	day, _ := time.Parse(time.DateOnly, date)
	return attribution.FXRate{Base: base, Quote: quote, Date: day, Rate: rate}
}

func TestLoad_StoresAllOrNone(t *testing.T) {
	t.Parallel()
	b := newSales(t, pgtest.Row{
		"rules": `{"commission_type":"percentage","rate_bps":1000,"hold_period_days":0,"auto_approval":true,"net_basis":"gross"}`,
	})
	at := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	load := func(want attribution.FXLoad, rates ...attribution.FXRate) {
		t.Helper()
		got, err := fx.Load(t.Context(), b.DB, rates, at)
		if err != nil || got != want {
			t.Errorf("Load returned %+v, %v, want %+v", got, err, want)
		}
	}
	first, second := rate("EUR", "USD", "2026-03-09", "1.0800"), rate("EUR", "JPY", "2026-03-09", "160")
	load(attribution.FXLoad{New: 2}, first, second)
	load(attribution.FXLoad{Same: 2}, rate("EUR", "USD", "2026-03-09", "1.08"), second)
	load(attribution.FXLoad{New: 1, Changed: 1, Same: 1}, rate("EUR", "USD", "2026-03-10", "1.08"), rate("EUR", "USD", "2026-03-09", "1.09"), second)
	load(attribution.FXLoad{})
	if n := b.Count(`select count(*) from fx_rates where loaded_at = $1`, at); n != 3 {
		t.Errorf("%d rates are stored, want 3", n)
	}
	// The rates need several statements, and the last statement fails.
	many := make([]attribution.FXRate, 0, 25_000)
	for i := range 24_999 {
		many = append(many, rate("EUR", "GBP", first.Date.AddDate(0, 0, -i).Format(time.DateOnly), "0.85"))
	}
	if _, err := fx.Load(t.Context(), b.DB, append(many, rate("USD", "EUR", "2026-03-09", "0")), at); err == nil {
		t.Error("a rate of 0 was stored")
	}
	if n := b.Count(`select count(*) from fx_rates`); n != 3 {
		t.Errorf("after the failure, %d rates are stored, want 3", n)
	}
	load(attribution.FXLoad{New: 24_999}, many...)
}

func TestRecord_UsesRateOfItsDay(t *testing.T) {
	b := newSales(t, pgtest.Row{
		"rules": `{"commission_type":"percentage","rate_bps":1000,"hold_period_days":0,"auto_approval":true,"net_basis":"gross"}`,
	})
	day := attribution.FXDay(b.Now())
	before := func(days int) string { return day.AddDate(0, 0, -days).Format(time.DateOnly) }
	if _, err := fx.Load(t.Context(), b.DB, []attribution.FXRate{
		rate("EUR", "USD", before(7), "1.25"), rate("EUR", "GBP", before(8), "0.8"), rate("EUR", "JPY", before(-1), "160"),
	}, b.Now()); err != nil {
		t.Fatal(err)
	}
	found, err := conversions.FindEarner(t.Context(), b.DB, b.Scope, b.Program, b.participant.ID)
	if err != nil {
		t.Fatal(err)
	}
	in := attribution.Inputs{
		FoundClick: &attribution.FoundClick{Earner: *found}, FoundPromoCode: &attribution.FoundPromoCode{Earner: *found}, Assigned: found,
		Customer: &attribution.FoundCustomer{Binding: &attribution.Binding{Earner: attribution.Earner{Currency: "KWD"}}},
	}
	for currency, want := range map[string]struct {
		rate       string
		statements int
	}{
		"USD": {"0.8", 1}, "GBP": {"", 1}, "JPY": {"", 1}, "EUR": {"", 1}, "KWD": {"", 1}, "": {"", 0},
	} {
		c := conversion.Conversion{OccurredAt: b.Now(), Sale: attribution.Sale{Money: affiliate.Money{Cents: 100, Currency: currency}}}
		rates, statements, err := conversions.ForeignRates(t.Context(), b.DB, c, in)
		if err != nil || statements != want.statements || rates["EUR"].Rate != want.rate || (want.rate == "") != (len(rates) == 0) {
			t.Errorf("ForeignRates for %q returned %+v with %d statements, %v, want the rate %q with %d statements", currency, rates, statements, err, want.rate, want.statements)
		}
	}
	in.Customer = nil
	for name, in := range map[string]attribution.Inputs{"one currency": in, "no candidates": {}} {
		c := conversion.Conversion{OccurredAt: b.Now(), Sale: attribution.Sale{Money: affiliate.Money{Cents: 100, Currency: "EUR"}}}
		if _, statements, err := conversions.ForeignRates(t.Context(), b.DB, c, in); err != nil || statements != 0 {
			t.Errorf("ForeignRates with %s used %d statements, %v, want 0", name, statements, err)
		}
	}

	recorded, err := b.Record(b.Report("converted", b.click(pgtest.Noon), func(c *conversion.Conversion) {
		c.Money = affiliate.Money{Cents: 10_000, Currency: "USD"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	c := recorded.Commission
	if c.AmountCents != 800 || c.Currency != "EUR" || c.NeedsReview {
		t.Errorf("the commission is %+v, want 800 EUR without a review", c)
	}
	if n := b.Count(`select count(*) from commissions where id = $1 and fx_rate = '0.8' and fx_date = $2::date and status = 'approved'
		and base_amount_cents = 10000 and sale_currency = 'USD'`, c.ID, before(7)); n != 1 {
		t.Errorf("%d commissions have the rate 0.8 and its date, want 1", n)
	}
	if n := b.Count(`select count(*) from attribution_decisions where trace #>> '{calculation,fx_rate}' = '0.8' and trace #>> '{calculation,fx_date}' = $1`, before(7)); n != 1 {
		t.Errorf("%d decisions have the rate 0.8 and its date in their trace, want 1", n)
	}
}

// A look-up must read only ranges of the primary key, and not all stored rates.
func TestFindRates_UsesPrimaryKey(t *testing.T) {
	b := newSales(t, pgtest.Row{
		"rules": `{"commission_type":"percentage","rate_bps":1000,"hold_period_days":0,"auto_approval":true,"net_basis":"gross"}`,
	})
	b.Exec(`insert into fx_rates select 'EUR', q, d, 1.5, d from unnest(array['USD', 'GBP', 'JPY', 'CHF', 'SEK', 'NOK', 'PLN', 'CZK']) q,
		generate_series(timestamptz '2010-01-01', '2026-03-10', '1 day') d`)
	b.VacuumAnalyze("fx_rates")
	day := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	plan := b.Plan(strings.NewReplacer(
		"$1", "array['USD', 'GBP']", "$2", "date '2026-03-03'", "$3", "date '"+day.Format(time.DateOnly)+"'").Replace(conversions.FindRatesSQL))
	if strings.Contains(plan, "Seq Scan") || strings.Count(plan, "Index") < 3 {
		t.Errorf("the plan does not read all rates with an index\n%s", plan)
	}
}
