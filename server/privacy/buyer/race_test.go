package buyer_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// Reports about a sale that wait for the transaction of its erasure find the sale afterwards.
// None of them stores a value of the buyer again.
func TestErase_WithReportsAtTheSameTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.buys(ada)
	f.clock.Advance(time.Hour)
	f.anonymousClicks = true
	operation := f.mustRequest("k1", byCustomer(ada.customer))

	var reports sync.WaitGroup
	var duplicate, aliased error
	var refund *affiliatev1.Refund
	var refundErr error
	var recorded processor.RecordedSale
	var recordErr error
	var charge *affiliate.ConversionID
	inSales := false
	f.useHook(func(sql string, _ []any) error {
		if sql == "begin" {
			inSales = f.Count(`select count(*) from buyer_erasures where step = 'sales'`) == 1 && f.Count(`select count(*) from buyer_erasure_sales where not erased`) > 0
		}
		if sql != "commit" || !inSales {
			return nil
		}
		reports.Go(func() { _, duplicate = f.report(f.pat, ada.test, "") })
		reports.Go(func() { _, aliased = f.report(f.pat, "ch_ada1", "") })
		reports.Go(func() { refund, refundErr = f.refund(f.live.Scope, ada.live, "late-of-ada", 500) })
		reports.Go(func() {
			recorded, recordErr = f.conversions.AddProcessorIDs(t.Context(), f.Scope, ada.sale(f, ada.both, "2"))
		})
		reports.Go(func() { charge = f.putCharge(ada.charge("1", 700)) })
		pgtest.Eventually(t, "five reports wait for the erasure", func() bool {
			return f.CountLockWaits() >= 5
		})
		return nil
	})
	f.work(operation)
	reports.Wait()
	for name, err := range map[string]error{"the same transaction": duplicate, "the charge as a transaction": aliased} {
		if got := pgtest.ReasonOf(t, err); got != affiliate.ReasonConversionDuplicate {
			t.Errorf("%s: %v, want CONVERSION_DUPLICATE", name, err)
		}
	}
	if refundErr != nil || refund.GetStatus() != affiliatev1.RefundStatus_REFUND_STATUS_APPLIED {
		t.Errorf("the refund: %v, %v", refund, refundErr)
	}
	if recordErr != nil || recorded.Conversion == nil {
		t.Errorf("the ids of the processor: %+v, %v", recorded, recordErr)
	}
	if charge == nil {
		t.Error("the charge has not found its sale")
	} else {
		f.WantCount(700, "refunded cents", `select refunded_amount_cents from conversions where id = $1`, charge)
	}
	f.WantCount(4, "conversions", `select count(*) from conversions`)
	f.requireAbsent(ada.values()...)
	f.requireAbsent("late-of-ada")
	if err := f.checkAccounts(); err != nil {
		t.Error(err)
	}
}

// If the click of a sale arrives while the sale is erased, the late attribution waits for the
// erasure and then changes nothing.
func TestErase_WhileTheClickOfTheSaleArrives(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.anonymousClicks = true
	stored := f.UnstoredClick(f.pat)
	f.order(f.pat, ada.test, ada.describe, func(r *affiliatev1.ReportConversionRequest) { r.ClickId = new(stored.ID.String()) })
	f.WantCount(1, "conversions that wait for the click", `select count(*) from awaited_clicks`)
	if err := clicks.Store(t.Context(), f.DB, []click.Click{stored}); err != nil {
		t.Fatal(err)
	}
	operation := f.mustRequest("k1", byCustomer(ada.customer))
	var late sync.WaitGroup
	var lateErr error
	attributes := false
	f.useHook(func(sql string, _ []any) error {
		if sql != "commit" || attributes || f.Count(`select count(*) from buyer_erasures where step = 'sales'`) == 0 {
			return nil
		}
		attributes = true
		late.Go(func() {
			lateErr = f.conversions.AttributeAwaited(t.Context(), click.AwaitedClick{Workspace: f.Scope.Workspace, Click: stored.ID})
		})
		pgtest.Eventually(t, "the late attribution waits for the erasure", func() bool {
			return f.CountLockWaits() > 0
		})
		return nil
	})
	f.work(operation)
	late.Wait()
	if lateErr != nil {
		t.Error(lateErr)
	}
	f.WantCount(0, "commissions", `select count(*) from commissions`)
	f.requireAbsent(ada.values()...)
	f.requireAbsent(f.hashesOf(ada.email, ada.customer)...)
}

