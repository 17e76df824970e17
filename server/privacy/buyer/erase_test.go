package buyer_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

// person is a buyer with one sale that the merchant's server has reported in each mode, one
// that a payment processor has reported, and one of both. All of the values contain its name.
type person struct {
	name, email, customer, processorCustomer string
	test, live, charged, both                string // external transaction ids
}

func newPerson(name string) person {
	return person{
		name: name, email: name + "@" + name + "-mail.example", customer: "customer-" + name, processorCustomer: "cus_" + name,
		test: "order-" + name + "-test", live: "order-" + name + "-live", charged: "pi_" + name + "charged", both: "in_" + name + "both",
	}
}

// stored returns the texts of the person that the database contains before the erasure.
func (p person) stored() []string {
	return []string{
		p.name + "-mail.example", p.processorCustomer, p.test, p.live, p.charged, p.both,
		"cs_" + p.name, "ch_" + p.name, "dp_" + p.name, "sub_" + p.name, "refund-" + p.name, "reported-" + p.name, "note of " + p.name, "book for " + p.name, "product-" + p.name,
	}
}

// values returns all texts of the person.
func (p person) values() []string {
	return append(p.stored(), p.email, p.customer, "event of "+p.name, "agent of "+p.name)
}

func (p person) describe(r *affiliatev1.ReportConversionRequest) {
	r.CustomerId, r.CustomerEmail, r.SubscriptionId = &p.customer, &p.email, new("sub_"+p.name)
	r.CustomerIp, r.CustomerUserAgent, r.SubId = new("198.51.100.7"), new("agent of "+p.name), new("sub-"+p.name)
	r.ProductIds = []string{"product-" + p.name}
	r.LineItems = []*affiliatev1.LineItem{{ProductId: "book for " + p.name, Quantity: new(int64(1)), AmountCents: 10_000}}
	r.Metadata, _ = structpb.NewStruct(map[string]any{"note": "note of " + p.name})
}

// sale returns the sale with which a processor reports the external id.
func (p person) sale(f *fixture, external, suffix string) processor.Sale {
	ids := conversion.ProcessorIDs{
		Name: conversion.Stripe, Session: "cs_" + p.name + suffix, PaymentIntent: external, Charge: "ch_" + p.name + suffix,
		Subscription: "sub_" + p.name, Customer: p.processorCustomer,
	}
	return processor.Sale{
		ID: external, IDs: ids, Aliases: []string{external, ids.Session, ids.Charge}, EventType: affiliate.Purchase, OccurredAt: f.clock.Now(),
		Sale: attribution.Sale{Money: affiliate.Money{Cents: 5_000, Currency: "EUR"}}, FeeKnown: true, CustomerEmail: p.email,
	}
}

// charge returns what the processor says about the charge of sale, of which cents were refunded.
func (p person) charge(suffix string, cents int64, disputes ...conversion.ProcessorDispute) processor.Charge {
	return processor.Charge{
		ID: "ch_" + p.name + suffix, Aliases: []string{"ch_" + p.name + suffix, "cs_" + p.name + suffix}, Currency: "EUR", AmountCents: 5_000,
		RefundedCents: &cents, Disputes: disputes,
	}
}

// buys makes the sales of a person.
func (f *fixture) buys(p person) {
	f.Helper()
	if _, err := f.report(f.pat, p.test, "key-"+p.name, p.describe); err != nil {
		f.Fatal(err)
	}
	f.order(f.livePa, p.live, p.describe)
	if _, err := f.dispute(f.live.Scope, p.live, "reported-"+p.name, affiliatev1.DisputeStatus_DISPUTE_STATUS_OPEN); err != nil {
		f.Fatal(err)
	}
	if _, err := f.refund(f.live.Scope, p.live, "refund-"+p.name, 1_000); err != nil {
		f.Fatal(err)
	}
	if _, err := f.conversions.RecordSale(f.Context(), f.Scope, p.sale(f, p.charged, "1"), false); err != nil {
		f.Fatal(err)
	}
	dispute := conversion.ProcessorDispute{ID: "dp_" + p.name, Status: commission.DisputeOpen}
	f.putCharge(p.charge("1", 500, dispute))
	f.order(f.pat, p.both, p.describe)
	if _, err := f.conversions.RecordSale(f.Context(), f.Scope, p.sale(f, p.both, "2"), false); err != nil {
		f.Fatal(err)
	}
	f.putEvent("evt_"+p.name, processor.EventFailed, `{"id":"evt","data":{"object":{"customer":"`+p.processorCustomer+`","x":[1,null,"event of `+p.name+`"]}}}`)
}

