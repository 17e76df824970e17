package stripe_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	stripego "github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/server/processor/stripe"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

func TestMode(t *testing.T) {
	client := stripe.New(stripe.Config{})
	for text, want := range map[string]affiliate.Mode{
		"rk_test_0123456789":         affiliate.ModeTest,
		"rk_live_abcdeABCDE_012":     affiliate.ModeLive,
		"rk_test_012345678":          "",
		"rk_test_":                   "",
		"sk_test_0123456789":         "",
		"pk_live_0123456789":         "",
		"rk_prod_0123456789":         "",
		" rk_test_0123456789":        "",
		"rk_test_0123456789\n":       "",
		"rk_test_0123456789-abc":     "",
		"rk_test_0123456789\u00e9":   "",
		"":                           "",
		"RK_TEST_0123456789":         "",
		"rk_test_rk_live_0123456789": affiliate.ModeTest,
	} {
		mode, ok := client.Mode(text)
		if mode != want || ok != (want != "") {
			t.Errorf("Mode(%q) = %q, %v, want %q", text, mode, ok, want)
		}
	}
}

func TestAccount(t *testing.T) {
	f := newFixture(t)
	f.SetAccount(key, "acct_1Merchant")
	account, err := f.client.Account(t.Context(), key)
	if account != "acct_1Merchant" || err != nil {
		t.Errorf("Account returned %q, %v, want acct_1Merchant", account, err)
	}
	f.Deny(key, "rak_connected_account_read")
	account, err = f.client.Account(t.Context(), key)
	if account != "acct_1Merchant" || err != nil {
		t.Errorf("Account without the permission returned %q, %v, want acct_1Merchant", account, err)
	}
	f.RejectKey(key)
	if _, err = f.client.Account(t.Context(), key); !errors.Is(err, processor.ErrBadKey) {
		t.Errorf("Account with a rejected key returned the error %v, want ErrBadKey", err)
	}
}

func TestMissingPermissions(t *testing.T) {
	all := processor.Needs{PromoCodes: true, Fees: true}
	for name, test := range map[string]struct {
		deny  []string
		needs processor.Needs
		want  []string
	}{
		"none":                    {nil, all, nil},
		"sorted":                  {[]string{"rak_webhook_write", "rak_charge_read", "rak_invoice_read"}, all, []string{"charge_read", "invoice_read", "webhook_write"}},
		"account":                 {[]string{"rak_connected_account_read"}, processor.Needs{}, []string{"connected_account_read"}},
		"fees are not needed":     {[]string{"rak_balance_transaction_source_read"}, processor.Needs{PromoCodes: true}, nil},
		"fees are needed":         {[]string{"rak_balance_transaction_source_read"}, processor.Needs{Fees: true}, []string{"balance_transaction_source_read"}},
		"promo codes not needed":  {[]string{"rak_coupon_write", "rak_promotion_code_write"}, processor.Needs{Fees: true}, nil},
		"promo codes are needed":  {[]string{"rak_coupon_write", "rak_promotion_code_write"}, processor.Needs{PromoCodes: true}, []string{"coupon_write", "promotion_code_write"}},
		"all reads of any object": {[]string{"rak_event_read", "rak_checkout_session_read", "rak_payment_intent_read", "rak_dispute_read"}, processor.Needs{}, []string{"checkout_session_read", "dispute_read", "event_read", "payment_intent_read"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Deny(key, test.deny...)
			got, err := f.client.MissingPermissions(t.Context(), key, test.needs)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("MissingPermissions returned %v, %v, want %v", got, err, test.want)
			}
		})
	}
}

func TestMissingPermissions_CreatesNothing(t *testing.T) {
	f := newFixture(t)
	if _, err := f.client.MissingPermissions(t.Context(), key, processor.Needs{PromoCodes: true, Fees: true}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/webhook_endpoints", "/v1/coupons", "/v1/promotion_codes"} {
		if f.requested(http.MethodPost, path) != 1 {
			t.Errorf("POST %s was not sent once", path)
		}
		if n := f.count(t, path); n != 0 {
			t.Errorf("%s has %d objects, want none", path, n)
		}
	}
}

