package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestLimits tests the rate limits with a clock that only the test advances. Three limits
// are lower than their defaults, because the test sends as many requests as each limit
// allows. In any 60 seconds, exactly as many requests must succeed as the limit allows.
// The header Retry-After of a rejected request must be the exact time until the next
// request can succeed.
func TestLimits(t *testing.T) {
	t.Parallel()
	const general, tracking, mailProvider = 70, 250, 80
	sys := start(t, setup{env: map[string]string{
		"TRIBUTARY_LIMIT_CONVERSIONS": "120", "TRIBUTARY_LIMIT_AUTH": "10", "TRIBUTARY_LIMIT_UNSUBSCRIBE": "60", "TRIBUTARY_LIMIT_GENERAL": strconv.Itoa(general),
		"TRIBUTARY_LIMIT_EXPORT":   "10",
		"TRIBUTARY_LIMIT_ERASURE":  "5",
		"TRIBUTARY_LIMIT_TRACKING": strconv.Itoa(tracking), "TRIBUTARY_LIMIT_MAIL_PROVIDER": strconv.Itoa(mailProvider),
		// The limits are exact only if Redis responds within this time. The time is long
		// because the machine may be busy.
		"TRIBUTARY_LIMIT_TIMEOUT": "1s",
	}})
	// Registrations count towards the auth limit of the client address. So the fixtures
	// are registered first, and the clock advances by more than a minute before this
	// limit is checked.
	f, other := sys.newFixture(t, "test", nil), sys.newMerchant(t)
	f.click(t)
	sys.clock.stop()

	logout := func(address string) request {
		return request{sys.client().fromAddress(address), http.MethodPost, sys.api + "/api/v1/auth/logout", object{"refreshToken": "none"}}
	}
	programs := func(client apiClient) request {
		return request{client, http.MethodGet, sys.api + "/api/v1/programs", nil}
	}
	serviceToken := func(owner caller) apiClient {
		return sys.client().withCredential(owner.createServiceToken(t, "viewer", "test", false))
	}
	second := f.merchant.post(t, f.programPath()+"/partners", object{"email": uniqueName("second") + "@example.com", "name": "Second"}).wantStatus(http.StatusCreated).text("id")
	page := func(participant string) request {
		token := f.merchant.post(t, f.programPath()+"/partners/"+participant+"/token", nil).wantStatus(http.StatusCreated).text("token")
		return request{sys.client().withCredential(token), http.MethodGet, sys.api + "/api/v1/partner/programs", nil}
	}
	reportWithoutSignal := func(key string) request {
		body := object{"event_type": "lead", "external_transaction_id": "x"}
		return request{sys.client().withCredential(key), http.MethodPost, sys.api + "/api/v1/conversions", body}
	}
	click := func(key string) request {
		return request{sys.client().withCredential(key), http.MethodPost, sys.edge + "/v1/clicks", object{"referral_code": f.code}}
	}
	providerMessage := func(address string) request {
		return request{sys.client().fromAddress(address), http.MethodPost, sys.api + "/webhooks/resend", object{}}
	}
	unsubscribe := func(address string) request {
		return request{sys.client().fromAddress(address), http.MethodPost, sys.api + unsubscribePath + "x", object{}}
	}
	zones := []zone{
		{
			name: "auth", limit: 10, success: outcome{status: http.StatusNoContent},
			request: logout("198.51.100.1"), otherClient: logout("198.51.100.2"),
		},
		{
			name: "general", limit: general, success: ok,
			request: programs(f.merchant.apiClient), otherClient: programs(other.apiClient),
		},
		{
			// Each service token has a count of its own.
			name: "general", limit: general, success: ok,
			request: programs(serviceToken(f.merchant)), otherClient: programs(serviceToken(f.merchant)),
		},
		{
			// Each participation has a count of its own, whatever token is used.
			name: "general", limit: general, success: ok,
			request: page(f.participant), otherClient: page(second),
		},
		{
			name: "conversions", limit: 120, success: outcome{http.StatusUnprocessableEntity, "NO_ATTRIBUTION_SIGNAL"},
			request: reportWithoutSignal(f.secretKey), otherClient: reportWithoutSignal(other.createSecretKey(t)),
		},
		{
			name: "mail_provider", limit: mailProvider, success: notFound,
			request: providerMessage("198.51.100.5"), otherClient: providerMessage("198.51.100.6"),
		},
		{
			name: "unsubscribe", limit: 60, success: outcome{http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE"},
			request: unsubscribe("198.51.100.7"), otherClient: unsubscribe("198.51.100.8"),
		},
		{
			name: "tracking", limit: tracking, success: outcome{status: http.StatusCreated},
			request: click(f.publicKey), otherClient: click(other.publicKey(t)), leased: true,
		},
	}
	for _, z := range zones {
		t.Run(z.name, func(t *testing.T) {
			// Requests that were sent more than a minute ago do not count.
			sys.clock.advance(time.Minute + time.Second)
			z.check(t, sys)
		})
	}
	sys.clock.advance(time.Minute + time.Second)

	t.Run("a request with an invalid credential counts for the client address", func(t *testing.T) {
		garbage := sys.client().fromAddress("198.51.100.3").withCredential("garbage")
		for range general {
			garbage.get(t, "/api/v1/programs").wantOutcome(unauthorized)
		}
		garbage.get(t, "/api/v1/programs").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		// The limit of the address applies to all routes, and to requests without a
		// credential.
		garbage.post(t, "/api/v1/conversions", nil).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		sys.client().fromAddress("198.51.100.3").get(t, "/api/v1/commissions").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		// A valid credential has a count of its own. Health checks are not counted.
		valid := other.login(t)
		valid.fromAddress("198.51.100.3").get(t, "/api/v1/programs").wantStatus(http.StatusOK)
		sys.client().fromAddress("198.51.100.3").get(t, "/api/v1/health").wantStatus(http.StatusOK)
		garbage.fromAddress("198.51.100.4").get(t, "/api/v1/programs").wantOutcome(unauthorized)
	})
	t.Run("a refused message of a payment processor counts for the client address", func(t *testing.T) {
		const unknown = "/webhooks/stripe/01981a2b-3c4d-7e5f-8a6b-7c8d9e0f1a2b"
		stranger := sys.client().fromAddress("198.51.100.9")
		for range general {
			stranger.post(t, unknown, object{}).wantOutcome(notFound)
		}
		stranger.post(t, unknown, object{}).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		sys.client().fromAddress("198.51.100.10").post(t, unknown, object{}).wantOutcome(notFound)
	})
	t.Run("over the limit every request to a limited route gets 429", func(t *testing.T) {
		// 429 takes precedence over 403 and 400. Unknown routes are not counted.
		partner := f.partner.login(t)
		for range general {
			partner.get(t, "/api/v1/programs").wantOutcome(forbidden)
		}
		partner.get(t, "/api/v1/programs").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		partner.post(t, "/api/v1/partner/programs/1/apply", `{"broken`).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		partner.get(t, "/api/v1/none").wantOutcome(notFound)
		partner.do(t, http.MethodPut, "/api/v1/programs", nil).wantError(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	})
	t.Run("a request with several errors gets the error with the highest precedence", func(t *testing.T) {
		// The service checks the rate limit, the credential, the permission and then the
		// body. The field outcome is the error that a body gets if all earlier checks
		// succeed.
		bodies := []struct {
			name, contentType, body string
			outcome                 outcome
		}{
			{"an unsupported content type", "text/plain", `{"broken`, outcome{http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE"}},
			{"a body that is too large", "application/json", `{"broken` + strings.Repeat("x", 64<<10), outcome{http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE"}},
			{"a body that is not JSON", "application/json", `{"broken`, outcome{http.StatusBadRequest, "VALIDATION_ERROR"}},
		}
		// sendBodies sends all bodies. If earlierError is set, each response must be this
		// error.
		sendBodies := func(t *testing.T, client apiClient, earlierError *outcome) {
			t.Helper()
			for _, b := range bodies {
				expected := b.outcome
				if earlierError != nil {
					expected = *earlierError
				}
				t.Log(b.name)
				client.withHeader("Content-Type", b.contentType).post(t, "/api/v1/programs", b.body).wantOutcome(expected)
			}
		}
		limited := outcome{http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED"}
		limitedAddress := sys.client().fromAddress("198.51.100.5")
		for range general {
			limitedAddress.get(t, "/api/v1/programs").wantOutcome(unauthorized)
		}
		sendBodies(t, limitedAddress.withCredential("garbage"), &limited)
		sendBodies(t, sys.client().fromAddress("198.51.100.6").withCredential("garbage"), &unauthorized)

		// A valid token has a count of its own, which does not depend on the client
		// address.
		partner, merchant := sys.newPartner(t).inMode("test").fromAddress("198.51.100.5"), sys.newMerchant(t).inMode("test").fromAddress("198.51.100.5")
		sendBodies(t, partner, &forbidden)
		sendBodies(t, merchant, nil)
		for range general - len(bodies) {
			partner.get(t, "/api/v1/programs").wantOutcome(forbidden)
			merchant.get(t, "/api/v1/programs").wantStatus(http.StatusOK)
		}
		sendBodies(t, partner, &limited)
		sendBodies(t, merchant, &limited)
	})
	t.Run("the client address comes from the trusted proxy", func(t *testing.T) {
		// The trusted proxy has added the last address of the header. The client could
		// have invented the other addresses, so they are ignored.
		for i := range 10 {
			logout(fmt.Sprintf("192.0.2.%d, 198.51.100.20", i)).send(t).wantStatus(http.StatusNoContent)
		}
		logout("192.0.2.200, 198.51.100.20").send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		// A /64 network counts as one address.
		for i := range 10 {
			logout(fmt.Sprintf("2001:db8::%d", i)).send(t).wantStatus(http.StatusNoContent)
		}
		logout("2001:db8::ffff:1").send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		logout("2001:db8:0:1::1").send(t).wantStatus(http.StatusNoContent)
	})
	t.Run("below /api/v1/auth/ a request with a token counts for the client address", func(t *testing.T) {
		session := f.merchant.login(t)
		change := func(address string) response {
			return session.fromAddress(address).post(t, "/api/v1/auth/merchant/email/change", object{})
		}
		for range 10 {
			change("198.51.100.30").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "newEmail", "password")
		}
		change("198.51.100.30").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		change("198.51.100.31").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "newEmail", "password")
	})
	t.Run("an account can request ten exports in an hour", func(t *testing.T) {
		sys.clock.advance(time.Minute + time.Second)
		checkExportLimit(t, sys, f, other)
	})
	t.Run("an account can request five erasures in an hour", func(t *testing.T) {
		checkErasureLimit(t, sys, f, other)
	})
	t.Run("a request with an invalid body counts once", func(t *testing.T) {
		session := other.login(t)
		before := session.get(t, "/api/v1/programs").remaining()
		broken := session.post(t, "/api/v1/programs", `{"broken`).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
		if left := broken.remaining(); left != before-1 {
			t.Errorf("%d requests remain after a request with an invalid body, want %d", left, before-1)
		}
	})
}

// request describes a request that a test sends several times.
type request struct {
	client apiClient
	method string
	url    string
	body   any
}

func (r request) send(t *testing.T) response {
	t.Helper()
	return r.client.send(t, r.method, r.url, r.body)
}

// zone is a rate limit and a request that counts towards the limit.
type zone struct {
	name    string
	limit   int
	request request
	success outcome
	// otherClient is the same request with another credential or address. It does not
	// count towards the limit of request.
	otherClient request
	// leased means that a collector reserves a part of the limit for a second, and then
	// counts requests in memory. Therefore a request may count up to a second later, and
	// only responses with the status 429 have the rate limit headers.
	leased bool
}

func (z zone) check(t *testing.T, sys *system) {
	t.Helper()
	// Send half of the requests now and the other half 30 seconds later. This detects an
	// implementation with fixed windows, which would allow twice the limit around the end
	// of a window.
	half := z.limit / 2
	for i := range z.limit {
		if i == half {
			sys.clock.advance(30 * time.Second)
		}
		got := z.request.send(t)
		got.wantOutcome(z.success)
		if t.Failed() {
			t.Fatalf("request %d of %d has failed", i+1, z.limit)
		}
		if left := z.limit - i - 1; !z.leased && got.remaining() != left {
			t.Fatalf("after request %d RateLimit is %q, want %d remaining requests", i+1, got.header.Get("RateLimit"), left)
		}
	}
	rejected := z.request.send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	if policy, want := rejected.header.Get("RateLimit-Policy"), fmt.Sprintf(`"%s";q=%d;w=60`, z.name, z.limit); policy != want {
		t.Errorf("RateLimit-Policy is %q, want %q", policy, want)
	}
	state, want := rejected.header.Get("RateLimit"), fmt.Sprintf(`"%s";r=0;t=%s`, z.name, rejected.header.Get("Retry-After"))
	if state != want {
		t.Errorf("RateLimit of a 429 is %q, want %q", state, want)
	}
	if got := z.otherClient.send(t); got.status == http.StatusTooManyRequests {
		t.Errorf("another client is limited too: %s", got.body)
	}

	wait, longest := rejected.retryAfter(), 31*time.Second
	if z.leased {
		longest += time.Second
	}
	if wait < 30*time.Second || wait > longest {
		t.Errorf("Retry-After is %v, want 30 s to %v, because the first half of the requests expires in 30 s", wait, longest)
	}
	sys.clock.advance(wait - time.Second)
	z.request.send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	sys.clock.advance(time.Second)
	for range half {
		z.request.send(t).wantOutcome(z.success)
	}
	z.request.send(t).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
}

// remaining returns the number of remaining requests from the RateLimit header.
func (r response) remaining() int {
	r.t.Helper()
	_, rest, _ := strings.Cut(r.header.Get("RateLimit"), ";r=")
	left, _, _ := strings.Cut(rest, ";")
	n, err := strconv.Atoi(left)
	if err != nil {
		r.t.Fatalf("%s: RateLimit is %q, want a value with the number of remaining requests", r.request, r.header.Get("RateLimit"))
	}
	return n
}

// TestLimits_Invitations checks that an address gets at most three invitations in an hour
// from all workspaces, that a workspace sends a limited number in 24 hours, and that a mail
// to a new partner counts too. A refused invitation changes nothing.
func TestLimits_Invitations(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_LIMIT_INVITE_ADDRESS": "3", "TRIBUTARY_LIMIT_INVITES": "5", "TRIBUTARY_LIMIT_TIMEOUT": "1s"}})
	f, other := sys.newFixture(t, "test", nil), sys.newFixture(t, "test", nil)
	sys.clock.stop()
	member := func(f fixture, email string) response {
		return f.merchant.post(t, workspacePath+"/invites", object{"email": email, "role": "viewer"})
	}
	partner := func(f fixture, email string) response {
		return f.merchant.post(t, f.programPath()+"/partners/invite", object{"email": email})
	}
	email := uniqueName("often") + "@example.com"
	member(f, email).wantStatus(http.StatusCreated)
	partner(f, email).wantStatus(http.StatusCreated)
	member(other, email).wantStatus(http.StatusCreated)
	for _, invite := range []func(fixture, string) response{member, partner} {
		refused := invite(other, email).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
		if seconds, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 3660 {
			t.Errorf("Retry-After is %q, want a time within 61 minutes", refused.header.Get("Retry-After"))
		}
	}
	create := func(email string, sendInvite bool) response {
		return other.merchant.post(t, other.programPath()+"/partners", object{"email": email, "name": "Often", "sendInvite": sendInvite})
	}
	create(email, true).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	other.merchant.get(t, other.programPath()+"/partners/invites").wantStatus(http.StatusOK).wantFields(object{"total": 0})
	create(email, false).wantStatus(http.StatusCreated)

	// The workspace has sent one invitation.
	for range 4 {
		partner(other, uniqueName("once")+"@example.com").wantStatus(http.StatusCreated)
	}
	member(other, uniqueName("once")+"@example.com").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	partner(f, uniqueName("once")+"@example.com").wantStatus(http.StatusCreated)
	// The access tokens expire before the hour ends, and the service tokens do not.
	again, late := sys.client().withCredential(f.merchant.createServiceToken(t, "manager", "test", false)), sys.client().withCredential(other.merchant.createServiceToken(t, "manager", "test", false))
	sys.clock.advance(61 * time.Minute)
	again.post(t, f.programPath()+"/partners/invite", object{"email": email}).wantStatus(http.StatusCreated)
	late.post(t, other.programPath()+"/partners/invite", object{"email": uniqueName("once") + "@example.com"}).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
}