// putCharge stores the state of a charge and applies it, as the job of an event does. It
// returns the conversion of the charge.
func (f *fixture) putCharge(charge processor.Charge) *affiliate.ConversionID {
	f.Helper()
	number, err := processors.NextRead(f.Context(), f.DB)
	if err != nil {
		f.Fatal(err)
	}
	err = f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		return processors.PutCharge(f.Context(), tx, f.Scope, charge, number, f.clock.Now())
	})
	if err != nil {
		f.Fatal(err)
	}
	return f.applyCharge(charge.ID)
}

// applyCharge applies a stored charge and returns its conversion.
func (f *fixture) applyCharge(charge string) *affiliate.ConversionID {
	f.Helper()
	var conversion *affiliate.ConversionID
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) (err error) {
		conversion, err = processors.FindChargeSale(f.Context(), tx, f.Scope, charge)
		return err
	})
	if err == nil && conversion != nil {
		err = f.conversions.Reverse(f.Context(), f.Scope, *conversion)
	}
	if err != nil {
		f.Fatal(err)
	}
	return conversion
}

// putEvent stores an event of a processor that is not applied.
func (f *fixture) putEvent(id string, status processor.EventStatus, body string) {
	f.Helper()
	connection := processor.ConnectionIDOf(f.Scope, conversion.Stripe)
	f.Insert("processor_events", pgtest.Row{
		"workspace_id": f.Scope.Workspace, "connection_id": connection, "id": id, "mode": f.Scope.Mode, "type": "invoice.paid", "account_id": "acct_1", "resync": false,
		"body": f.sealed(connection, body), "status": status, "happened_at": f.clock.Now(), "received_at": f.clock.Now(),
	})
}

func (f *fixture) eventBodies() []string {
	f.Helper()
	return f.Texts(`select id || ' ' || status || ' ' || coalesce(reason, '-') || ' ' || (body is not null) from processor_events where workspace_id = $1 order by id`, f.Scope.Workspace)
}

func TestErase_RemovesAllDataOfTheBuyer(t *testing.T) {
	t.Parallel()
	ada, bob := newPerson("ada"), newPerson("bob")
	for _, tc := range []struct {
		name string
		who  *identity
		kept []string // external ids of sales that the identity does not lead to
	}{
		{"by e-mail", byEmail("ADA+shop@ada-mail.example"), nil},
		{"by customer", byCustomer(ada.customer), nil},
		{"by transaction of the merchant", byTransaction(ada.live), nil},
		{"by transaction of the processor", byTransaction(ada.charged), nil},
		{"by another id of the sale", byTransaction("cs_ada1"), nil},
		{"by customer of the processor", byProcessor(ada.processorCustomer), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.NewEndpoint(f.Scope, pgtest.Row{"subscriptions": []string{"*"}})
			f.buys(ada)
			f.buys(bob)
			hashes := f.hashesOf(ada.email, ada.customer, ada.processorCustomer)
			f.requirePresent(ada.stored()...)
			f.requirePresent(hashes...)
			f.addAnalytics()
			money, bobs := f.money(), f.rowsOf(bob)

			f.clock.Advance(time.Hour)
			operation := f.erase("k1", tc.who)
			f.requireAbsent(ada.values()...)
			f.requireAbsent(hashes...)
			f.requireAbsent(hex.EncodeToString([]byte("ip of "+ada.test)), "sub-"+ada.name)
			if after := f.money(); after != money {
				t.Errorf("amounts have changed:\n%s", diff(money, after))
			}
			if after := f.rowsOf(bob); after != bobs {
				t.Errorf("the data of another buyer has changed:\n%s", diff(bobs, after))
			}
			f.requirePresent(bob.stored()...)
			if got, want := strings.Join(f.eventBodies(), "; "), "evt_ada ignored buyer_erased false; evt_bob failed - true"; got != want {
				t.Errorf("events of the processor: %s, want %s", got, want)
			}
			if external := f.Texts(`select external_transaction_id from conversions where buyer_erased_at is not null`); len(external) != 4 {
				t.Errorf("erased conversions: %v", external)
			}
			f.WantCount(0, "commissions without the pseudonym of their conversion", `
				select count(*) from commissions m join conversions c on c.id = m.conversion_id where c.external_transaction_id <> m.external_transaction_id`)
			f.WantCount(0, "rows of the work", `select (select count(*) from buyer_erasure_sales) + (select count(*) from buyer_erasure_customers)`)
			if err := f.checkAccounts(); err != nil {
				t.Error(err)
			}
			f.requireStillKnown(ada)
			_ = operation
		})
	}
}

