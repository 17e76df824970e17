package stripeserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85"
)

func TestFail_StatusHasStripesError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault      Fault
		errorType  string
		code       string
		retryAfter string
	}{
		"server error":         {Fault{Status: 500}, "api_error", "", ""},
		"unavailable":          {Fault{Status: 503, RetryAfter: "7"}, "api_error", "", "7"},
		"rate limit":           {Fault{Status: 429, RetryAfter: "3"}, "invalid_request_error", "rate_limit", "3"},
		"lock":                 {Fault{Status: 429, Code: "lock_timeout"}, "invalid_request_error", "lock_timeout", ""},
		"bad key":              {Fault{Status: 401}, "invalid_request_error", "", ""},
		"expired key":          {Fault{Status: 401, Code: "api_key_expired"}, "invalid_request_error", "api_key_expired", ""},
		"permission, no name":  {Fault{Status: 403}, "invalid_request_error", "", ""},
		"conflict with a code": {Fault{Status: 409, Code: "idempotency_key_in_use"}, "invalid_request_error", "idempotency_key_in_use", ""},
	} {
		s := start(t)
		s.Fail(test.fault)
		got := s.get(t, "/v1/charges")
		if got.status != test.fault.Status || got.errorField("type") != test.errorType || got.errorField("code") != test.code ||
			got.errorField("message") == "" || got.header.Get("Retry-After") != test.retryAfter {
			t.Errorf("%s: got %d %v with Retry-After %q", name, got.status, got.object, got.header.Get("Retry-After"))
		}
		if again := s.get(t, "/v1/charges"); again.status != http.StatusOK {
			t.Errorf("%s: the second request got %d, want 200 because the fault was used", name, again.status)
		}
	}
}

func TestFail_MatchesMethodAndPath(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Fail(Fault{Method: http.MethodGet, Path: "/v1/charges", Status: 500, Times: 2})
	s.Fail(Fault{Path: "/v1/charges", Status: 503})
	for i, test := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/v1/refunds", 200},
		{http.MethodGet, "/v1/charges/ch_1", 500},
		{http.MethodPost, "/v1/charges/ch_1", 503},
		{http.MethodGet, "/v1/charges", 500},
		{http.MethodGet, "/v1/charges", 200},
	} {
		if got := s.do(t, test.method, test.path, url.Values{}); got.status != test.want {
			t.Errorf("request %d got %d, want %d", i, got.status, test.want)
		}
	}
}

func TestFail_PanicsWithoutFault(t *testing.T) {
	t.Parallel()
	s := start(t)
	defer func() {
		if recover() == nil {
			t.Error("Fail did not panic")
		}
	}()
	s.Fail(Fault{Path: "/v1/charges", AfterEffect: true})
}

func TestFail_HangEndsWithContext(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Fail(Fault{Hang: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.client(testKey, 0).V1Coupons.Create(ctx, &stripe.CouponCreateParams{PercentOff: stripe.Float64(10)})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v, want the end of the context", err)
	}
	if got := s.get(t, "/v1/coupons").ids(); len(got) != 0 {
		t.Errorf("the request that had no response created the coupons %v", got)
	}
}

func TestFail_HangDelaysResponse(t *testing.T) {
	t.Parallel()
	const delay = 60 * time.Millisecond
	for name, test := range map[string]struct {
		fault Fault
		want  int
	}{
		"alone":             {Fault{Hang: delay}, 200},
		"after the effect":  {Fault{Hang: delay, AfterEffect: true}, 200},
		"and then an error": {Fault{Hang: delay, Status: 503}, 503},
	} {
		s := start(t)
		s.Fail(test.fault)
		begin := time.Now()
		got := s.do(t, http.MethodPost, "/v1/coupons", url.Values{"percent_off": {"10"}})
		if got.status != test.want || time.Since(begin) < delay {
			t.Errorf("%s: got %d after %v, want %d after %v", name, got.status, time.Since(begin), test.want, delay)
		}
		if coupons := s.get(t, "/v1/coupons").ids(); (len(coupons) == 1) != (test.want == 200) {
			t.Errorf("%s: the coupons are %v after status %d", name, coupons, test.want)
		}
	}
}

func TestFail_HalfEndsInTheBody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault   Fault
		status  int
		created int
	}{
		"without effect": {Fault{Half: true}, 200, 0},
		"after effect":   {Fault{Half: true, AfterEffect: true}, 200, 1},
		"of an error":    {Fault{Half: true, Status: 500}, 500, 0},
	} {
		s := start(t)
		s.Fail(test.fault)
		form := url.Values{"url": {"https://shop.example"}, "enabled_events[]": {"*"}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/webhook_endpoints", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+testKey)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		got, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if got.StatusCode != test.status || !errors.Is(err, io.ErrUnexpectedEOF) || len(body) == 0 || int64(len(body)) >= got.ContentLength {
			t.Errorf("%s: got %d, %d of %d bytes and the error %v, want %d and half a body", name, got.StatusCode, len(body), got.ContentLength, err, test.status)
		}
		if endpoints := s.Endpoints(); len(endpoints) != test.created {
			t.Errorf("%s: there are the endpoints %v, want %d", name, endpoints, test.created)
		}
	}
}

// The response to a request is lost. The client library repeats the request with the same
// idempotency key and gets the endpoint that the first request has created.
func TestFail_AfterEffectIsRepeated(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]Fault{
		"lock timeout": {Status: 429, Code: "lock_timeout", AfterEffect: true},
		"half":         {Half: true, AfterEffect: true},
	} {
		s := start(t)
		s.Fail(fault)
		endpoint, err := s.client(testKey, 2).V1WebhookEndpoints.Create(t.Context(), &stripe.WebhookEndpointCreateParams{
			URL: stripe.String("https://shop.example"), EnabledEvents: stripe.StringSlice([]string{"charge.refunded"}),
		})
		if err != nil {
			t.Errorf("%s: Create returned the error %v", name, err)
			continue
		}
		if got := s.Endpoints(); len(got) != 1 || got[0].ID != endpoint.ID || got[0].Secret != endpoint.Secret {
			t.Errorf("%s: the endpoints are %v, want only %s", name, got, endpoint.ID)
		}
		if got := len(s.Requests()); got != 2 {
			t.Errorf("%s: there were %d requests, want 2", name, got)
		}
	}
}
