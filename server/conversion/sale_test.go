package conversion_test

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// sale returns a sale of 100 EUR at Stripe with the ids cs_name and pi_name.
func (f *fixture) sale(name string, change ...func(*processor.Sale)) processor.Sale {
	s := processor.Sale{
		ID: "pi_" + name, IDs: conversion.ProcessorIDs{Name: conversion.Stripe, Session: "cs_" + name, PaymentIntent: "pi_" + name},
		Aliases: []string{"pi_" + name, "cs_" + name}, EventType: affiliate.Purchase, OccurredAt: f.clock.Now(), FeeKnown: true,
		Sale: attribution.Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func (f *fixture) record(sale processor.Sale) processor.RecordedSale {
	f.Helper()
	recorded, err := f.service.RecordSale(f.Context(), f.Scope, sale, false)
	if err != nil {
		f.Fatal(err)
	}
	return recorded
}

// The merchant's server and Stripe report the same sales at the same time. The merchant uses
// one of Stripe's ids, which need not be the id that Stripe's report begins with. Each sale
// is recorded once, and all its ids lead to its conversion.
func TestRecordSale_RacingReports(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	const sales = 20
	var group sync.WaitGroup
	for i := range sales {
		name := strconv.Itoa(i)
		sale := f.sale(name, func(s *processor.Sale) { s.Click = click.ID.String() })
		for range 2 {
			group.Go(func() {
				if _, err := f.service.RecordSale(t.Context(), f.Scope, sale, false); err != nil {
					t.Errorf("RecordSale: %v", err)
				}
			})
		}
		external := sale.Aliases[i%2]
		for range 2 {
			group.Go(func() {
				if _, err := f.report(purchase(external, click.ID)); err != nil && pgtest.ReasonOf(t, err) != affiliate.ReasonConversionDuplicate {
					t.Errorf("report of %s: %v", external, err)
				}
			})
		}
	}
	group.Wait()
	f.WantCount(sales, "conversions", `select count(*) from conversions`)
	f.WantCount(sales, "commissions", `select count(*) from commissions`)
	for i := range sales {
		// A sale that was recorded from a report has all ids after Stripe's next event.
		recorded := f.record(f.sale(strconv.Itoa(i)))
		aliases := f.Texts(`select id from conversion_aliases where conversion_id = $1 order by id`, recorded.Conversion)
		if want := []string{fmt.Sprintf("cs_%d", i), fmt.Sprintf("pi_%d", i)}; recorded.New || !slices.Equal(aliases, want) {
			t.Errorf("sale %d: %+v with the aliases %q, want %q", i, recorded, aliases, want)
		}
	}
}

// A click that has not arrived yet is awaited, like the click of a report.
func TestRecordSale_LateClick(t *testing.T) {
	f := newFixture(t)
	click := f.UnstoredClick(f.pat, f.ago(10*time.Minute))
	for name, change := range map[string]func(*processor.Sale){
		"metadata":  func(s *processor.Sale) { s.Click = click.ID.String() },
		"reference": func(s *processor.Sale) { s.Reference = click.ID.String() },
	} {
		f.record(f.sale(name, change))
	}
	f.WantCount(0, "attributed conversions", `select count(*) from conversions where attributed`)
	f.attribute(f.storeLate(click))
	f.WantCount(2, "attributed conversions", `select count(*) from conversions where attributed and reason_code = 'CLICK_MATCHED'`)
}

// A checkout binds its customer once. A later checkout with another click changes nothing.
func TestBindCustomer(t *testing.T) {
	f := newFixture(t)
	other := f.Join("Other")
	bind := func(customer, click string) {
		sale := f.sale("checkout", func(s *processor.Sale) { s.IDs.Customer, s.Click = customer, click })
		if err := f.service.BindCustomer(f.Context(), f.Scope, sale); err != nil {
			t.Fatal(err)
		}
	}
	bind("cus_a", f.NewClick(f.pat).ID.String())
	bind("cus_a", f.NewClick(other).ID.String())
	bind("cus_b", "")
	f.WantCount(1, "customers", `select count(*) from customers`)
	f.WantCount(1, "customers of Pat", `select count(*) from customers where participant_id = $1 and conversion_id is null`, f.pat.ID)
	f.WantCount(0, "conversions", `select count(*) from conversions`)
	f.record(f.sale("payment", func(s *processor.Sale) { s.IDs.Customer = "cus_a" }))
	f.WantCount(1, "conversions by the binding", `select count(*) from conversions where reason_code = 'CUSTOMER_BOUND' and participant_id = $1`, f.pat.ID)
}