// requireStillKnown checks that later reports about the erased sales of a person find them.
func (f *fixture) requireStillKnown(p person) {
	f.Helper()
	want := func(what string, err error, reason affiliate.Reason) {
		f.Helper()
		if got := pgtest.ReasonOf(f.TB, err); got != reason {
			f.Errorf("%s: %v, want %s", what, err, reason)
		}
	}
	f.anonymousClicks = true
	_, err := f.report(f.pat, p.test, "")
	want("the same transaction", err, affiliate.ReasonConversionDuplicate)
	_, err = f.report(f.pat, p.test, "key-"+p.name, p.describe)
	want("the same request with its Idempotency-Key", err, affiliate.ReasonConversionDuplicate)
	_, err = f.report(f.pat, p.charged, "")
	want("a transaction of the processor", err, affiliate.ReasonConversionDuplicate)
	_, err = f.report(f.pat, "ch_"+p.name+"1", "")
	want("the charge of the processor", err, affiliate.ReasonConversionDuplicate)
	_, err = f.refund(f.live.Scope, p.live, "refund-"+p.name, 1_000)
	want("the same refund", err, affiliate.ReasonRefundDuplicate)
	_, err = f.refund(f.live.Scope, p.live, "second-of-"+p.name, 100_000)
	want("a refund that is too large", err, affiliate.ReasonRefundExceedsAmount)

	refund, err := f.refund(f.live.Scope, p.live, "second-of-"+p.name, 2_000)
	if err != nil || refund.GetStatus() != affiliatev1.RefundStatus_REFUND_STATUS_APPLIED || refund.GetRefundedAmountCents() != 3_000 || refund.GetExternalTransactionId() != p.live {
		f.Errorf("a later refund: %v, %v", refund, err)
	}
	_, err = f.refund(f.live.Scope, p.live, "second-of-"+p.name, 2_000)
	want("the later refund again", err, affiliate.ReasonRefundDuplicate)

	const lostDispute, wonDispute = affiliatev1.DisputeStatus_DISPUTE_STATUS_LOST, affiliatev1.DisputeStatus_DISPUTE_STATUS_WON
	for _, report := range []struct {
		dispute  string
		status   affiliatev1.DisputeStatus
		refunded int64
	}{{"reported-", lostDispute, 4_000}, {"second-of-", lostDispute, 5_000}, {"reported-", wonDispute, 4_000}, {"second-of-", wonDispute, 3_000}} {
		dispute, err := f.dispute(f.live.Scope, p.live, report.dispute+p.name, report.status)
		if err != nil || dispute.GetRefundedAmountCents() != report.refunded {
			f.Errorf("the dispute %s is %s: %v, %v; want %d refunded cents", report.dispute, report.status, dispute, err, report.refunded)
		}
	}

	recorded, err := f.conversions.RecordSale(f.Context(), f.Scope, p.sale(f, p.charged, "1"), false)
	if err != nil || recorded.New || recorded.Conversion == nil || !recorded.Erased {
		f.Errorf("the sale of the processor again: %+v, %v", recorded, err)
	}
	won := conversion.ProcessorDispute{ID: "dp_" + p.name, Status: commission.DisputeWon}
	if conversion := f.putCharge(p.charge("1", 4_000, won)); conversion == nil {
		f.Error("the charge no longer finds its sale")
	} else {
		f.WantCount(4_000, "refunded cents", `select refunded_amount_cents from conversions where id = $1`, conversion)
	}
	f.WantCount(0, "open disputes", `select count(*) from processor_disputes where status = 'open' and id not in ('dp_bob', 'reported-bob')`)
	f.requireAbsent(p.values()...)
	f.requireAbsent("second-of-" + p.name)
}

// rowsOf returns the rows of the database that contain a value of a person.
func (f *fixture) rowsOf(p person) string {
	f.Helper()
	var lines []string
	for table, rows := range f.dump() {
		for _, row := range rows {
			if strings.Contains(row, p.name) {
				lines = append(lines, table+" "+row)
			}
		}
	}
	return sorted(lines)
}

