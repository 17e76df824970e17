package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/tributary-hq/tributary/tools/stripeserver"
)

const stripePath = "/api/v1/integrations/stripe"

// stripeStandIn returns the stand-in for Stripe that all systems of this package use. It is
// created when the first test needs it, because reading the description of Stripe's API
// takes seconds.
var stripeStandIn = sync.OnceValue(func() *stripeserver.Server {
	server, err := stripeserver.New()
	if err != nil {
		panic(err)
	}
	return server
})

// stripeURL returns an address of the stand-in for Stripe that works until the test ends.
func stripeURL(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(stripeStandIn()) // created before the first request, because this takes seconds
	t.Cleanup(server.Close)
	return server.URL
}

// stripeAccount is an account at Stripe that is connected to a fixture's workspace. The
// names of its objects contain suffix, because all tests share the stand-in.
type stripeAccount struct {
	fixture
	key, suffix        string
	connection, secret string
}

// connectStripe connects a new account.
func (f fixture) connectStripe(t *testing.T) *stripeAccount {
	t.Helper()
	a := &stripeAccount{fixture: f, suffix: strings.ReplaceAll(f.program, "-", "")}
	a.key = "rk_test_" + a.suffix
	status := f.merchant.post(t, stripePath, object{"restrictedKey": a.key}).wantStatus(http.StatusCreated)
	a.connection = status.text("id")
	for _, endpoint := range stripeStandIn().Endpoints() {
		if strings.HasSuffix(endpoint.URL, a.connection) {
			a.secret = endpoint.Secret
		}
	}
	return a
}

// id returns the id of an object of the account.
func (a *stripeAccount) id(name string) string { return name + a.suffix }

// payment stores a paid checkout session and the objects that belong to it.
func (a *stripeAccount) payment(cents int, reference string) {
	s := stripeStandIn()
	s.Put(stripeserver.NewSession(a.id("cs_"), object{
		"payment_intent": a.id("pi_"), "amount_total": cents, "currency": "usd", "created": a.sys.clock.now().Unix(),
		"client_reference_id": reference,
	}))
	s.Put(stripeserver.NewCharge(a.id("ch_"), object{"payment_intent": a.id("pi_"), "amount": cents, "currency": "usd"}))
}

// event returns an event about an object of the account.
func (a *stripeAccount) event(eventType, id string) string {
	return string(stripeStandIn().Event(eventType, id, stripeserver.EventCreated(a.sys.clock.now())))
}

// deliver sends an event with a signature of the given age.
func (a *stripeAccount) deliver(t *testing.T, body, secret string, age time.Duration) response {
	t.Helper()
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: []byte(body), Secret: secret, Timestamp: a.sys.clock.now().Add(-age)})
	return a.sys.client().withHeader("Stripe-Signature", signed.Header).post(t, "/webhooks/stripe/"+a.connection, body)
}

// wantApplied delivers an event and waits until it is applied.
func (a *stripeAccount) wantApplied(t *testing.T, body string) {
	t.Helper()
	a.deliver(t, body, a.secret, 0).wantStatus(http.StatusOK).wantFields(object{"status": "received"})
	eventually(t, waitTimeout, "the event is applied", func() error {
		if got := a.merchant.get(t, stripePath+"/events"); !strings.Contains(got.body, `"status":"applied"`) || strings.Contains(got.body, `"received"`) {
			return fmt.Errorf("events: %s", got.body)
		}
		return nil
	})
}

