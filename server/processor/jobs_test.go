package processor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// putSale stores a paid checkout session and its charge at Stripe.
func (f *fixture) putSale(name string, overrides object) {
	f.put(
		stripeserver.NewSession("cs_"+name, with(object{
			"created": f.ago(0), "amount_total": 10_000, "currency": "usd", "payment_intent": "pi_" + name, "client_reference_id": f.click(),
		}, overrides)),
		stripeserver.NewCharge("ch_"+name, object{"amount": 10_000, "currency": "usd"}),
	)
}

// putRefund stores a refund of a sale at Stripe and returns an event about it.
func (f *fixture) putRefund(name string, amount int) []byte {
	f.put(stripeserver.NewRefund("re_"+name, object{"amount": amount, "currency": "usd"}))
	return f.event("refund.created", "re_"+name)
}

// storeEvent delivers an event without running its job.
func (f *fixture) storeEvent(body []byte) {
	f.Helper()
	if _, err := f.deliver(body); err != nil {
		f.Fatal(err)
	}
}

// fail runs the job of an event, which must fail unless the attempt is the last one.
func (f *fixture) fail(body []byte, last bool) {
	f.Helper()
	if _, err := f.service.Apply(f.Context(), f.keyOf(body), last); (err != nil) == last {
		f.Fatalf("Apply returned the error %v for the last attempt: %t", err, last)
	}
}

func (f *fixture) wantBody(stored bool, body []byte) {
	f.Helper()
	if got := f.Count(`select count(*) from processor_events where id = $1 and body is not null`, idOf(body)) == 1; got != stored {
		f.Errorf("the body of the event is stored: %t, want %t", got, stored)
	}
}

func TestApply_RepeatsAfterErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		fault  stripeserver.Fault
		reason string
	}{
		"500":         {stripeserver.Fault{Status: http.StatusInternalServerError}, "processor_unavailable"},
		"429":         {stripeserver.Fault{Status: http.StatusTooManyRequests}, "processor_unavailable"},
		"time-out":    {stripeserver.Fault{Hang: 10 * time.Second}, "processor_unavailable"},
		"half answer": {stripeserver.Fault{Half: true, Times: 2}, "processor_unavailable"},
		"bad key":     {stripeserver.Fault{Status: http.StatusUnauthorized}, "key_invalid"},
		"permission":  {stripeserver.Fault{Status: http.StatusForbidden}, "permission_missing"},
		"bad request": {stripeserver.Fault{Status: http.StatusBadRequest, Code: "parameter_unknown"}, "internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, pgtest.Row{"currency": "USD"})
			f.connect()
			f.putSale("a", nil)
			wantOutcome(t, f.apply(f.event("checkout.session.completed", "cs_a")), "applied")
			body := f.putRefund("a", 10_000)
			f.storeEvent(body)
			tc.fault.Path = "/v1/refunds"
			f.stripe.Fail(tc.fault)
			ctx, cancel := f.Context(), func() {}
			if tc.fault.Hang > 0 {
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
			}
			defer cancel()
			if _, err := f.service.Apply(ctx, f.keyOf(body), false); err == nil {
				t.Fatal("Apply succeeded")
			}
			wantOutcome(t, f.outcome(body), "received:"+tc.reason)
			f.wantBody(true, body)
			wantOutcome(t, f.run(body), "applied")
			f.wantBody(false, body)
			if got := f.Texts(`select status from conversions`); !slices.Equal(got, []string{"refunded"}) {
				t.Errorf("the conversion is %q, want refunded", got)
			}
		})
	}
}