// Exports contain the ids of sales. The exports of other workspaces and of partners stay.
func TestErase_DeletesExportsOfTheWorkspace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.NewShop(affiliate.ModeLive)
	const insert = `
		insert into exports (id, kind, subject_id, workspace_id, request_mode, queued, lease_until, lease, progress, created_at, ready_at, expires_at)
		values (gen_random_uuid(), $1, $2, $3, 'live', false, $4, gen_random_uuid(), '{}', $4, $5, $5)`
	now := f.clock.Now()
	f.Exec(insert, "merchant", f.Scope.Workspace, f.Scope.Workspace, now, now)
	f.Exec(insert, "participant", f.pat.ID, f.Scope.Workspace, now, nil)
	f.Exec(insert, "merchant", other.Scope.Workspace, other.Scope.Workspace, now, now)
	f.Exec(insert, "partner", affiliate.NewID[affiliate.UserID](now), nil, now, now)
	f.order(f.pat, "order-1", func(r *affiliatev1.ReportConversionRequest) { r.CustomerId = new("ada") })
	f.erase("k1", byCustomer("bob"))
	f.WantCount(4, "exports after the erasure of an unknown buyer", `select count(*) from exports`)
	f.erase("k2", byCustomer("ada"))
	if kinds := sorted(f.Texts(`select kind from exports`)); kinds != "merchant\npartner" {
		t.Errorf("exports that stay: %s", kinds)
	}
}

// The hash of an e-mail address does not lead from one conversion to another, because shops
// report one address for all their guests.
func TestErase_DoesNotFollowTheAddressOfAConversion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	guest := func(customer string) func(*affiliatev1.ReportConversionRequest) {
		return func(r *affiliatev1.ReportConversionRequest) {
			r.CustomerId, r.CustomerEmail = &customer, new("guest@shop.example")
		}
	}
	f.order(f.pat, "order-1", guest("first"))
	f.order(f.pat, "order-2", guest("second"))
	f.order(f.livePa, "order-3", guest("first"))
	f.erase("k1", byTransaction("order-1"))
	f.requireAbsent("order-1", "order-3")
	f.requirePresent("order-2")
	f.erase("k2", byEmail("guest@shop.example"))
	f.requireAbsent("order-2")
}

// A conversion is erased once, even if a second identity of the buyer leads to it.
func TestErase_CanBeRepeated(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.buys(ada)
	f.erase("k1", byCustomer(ada.customer))
	before := f.Texts(`select external_transaction_id || ' ' || buyer_erased_at from conversions order by id`)
	f.clock.Advance(time.Hour)
	for key, who := range map[string]*identity{"k2": byCustomer(ada.customer), "k3": byEmail(ada.email), "k4": byTransaction(ada.charged), "k5": byTransaction(ada.live)} {
		f.erase(key, who)
	}
	if after := f.Texts(`select external_transaction_id || ' ' || buyer_erased_at from conversions order by id`); sorted(after) != sorted(before) {
		t.Errorf("a second erasure has changed conversions:\n%s", diff(sorted(before), sorted(after)))
	}
	f.requireStillKnown(ada)
}

// Parked refunds and charges of a sale that is not recorded are deleted.
func TestErase_DeletesWhatWaitsForTheSale(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.refund(f.Scope, "order-early", "refund-early", 100); err != nil {
		t.Fatal(err)
	}
	if _, err := f.refund(f.Scope, "order-other", "refund-other", 100); err != nil {
		t.Fatal(err)
	}
	early := newPerson("early")
	f.putCharge(early.charge("9", 100, conversion.ProcessorDispute{ID: "dp_early", Status: commission.DisputeOpen}))
	f.erase("k1", byTransaction("order-early"))
	f.erase("k2", byTransaction("cs_early9"))
	f.requireAbsent("order-early", "refund-early", "reason of refund-early", "ch_early", "cs_early", "dp_early")
	f.requirePresent("order-other", "refund-other")
}

