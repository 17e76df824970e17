package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLimits counts with the documented limits, on a clock that stands still
// unless the test moves it: N requests pass in any 60 seconds and the next one
// is told how long to wait, exactly.
func TestLimits(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{
		"TRIBUTARY_LIMIT_TRACKING": "1000", "TRIBUTARY_LIMIT_CONVERSIONS": "120", "TRIBUTARY_LIMIT_AUTH": "10", "TRIBUTARY_LIMIT_GENERAL": "300",
		// They are exact while Redis answers in time, and the machine may be busy.
		"TRIBUTARY_LIMIT_TIMEOUT": "1s",
	}})
	// Accounts count in the auth zone of the address that they come from.
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
			// What came before is forgotten.
			sys.clock.advance(time.Minute + time.Second)
			z.check(t, sys)
		})
	}
	sys.clock.advance(time.Minute + time.Second)

	t.Run("a refused credential counts against its address", func(t *testing.T) {
		garbage := sys.caller().from("198.51.100.3").as("garbage")
		for range 300 {
			garbage.get(t, "/api/v1/programs").wantOutcome(unauthorized)
		}
		garbage.get(t, "/api/v1/programs").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		// Whatever it is tried on, and none at all is no better.
		garbage.post(t, "/api/v1/conversions", nil).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		sys.caller().from("198.51.100.3").get(t, "/api/v1/commissions").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		// A good one is counted by itself, and health is not counted.
		good := other.login(t)
		good.from("198.51.100.3").get(t, "/api/v1/programs").want(http.StatusOK)
		sys.caller().from("198.51.100.3").get(t, "/api/v1/health").want(http.StatusOK)
		garbage.from("198.51.100.4").get(t, "/api/v1/programs").wantOutcome(unauthorized)
	})
	t.Run("over the limit nothing else is said", func(t *testing.T) {
		// 429 stands before 403 and 400; routes that are none are not counted.
		partner := w.partner.login(t)
		for range 300 {
			partner.get(t, "/api/v1/programs").wantOutcome(forbidden)
		}
		partner.get(t, "/api/v1/programs").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		partner.post(t, "/api/v1/partner/programs/1/apply", `{"broken`).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		partner.get(t, "/api/v1/none").wantOutcome(notFound)
		partner.do(t, http.MethodPut, "/api/v1/programs", nil).wantError(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	})
	t.Run("refusals have one order", func(t *testing.T) {
		// What is wrong with the body, where everything before it is in order.
		bodies := []struct {
			name, contentType, body string
			outcome                 outcome
		}{
			{"a type that is not taken", "text/plain", `{"broken`, outcome{http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE"}},
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

		// A token that authenticates is counted by itself, from any address.
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
	t.Run("an address is what a trusted proxy saw", func(t *testing.T) {
		// What stands further left is the client's own claim.
		for i := range 10 {
			logout(fmt.Sprintf("192.0.2.%d, 198.51.100.20", i)).send(t).want(http.StatusNoContent)
		}
		logout("192.0.2.200, 198.51.100.20").send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		// One subscriber has a whole /64.
		for i := range 10 {
			logout(fmt.Sprintf("2001:db8::%d", i)).send(t).want(http.StatusNoContent)
		}
		logout("2001:db8::ffff:1").send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		logout("2001:db8:0:1::1").send(t).want(http.StatusNoContent)
	})
	t.Run("a body that does not decode counts once", func(t *testing.T) {
		fresh := other.login(t)
		before := fresh.get(t, "/api/v1/programs").remaining()
		broken := fresh.post(t, "/api/v1/programs", `{"broken`).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
		if left := broken.remaining(); left != before-1 {
			t.Errorf("%d were left, then %d", before, left)
		}
	})
}

// request is one that can be sent again and again.
type request struct {
	from   caller
	method string
	url    string
	body   any
}

func (r request) send(t *testing.T) answer {
	t.Helper()
	return r.from.send(t, r.method, r.url, r.body)
}

// zone is one limit and how to use it up.
type zone struct {
	name    string
	limit   int
	request request
	passes  outcome
	// elsewhere is a request that is counted under another subject.
	elsewhere request
	// leased: collectors fetch tokens in blocks that are good for a second. The
	// second in which a token may be used late counts too, and only a refusal
	// carries the limit's headers.
	leased bool
}

func (z zone) check(t *testing.T, sys *system) {
	t.Helper()
	// Half of the limit now and half of it 30 seconds later: a fixed window would
	// let the limit pass twice around its end.
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
		t.Errorf("RateLimit of a refusal is %q, want %q", state, want)
	}
	if got := z.elsewhere.send(t); got.status == http.StatusTooManyRequests {
		t.Errorf("another caller is refused: %s", got.body)
	}

	wait, longest := refused.retryAfter(), 31*time.Second
	if z.leased {
		longest += time.Second
	}
	if wait < 30*time.Second || wait > longest {
		t.Errorf("the first half is free in 30 seconds, and Retry-After is %v", wait)
	}
	sys.clock.advance(wait - time.Second)
	z.request.send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	sys.clock.advance(time.Second)
	for range half {
		z.request.send(t).wantOutcome(z.passes)
	}
	z.request.send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
}

// remaining is what the RateLimit header says is left.
func (a answer) remaining() int {
	a.t.Helper()
	_, rest, _ := strings.Cut(a.header.Get("RateLimit"), ";r=")
	left, _, _ := strings.Cut(rest, ";")
	n, err := strconv.Atoi(left)
	if err != nil {
		a.t.Fatalf("%s: RateLimit is %q", a.what, a.header.Get("RateLimit"))
	}
	return n
}