// A click that arrives after the erasure of its sale is stored, but the data of its visitor are
// removed. The sale waits for the click, or was attributed by the stream of clicks.
func TestErase_ErasesAClickThatArrivesLater(t *testing.T) {
	t.Parallel()
	for name, attributed := range map[string]bool{"awaited": false, "attributed by the stream": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ada := newPerson("ada")
			f.anonymousClicks = true
			stored := f.UnstoredClick(f.pat, func(c *click.Click) {
				c.LandingURL, c.Language, c.IPPrefix, c.IPHash = "https://shop.example/for-ada", "nl", "198.51.100.0/24", []byte("ip of ada")
			})
			f.order(f.pat, ada.test, ada.describe, func(r *affiliatev1.ReportConversionRequest) { r.ClickId = new(stored.ID.String()) })
			if attributed {
				f.Exec(`delete from awaited_clicks`)
				f.Exec(`update conversions set attributed = true, program_id = $1, participant_id = $2`, f.Program, f.pat.ID)
			}
			f.clock.Advance(20 * time.Hour)
			f.erase("k1", byCustomer(ada.customer))
			f.clock.Advance(20 * time.Hour)
			if _, err := f.conversions.SweepAwaited(t.Context(), click.AwaitedClick{}); err != nil {
				t.Fatal(err)
			}
			if err := clicks.Store(t.Context(), f.DB, []click.Click{stored}); err != nil {
				t.Fatal(err)
			}
			f.requirePresent("for-ada")
			if n := f.CountJobs("attribute_awaited"); n != 1 {
				t.Errorf("%d jobs for the click, want 1", n)
			}
			if err := f.conversions.AttributeAwaited(t.Context(), click.AwaitedClick{Workspace: f.Scope.Workspace, Click: stored.ID}); err != nil {
				t.Fatal(err)
			}
			f.addAnalytics() // a job does this within seconds
			f.requireAbsent("for-ada", "198.51.100.0/24", "ip of ada")
			f.WantCount(1, "clicks", `select count(*) from clicks where id = $1 and language is null`, stored.ID)
			f.WantCount(0, "conversions that wait", `select count(*) from awaited_clicks`)
			f.WantCount(0, "commissions", `select count(*) from commissions`)
		})
	}
}

// An erasure of many conversions needs several transactions, and gives each sale its own
// pseudonym.
func TestErase_ErasesManyConversions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const orders = 45
	for n := range orders {
		f.order(f.pat, fmt.Sprintf("order-%d", n), func(r *affiliatev1.ReportConversionRequest) { r.CustomerId = new("ada") })
	}
	f.clock.Advance(time.Hour)
	f.erase("k1", byCustomer("ada"))
	f.WantCount(orders, "different pseudonyms", `select count(distinct external_transaction_id) from conversions where external_transaction_id ~ '^erased-[0-9a-f]{8}$'`)
	f.requireAbsent("order-1", "order-44")
}

// A buyer can buy several times after one click. The erasure then changes the click once, also in
// the analytics.
func TestErase_SeveralSalesAfterOneClick(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	click := f.NewClick(f.pat, func(c *click.Click) { c.SubID = "for-ada" })
	for n := range 3 { // order stores a click for each sale, which the sale here does not use
		f.order(f.pat, fmt.Sprintf("order-%d", n), func(r *affiliatev1.ReportConversionRequest) {
			r.CustomerId, r.ClickId = new("ada"), new(click.ID.String())
		})
	}
	f.addAnalytics()
	f.erase("k1", byCustomer("ada"))
	f.requireAbsent("for-ada")
	f.addAnalytics()
	f.WantCount(1+3, "clicks in the sums of the participant", `
		select sum(clicks) from analytics_days where dimension = '' and participant_id = $1`, f.pat.ID)
	f.WantCount(0, "sums with a negative number", `select count(*) from analytics_days where clicks < 0 or conversions < 0`)
}