// A received event of a processor is left to its job for ten minutes, because it may be a
// refund. The erasure ends after that.
func TestErase_WaitsForReceivedEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.putEvent("evt_new", processor.EventReceived, `{"customer":"cus_ada"}`)
	f.putEvent("evt_parked", processor.EventParked, `{"customer":"cus_ada"}`)
	f.putEvent("evt_other", processor.EventReceived, `{"customer":"cus_bob"}`)
	operation := f.mustRequest("k1", byProcessor("cus_ada"))
	f.waitForEvents(operation)
	if got := f.status(operation); got != processing {
		t.Fatalf("status %s while an event is received, want processing", got)
	}
	if got, want := strings.Join(f.eventBodies(), "; "), "evt_new received - true; evt_other received - true; evt_parked ignored buyer_erased false"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	f.clock.Advance(10 * time.Minute)
	f.work(operation)
	if got, want := strings.Join(f.eventBodies(), "; "), "evt_new ignored buyer_erased false; evt_other received - true; evt_parked ignored buyer_erased false"; f.status(operation) != done || got != want {
		t.Errorf("status %s, events %s, want %s", f.status(operation), got, want)
	}
}

// A sale that the merchant's server has reported is also found by the id of its charge, which
// only the refunds of the processor name.
func TestErase_FindsTheSaleOfACharge(t *testing.T) {
	t.Parallel()
	for name, replay := range map[string]bool{"request": false, "replay": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			if replay { // only the log has the erasure
				f.erase("k1", byTransaction("ch_ada9"))
			}
			f.order(f.pat, "cs_ada9")
			charge := newPerson("ada").charge("9", 100)
			charge.HappenedAt = f.clock.Now().Add(-time.Hour)
			if f.putCharge(charge) == nil {
				t.Fatal("the charge has not found its sale")
			}
			f.WantCount(0, "aliases of the charge", `select count(*) from conversion_aliases where id = 'ch_ada9'`)
			if !replay {
				f.erase("k1", byTransaction("ch_ada9"))
			} else {
				f.replay(f.log.entries[0])
				f.work(f.active())
			}
			f.requireAbsent("cs_ada9", "ch_ada9")
			f.WantCount(1, "charges with the time of the refund and all that was applied", `
				select count(*) from processor_charges where happened_at = $1 and refunded_cents = 100 and applied_number = read_number`, charge.HappenedAt)
			f.WantCount(1, "erased conversions", `select count(*) from conversions where buyer_erased_at is not null`)
		})
	}
}

// If an event of a refund waits for its sale, the charge is stored. The erasure of the buyer
// deletes the charge. An attempt to apply the event that began before changes nothing.
func TestErase_DeletesTheChargeOfAWaitingEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.putCharge(newPerson("ada").charge("9", 100, conversion.ProcessorDispute{ID: "dp_ada", Status: commission.DisputeOpen}))
	f.putEvent("evt_refund", processor.EventParked, `{"id":"ch_ada9","customer":"cus_ada"}`)
	f.Exec(`update processor_events set charge_id = 'ch_ada9'`)
	attempt, err := f.beginAttempt("evt_refund", f.clock.Now().Add(time.Minute))
	if err != nil || attempt.Charge != "ch_ada9" {
		t.Fatalf("event %+v, %v", attempt, err)
	}
	f.clock.Advance(2 * time.Minute)
	f.erase("k1", byProcessor("cus_ada"))
	f.requireAbsent("ch_ada9", "cs_ada9", "dp_ada")
	err = f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		return processors.SetEventOutcome(t.Context(), tx, attempt, f.clock.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	f.requireAbsent("ch_ada9")
	if got, want := strings.Join(f.eventBodies(), "; "), "evt_refund ignored buyer_erased false"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

// beginAttempt begins an attempt to apply an event.
func (f *fixture) beginAttempt(event string, until time.Time) (processor.StoredProcessorEvent, error) {
	return processors.BeginAttempt(f.Context(), f.DB, processor.EventKey{
		Workspace: f.Scope.Workspace, Mode: f.Scope.Mode, Connection: processor.ConnectionIDOf(f.Scope, conversion.Stripe), Event: event,
	}, until)
}

// While an attempt to apply an event of a refund is running, the erasure waits. If the attempt
// then fails, the charge that it has stored is deleted with the event. No attempt begins after
// that.
func TestErase_WaitsForARunningAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.putEvent("evt_refund", processor.EventFailed, `{"id":"ch_ada9","customer":"cus_ada"}`)
	operation := f.mustRequest("k1", byProcessor("cus_ada"))
	attempt, err := f.beginAttempt("evt_refund", f.clock.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	f.waitForEvents(operation)
	f.putCharge(newPerson("ada").charge("9", 100))
	attempt.Status, attempt.Reason = processor.EventFailed, processor.FailedInternal
	err = f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		return processors.SetEventOutcome(t.Context(), tx, attempt, f.clock.Now())
	})
	if err != nil {
		t.Fatal(err)
	}
	f.requirePresent("ch_ada9")
	f.work(operation)
	if got, want := strings.Join(f.eventBodies(), "; "), "evt_refund ignored buyer_erased false"; f.status(operation) != done || got != want {
		t.Errorf("status %s, events %s, want done, %s", f.status(operation), got, want)
	}
	f.requireAbsent("ch_ada9", "cs_ada9")
	_, err = f.beginAttempt("evt_refund", f.clock.Now())
	if got := pgtest.ReasonOf(t, err); got != affiliate.ReasonNotFound {
		t.Errorf("an attempt to apply the emptied event begins: %v, want NOT_FOUND", err)
	}
}

