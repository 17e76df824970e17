package e2e_test

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/notification"
)

// browserSession is a page of the service in a browser: it has the cookie of a session, and sends the
// headers of the same origin.
type browserSession struct {
	page apiClient
	kind string
}

// cookieOf returns the cookie that a response sets, as the browser sends it back.
func cookieOf(t *testing.T, opened response) *http.Cookie {
	t.Helper()
	cookies := (&http.Response{Header: opened.header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%s: the response sets the cookies %v, want one", opened.request, cookies)
	}
	return cookies[0]
}

func (sys *system) page() apiClient { return sys.client().withHeader("Sec-Fetch-Site", "same-origin") }

// inBrowser logs an account in and returns the browser and its first access token.
func (a caller) inBrowser(t *testing.T, query string) (b browserSession, accessToken string) {
	t.Helper()
	login := a.sys.page().post(t, "/session/"+a.kind+"/login"+query, object{"email": a.email, "password": password}).wantStatus(http.StatusOK)
	cookie := cookieOf(t, login)
	return browserSession{a.sys.page().withHeader("Cookie", cookie.Name+"="+cookie.Value), a.kind}, login.text("accessToken")
}

func (b browserSession) cookie() string { return b.page.header.Get("Cookie") }

func (b browserSession) post(t *testing.T, action string) response {
	t.Helper()
	return b.page.post(t, "/session/"+b.kind+"/"+action, nil)
}

// wantEnded checks that the cookie gives no access token and that the browser deletes it.
func (b browserSession) wantEnded(t *testing.T) {
	t.Helper()
	renewal := b.post(t, "renew").wantError(http.StatusUnauthorized, "REFRESH_TOKEN_INVALID")
	if cookie := cookieOf(t, renewal); cookie.MaxAge >= 0 || cookie.Value != "" {
		t.Errorf("the response sets the cookie %v, want a deleted cookie", cookie)
	}
}

// profilePath is a route that every account of the kind may read.
var profilePath = map[string]string{"merchant": "/api/v1/workspace", "partner": "/api/v1/partner/profile"}

func (b browserSession) profile(t *testing.T, accessToken string) response {
	t.Helper()
	return b.page.withCredential(accessToken).get(t, profilePath[b.kind])
}

func TestBrowserSessions(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_CORS_ORIGINS": "https://app.example"}})
	sys.recordMails(t)
	accounts := []caller{sys.newMerchant(t), sys.newPartner(t)}

	t.Run("a login gives a cookie, and the cookie gives access tokens", func(t *testing.T) {
		for _, a := range accounts {
			b, first := a.inBrowser(t, "")
			b.profile(t, first).wantStatus(http.StatusOK)
			for range 2 {
				renewal := b.post(t, "renew").wantStatus(http.StatusOK).wantFields(object{"user.id": a.id, "tokenType": "Bearer", "expiresIn": 900})
				if strings.Contains(renewal.body, "refreshToken") || renewal.header.Get("Set-Cookie") != "" {
					t.Errorf("a renewal has the cookie %q and the body %s, want neither a cookie nor a refresh token", renewal.header.Get("Set-Cookie"), renewal.body)
				}
				b.profile(t, renewal.text("accessToken")).wantStatus(http.StatusOK)
			}
			other := browserSession{b.page, map[string]string{"merchant": "partner", "partner": "merchant"}[a.kind]}
			other.wantEnded(t)
		}
	})
	t.Run("a registration and an invitation give a cookie", func(t *testing.T) {
		merchant := object{"email": uniqueName("merchant") + "@example.com", "password": password, "name": "Mara", "workspaceName": "Shop"}
		partner := object{"email": uniqueName("partner") + "@example.com", "password": password, "name": "Pia"}
		member := uniqueName("member") + "@example.com"
		invite := accounts[0].post(t, "/api/v1/workspace/invites", object{"email": member, "role": "viewer"}).wantStatus(http.StatusCreated).text("token")
		for path, body := range map[string]object{
			"merchant/register": merchant, "partner/register": partner,
			"merchant/accept-invite": {"token": invite, "name": "Max", "password": password},
		} {
			opened := sys.page().post(t, "/session/"+path, body).wantStatus(http.StatusCreated)
			cookie := cookieOf(t, opened)
			kind, _, _ := strings.Cut(path, "/")
			browserSession{sys.page().withHeader("Cookie", cookie.Name+"="+cookie.Value), kind}.post(t, "renew").wantStatus(http.StatusOK).
				wantFields(object{"user.id": opened.text("user.id")})
			taken := maps.Clone(body)
			delete(taken, "password")
			sys.page().post(t, "/session/"+path, taken).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "password")
		}
	})
	t.Run("a login with a second factor", func(t *testing.T) {
		for _, a := range []caller{sys.newMerchant(t), sys.newPartner(t)} {
			recovery := a.enableFactor(t)
			login := sys.page().post(t, "/session/"+a.kind+"/login", object{"email": a.email, "password": password}).wantError(http.StatusUnauthorized, "SECOND_FACTOR_REQUIRED")
			if login.header.Get("Set-Cookie") != "" {
				t.Error("a password alone gives a cookie")
			}
			completed := sys.page().post(t, "/session/"+a.kind+"/login/second-factor?keepLoggedIn=true", object{"challenge": login.text("challenge"), "code": recovery[0]})
			if cookie := cookieOf(t, completed.wantStatus(http.StatusOK)); cookie.MaxAge < 90*24*60*60-60 || cookie.MaxAge > 90*24*60*60 {
				t.Errorf("the cookie is %v, want it to stay for 90 days", cookie)
			}
		}
	})
	t.Run("a stolen cookie is useless after the logout", func(t *testing.T) {
		for _, a := range accounts {
			b, access := a.inBrowser(t, "?keepLoggedIn=true")
			another, _ := a.inBrowser(t, "")
			if cookie := cookieOf(t, b.post(t, "logout").wantStatus(http.StatusNoContent)); cookie.MaxAge >= 0 {
				t.Errorf("the logout sets the cookie %v, want a deleted cookie", cookie)
			}
			b.profile(t, access).wantOutcome(unauthorized)
			b.wantEnded(t)
			b.post(t, "logout").wantStatus(http.StatusNoContent)
			another.post(t, "renew").wantStatus(http.StatusOK)
		}
	})
	t.Run("tabs renew at the same time, and responses are lost", func(t *testing.T) {
		b, _ := accounts[1].inBrowser(t, "")
		sys.clock.advance(20 * time.Minute)
		var tabs sync.WaitGroup
		for range 200 {
			tabs.Go(func() {
				if renewal := b.post(t, "renew"); renewal.status != http.StatusOK {
					t.Errorf("a renewal has the status %d: %s", renewal.status, renewal.body)
				}
			})
		}
		tabs.Wait()
		b.profile(t, b.post(t, "renew").wantStatus(http.StatusOK).text("accessToken")).wantStatus(http.StatusOK)
	})
	t.Run("the session ends after its idle time", func(t *testing.T) {
		short, _ := accounts[1].inBrowser(t, "")
		kept, _ := accounts[1].inBrowser(t, "?keepLoggedIn=true")
		sys.clock.advance(11 * time.Hour)
		short.post(t, "renew").wantStatus(http.StatusOK)
		sys.clock.advance(12*time.Hour + time.Minute)
		short.wantEnded(t)
		kept.post(t, "renew").wantStatus(http.StatusOK)
		sys.clock.advance(30*24*time.Hour + time.Minute)
		kept.wantEnded(t)
	})
	t.Run("over HTTPS the cookie belongs to the host alone", func(t *testing.T) {
		secure := sys.page().withHeader("X-Forwarded-Proto", "https")
		login := secure.post(t, "/session/partner/login", object{"email": accounts[1].email, "password": password}).wantStatus(http.StatusOK)
		cookie := cookieOf(t, login)
		if cookie.Name != "__Host-tributary-partner" || !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.MaxAge != 0 {
			t.Errorf("the cookie is %v, want __Host-tributary-partner, Secure, HttpOnly and SameSite=Strict", cookie)
		}
		secure.withHeader("Cookie", cookie.Name+"="+cookie.Value).post(t, "/session/partner/renew", nil).wantStatus(http.StatusOK)
	})
	t.Run("pages of other origins are refused", func(t *testing.T) {
		b, _ := accounts[0].inBrowser(t, "")
		for _, client := range []apiClient{
			b.page.withHeader("Sec-Fetch-Site", "cross-site"), b.page.withHeader("Sec-Fetch-Site", "same-site"),
			b.page.withoutHeader("Sec-Fetch-Site").withHeader("Origin", "https://app.example"),
		} {
			for _, action := range []string{"login", "renew", "logout"} {
				refused := client.post(t, "/session/merchant/"+action, nil).wantError(http.StatusForbidden, "FORBIDDEN")
				if refused.header.Get("Access-Control-Allow-Origin") != "" || refused.header.Get("Set-Cookie") != "" {
					t.Errorf("%s: the headers are %v, want neither CORS nor a cookie", refused.request, refused.header)
				}
			}
		}
		b.post(t, "renew").wantStatus(http.StatusOK)
	})
	t.Run("it ends with a reset of the password", func(t *testing.T) {
		a := sys.newPartner(t)
		b, access := a.inBrowser(t, "?keepLoggedIn=true")
		sys.client().post(t, "/api/v1/auth/partner/forgot-password", object{"email": a.email}).wantStatus(http.StatusOK)
		token := sys.takeToken(t, notification.MailPasswordReset, a.email)
		sys.client().post(t, "/api/v1/auth/partner/reset-password", object{"token": token, "password": otherPassword}).wantStatus(http.StatusOK)
		b.profile(t, access).wantOutcome(unauthorized)
		b.wantEnded(t)
	})
	t.Run("it ends with the membership", func(t *testing.T) {
		owner := sys.newMerchant(t)
		member := owner.addMember(t, "admin")
		b, access := member.inBrowser(t, "")
		owner.do(t, http.MethodDelete, member.memberPath(), nil).wantStatus(http.StatusNoContent)
		b.profile(t, access).wantOutcome(unauthorized)
		b.wantEnded(t)
	})
	t.Run("it ends with the erasure of the account", func(t *testing.T) {
		a := sys.newPartner(t)
		b, access := a.inBrowser(t, "?keepLoggedIn=true")
		b.page.withCredential(access).post(t, "/api/v1/partner/account/erase", confirmed).wantStatus(http.StatusOK)
		b.profile(t, access).wantOutcome(unauthorized)
		b.wantEnded(t)
		if n := sys.count(t, `select count(*) from sessions where user_id = $1 and browser_digest is not null`, a.id); n != 0 {
			t.Errorf("%d digests of the erased account's cookies are stored, want none", n)
		}
	})
}