func TestMissingPermissions_SendsFourRequestsAtATime(t *testing.T) {
	server, err := stripeserver.New()
	if err != nil {
		t.Fatal(err)
	}
	var running, most atomic.Int64
	f := fixtureWith(t, server, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(20 * time.Millisecond)
		server.ServeHTTP(w, r)
	}))
	if _, err := f.client.MissingPermissions(t.Context(), key, processor.Needs{PromoCodes: true, Fees: true}); err != nil {
		t.Fatal(err)
	}
	if got := most.Load(); got > 4 {
		t.Errorf("%d requests at a time, want at most 4", got)
	}
}

func TestMissingPermissions_Errors(t *testing.T) {
	f := newFixture(t)
	f.Fail(stripeserver.Fault{Path: "/v1/charges", Status: http.StatusTooManyRequests})
	if _, err := f.client.MissingPermissions(t.Context(), key, processor.Needs{}); !errors.Is(err, processor.ErrUnavailable) {
		t.Errorf("the error after 429 is %v, want ErrUnavailable", err)
	}
	f.RejectKey(key)
	if _, err := f.client.MissingPermissions(t.Context(), key, processor.Needs{}); !errors.Is(err, processor.ErrBadKey) {
		t.Errorf("the error after 401 is %v, want ErrBadKey", err)
	}
}

const hookURL = "https://api.example.com/webhooks/stripe/1"

func TestCreateEndpoint(t *testing.T) {
	f := newFixture(t)
	other, err := f.client.CreateEndpoint(t.Context(), key, hookURL+"2")
	if err != nil {
		t.Fatal(err)
	}
	first, err := f.client.CreateEndpoint(t.Context(), key, hookURL)
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.client.CreateEndpoint(t.Context(), key, hookURL)
	if err != nil {
		t.Fatal(err)
	}
	if first.ID == second.ID || second.Secret == "" || first.Secret == second.Secret {
		t.Errorf("the endpoints are %+v and %+v, want different ones", first, second)
	}
	for id, want := range map[string]string{other.ID: "enabled", first.ID: "enabled", second.ID: "enabled", "we_unknown": "missing", "": "missing"} {
		if status, err := f.client.EndpointStatus(t.Context(), key, id); status != want || err != nil {
			t.Errorf("the status of the endpoint %q is %q, %v, want %q", id, status, err, want)
		}
	}
	created, _ := f.Object(second.ID)
	if created["api_version"] != stripego.APIVersion || created["url"] != hookURL {
		t.Errorf("the endpoint is %v, want the version %s", created, stripego.APIVersion)
	}
	events, _ := created["enabled_events"].([]any)
	if len(events) != 10 || len(events) != len(stripe.SubscribedEvents) {
		t.Errorf("the endpoint receives %v, want 10 types", events)
	}
}

func TestDeleteOtherEndpoints(t *testing.T) {
	f := newFixture(t)
	var ids []string
	for _, url := range []string{hookURL, hookURL, hookURL, hookURL + "2"} {
		endpoint, err := f.client.CreateEndpoint(t.Context(), key, url)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, endpoint.ID)
	}
	for _, step := range []struct {
		createdBefore time.Time
		left, remain  int
	}{{time.Now().Add(-time.Minute), 2, 4}, {time.Now().Add(time.Minute), 0, 2}} {
		left, err := f.client.DeleteOtherEndpoints(t.Context(), key, hookURL, ids[1], step.createdBefore)
		if n := f.count(t, "/v1/webhook_endpoints"); err != nil || left != step.left || n != step.remain {
			t.Errorf("DeleteOtherEndpoints returned %d, %v, and %d endpoints remain, want %d and %d", left, err, n, step.left, step.remain)
		}
	}
	for id, want := range map[string]string{ids[0]: "missing", ids[1]: "enabled", ids[2]: "missing", ids[3]: "enabled"} {
		if status, err := f.client.EndpointStatus(t.Context(), key, id); status != want || err != nil {
			t.Errorf("the status of the endpoint %q is %q, %v, want %q", id, status, err, want)
		}
	}
}

