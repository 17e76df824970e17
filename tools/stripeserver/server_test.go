package stripeserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stripe/stripe-go/v85"
)

// testKey is the key of requests for which the key does not matter.
const testKey = "rk_test_0123456789abcdef"

// running is a server that listens.
type running struct {
	*Server
	url string
}

func start(t *testing.T) running {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return running{Server: s, url: server.URL}
}

// client returns Stripe's client library. retries is the number of repetitions of a
// request that has failed.
func (r running) client(key string, retries int64) *stripe.Client {
	return stripe.NewClient(key, stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(r.url), MaxNetworkRetries: stripe.Int64(retries), LeveledLogger: &stripe.LeveledLogger{},
	})))
}

// response is the response to a request without the client library.
type response struct {
	status int
	header http.Header
	object map[string]any
}

// errorField returns a field of the error in the body.
func (r response) errorField(name string) string {
	value, _ := at(r.object, "error", name).(string)
	return value
}

// ids returns the ids of a list.
func (r response) ids() []string {
	found := []string{}
	data, _ := r.object["data"].([]any)
	for _, element := range data {
		found = append(found, idOf(element))
	}
	return found
}

// do sends a request with testKey. A form of nil means that there is no body. header has
// pairs of names and values.
func (r running) do(t *testing.T, method, path string, form url.Values, header ...string) response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+testKey)
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	received, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = received.Body.Close() }()
	body, err := io.ReadAll(received.Body)
	if err != nil {
		t.Fatal(err)
	}
	result := response{status: received.StatusCode, header: received.Header}
	if err := json.Unmarshal(body, &result.object); err != nil {
		t.Fatalf("%s %s returned %q, want a JSON object: %v", method, path, body, err)
	}
	return result
}

func (r running) get(t *testing.T, path string) response {
	t.Helper()
	return r.do(t, http.MethodGet, path, nil)
}

// stripeError returns the error of Stripe's client library.
func stripeError(t *testing.T, err error) *stripe.Error {
	t.Helper()
	var e *stripe.Error
	if !errors.As(err, &e) {
		t.Fatalf("the client returned the error %v, want a *stripe.Error", err)
	}
	return e
}

func TestRetrieve_ReturnsStoredObject(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Put(map[string]any{"id": "evt_1", "object": "event", "type": "a.b"})
	s.Put(NewPromotionCode("promo_1", nil))
	s.Put(map[string]any{"id": "SPRING", "object": "coupon"})
	for path, object := range map[string]map[string]any{
		"/v1/checkout/sessions/cs_1":     NewSession("cs_1", nil),
		"/v1/invoices/in_1":              NewInvoice("in_1", nil),
		"/v1/charges/ch_1":               NewCharge("ch_1", nil),
		"/v1/refunds/re_1":               NewRefund("re_1", nil),
		"/v1/disputes/dp_1":              NewDispute("dp_1", nil),
		"/v1/payment_intents/pi_1":       NewPaymentIntent("pi_1", nil),
		"/v1/invoice_payments/inpay_1":   NewInvoicePayment("inpay_1", nil),
		"/v1/balance_transactions/txn_1": NewBalanceTransaction("txn_1", nil),
		"/v1/promotion_codes/promo_1":    nil,
		"/v1/coupons/SPRING":             nil,
		"/v1/events/evt_1":               nil,
	} {
		if object != nil {
			s.Put(object)
		}
		want, _ := s.Object(path[strings.LastIndex(path, "/")+1:])
		if got := s.get(t, path); got.status != http.StatusOK || !reflect.DeepEqual(got.object, want) {
			t.Errorf("GET %s returned %d %v, want %v", path, got.status, got.object, want)
		}
	}
}

func TestRetrieve_MissingObjectIsNotFound(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Put(NewCharge("ch_1", nil))
	for path, message := range map[string]string{
		"/v1/checkout/sessions/cs_1":     "No such checkout.session: 'cs_1'",
		"/v1/invoices/in_1":              "No such invoice: 'in_1'",
		"/v1/charges/ch_2":               "No such charge: 'ch_2'",
		"/v1/refunds/re_1":               "No such refund: 're_1'",
		"/v1/disputes/dp_1":              "No such dispute: 'dp_1'",
		"/v1/payment_intents/pi_1":       "No such payment_intent: 'pi_1'",
		"/v1/payment_intents/ch_1":       "No such payment_intent: 'ch_1'", // an object of another type
		"/v1/invoice_payments/inpay_1":   "No such invoice_payment: 'inpay_1'",
		"/v1/balance_transactions/txn_1": "No such balance transaction: 'txn_1'",
		"/v1/promotion_codes/promo_1":    "No such promotion code: 'promo_1'",
		"/v1/coupons/SPRING":             "No such coupon: 'SPRING'",
		"/v1/events/evt_1":               "No such event: 'evt_1'",
		"/v1/webhook_endpoints/we_1":     "No such webhook endpoint: 'we_1'",
	} {
		got := s.get(t, path)
		if got.status != http.StatusNotFound || got.errorField("message") != message ||
			got.errorField("type") != "invalid_request_error" || got.errorField("code") != "resource_missing" {
			t.Errorf("GET %s returned %d %v, want 404 with the message %q", path, got.status, got.object, message)
		}
	}
}