func TestApply_FailedEventBeginsAgain(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	f.putSale("a", nil)
	wantOutcome(t, f.apply(f.event("checkout.session.completed", "cs_a")), "applied")
	first, second := f.putRefund("a", 1_000), f.event("charge.refunded", "ch_a")
	wantNotices := func(want int) {
		t.Helper()
		f.WantCount(want, "notifications", `select count(*) from notifications where type = 'processor.event_failed'`)
	}
	denied := stripeserver.Fault{Path: "/v1/refunds", Status: http.StatusForbidden}
	for i, body := range [][]byte{first, second} {
		f.storeEvent(body)
		f.stripe.Fail(denied)
		f.fail(body, true)
		wantOutcome(t, f.outcome(body), "failed:permission_missing")
		f.wantBody(true, body)
		wantNotices(1) // one notification in a day
		f.storeEvent(body)
		if i == 0 {
			wantOutcome(t, f.outcome(body), "received")
		}
	}
	f.clock.Advance(24 * time.Hour)
	f.stripe.Fail(denied)
	f.fail(second, true)
	wantNotices(2)

	// A repetition by Stripe begins the work on the first event again, and a resync the work on
	// the second one.
	wantOutcome(t, f.run(first), "applied")
	f.requestResync(2)
	f.runResync()
	wantOutcome(t, f.outcome(first), "applied")
	wantOutcome(t, f.outcome(second), "received")
	wantOutcome(t, f.run(second), "applied")
	wantSales(t, f, "pi_a purchase 10000 USD CLICK_MATCHED pending 2700")
}

// An event that cannot be read is not tried again.
func TestApply_MalformedEvent(t *testing.T) {
	f := newFixture(t)
	f.connect()
	body := []byte(`{"id":"evt_1","type":"invoice.paid","created":1,"data":{"object":{"id":"../1"}}}`)
	f.storeEvent(body)
	f.fail(body, true)
	wantOutcome(t, f.outcome(body), "failed:internal_error")
	f.storeEvent(body)
	wantOutcome(t, f.run(body), "failed:internal_error")
}

func TestApply_ParkedEventsWaitLonger(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	f.putSale("a", nil)
	body := f.putRefund("a", 1_000)
	f.storeEvent(body)
	received := f.clock.Now()
	for age, want := range map[time.Duration]time.Duration{
		time.Second: 15 * time.Second, time.Hour: 15 * time.Minute, 10 * time.Hour: 150 * time.Minute, 50 * 24 * time.Hour: 24 * time.Hour,
	} {
		f.clock.Set(received.Add(age))
		wait, err := f.service.Apply(t.Context(), f.keyOf(body), false)
		if err != nil || (wait-want).Abs() > time.Second {
			t.Errorf("after %s, Apply returned %s, %v, want %s", age, wait, err, want)
		}
		wantOutcome(t, f.outcome(body), "parked:waits_for_sale")
	}
	// Only the first attempt reads from Stripe.
	if n := f.requests("/v1/refunds"); n != 1 {
		t.Errorf("the refunds were read %d times, want once", n)
	}
	f.clock.Set(received.Add(conversion.ParkedRefundLifetime))
	wantOutcome(t, f.run(body), "ignored:no_conversion")
	f.wantBody(false, body)
	// When Stripe or a resync sends the event again, it waits again.
	wantOutcome(t, f.apply(body), "parked:waits_for_sale")
}

// requests returns the number of requests to a path of Stripe.
func (f *fixture) requests(path string) (n int) {
	for _, r := range f.stripe.Requests() {
		if r.Path == path {
			n++
		}
	}
	return n
}

// The process was killed in the last attempt.
func TestEndAbandoned(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	f.putSale("a", nil)
	killed, parked := f.event("checkout.session.completed", "cs_a"), f.putRefund("b", 1_000)
	f.storeEvent(killed)
	wantOutcome(t, f.apply(parked), "parked:waits_for_sale")
	f.clock.Advance(processor.EventAbandoned - time.Minute)
	f.endAbandoned()
	wantOutcome(t, f.outcome(killed), "received")
	f.clock.Advance(2 * time.Minute)
	recent := f.event("checkout.session.completed", "cs_a")
	f.storeEvent(recent)
	f.endAbandoned()
	wantOutcome(t, f.outcome(killed), "failed:internal_error")
	wantOutcome(t, f.outcome(parked), "parked:waits_for_sale")
	wantOutcome(t, f.outcome(recent), "received")
	f.WantCount(1, "notifications", `select count(*) from notifications where type = 'processor.event_failed'`)
	wantOutcome(t, f.apply(killed), "applied")
}

func (f *fixture) endAbandoned() {
	f.Helper()
	if err := f.service.EndAbandoned(f.Context(), processor.EndAbandonedEvents{}); err != nil {
		f.Fatal(err)
	}
}