func TestCreateEndpoint_Rejected(t *testing.T) {
	f := newFixture(t)
	for _, code := range []string{"url_invalid", ""} {
		f.Fail(stripeserver.Fault{Method: http.MethodPost, Path: "/v1/webhook_endpoints", Status: http.StatusBadRequest, Code: code})
		_, err := f.client.CreateEndpoint(t.Context(), key, hookURL)
		if !errors.Is(err, processor.ErrEndpointRejected) {
			t.Errorf("the error is %v, want ErrEndpointRejected", err)
		}
		checkError(t, "CreateEndpoint", err)
	}
}

func TestCreateEndpoint_AfterLostResponse(t *testing.T) {
	for name, fault := range map[string]stripeserver.Fault{
		"half response":   {Half: true},
		"internal error":  {Status: http.StatusInternalServerError},
		"no response":     {Hang: 2 * time.Second},
		"half, then lost": {Half: true, Times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, err := stripeserver.New()
			if err != nil {
				t.Fatal(err)
			}
			f := fixtureWith(t, server, server)
			client := stripe.New(stripe.Config{APIURL: f.url, HTTPClient: &http.Client{Timeout: time.Second}})
			fault.Method, fault.Path, fault.AfterEffect = http.MethodPost, "/v1/webhook_endpoints", true
			f.Fail(fault)
			if _, err := client.CreateEndpoint(t.Context(), key, hookURL); err != nil && !errors.Is(err, processor.ErrUnavailable) {
				t.Fatalf("the error is %v, want none or ErrUnavailable", err)
			}
			endpoint, err := client.CreateEndpoint(t.Context(), key, hookURL)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.DeleteOtherEndpoints(t.Context(), key, hookURL, endpoint.ID, time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if n := f.count(t, "/v1/webhook_endpoints"); n != 1 {
				t.Errorf("%d endpoints exist, want 1", n)
			}
			if status, err := client.EndpointStatus(t.Context(), key, endpoint.ID); status != "enabled" || err != nil {
				t.Errorf("the status is %q, %v, want enabled", status, err)
			}
		})
	}
}

func TestDeleteEndpoint(t *testing.T) {
	f := newFixture(t)
	endpoint, err := f.client.CreateEndpoint(t.Context(), key, hookURL)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.client.DeleteEndpoint(t.Context(), key, endpoint.ID); err != nil {
			t.Errorf("DeleteEndpoint returned the error %v, want none", err)
		}
	}
	if n := f.count(t, "/v1/webhook_endpoints"); n != 0 {
		t.Errorf("%d endpoints exist, want none", n)
	}
	before := len(f.Requests())
	if err := f.client.DeleteEndpoint(t.Context(), key, "../coupons/c"); err != nil || len(f.Requests()) != before {
		t.Errorf("an id that is a path was sent to Stripe, error %v", err)
	}
}

func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		fault stripeserver.Fault
		want  error
	}{
		"400":            {stripeserver.Fault{Status: 400, Code: "parameter_unknown"}, nil},
		"401":            {stripeserver.Fault{Status: 401}, processor.ErrBadKey},
		"402":            {stripeserver.Fault{Status: 402}, nil},
		"404 of a proxy": {stripeserver.Fault{Status: 404}, nil},
		"409":            {stripeserver.Fault{Status: 409}, processor.ErrUnavailable},
		"429":            {stripeserver.Fault{Status: 429}, processor.ErrUnavailable},
		"500":            {stripeserver.Fault{Status: 500}, processor.ErrUnavailable},
		"503":            {stripeserver.Fault{Status: 503}, processor.ErrUnavailable},
		"time-out":       {stripeserver.Fault{Hang: 10 * time.Second}, processor.ErrUnavailable},
		"half response":  {stripeserver.Fault{Half: true}, processor.ErrUnavailable},
		"half an error":  {stripeserver.Fault{Half: true, Status: 401}, processor.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			client := stripe.New(stripe.Config{APIURL: f.url, HTTPClient: &http.Client{Timeout: 500 * time.Millisecond}})
			test.fault.Times = 1_000
			f.Fail(test.fault)
			for method, err := range everyMethod(t, client) {
				if err == nil {
					t.Errorf("%s returned no error", method)
					continue
				}
				checkError(t, method, err)
				if test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("%s returned the error %v, want %v", method, err, test.want)
				}
				if test.want == nil && (errors.Is(err, processor.ErrUnavailable) || errors.Is(err, processor.ErrBadKey)) {
					t.Errorf("%s returned the error %v, want another error", method, err)
				}
			}
		})
	}
}

