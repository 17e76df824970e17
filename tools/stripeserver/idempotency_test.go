package stripeserver

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestIdempotency(t *testing.T) {
	t.Parallel()
	s := start(t)
	const header = "Idempotency-Key"
	form := url.Values{"percent_off": {"10"}, "metadata[a]": {"1"}, "metadata[b]": {"2"}}
	first := s.do(t, http.MethodPost, "/v1/coupons", form, header, "key-1")
	again := s.do(t, http.MethodPost, "/v1/coupons", form, header, "key-1")
	if idOf(first.object) == "" || idOf(again.object) != idOf(first.object) || first.header.Get("Idempotent-Replayed") != "" ||
		again.header.Get("Idempotent-Replayed") != "true" || again.header.Get(header) != "key-1" {
		t.Errorf("the repeated request got %v, want %v", again.object, first.object)
	}
	for name, test := range map[string]struct {
		path string
		form url.Values
	}{
		"other parameters": {"/v1/coupons", url.Values{"percent_off": {"11"}}},
		"other path":       {"/v1/webhook_endpoints", url.Values{"url": {"https://shop.example"}, "enabled_events[]": {"*"}}},
	} {
		got := s.do(t, http.MethodPost, test.path, test.form, header, "key-1")
		if got.status != http.StatusBadRequest || got.errorField("type") != "idempotency_error" || !strings.Contains(got.errorField("message"), "'key-1'") {
			t.Errorf("%s: got %d %v, want 400 idempotency_error", name, got.status, got.object)
		}
	}
	for name, response := range map[string]response{
		"other idempotency key": s.do(t, http.MethodPost, "/v1/coupons", form, header, "key-2"),
		"no idempotency key":    s.do(t, http.MethodPost, "/v1/coupons", form),
		"other API key":         s.do(t, http.MethodPost, "/v1/coupons", form, header, "key-1", "Authorization", "Bearer rk_test_other"),
	} {
		if response.status != http.StatusOK || idOf(response.object) == idOf(first.object) {
			t.Errorf("%s: got %d %v, want another coupon", name, response.status, response.object)
		}
	}
}

func TestIdempotency_DoesNotStoreRequestsThatWereNotExecuted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Fail(Fault{Status: http.StatusInternalServerError})
	valid := url.Values{"percent_off": {"10"}}
	for i, test := range []struct {
		form url.Values
		want int
	}{
		{valid, http.StatusInternalServerError},
		{url.Values{"percent_off": {"x"}}, http.StatusBadRequest},
		{valid, http.StatusOK},
	} {
		if got := s.do(t, http.MethodPost, "/v1/coupons", test.form, "Idempotency-Key", "key-1"); got.status != test.want {
			t.Errorf("request %d got %d %v, want %d", i, got.status, got.object, test.want)
		}
	}
}

func TestIdempotency_ReturnsResultOfRequestWhoseResponseWasReplaced(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Fail(Fault{Status: http.StatusInternalServerError, AfterEffect: true})
	form := url.Values{"percent_off": {"10"}}
	lost := s.do(t, http.MethodPost, "/v1/coupons", form, "Idempotency-Key", "key-1")
	created := s.get(t, "/v1/coupons").ids()
	again := s.do(t, http.MethodPost, "/v1/coupons", form, "Idempotency-Key", "key-1")
	if lost.status != http.StatusInternalServerError || len(created) != 1 || again.status != http.StatusOK || idOf(again.object) != created[0] {
		t.Errorf("the requests got %d and %d %v, want 500 and then the coupon in %v", lost.status, again.status, again.object, created)
	}
	if got := s.get(t, "/v1/coupons").ids(); len(got) != 1 {
		t.Errorf("there are the coupons %v, want one", got)
	}
}