// An error of a sale that waits is shown.
func TestApply_ParkedEventAfterError(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"}, pgtest.Rules(func(r *program.Rules) { r.NetBasis = program.NetOfTaxShippingAndFee }))
	f.connect()
	f.putSale("a", nil)
	f.put(stripeserver.NewPaymentIntent("pi_a", nil))
	body := f.event("checkout.session.completed", "cs_a")
	wantOutcome(t, f.apply(body), "parked:waits_for_fee")
	f.stripe.Fail(stripeserver.Fault{Path: "/v1/payment_intents/pi_a", Status: http.StatusInternalServerError, Times: 2})
	f.fail(body, false)
	wantOutcome(t, f.outcome(body), "received:processor_unavailable")
}

// An event of the account that was connected before is not read with the key of another
// account.
func TestApply_EventOfAnotherAccount(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	f.putSale("a", nil)
	waiting := f.event("checkout.session.completed", "cs_a")
	f.storeEvent(waiting)
	f.disconnect()
	const otherKey = "rk_test_other0123456789"
	f.stripe.SetAccount(otherKey, "acct_other")
	f.connect(func(r *affiliatev1.ConnectProcessorRequest) { r.RestrictedKey = otherKey })
	wantOutcome(t, f.run(waiting), "ignored:disconnected")
	wantSales(t, f)
}

// The checkout of a new subscription may have the click of another partner than the one to
// whom the customer is bound. The first invoice therefore waits until the checkout is visible.
func TestApply_FirstInvoiceOfBoundCustomerWaits(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	ben := f.NewClick(f.Join("Ben")).ID.String()
	f.putSale("a", object{"customer": "cus_a"})
	wantOutcome(t, f.apply(f.event("checkout.session.completed", "cs_a")), "applied")
	f.clock.Advance(minutes(1))
	f.put(
		stripeserver.NewInvoice("in_b", object{
			"customer": "cus_a", "billing_reason": "subscription_create", "amount_paid": 2_000, "created": f.ago(0), "status_transitions": object{"paid_at": f.ago(0)},
		}),
		stripeserver.NewInvoicePayment("inpay_b", nil),
	)
	invoice := f.event("invoice.paid", "in_b")
	wantOutcome(t, f.apply(invoice), "parked:waits_for_checkout")
	f.put(stripeserver.NewSession("cs_b", object{
		"mode": "subscription", "customer": "cus_a", "subscription": "sub_b", "invoice": "in_b", "payment_intent": nil, "client_reference_id": ben,
		"created": f.ago(0), "amount_total": 2_000,
	}))
	wantOutcome(t, f.run(invoice), "applied")
	wantSales(t, f, "pi_a purchase 10000 USD CLICK_MATCHED pending 3000", "in_b purchase 2000 USD CLICK_MATCHED pending 600")
}

// A visible checkout has all signals of a subscription, so nothing waits for more.
func TestApply_FirstInvoiceWithCheckoutDoesNotWait(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	f.put(
		stripeserver.NewSession("cs_a", object{
			"mode": "subscription", "customer": "cus_a", "subscription": "sub_a", "invoice": "in_a", "payment_intent": nil, "created": f.ago(0),
		}),
		stripeserver.NewInvoice("in_a", object{
			"customer": "cus_a", "billing_reason": "subscription_create", "created": f.ago(0), "status_transitions": object{"paid_at": f.ago(0)},
		}),
		stripeserver.NewInvoicePayment("inpay_a", nil),
	)
	wantOutcome(t, f.apply(f.event("invoice.paid", "in_a")), "applied")
	wantSales(t, f, "in_a purchase 5000 USD NO_ATTRIBUTION_SIGNAL nothing")
}