// everyMethod calls the methods that send a request and do not interpret its failure.
func everyMethod(t *testing.T, client *stripe.Client) map[string]error {
	t.Helper()
	ctx := t.Context()
	errs := map[string]error{}
	_, errs["Account"] = client.Account(ctx, key)
	_, errs["CreateEndpoint"] = client.CreateEndpoint(ctx, key, hookURL)
	_, errs["DeleteOtherEndpoints"] = client.DeleteOtherEndpoints(ctx, key, hookURL, "we_1", time.Now())
	errs["DeleteEndpoint"] = client.DeleteEndpoint(ctx, key, "we_1")
	_, errs["EndpointStatus"] = client.EndpointStatus(ctx, key, "we_1")
	body := []byte(`{"id":"evt_1","type":"invoice.paid","data":{"object":{"id":"in_1"}}}`)
	_, errs["Read"] = client.Read(ctx, key, processor.ReadRequest{Body: body})
	errs["Events"] = client.Events(ctx, key, time.Unix(monday, 0), time.Unix(monday+60, 0), func([]byte) error { return nil })
	_, errs["CreatePromotionCode"] = client.CreatePromotionCode(ctx, key, "1", promocode.PromoCode{
		Code: "a", DiscountType: promocode.DiscountPercentage, DiscountValue: 1_000,
	})
	errs["DeactivatePromotionCode"] = client.DeactivatePromotionCode(ctx, key, "promo_1")
	return errs
}

// checkError checks that an error has no text of Stripe and no part of the key.
func checkError(t *testing.T, method string, err error) {
	t.Helper()
	for _, secret := range []string{key, "rk_test", "cdef", "whsec", "rate limit", "Sorry", "API Key", "No such", "acct_", "incomplete", "Unauthorized", "rak_"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error of %s contains %q: %v", method, secret, err)
		}
	}
}

func TestErrors_Permission(t *testing.T) {
	f := newFixture(t)
	f.Deny(key, "rak_webhook_write", "rak_invoice_read", "rak_promotion_code_write", "rak_event_read")
	errs := everyMethod(t, f.client)
	for method, want := range map[string]string{
		"CreateEndpoint": "webhook_write", "DeleteEndpoint": "webhook_write", "Read": "invoice_read",
		"Events": "event_read", "DeactivatePromotionCode": "promotion_code_write", "CreatePromotionCode": "promotion_code_write",
	} {
		var permission *processor.PermissionError
		if !errors.As(errs[method], &permission) || permission.Permission != want {
			t.Errorf("%s returned the error %v, want the permission %s", method, errs[method], want)
			continue
		}
		checkError(t, method, errs[method])
	}
	f.Fail(stripeserver.Fault{Status: 403})
	var permission *processor.PermissionError
	if err := f.client.DeleteEndpoint(t.Context(), key, "we_1"); !errors.As(err, &permission) || permission.Permission != "" {
		t.Errorf("the error for an unknown permission is %v, want a PermissionError without a name", err)
	}
}

func TestErrors_NoConnection(t *testing.T) {
	client := stripe.New(stripe.Config{APIURL: "http://127.0.0.1:1"})
	for method, err := range everyMethod(t, client) {
		if !errors.Is(err, processor.ErrUnavailable) {
			t.Errorf("%s returned the error %v, want ErrUnavailable", method, err)
		}
	}
}

func TestErrors_ResponseIsNoJSON(t *testing.T) {
	for name, status := range map[string]int{"200": 200, "302": 302, "401": 401, "502": 502} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fixtureWith(t, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "https://evil.example.com/")
				w.WriteHeader(status)
				_, _ = w.Write([]byte("<html>whsec_secret " + key))
			}))
			client := stripe.New(stripe.Config{APIURL: f.url})
			for method, err := range everyMethod(t, client) {
				if !errors.Is(err, processor.ErrUnavailable) {
					t.Errorf("%s returned the error %v, want ErrUnavailable", method, err)
				}
				checkError(t, method, err)
			}
		})
	}
}
