package buyer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

// A refund can wait for a sale that only the buyer's event would record. If the event is
// emptied, the event of the refund is emptied with its charge. An attempt to apply it does not
// fail.
func TestErase_EmptiesEventsThatWaitForADeletedCharge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.putCharge(ada.charge("9", 100))
	f.putEvent("evt_refund", processor.EventParked, `{"charge":"ch_ada9"}`)
	f.Exec(`update processor_events set charge_id = 'ch_ada9'`)
	f.putEvent("evt_sale", processor.EventFailed, `{"id":"cs_ada9","email":"`+ada.email+`"}`)
	f.erase("k1", byEmail(ada.email))
	f.requireAbsent("ch_ada9", "cs_ada9")
	if got, want := strings.Join(f.eventBodies(), "; "), "evt_refund ignored buyer_erased false; evt_sale ignored buyer_erased false"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		conversion, err := processors.FindChargeSale(t.Context(), tx, f.Scope, "ch_ada9")
		if conversion != nil {
			t.Errorf("the deleted charge belongs to %s", conversion)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// An event that arrives after the request is applied: the buyer has bought again. The erasure
// does not wait for it.
func TestErase_LeavesEventsThatArriveAfterTheRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	operation := f.mustRequest("k1", byProcessor("cus_ada"))
	f.clock.Advance(conversion.MaxConversionLead + time.Second)
	f.putEvent("evt_parked", processor.EventParked, `{"customer":"cus_ada"}`)
	f.putEvent("evt_received", processor.EventReceived, `{"customer":"cus_ada"}`)
	f.clock.Advance(time.Second)
	f.work(operation)
	if got, want := strings.Join(f.eventBodies(), "; "), "evt_parked parked - true; evt_received received - true"; f.status(operation) != done || got != want {
		t.Errorf("status %s, events %s, want done, %s", f.status(operation), got, want)
	}
}

// A test clock of a payment processor can be ahead.
func TestErase_ErasesStoredSalesOfTheFuture(t *testing.T) {
	t.Parallel()
	ada := newPerson("ada")
	for name, who := range map[string]*identity{"e-mail": byEmail(ada.email), "transaction": byTransaction(ada.charged)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			sale := ada.sale(f, ada.charged, "1")
			sale.OccurredAt = f.clock.Now().AddDate(1, 0, 0)
			if _, err := f.conversions.RecordSale(t.Context(), f.Scope, sale, false); err != nil {
				t.Fatal(err)
			}
			f.requirePresent(ada.charged)
			f.erase("k1", who)
			f.requireAbsent(ada.charged, ada.processorCustomer)
			f.WantCount(0, "rows of the customer", `select (select count(*) from customers) + (select count(*) from customer_payments)`)
		})
	}
}

// The job of an event can add the customer of the processor to a sale of which the erasure knows
// nothing else. The erasure knows the customer from another sale.
func TestErase_ErasesSalesOfAKnownCustomerOfTheProcessor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	if _, err := f.conversions.RecordSale(t.Context(), f.Scope, ada.sale(f, ada.both, "1"), false); err != nil {
		t.Fatal(err)
	}
	f.order(f.pat, ada.charged)
	f.putEvent("evt_new", processor.EventReceived, `{"customer":"`+ada.processorCustomer+`"}`)
	operation := f.mustRequest("k1", byEmail(ada.email))
	f.waitForEvents(operation)
	f.apply("evt_new", ada.sale(f, ada.charged, "2"))
	f.work(operation)
	if got := f.status(operation); got != done {
		t.Errorf("status %s, want done", got)
	}
	f.requireAbsent(ada.charged, ada.processorCustomer, "cs_ada2")
	f.WantCount(2, "erased conversions", `select count(*) from conversions where buyer_erased_at is not null`)
}

// The customer can be added to a sale after the erasure has followed the sale and before it
// erases it. Other sales of the customer are found then.
func TestErase_FollowsACustomerThatIsAddedBeforeTheSaleIsErased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.order(f.pat, ada.test, ada.describe)
	other := ada.sale(f, ada.charged, "1")
	other.CustomerEmail = ""
	if _, err := f.conversions.RecordSale(t.Context(), f.Scope, other, false); err != nil {
		t.Fatal(err)
	}
	operation := f.mustRequest("k1", byEmail(ada.email))
	added := false
	f.useHook(func(sql string, _ []any) error {
		if sql != "begin" || added || f.Count(`select count(*) from buyer_erasures where step = 'sales'`) == 0 {
			return nil
		}
		added = true
		sale := ada.sale(f, ada.test, "2")
		_, err := f.conversions.AddProcessorIDs(t.Context(), f.Scope, sale)
		return err
	})
	f.work(operation)
	if !added || f.status(operation) != done {
		t.Fatalf("status %s, customer added: %t", f.status(operation), added)
	}
	f.requireAbsent(ada.values()...)
	f.WantCount(2, "erased conversions", `select count(*) from conversions where buyer_erased_at is not null`)
}