func TestApply_Disconnected(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	f.putSale("a", nil)
	waiting, parked := f.event("checkout.session.completed", "cs_a"), f.putRefund("b", 1_000)
	f.storeEvent(waiting)
	wantOutcome(t, f.apply(parked), "parked:waits_for_sale")
	job := f.disconnect()
	wantOutcome(t, f.run(waiting), "ignored:disconnected")
	if err := f.service.RemoveEndpoint(t.Context(), job, false); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, f.run(parked), "ignored:disconnected")
	wantSales(t, f)
	_, err := f.deliver(f.event("checkout.session.completed", "cs_a"))
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if err := f.service.Resync(t.Context(), f.resyncJob(time.Hour)); err != nil {
		t.Errorf("Resync of a connection that does not exist: %v", err)
	}
}

// disconnect disconnects the account and returns the job that this enqueues.
func (f *fixture) disconnect() processor.RemoveProcessorEndpoint {
	f.Helper()
	if _, err := f.service.DisconnectProcessor(f.asOwner(), &affiliatev1.DisconnectProcessorRequest{Processor: "stripe"}); err != nil {
		f.Fatal(err)
	}
	endpoints := f.stripe.Endpoints()
	return processor.RemoveProcessorEndpoint{Workspace: f.Scope.Workspace, Connection: f.connection, Endpoint: endpoints[len(endpoints)-1].ID}
}

func TestRemoveEndpoint(t *testing.T) {
	unavailable := stripeserver.Fault{Method: http.MethodDelete, Path: "/v1/webhook_endpoints", Status: http.StatusInternalServerError}
	for name, tc := range map[string]struct {
		prepare   func(f *fixture)
		last      bool
		removed   bool // the connection
		endpoints int  // that stay at Stripe
	}{
		"normal":                    {func(*fixture) {}, false, true, 0},
		"key rejected":              {func(f *fixture) { f.stripe.RejectKey(testKey) }, false, true, 1},
		"permission missing":        {func(f *fixture) { f.stripe.Deny(testKey, "rak_webhook_write") }, false, true, 1},
		"unavailable":               {func(f *fixture) { f.stripe.Fail(unavailable) }, false, false, 1},
		"unavailable, last attempt": {func(f *fixture) { f.stripe.Fail(unavailable) }, true, true, 1},
		"already deleted":           {func(f *fixture) { f.stripe.Delete(f.stripe.Endpoints()[0].ID) }, false, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.connect()
			job := f.disconnect()
			tc.prepare(f)
			if err := f.service.RemoveEndpoint(t.Context(), job, tc.last); (err == nil) != tc.removed {
				t.Fatalf("RemoveEndpoint: %v", err)
			}
			if got := len(f.stripe.Endpoints()); got != tc.endpoints {
				t.Errorf("%d endpoints are at Stripe, want %d", got, tc.endpoints)
			}
			f.WantCount(map[bool]int{true: 0, false: 1}[tc.removed], "connections", `select count(*) from processor_connections`)
			if err := f.service.RemoveEndpoint(t.Context(), job, false); err != nil {
				t.Errorf("repeated: %v", err)
			}
			f.WantCount(0, "connections", `select count(*) from processor_connections`)
		})
	}
}

// The endpoints of earlier connections are deleted too.
func TestRemoveEndpoint_ReplacedEndpoints(t *testing.T) {
	f := newFixture(t)
	f.connect()
	f.clock.Advance(time.Hour)
	f.connect()
	if got := len(f.stripe.Endpoints()); got != 2 {
		t.Fatalf("%d endpoints are at Stripe, want the replaced one and the new one", got)
	}
	job := f.disconnect()
	if err := f.service.RemoveEndpoint(t.Context(), job, false); err != nil {
		t.Fatal(err)
	}
	if got := f.stripe.Endpoints(); len(got) != 0 {
		t.Errorf("the endpoints %+v are at Stripe, want none", got)
	}
}

