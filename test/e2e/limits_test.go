package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLimits tests the documented limits with a clock that only the test advances. N
// requests succeed in any 60 seconds. The next response says exactly how long to wait.
func TestLimits(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{
		"TRIBUTARY_LIMIT_TRACKING": "1000", "TRIBUTARY_LIMIT_CONVERSIONS": "120", "TRIBUTARY_LIMIT_AUTH": "10", "TRIBUTARY_LIMIT_GENERAL": "300",
		// The limits are exact only if Redis responds within this time, and the machine
		// may be busy.
		"TRIBUTARY_LIMIT_TIMEOUT": "1s",
	}})
	// Registrations count in the auth zone of the client address.
	w, other := sys.world(t, "test", nil), sys.merchant(t)
	w.click(t)
	sys.clock.stop()

	logout := func(from string) request {
		return request{sys.caller().from(from), http.MethodPost, sys.api + "/api/v1/auth/logout", object{"refreshToken": "none"}}
	}
	programs := func(from caller) request { return request{from, http.MethodGet, sys.api + "/api/v1/programs", nil} }
	noSignal := func(key string) request {
		body := object{"event_type": "lead", "external_transaction_id": "x"}
		return request{sys.caller().as(key), http.MethodPost, sys.api + "/api/v1/conversions", body}
	}
	click := func(key string) request {
		return request{sys.caller().as(key), http.MethodPost, sys.edge + "/v1/clicks", object{"referral_code": w.code}}
	}
	zones := []zone{
		{
			name: "auth", limit: 10, passes: outcome{status: http.StatusNoContent},
			request: logout("198.51.100.1"), elsewhere: logout("198.51.100.2"),
		},
		{
			name: "general", limit: 300, passes: ok,
			request: programs(w.merchant.caller), elsewhere: programs(other.caller),
		},
		{
			name: "conversions", limit: 120, passes: outcome{http.StatusUnprocessableEntity, "NO_ATTRIBUTION_SIGNAL"},
			request: noSignal(w.secretKey), elsewhere: noSignal(other.secretKey(t)),
		},
		{
			name: "tracking", limit: 1000, passes: outcome{status: http.StatusCreated},
			request: click(w.publicKey), elsewhere: click(other.publicKey(t)), leased: true,
		},
	}
	for _, z := range zones {
		t.Run(z.name, func(t *testing.T) {
			// After a minute earlier requests no longer count.
			sys.clock.advance(time.Minute + time.Second)
			z.check(t, sys)
		})
	}
	sys.clock.advance(time.Minute + time.Second)

	t.Run("an invalid credential counts for its address", func(t *testing.T) {
		garbage := sys.caller().from("198.51.100.3").as("garbage")
		for range 300 {
			garbage.get(t, "/api/v1/programs").wantOutcome(unauthorized)
		}
		garbage.get(t, "/api/v1/programs").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		// The limit applies to all routes, also without a credential.
		garbage.post(t, "/api/v1/conversions", nil).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		sys.caller().from("198.51.100.3").get(t, "/api/v1/commissions").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		// A valid credential has its own count, and health checks are not counted.
		good := other.login(t)
		good.from("198.51.100.3").get(t, "/api/v1/programs").want(http.StatusOK)
		sys.caller().from("198.51.100.3").get(t, "/api/v1/health").want(http.StatusOK)
		garbage.from("198.51.100.4").get(t, "/api/v1/programs").wantOutcome(unauthorized)
	})
	t.Run("over the limit the response is always 429", func(t *testing.T) {
		// 429 takes precedence over 403 and 400. Unknown routes are not counted.
		partner := w.partner.login(t)
		for range 300 {
			partner.get(t, "/api/v1/programs").wantOutcome(forbidden)
		}
		partner.get(t, "/api/v1/programs").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		partner.post(t, "/api/v1/partner/programs/1/apply", `{"broken`).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		partner.get(t, "/api/v1/none").wantOutcome(notFound)
		partner.do(t, http.MethodPut, "/api/v1/programs", nil).wantError(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	})
	t.Run("errors have a fixed order", func(t *testing.T) {
		// The error for each body if all earlier checks succeed.
		bodies := []struct {
			name, contentType, body string
			outcome                 outcome
		}{
			{"an unsupported content type", "text/plain", `{"broken`, outcome{http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE"}},
			{"too large", "application/json", `{"broken` + strings.Repeat("x", 64<<10), outcome{http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE"}},
			{"broken", "application/json", `{"broken`, outcome{http.StatusBadRequest, "VALIDATION_ERROR"}},
		}
		each := func(t *testing.T, from caller, want *outcome) {
			t.Helper()
			for _, b := range bodies {
				expected := b.outcome
				if want != nil {
					expected = *want
				}
				t.Log(b.name)
				from.with("Content-Type", b.contentType).post(t, "/api/v1/programs", b.body).wantOutcome(expected)
			}
		}
		limited := outcome{http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED"}
		usedUp := sys.caller().from("198.51.100.5")
		for range 300 {
			usedUp.get(t, "/api/v1/programs").wantOutcome(unauthorized)
		}
		each(t, usedUp.as("garbage"), &limited)
		each(t, sys.caller().from("198.51.100.6").as("garbage"), &unauthorized)

		// A valid token has its own count for all addresses.
		partner, merchant := sys.partner(t).in("test").from("198.51.100.5"), sys.merchant(t).in("test").from("198.51.100.5")
		each(t, partner, &forbidden)
		each(t, merchant, nil)
		for range 300 - len(bodies) {
			partner.get(t, "/api/v1/programs").wantOutcome(forbidden)
			merchant.get(t, "/api/v1/programs").want(http.StatusOK)
		}
		each(t, partner, &limited)
		each(t, merchant, &limited)
	})
	t.Run("the client address comes from the trusted proxy", func(t *testing.T) {
		// Addresses further left were sent by the client and are ignored.
		for i := range 10 {
			logout(fmt.Sprintf("192.0.2.%d, 198.51.100.20", i)).send(t).want(http.StatusNoContent)
		}
		logout("192.0.2.200, 198.51.100.20").send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		// A /64 network counts as one address.
		for i := range 10 {
			logout(fmt.Sprintf("2001:db8::%d", i)).send(t).want(http.StatusNoContent)
		}
		logout("2001:db8::ffff:1").send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		logout("2001:db8:0:1::1").send(t).want(http.StatusNoContent)
	})
	t.Run("a request with an invalid body counts once", func(t *testing.T) {
		fresh := other.login(t)
		before := fresh.get(t, "/api/v1/programs").remaining()
		broken := fresh.post(t, "/api/v1/programs", `{"broken`).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
		if left := broken.remaining(); left != before-1 {
			t.Errorf("%d were left, then %d", before, left)
		}
	})
}

// request is a request that can be sent repeatedly.
type request struct {
	from   caller
	method string
	url    string
	body   any
}

func (r request) send(t *testing.T) response {
	t.Helper()
	return r.from.send(t, r.method, r.url, r.body)
}

// zone is a rate limit with requests that use it up.
type zone struct {
	name    string
	limit   int
	request request
	passes  outcome
	// elsewhere is a request that counts for another subject.
	elsewhere request
	// leased means that collectors get tokens in blocks that are valid for a second. So
	// a request may also count up to a second later, and only a 429 has the limit's
	// headers.
	leased bool
}

func (z zone) check(t *testing.T, sys *system) {
	t.Helper()
	// Half of the requests are sent now and half 30 seconds later. With a fixed window,
	// twice the limit would succeed around the end of the window.
	half := z.limit / 2
	for i := range z.limit {
		if i == half {
			sys.clock.advance(30 * time.Second)
		}
		got := z.request.send(t)
		got.wantOutcome(z.passes)
		if t.Failed() {
			t.Fatalf("request %d of %d", i+1, z.limit)
		}
		if left := z.limit - i - 1; !z.leased && got.remaining() != left {
			t.Fatalf("%d should be left after request %d: %q", left, i+1, got.header.Get("RateLimit"))
		}
	}
	refused := z.request.send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	if policy, want := refused.header.Get("RateLimit-Policy"), fmt.Sprintf(`"%s";q=%d;w=60`, z.name, z.limit); policy != want {
		t.Errorf("RateLimit-Policy is %q, want %q", policy, want)
	}
	state, want := refused.header.Get("RateLimit"), fmt.Sprintf(`"%s";r=0;t=%s`, z.name, refused.header.Get("Retry-After"))
	if state != want {
		t.Errorf("RateLimit of a 429 is %q, want %q", state, want)
	}
	if got := z.elsewhere.send(t); got.status == http.StatusTooManyRequests {
		t.Errorf("another caller is limited too: %s", got.body)
	}

	wait, longest := refused.retryAfter(), 31*time.Second
	if z.leased {
		longest += time.Second
	}
	if wait < 30*time.Second || wait > longest {
		t.Errorf("the first half expires in 30 seconds, but Retry-After is %v", wait)
	}
	sys.clock.advance(wait - time.Second)
	z.request.send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	sys.clock.advance(time.Second)
	for range half {
		z.request.send(t).wantOutcome(z.passes)
	}
	z.request.send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
}

// remaining returns the number of remaining requests from the RateLimit header.
func (a response) remaining() int {
	a.t.Helper()
	_, rest, _ := strings.Cut(a.header.Get("RateLimit"), ";r=")
	left, _, _ := strings.Cut(rest, ";")
	n, err := strconv.Atoi(left)
	if err != nil {
		a.t.Fatalf("%s: RateLimit is %q", a.request, a.header.Get("RateLimit"))
	}
	return n
}