// A merchant connects an account. A sale, a refund and a dispute arrive by themselves.
func TestStripe_SalesRefundsAndDisputesArrive(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	f.merchant.get(t, stripePath).wantStatus(http.StatusOK).wantFields(object{"connected": false, "id": nil, "accountId": nil})
	a := f.connectStripe(t)
	f.merchant.get(t, stripePath).wantStatus(http.StatusOK).wantFields(object{
		"connected": true, "processor": "stripe", "mode": "test", "endpointStatus": "enabled", "createConversions": true, "includeOutOfBand": false,
		"lag": 0, "signatureFailures": 0, "lastEventAt": nil, "webhookUrl": "https://api.example/webhooks/stripe/" + a.connection,
	})
	a.payment(5000, f.click(t))
	a.wantApplied(t, a.event("checkout.session.completed", a.id("cs_")))
	sale := sys.client().withCredential(f.secretKey).get(t, "/api/v1/conversions?external_transaction_id="+a.id("pi_")).wantStatus(http.StatusOK).wantFields(object{"total": 1})
	for _, part := range []string{`"source":"stripe"`, `"amount_cents":5000`, `"attributed":true`, `"reason_code":"CLICK_MATCHED"`, `"session_id":"` + a.id("cs_") + `"`} {
		if !strings.Contains(sale.body, part) {
			t.Errorf("the conversion lacks %s: %s", part, sale.body)
		}
	}
	// The merchant's server reports the same sale. It is not recorded again.
	f.report(t, object{"event_type": "purchase", "external_transaction_id": a.id("cs_"), "amount_cents": 5000, "currency": "USD", "promo_code": "X"}).
		wantOutcome(outcome{http.StatusConflict, "CONVERSION_DUPLICATE"})

	stripeStandIn().Put(stripeserver.NewDispute(a.id("dp_"), object{"charge": a.id("ch_"), "payment_intent": a.id("pi_"), "amount": 5000, "currency": "usd", "status": "needs_response"}))
	a.wantApplied(t, a.event("charge.dispute.created", a.id("dp_")))
	commissions := f.merchant.get(t, f.programPath()+"/commissions").wantStatus(http.StatusOK)
	for _, part := range []string{`"disputeStatus":"open"`, `"needsReview":true`, `"reviewReasons":["dispute"]`} {
		if !strings.Contains(commissions.body, part) {
			t.Errorf("the disputed commission lacks %s: %s", part, commissions.body)
		}
	}
	commission := f.programPath() + "/commissions/" + commissions.text("data.0.id")
	sys.clock.advance(25 * time.Hour)
	f.merchant = f.merchant.login(t)
	// An open dispute counts as an active hold, even after the hold period.
	f.merchant.patch(t, commission+"/approve", nil).wantOutcome(outcome{http.StatusConflict, "COMMISSION_HOLD_ACTIVE"})
	f.merchant.patch(t, commission+"/approve-override", object{"reason": "x"}).wantOutcome(outcome{http.StatusConflict, "COMMISSION_NEEDS_REVIEW"})
	f.merchant.patch(t, commission+"/clear-review", nil).wantStatus(http.StatusOK).wantFields(object{"needsReview": true, "disputeStatus": "open"})

	a.merchant = f.merchant
	stripeStandIn().Put(stripeserver.NewDispute(a.id("dp_"), object{"charge": a.id("ch_"), "payment_intent": a.id("pi_"), "amount": 5000, "currency": "usd", "status": "won"}))
	a.wantApplied(t, a.event("charge.dispute.closed", a.id("dp_")))
	f.merchant.get(t, commission).wantStatus(http.StatusOK).wantFields(object{"needsReview": false, "disputeStatus": "won"})
	f.merchant.get(t, stripePath+"/events").wantStatus(http.StatusOK).wantFields(object{"total": 3})

	// Other modes and workspaces cannot see the connection.
	for name, other := range map[string]caller{"live mode": f.merchant.inMode("live"), "another workspace": sys.newMerchant(t).inMode("test")} {
		other.get(t, stripePath).wantStatus(http.StatusOK).wantFields(object{"connected": false})
		other.get(t, stripePath+"/events").wantStatus(http.StatusOK).wantFields(object{"total": 0})
		other.do(t, http.MethodDelete, stripePath, nil).wantOutcome(notFound)
		if got := other.post(t, stripePath+"/resync", object{"since": sys.clock.now().UTC().Format(time.RFC3339)}); got.status != http.StatusNotFound {
			t.Errorf("%s: resync returns %d, want 404", name, got.status)
		}
	}
	f.merchant.do(t, http.MethodDelete, stripePath, nil).wantStatus(http.StatusNoContent)
	eventually(t, waitTimeout, "the endpoint is deleted at Stripe", func() error {
		for _, endpoint := range stripeStandIn().Endpoints() {
			if strings.HasSuffix(endpoint.URL, a.connection) {
				return fmt.Errorf("endpoint %s exists", endpoint.ID)
			}
		}
		return nil
	})
	a.deliver(t, "{}", a.secret, 0).wantOutcome(notFound)
}