// The merchant has connected the account again before the job of the earlier connection runs.
func TestRemoveEndpoint_LaterConnection(t *testing.T) {
	f := newFixture(t)
	f.connect()
	job := f.disconnect()
	f.connect()
	for range 2 {
		if err := f.service.RemoveEndpoint(t.Context(), job, false); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.stripe.Endpoints(); len(got) != 1 || got[0].Secret != f.secret {
		t.Errorf("the endpoints %+v are at Stripe, want the one of the later connection", got)
	}
	f.WantCount(1, "connections", `select count(*) from processor_connections where deleted_at is null`)
	f.put(stripeserver.NewSession("cs_a", nil))
	if _, err := f.deliver(f.event("checkout.session.completed", "cs_a")); err != nil {
		t.Errorf("an event of the later connection: %v", err)
	}
}

// The merchant is notified once when the endpoint stops working, and again after it has worked
// in the meantime.
func TestCheckEndpoint(t *testing.T) {
	f := newFixture(t)
	f.connect()
	check := func(want int, when string) {
		t.Helper()
		for range 2 {
			if err := f.service.CheckEndpoints(t.Context(), processor.CheckProcessorEndpoints{}); err != nil {
				t.Fatal(err)
			}
			jobs := f.Texts(`delete from river.river_job where kind = 'check_processor_endpoint' returning args::text`)
			var job processor.CheckProcessorEndpoint
			if len(jobs) != 1 || json.Unmarshal([]byte(jobs[0]), &job) != nil {
				t.Fatalf("%s: the jobs are %q, want one", when, jobs)
			}
			if err := f.service.CheckEndpoint(t.Context(), job); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		f.WantCount(want, "notifications "+when, `select count(*) from notifications where type = 'processor.endpoint_failing'`)
	}
	check(0, "at first")
	f.stripe.Fail(stripeserver.Fault{Path: "/v1/webhook_endpoints", Status: http.StatusInternalServerError, Times: 2})
	check(0, "while Stripe does not respond")
	endpoint := f.stripe.Endpoints()[0].ID
	f.setEndpointStatus("disabled")
	check(1, "after the endpoint was disabled")
	f.setEndpointStatus("enabled")
	check(1, "after the endpoint was enabled")
	f.stripe.Delete(endpoint)
	check(2, "after the endpoint was deleted")
	f.connect()
	check(2, "after a reconnection")
	f.stripe.RejectKey(testKey)
	check(3, "after the key was deleted")
	reasons := f.Texts(`select facts->>'reason' from notifications where type = 'processor.endpoint_failing' order by id`)
	want := []string{"the webhook endpoint was disabled there", "the webhook endpoint was deleted there", "the key is no longer accepted"}
	if !slices.Equal(reasons, want) {
		t.Errorf("the reasons are %q, want %q", reasons, want)
	}
}

// resyncJob returns the job of a resync that begins now.
func (f *fixture) resyncJob(age time.Duration) processor.ResyncProcessor {
	now := f.clock.Now()
	return processor.ResyncProcessor{
		Workspace: f.Scope.Workspace, Mode: f.Scope.Mode, Connection: f.connection, Since: now.Add(-age), From: now.Add(-age), Until: now,
		Number: f.Count(`select coalesce(max(resync_number), 0) from processor_connections`), Account: f.Texts(`select coalesce(max(account_id), '') from processor_connections`)[0],
	}
}

// setEndpointStatus changes the status of the oldest endpoint at Stripe.
func (f *fixture) setEndpointStatus(status string) {
	changed, _ := f.stripe.Object(f.stripe.Endpoints()[0].ID)
	changed["status"] = status
	f.put(changed)
}

// takeResync deletes the oldest job of the kind resync_processor and returns it. ok is false
// if there is no such job.
func (f *fixture) takeResync() (job processor.ResyncProcessor, ok bool) {
	f.Helper()
	jobs := f.Texts(`delete from river.river_job where id = (select min(id) from river.river_job where kind = 'resync_processor') returning args::text`)
	if len(jobs) == 0 {
		return job, false
	}
	if err := json.Unmarshal([]byte(jobs[0]), &job); err != nil {
		f.Fatal(err)
	}
	return job, true
}

// runResync runs all jobs of resyncs and returns their number.
func (f *fixture) runResync() (parts int) {
	f.Helper()
	for {
		job, ok := f.takeResync()
		if !ok {
			return parts
		}
		if err := f.service.Resync(f.Context(), job); err != nil {
			f.Fatal(err)
		}
		parts++
	}
}

// requestResync asks for a resync of the last days.
func (f *fixture) requestResync(days int) {
	f.Helper()
	f.resyncSince(f.clock.Now().AddDate(0, 0, -days))
}

func (f *fixture) resyncSince(since time.Time) {
	f.Helper()
	request := &affiliatev1.ResyncProcessorRequest{Processor: "stripe", Since: timestamppb.New(since)}
	if _, err := f.service.ResyncProcessor(f.asOwner(), request); err != nil {
		f.Fatal(err)
	}
}

// A resync reads one day after the other. A second one replaces it and reads no less.
func TestResync_Parts(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	f.putSale("a", nil)
	now := f.clock.Now()
	for days := range 10 {
		f.stripe.Event("checkout.session.completed", "cs_a", stripeserver.EventCreated(now.AddDate(0, 0, -days).Add(-time.Minute)))
	}
	f.requestResync(8)
	f.requestResync(3)
	if parts := f.runResync(); parts < 1+8 || parts > 1+9 { // the first job does nothing; the last part may be very short
		t.Errorf("the resyncs had %d jobs, want 9 or 10", parts)
	}
	f.WantCount(8, "events", `select count(*) from processor_events where resync`)
	f.WantCount(1, "connections without a running resync", `select count(*) from processor_connections where resync_from is null and resync_number = 2`)
	f.requestResync(3)
	if parts := f.runResync(); parts < 3 || parts > 4 {
		t.Errorf("the resync had %d jobs, want 3 or 4", parts)
	}
}

// A job can run a second time, for example after a crash. The next part is enqueued once.
func TestResync_RepeatedJob(t *testing.T) {
	f := newFixture(t)
	f.connect()
	f.requestResync(3)
	first, _ := f.takeResync()
	for range 2 {
		if err := f.service.Resync(t.Context(), first); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.CountJobs(first.Kind()); got != 1 {
		t.Errorf("%d jobs for the next part, want 1", got)
	}
	f.runResync()
	if err := f.service.Resync(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if got := f.CountJobs(first.Kind()); got != 0 {
		t.Errorf("%d jobs after the end of the resync, want 0", got)
	}
}

// A day with more events than one call may read is divided.
func TestResync_DividesBusyDays(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	f.putSale("a", nil)
	busy := f.clock.Now().Add(-30 * time.Hour)
	const events = 450
	for i := range events {
		f.stripe.Event("checkout.session.completed", "cs_a", stripeserver.EventCreated(busy.Add(time.Duration(i)*time.Minute)))
	}
	f.requestResync(2)
	if parts := f.runResync(); parts < 3 {
		t.Errorf("the resync had %d parts, want more than 2", parts)
	}
	f.WantCount(events, "events", `select count(*) from processor_events where resync`)
}

func TestResync_StoresMissingEvents(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	f.putSale("a", nil)
	known := f.event("checkout.session.completed", "cs_a")
	wantOutcome(t, f.apply(known), "applied")
	now := f.clock.Now()
	f.stripe.Event("checkout.session.completed", "cs_a", stripeserver.EventLivemode(true))
	f.stripe.Event("checkout.session.completed", "cs_a", stripeserver.EventAccount("acct_other"))
	f.stripe.Event("checkout.session.completed", "cs_a", stripeserver.EventCreated(now.Add(-2*time.Hour)))
	f.stripe.Event("customer.created", "cs_a")
	missing := 120 // more than a batch
	for i := range missing {
		f.stripe.Event("checkout.session.completed", "cs_a", stripeserver.EventID(fmt.Sprintf("evt_missing%03d", i)), stripeserver.EventCreated(now.Add(-time.Minute)))
	}
	jobs := f.CountJobs(processor.ApplyProcessorEvent{}.Kind())
	for range 2 {
		if err := f.service.Resync(t.Context(), f.resyncJob(time.Hour)); err != nil {
			t.Fatal(err)
		}
		f.WantCount(missing, "events of the resync", `select count(*) from processor_events where resync and status = 'received' and since is not null`)
		f.WantCount(missing+1, "events", `select count(*) from processor_events`)
		if got := f.CountJobs(processor.ApplyProcessorEvent{}.Kind()); got != jobs+missing {
			t.Errorf("%d jobs, want %d", got, jobs+missing)
		}
	}
	if _, err := f.service.Apply(t.Context(), processor.EventKey{
		Workspace: f.Scope.Workspace, Mode: f.Scope.Mode, Connection: f.connection, Event: "evt_missing007",
	}, false); err != nil {
		t.Fatal(err)
	}
	wantSales(t, f, "pi_a purchase 10000 USD CLICK_MATCHED pending 3000")

	f.stripe.Fail(stripeserver.Fault{Path: "/v1/events", Status: http.StatusInternalServerError, Times: 2})
	if err := f.service.Resync(t.Context(), f.resyncJob(time.Hour)); err == nil {
		t.Error("Resync returned no error although Stripe is not available")
	}
}

func TestApply_Concurrently(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	f.putSale("a", object{"customer": "cus_a"})
	session := f.event("checkout.session.completed", "cs_a")
	bodies := [][]byte{session, session, session, session}
	bodies = append(bodies, f.putRefund("a", 2_000))
	f.put(stripeserver.NewRefund("re_b", object{"charge": "ch_a", "payment_intent": "pi_a", "amount": 1_000, "currency": "usd"}))
	bodies = append(bodies, f.event("refund.created", "re_b"), f.event("refund.updated", "re_b"))
	f.put(stripeserver.NewDispute("dp_a", object{"amount": 5_000, "currency": "usd", "status": "lost"}))
	for i, kind := range []string{"charge.refunded", "charge.dispute.created", "charge.dispute.closed"} {
		bodies = append(bodies, f.event(kind, []string{"ch_a", "dp_a", "dp_a"}[i]))
	}
	for range 3 { // an event about a charge is parked if it is applied before the sale
		var calls sync.WaitGroup
		for _, body := range bodies {
			calls.Go(func() {
				if _, err := f.deliver(body); err != nil {
					t.Errorf("deliver: %v", err)
					return
				}
				if _, err := f.service.Apply(t.Context(), f.keyOf(body), false); err != nil {
					t.Errorf("Apply: %v", err)
				}
			})
		}
		calls.Wait()
	}
	f.WantCount(0, "events that wait", `select count(*) from processor_events where status <> 'applied'`)
	wantSales(t, f, "pi_a purchase 10000 USD CLICK_MATCHED pending 600")
	if got := f.Texts(`select format('%s %s', status, refunded_amount_cents) from conversions`); !slices.Equal(got, []string{"partially_refunded 8000"}) {
		t.Errorf("the conversion is %q, want partially_refunded 8000", got)
	}
	f.wantNoViolations()
}

func TestApply_Fees(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"}, pgtest.Rules(func(r *program.Rules) { r.NetBasis = program.NetOfTaxShippingAndFee }))
	f.connect()
	f.putSale("a", nil)
	f.put(stripeserver.NewPaymentIntent("pi_a", nil), stripeserver.NewBalanceTransaction("txn_a", object{"amount": 10_000, "currency": "usd", "fee": 320}))
	wantOutcome(t, f.apply(f.event("checkout.session.completed", "cs_a")), "applied")
	wantSales(t, f, "pi_a purchase 10000 USD CLICK_MATCHED pending 2904")

	for _, name := range []string{"b", "c"} {
		f.putSale(name, nil)
		f.put(stripeserver.NewPaymentIntent("pi_"+name, nil))
	}
	known, unknown := f.event("checkout.session.completed", "cs_b"), f.event("checkout.session.completed", "cs_c")
	wantOutcome(t, f.apply(known), "parked:waits_for_fee")
	wantOutcome(t, f.apply(unknown), "parked:waits_for_fee")
	f.put(stripeserver.NewBalanceTransaction("txn_b", object{"amount": 10_000, "currency": "usd", "fee": 1_000}))
	wantOutcome(t, f.run(known), "applied")
	f.clock.Advance(processor.FeeWait)
	wantOutcome(t, f.run(unknown), "applied")
	got := f.Texts(`select format('%s %s %s', external_transaction_id, amount_cents, review_reasons) from commissions order by 1`)
	if want := []string{"pi_a 2904 {}", "pi_b 2700 {}", "pi_c 3000 {fee_missing}"}; !slices.Equal(got, want) {
		t.Errorf("the commissions are %q, want %q", got, want)
	}
}