// The same can happen between a failed erasure and the next one.
func TestErase_FollowsConversionsOfFailedErasuresAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.order(f.pat, ada.test, ada.describe)
	other := ada.sale(f, ada.charged, "1")
	other.CustomerEmail = ""
	if _, err := f.conversions.RecordSale(t.Context(), f.Scope, other, false); err != nil {
		t.Fatal(err)
	}
	if !f.breakAfter(4, f.mustRequest("k1", byEmail(ada.email))) {
		t.Fatal("the first erasure has not failed")
	}
	f.WantCount(1, "followed conversions that are not erased", `select count(*) from buyer_erasure_sales where followed and not erased`)
	f.requirePresent(ada.test)
	if _, err := f.conversions.AddProcessorIDs(t.Context(), f.Scope, ada.sale(f, ada.test, "2")); err != nil {
		t.Fatal(err)
	}
	f.Exec(`update buyer_erasure_sales set followed = true`)
	f.mustRequest("k2", byEmail(ada.email))
	f.WantCount(0, "followed conversions that are not erased", `select count(*) from buyer_erasure_sales where followed and not erased`)
	f.work(f.active())
	f.requireAbsent(ada.values()...)
}

// The buyer can buy again while the erasure waits. The binding and the number of payments that
// begin then stay.
func TestErase_KeepsTheCustomerOfLaterSales(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.order(f.pat, ada.test, ada.describe)
	f.putEvent("evt_new", processor.EventReceived, `{"customer":"`+ada.customer+`"}`)
	operation := f.mustRequest("k1", byCustomer(ada.customer))
	f.waitForEvents(operation)
	f.WantCount(0, "customers", `select count(*) from customers`)
	f.clock.Advance(time.Hour)
	f.order(f.pat, ada.both, ada.describe)
	const bound = `select (select count(*) from customers) + (select count(*) from customer_payments)`
	f.WantCount(2, "rows of the customer", bound)
	f.work(operation)
	if got := f.status(operation); got != done {
		t.Errorf("status %s, want done", got)
	}
	f.requireAbsent(ada.test)
	f.requirePresent(ada.both)
	f.WantCount(2, "rows of the customer after the erasure", bound)
}

// The job of an event can record the sale more than five minutes after the request. The customer
// that it binds is deleted.
func TestErase_DeletesTheCustomerOfALateSale(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	sale := ada.sale(f, ada.charged, "1")
	click := f.NewClick(f.pat)
	sale.Click = click.ID.String()
	f.putEvent("evt_new", processor.EventReceived, `{"customer":"`+ada.processorCustomer+`"}`)
	operation := f.mustRequest("k1", byProcessor(ada.processorCustomer))
	f.waitForEvents(operation)
	f.clock.Advance(7 * time.Minute)
	f.apply("evt_new", sale)
	f.WantCount(1, "customers", `select count(*) from customers`)
	f.work(operation)
	f.requireAbsent(ada.values()...)
	f.requireAbsent(f.hashesOf(ada.email, ada.processorCustomer)...)
	f.WantCount(0, "rows of the customer", `select (select count(*) from customers) + (select count(*) from customer_payments)`)
}

// lockErasure is a part of the statement with which a worker locks its erasure.
const lockErasure = "o.id = $2\n\t\tfor no key update"

// A request that joins while a part of the work is done makes the worker repeat the part.
func TestWork_RepeatsAPartIfARequestJoins(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.order(f.pat, ada.test, ada.describe)
	operation := f.mustRequest("k1", byCustomer(ada.customer))
	joined := false
	f.useHook(func(sql string, _ []any) error {
		if !strings.Contains(sql, lockErasure) || joined || f.Count(`select count(*) from buyer_erasures where step = 'again'`) == 0 {
			return nil
		}
		joined = true
		f.clock.Advance(time.Hour)
		f.order(f.pat, ada.both, ada.describe)
		if got := f.mustRequest("k2", byCustomer(ada.customer)); got != operation {
			t.Error("the second request did not join")
		}
		return nil
	})
	f.work(operation)
	if !joined || f.status(operation) != done {
		t.Errorf("status %s, joined: %t", f.status(operation), joined)
	}
	f.requireAbsent(ada.test, ada.both)
}

// A request that joins in the last step also covers the events that had arrived before it.
func TestEraseBuyer_JoiningRequestCoversEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.order(f.pat, ada.test, ada.describe)
	operation := f.mustRequest("k1", byCustomer(ada.customer))
	joined := false
	f.useHook(func(sql string, _ []any) error {
		if sql != "begin" || joined || f.Count(`select count(*) from buyer_erasures where step = 'again'`) == 0 {
			return nil
		}
		joined = true
		f.clock.Advance(time.Hour)
		f.putEvent("evt_parked", processor.EventParked, `{"customer":"`+ada.customer+`"}`)
		if got := f.mustRequest("k2", byCustomer(ada.customer)); got != operation {
			t.Error("the second request did not join")
		}
		return nil
	})
	f.work(operation)
	if got, want := strings.Join(f.eventBodies(), "; "), "evt_parked ignored buyer_erased false"; !joined || f.status(operation) != done || got != want {
		t.Errorf("status %s, events %s, joined: %t", f.status(operation), got, joined)
	}
}

// A replay covers the sales up to the requests in the log. The buyer can have bought again
// before the backup.
func TestReplay_LeavesLaterSales(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.mustRequest("k1", byEmail(ada.email))
	f.clock.Advance(time.Hour)
	f.mustRequest("k2", byEmail(ada.email)) // joins
	f.work(f.active())
	f.order(f.pat, ada.test, ada.describe)
	f.clock.Advance(time.Hour)
	f.order(f.pat, ada.both, ada.describe)
	f.clock.Advance(time.Hour)
	for _, entry := range f.log.entries {
		f.replay(entry)
	}
	f.work(f.active())
	f.requireAbsent(ada.test)
	f.requirePresent(ada.both)
}