// An erasure does not wait longer for an attempt whose process has crashed than the attempt can
// take.
func TestErase_DoesNotWaitForACrashedAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.putEvent("evt_refund", processor.EventFailed, `{"customer":"cus_ada"}`)
	if _, err := f.beginAttempt("evt_refund", f.clock.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	operation := f.mustRequest("k1", byProcessor("cus_ada"))
	f.waitForEvents(operation)
	f.clock.Advance(time.Minute)
	f.work(operation)
	if got, want := strings.Join(f.eventBodies(), "; "), "evt_refund ignored buyer_erased false"; f.status(operation) != done || got != want {
		t.Errorf("status %s, events %s, want done, %s", f.status(operation), got, want)
	}
}

// waitForEvents runs the job of an operation until it waits for events of a processor.
func (f *fixture) waitForEvents(operation string) {
	f.Helper()
	for range 20 {
		wait, err := f.service.Work(f.Context(), f.job(operation))
		if err != nil {
			f.Fatal(err)
		}
		if wait >= 30*time.Second {
			return
		}
	}
	f.Fatal("the job does not wait for the event")
}

// apply does what the job of a received event does: it records the sale, and the event has no
// body any more.
func (f *fixture) apply(event string, sale processor.Sale) {
	f.Helper()
	if _, err := f.conversions.RecordSale(f.Context(), f.Scope, sale, false); err != nil {
		f.Fatal(err)
	}
	f.Exec(`update processor_events set status = 'applied', body = null where id = $1`, event)
}

// The job of an event that had arrived before the request may record a sale of the buyer while
// the erasure waits for it. The erasure also erases this sale.
func TestErase_ErasesSalesOfEventsThatArrivedBefore(t *testing.T) {
	t.Parallel()
	ada := newPerson("ada")
	for name, who := range map[string]*identity{
		"e-mail": byEmail(ada.email), "customer of the processor": byProcessor(ada.processorCustomer),
		"transaction": byTransaction(ada.charged), "session": byTransaction("cs_ada1"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.putEvent("evt_new", processor.EventReceived, `{"id":"cs_ada1","payment_intent":"`+ada.charged+`","customer":"`+ada.processorCustomer+`","email":"`+ada.email+`"}`)
			operation := f.mustRequest("k1", who)
			f.waitForEvents(operation)
			f.apply("evt_new", ada.sale(f, ada.charged, "1"))
			f.requirePresent(ada.charged)
			f.work(operation)
			if got := f.status(operation); got != done {
				t.Errorf("status %s, want done", got)
			}
			f.requireAbsent(ada.values()...)
			f.requireAbsent(f.hashesOf(ada.email, ada.customer, ada.processorCustomer)...)
		})
	}
}

// The job of such an event can also add the customer of the processor to a sale that the
// merchant's server has reported.
func TestErase_ErasesSalesToWhichEventsAddTheCustomer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.order(f.pat, ada.charged)
	f.putEvent("evt_new", processor.EventReceived, `{"customer":"`+ada.processorCustomer+`"}`)
	operation := f.mustRequest("k1", byProcessor(ada.processorCustomer))
	f.waitForEvents(operation)
	f.requirePresent(ada.charged)
	f.apply("evt_new", ada.sale(f, ada.charged, "1"))
	f.work(operation)
	if got := f.status(operation); got != done {
		t.Errorf("status %s, want done", got)
	}
	f.requireAbsent(ada.values()...)
}