// The processor's webhook accepts only what the processor has signed.
func TestStripe_HostileBodies(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	a := f.connectStripe(t)
	a.payment(5000, f.click(t))
	body := a.event("checkout.session.completed", a.id("cs_"))
	sys.clock.stop()
	badSignature := outcome{http.StatusUnauthorized, "INVALID_SIGNATURE"}
	for name, tc := range map[string]struct {
		body, secret string
		age          time.Duration
		want         outcome
	}{
		"another secret":                    {body, "whsec_x", 0, badSignature},
		"more than 5 minutes old":           {body, a.secret, 5*time.Minute + 2*time.Second, badSignature},
		"more than 5 minutes in the future": {body, a.secret, -5*time.Minute - 2*time.Second, badSignature},
		"not JSON":                          {"{", a.secret, 0, invalid},
		"an empty body":                     {"", a.secret, 0, invalid},
		"not an event":                      {`{"id":"evt_1"}`, a.secret, 0, invalid},
		"100,000 nested arrays":             {`{"id":"evt_1","type":"x","data":{"object":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`, a.secret, 0, invalid},
		"512 KiB and one byte":              {body + strings.Repeat(" ", 512<<10-len(body)+1), a.secret, 0, outcome{http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE"}},
		"a live event":                      {string(stripeStandIn().Event("checkout.session.completed", a.id("cs_"), stripeserver.EventLivemode(true))), a.secret, 0, ok},
		"an event of a connected account":   {string(stripeStandIn().Event("checkout.session.completed", a.id("cs_"), stripeserver.EventAccount("acct_2"))), a.secret, 0, ok},
	} {
		t.Run(name, func(t *testing.T) { a.deliver(t, tc.body, tc.secret, tc.age).wantOutcome(tc.want) })
	}
	t.Run("a signature over another body", func(t *testing.T) {
		signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: []byte(body), Secret: a.secret, Timestamp: sys.clock.now()})
		sys.client().withHeader("Stripe-Signature", signed.Header).post(t, "/webhooks/stripe/"+a.connection, body+" ").wantOutcome(badSignature)
	})
	t.Run("no signature", func(t *testing.T) {
		sys.client().post(t, "/webhooks/stripe/"+a.connection, body).wantOutcome(badSignature)
	})
	t.Run("another connection", func(t *testing.T) {
		sys.client().post(t, "/webhooks/stripe/"+f.program, body).wantOutcome(notFound)
		sys.client().post(t, "/webhooks/stripe/x", body).wantOutcome(notFound)
		sys.client().post(t, "/webhooks/paypal/"+a.connection, body).wantOutcome(notFound)
	})
	f.merchant.get(t, stripePath+"/events").wantStatus(http.StatusOK).wantFields(object{"total": 0})
	sys.client().withCredential(f.secretKey).get(t, "/api/v1/conversions").wantStatus(http.StatusOK).wantFields(object{"total": 0})
	f.merchant.get(t, stripePath).wantStatus(http.StatusOK).wantFields(object{"signatureFailures": 5})

	// A repeated event has no further effect.
	sys.clock.resume()
	for range 3 {
		a.wantApplied(t, body)
	}
	f.merchant.get(t, stripePath+"/events").wantStatus(http.StatusOK).wantFields(object{"total": 1})
	sys.client().withCredential(f.secretKey).get(t, "/api/v1/conversions").wantStatus(http.StatusOK).wantFields(object{"total": 1})
}

// In live mode, Stripe sends events to https URLs only.
func TestStripe_EndpointRejected(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_PUBLIC_URL": "http://api.example"}})
	f := sys.newFixture(t, "live", nil)
	request := object{"restrictedKey": "rk_live_" + strings.ReplaceAll(f.program, "-", "")}
	f.merchant.post(t, stripePath, request).wantOutcome(outcome{http.StatusUnprocessableEntity, "PROCESSOR_ENDPOINT_REJECTED"})
	f.merchant.get(t, stripePath).wantStatus(http.StatusOK).wantFields(object{"connected": false})
}

func testStripeConnectRefusals(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	key := "rk_test_" + strings.ReplaceAll(f.program, "-", "")
	connect := func(key string) response { return f.merchant.post(t, stripePath, object{"restrictedKey": key}) }
	connect("").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "restrictedKey")
	connect("sk_test_0123456789abcdef").wantOutcome(outcome{http.StatusUnprocessableEntity, "PROCESSOR_KEY_INVALID"})
	connect(strings.Replace(key, "test", "live", 1)).wantOutcome(outcome{http.StatusUnprocessableEntity, "MODE_MISMATCH"})
	stripeStandIn().RejectKey(key + "bad")
	connect(key + "bad").wantOutcome(outcome{http.StatusUnprocessableEntity, "PROCESSOR_KEY_INVALID"})
	stripeStandIn().Deny(key+"weak", "rak_webhook_write", "rak_invoice_read")
	refused := connect(key+"weak").wantError(http.StatusUnprocessableEntity, "PROCESSOR_PERMISSION_MISSING")
	if !strings.Contains(refused.body, `"missingPermissions":["invoice_read","webhook_write"]`) {
		t.Errorf("the error does not name the missing permissions: %s", refused.body)
	}
	f.merchant.get(t, stripePath).wantStatus(http.StatusOK).wantFields(object{"connected": false})
	first := connect(key).wantStatus(http.StatusCreated)
	stripeStandIn().SetAccount(key+"two", "acct_other")
	connect(key + "two").wantOutcome(outcome{http.StatusConflict, "PROCESSOR_ALREADY_CONNECTED"})
	stripeStandIn().SetAccount(key+"three", first.text("accountId"))
	connect(key + "three").wantStatus(http.StatusOK).wantFields(object{"id": first.text("id"), "accountId": first.text("accountId")})
	f.merchant.post(t, "/api/v1/integrations/paypal", object{"restrictedKey": key}).wantOutcome(notFound)
	for name, since := range map[string]time.Duration{"31 days": -31 * 24 * time.Hour, "tomorrow": 24 * time.Hour} {
		got := f.merchant.post(t, stripePath+"/resync", object{"since": sys.clock.now().Add(since).UTC().Format(time.RFC3339)})
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, `"field":"since"`) {
			t.Errorf("a resync since %s returns %d: %s", name, got.status, got.body)
		}
	}
	if strings.Contains(sys.logs.String(), key) {
		t.Error("the log contains a key")
	}
}