// TestBrowserSessions_Limits checks that renewals count for their session, and cookies that are
// not valid for the address. Users stay logged in after too many requests.
func TestBrowserSessions_Limits(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{separateProcesses: true, env: map[string]string{
		"TRIBUTARY_LIMIT_AUTH": "10", "TRIBUTARY_LIMIT_SESSION": "60", "TRIBUTARY_LIMIT_TIMEOUT": "1s",
	}})
	a := sys.newPartner(t)
	sys.clock.stop()
	b, _ := a.inBrowser(t, "")
	other, _ := a.inBrowser(t, "")
	for i := range 60 {
		if left := b.post(t, "renew").wantStatus(http.StatusOK).remaining(); left != 59-i {
			t.Fatalf("%d renewals remain, want %d", left, 59-i)
		}
	}
	refused := b.post(t, "renew").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	if policy := refused.header.Get("RateLimit-Policy"); policy != `"session";q=60;w=60` || refused.header.Get("Set-Cookie") != "" {
		t.Errorf("RateLimit-Policy is %q and the cookie %q, want the zone session and no cookie", policy, refused.header.Get("Set-Cookie"))
	}
	other.post(t, "renew").wantStatus(http.StatusOK)
	sys.clock.advance(refused.retryAfter())
	b.post(t, "renew").wantStatus(http.StatusOK)

	stranger := browserSession{sys.page().fromAddress("198.51.100.1").withHeader("Cookie", "tributary-partner="+strings.Repeat("A", 43)), "partner"}
	for range 10 {
		stranger.wantEnded(t)
	}
	refused = stranger.post(t, "renew").wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	if policy := refused.header.Get("RateLimit-Policy"); policy != `"auth";q=10;w=60` {
		t.Errorf("RateLimit-Policy is %q, want the zone auth", policy)
	}
	sys.page().fromAddress("198.51.100.1").post(t, "/session/partner/login", object{"email": a.email, "password": password}).
		wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	browserSession{b.page.fromAddress("198.51.100.1"), "partner"}.post(t, "renew").wantStatus(http.StatusOK)
	// A page without a cookie asks whether there is a session. This does not count.
	for range 20 {
		browserSession{sys.page().fromAddress("198.51.100.2"), "partner"}.wantEnded(t)
	}
	sys.page().fromAddress("198.51.100.2").post(t, "/session/partner/login", object{"email": a.email, "password": password}).wantStatus(http.StatusOK)
}