// An erasure ends although the buyer buys all the time: it covers the sales up to the request.
func TestErase_EndsAlthoughTheBuyerGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.order(f.pat, ada.test, ada.describe)
	operation := f.mustRequest("k1", byEmail(ada.email))
	f.clock.Advance(conversion.MaxConversionLead + time.Second)
	sales := 0
	f.useHook(func(sql string, _ []any) error {
		if sql != "begin" {
			return nil
		}
		if sales++; sales > 50 {
			return errors.New("the erasure does not end")
		}
		f.order(f.pat, fmt.Sprintf("%s-%d", ada.live, sales), ada.describe)
		return nil
	})
	f.work(operation)
	if got := f.status(operation); got != done {
		t.Errorf("status %s, want done", got)
	}
	f.requireAbsent(ada.test)
	f.WantCount(sales, "conversions after the request", `select count(*) from conversions where buyer_erased_at is null`)
}

// A request can join between two transactions of the last step. The step then searches again.
func TestEraseBuyer_JoiningRequestRestartsTheLastStep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	operation := f.mustRequest("k1", byEmail(ada.email))
	joined := ""
	f.useHook(func(sql string, _ []any) error {
		const searched = `select count(*) from buyer_erasures where step = 'again' and position <> ''`
		if sql != "begin" || joined != "" || f.Count(searched) == 0 {
			return nil
		}
		joined = "joins"
		f.clock.Advance(time.Hour)
		f.order(f.pat, ada.test, ada.describe)
		joined = f.mustRequest("k2", byEmail(ada.email))
		return nil
	})
	f.work(operation)
	if joined != operation || f.status(operation) != done {
		t.Fatalf("operation %s has status %s; the second request has joined %q", operation, f.status(operation), joined)
	}
	f.requireAbsent(ada.test)
	f.WantCount(1, "erased conversions", `select count(*) from conversions where buyer_erased_at is not null`)
}

// A request that joins an erasure also erases what was stored after the first request, of which
// only the value of the request can find the sale.
func TestEraseBuyer_JoiningRequestSearchesAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.putEvent("evt_new", processor.EventReceived, `{"id":"`+ada.test+`"}`)
	operation := f.mustRequest("k1", byTransaction(ada.test))
	f.waitForEvents(operation)
	f.order(f.pat, ada.test, ada.describe)
	f.order(f.livePa, ada.live, ada.describe)
	if got := f.mustRequest("k2", byTransaction(ada.test)); got != operation {
		t.Error("the second request did not join")
	}
	f.clock.Advance(10 * time.Minute)
	f.work(operation)
	if got := f.status(operation); got != done {
		t.Errorf("status %s, want done", got)
	}
	f.requireAbsent(ada.values()...)
	f.requireAbsent(f.hashesOf(ada.email, ada.customer)...)
}

// replay applies an entry of the erasure log again.
func (f *fixture) replay(entry privacy.ErasureLogEntry) {
	f.Helper()
	who, ok := privacy.BuyerOfEntry(entry)
	if err := f.service.Replay(f.Context(), *entry.Workspace, who, entry.At); err != nil || !ok || !entry.Valid() {
		f.Fatalf("the entry %+v: %v", entry, err)
	}
}

// active returns the only erasure that is being processed.
func (f *fixture) active() string {
	f.Helper()
	operations := f.Texts(`select id::text from buyer_erasures where status = 'processing'`)
	if len(operations) != 1 {
		f.Fatalf("%d erasures are being processed, want 1", len(operations))
	}
	return operations[0]
}

// After a restore of the database, an erasure is applied again by the digest in the log.
func TestReplay_ErasesByTheDigest(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		who  func(p person) *identity
	}{
		{"e-mail", func(p person) *identity { return byEmail(p.email) }},
		{"customer", func(p person) *identity { return byCustomer(p.customer) }},
		{"transaction", func(p person) *identity { return byTransaction(p.live) }},
		{"alias", func(p person) *identity { return byTransaction("ch_" + p.name + "1") }},
		{"customer of the processor", func(p person) *identity { return byProcessor(p.processorCustomer) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := newFixture(t)
			ada := newPerson("ada")
			before.erase("k1", tc.who(ada)) // the buyer is not known yet: only the log has the erasure
			entry := before.log.entries[0]
			before.buys(ada)
			if _, err := before.refund(before.Scope, "parked-order", "parked-refund", 1); err != nil {
				t.Fatal(err)
			}
			before.replay(entry)
			before.replay(entry)
			before.clock.Advance(time.Hour)
			before.work(before.active())
			before.requireAbsent(ada.values()...)
			before.requirePresent("parked-order")
		})
	}
}