func TestPut_CopiesAndReplaces(t *testing.T) {
	t.Parallel()
	s := start(t)
	object := map[string]any{"id": "ch_1", "object": "charge", "amount": 1, "metadata": map[string]any{"a": "b"}}
	s.Put(object)
	object["metadata"].(map[string]any)["a"] = "changed"
	copied, _ := s.Object("ch_1")
	copied["amount"] = 2
	want := map[string]any{"id": "ch_1", "object": "charge", "amount": 1.0, "metadata": map[string]any{"a": "b"}}
	if got, found := s.Object("ch_1"); !found || !reflect.DeepEqual(got, want) {
		t.Errorf("Object returned %v, want %v", got, want)
	}
	s.Put(map[string]any{"id": "ch_1", "object": "charge", "amount": 3})
	if got := s.get(t, "/v1/charges/ch_1").object; len(got) != 3 || got["amount"] != 3.0 {
		t.Errorf("the charge is %v after it was replaced, want only the new fields", got)
	}
	s.Delete("ch_1")
	s.Delete("ch_1")
	if got, found := s.Object("ch_1"); found {
		t.Errorf("Object returned %v after Delete", got)
	}
}

func TestPut_PanicsWithoutIDOrType(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, object := range map[string]map[string]any{
		"no id": {"object": "charge"}, "no type": {"id": "ch_1"}, "id is a number": {"id": 1, "object": "charge"},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: Put did not panic", name)
				}
			}()
			s.Put(object)
		}()
	}
}

func TestServer_RejectsWhatStripesDocumentForbids(t *testing.T) {
	t.Parallel()
	s := start(t)
	form := url.Values{"url": {"https://shop.example"}, "enabled_events[0]": {"charge.refunded"}}
	with := func(name, value string) url.Values {
		changed := maps.Clone(form)
		changed[name] = []string{value}
		return changed
	}
	for name, test := range map[string]struct {
		method, path string
		form         url.Values
		status       int
		want         string // part of the message
	}{
		"unknown path":                {http.MethodGet, "/v1/nothing", nil, 404, "Unrecognized request URL"},
		"resource that is not stored": {http.MethodGet, "/v1/customers/cus_7", nil, 404, "Unrecognized request URL"},
		"unknown query parameter":     {http.MethodGet, "/v1/charges?nothing=1", nil, 400, "additional properties"},
		"limit is not a number":       {http.MethodGet, "/v1/charges?limit=x", nil, 400, "limit"},
		"limit is too large":          {http.MethodGet, "/v1/charges?limit=101", nil, 400, "less than or equal to 100"},
		"limit is too small":          {http.MethodGet, "/v1/charges?limit=0", nil, 400, "greater than or equal to 1"},
		"parameter is not supported":  {http.MethodGet, "/v1/events?delivery_success=true", nil, 400, "tools/stripeserver does not implement the parameter delivery_success"},
		"required parameter missing":  {http.MethodPost, "/v1/webhook_endpoints", url.Values{"url": {"https://shop.example"}}, 400, "'enabled_events' is required"},
		"unknown event":               {http.MethodPost, "/v1/webhook_endpoints", with("enabled_events[0]", "nothing"), 400, "enabled_events"},
		"unknown version of the API":  {http.MethodPost, "/v1/webhook_endpoints", with("api_version", "1999"), 400, "api_version"},
		"URL without a scheme":        {http.MethodPost, "/v1/webhook_endpoints", with("url", "shop.example"), 400, "An explicit scheme"},
		"parameter of Connect":        {http.MethodPost, "/v1/webhook_endpoints", with("connect", "true"), 400, "does not implement the parameter connect"},
		"no form":                     {http.MethodPost, "/v1/coupons", nil, 400, "Content-Type"},
	} {
		got := s.do(t, test.method, test.path, test.form)
		if got.status != test.status || got.errorField("type") != "invalid_request_error" || !strings.Contains(got.errorField("message"), test.want) {
			t.Errorf("%s: got %d %v, want %d with %q", name, got.status, got.object, test.status, test.want)
		}
	}
	if endpoints := s.Endpoints(); len(endpoints) != 0 {
		t.Errorf("the invalid requests created the endpoints %v", endpoints)
	}
}

func TestServer_OtherOperationsReturnStripeMocksExamples(t *testing.T) {
	t.Parallel()
	s := start(t)
	charge, err := s.client(testKey, 0).V1Charges.Capture(t.Context(), "ch_7", nil)
	if err != nil || charge.ID != "ch_7" {
		t.Errorf("the captured charge is %v and the error is %v, want ch_7", charge, err)
	}
}

func TestServer_ListsRequests(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.RejectKey("sk_test_rejected")
	s.get(t, "/v1/charges?limit=3&payment_intent=pi_1")
	s.do(t, http.MethodPost, "/v1/coupons", url.Values{"percent_off": {"10"}})
	s.do(t, http.MethodDelete, "/v1/coupons/x", nil, "Authorization", "Bearer sk_test_rejected")
	want := []Request{
		{http.MethodGet, "/v1/charges", url.Values{"limit": {"3"}, "payment_intent": {"pi_1"}}},
		{http.MethodPost, "/v1/coupons", url.Values{}},
		{http.MethodDelete, "/v1/coupons/x", url.Values{}},
	}
	if got := s.Requests(); !reflect.DeepEqual(got, want) {
		t.Errorf("Requests returned %v, want %v", got, want)
	}
}

func TestServer_HandlesConcurrentRequests(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := s.client(testKey, 0)
	s.Put(NewPaymentIntent("pi_a", nil))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			s.Put(NewCharge("ch_a", nil))
			params := &stripe.PaymentIntentRetrieveParams{}
			params.AddExpand("latest_charge")
			intent, err := client.V1PaymentIntents.Retrieve(context.Background(), "pi_a", params)
			if err != nil || intent.LatestCharge.Amount != defaultAmount {
				t.Errorf("the payment intent is %v and the error is %v", intent, err)
			}
			if _, err := client.V1Coupons.Create(context.Background(), &stripe.CouponCreateParams{PercentOff: stripe.Float64(10)}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := s.get(t, "/v1/coupons").ids(); len(got) != 8 {
		t.Errorf("there are the coupons %v, want 8", got)
	}
}
