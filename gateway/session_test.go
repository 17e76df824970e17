package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

var (
	browserSecret = strings.Repeat("s", 43)
	sessionCookie = "tributary-merchant=" + browserSecret
	loginBody     = `{"email":"ada@example.com","password":"p"}`
)

// openingCore responds to calls that open a session with a refresh token, and to renewals
// without one.
func openingCore(_ context.Context, method string, _ proto.Message) (proto.Message, error) {
	switch method {
	case affiliatev1.AccountService_BindBrowser_FullMethodName:
		return &affiliatev1.BindBrowserResponse{BrowserSecret: browserSecret, IdleExpiresIn: 600, ExpiresIn: 7_776_000}, nil
	case affiliatev1.AccountService_RenewBrowserSession_FullMethodName:
		return &affiliatev1.SessionResponse{AccessToken: "access", TokenType: "Bearer"}, nil
	case affiliatev1.GateService_Admit_FullMethodName, affiliatev1.AccountService_EndBrowserSession_FullMethodName:
		return nil, nil
	}
	return &affiliatev1.SessionResponse{AccessToken: "access", RefreshToken: "refresh", TokenType: "Bearer"}, nil
}

// overHTTPS makes the fixture trust a proxy that reports HTTPS.
func overHTTPS(t *testing.T) func(*Config) {
	t.Helper()
	proxies, err := httpedge.ParseProxies("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.AllowHTTP, c.TrustedProxies = false, proxies }
}

func TestSession_OpeningSetsCookie(t *testing.T) {
	const attributes = "; Path=/; HttpOnly; SameSite=Strict"
	for _, tc := range []struct {
		path, rpc string
		status    int
		cookie    string
	}{
		{"merchant/login", affiliatev1.AccountService_LoginMerchant_FullMethodName, 200, "tributary-merchant=" + browserSecret + attributes},
		{"merchant/login?keepLoggedIn=false", affiliatev1.AccountService_LoginMerchant_FullMethodName, 200, "tributary-merchant=" + browserSecret + attributes},
		{
			"merchant/login?keepLoggedIn=true", affiliatev1.AccountService_LoginMerchant_FullMethodName, 200,
			"tributary-merchant=" + browserSecret + "; Path=/; Max-Age=7776000; HttpOnly; SameSite=Strict",
		},
		{"merchant/login/second-factor", affiliatev1.AccountService_LoginMerchantSecondFactor_FullMethodName, 200, "tributary-merchant=" + browserSecret + attributes},
		{"merchant/register", affiliatev1.AccountService_RegisterMerchant_FullMethodName, 201, "tributary-merchant=" + browserSecret + attributes},
		{"merchant/accept-invite", affiliatev1.AccountService_AcceptInvite_FullMethodName, 201, "tributary-merchant=" + browserSecret + attributes},
		{"partner/login", affiliatev1.AccountService_LoginPartner_FullMethodName, 200, "tributary-partner=" + browserSecret + attributes},
		{"partner/login/second-factor", affiliatev1.AccountService_LoginPartnerSecondFactor_FullMethodName, 200, "tributary-partner=" + browserSecret + attributes},
		{"partner/register", affiliatev1.AccountService_RegisterPartner_FullMethodName, 201, "tributary-partner=" + browserSecret + attributes},
	} {
		t.Run(tc.path, func(t *testing.T) {
			f := newFixture(t, openingCore)
			response := f.do("POST", "/session/"+tc.path, `{}`, "X-Request-Id", "r1", "User-Agent", "agent")
			if response.status != tc.status || response.header.Get("Set-Cookie") != tc.cookie {
				t.Errorf("status %d and cookie %q, want %d and %q", response.status, response.header.Get("Set-Cookie"), tc.status, tc.cookie)
			}
			if want := `{"accessToken":"access","tokenType":"Bearer","expiresIn":0,"user":null,"workspace":null}`; response.body != want {
				t.Errorf("the body is %s, want %s", response.body, want)
			}
			if response.header.Get("Cache-Control") != "no-store" || response.header.Get("X-Request-Id") != "r1" {
				t.Errorf("the headers are %v, want no-store and the request id", response.header)
			}
			calls := f.core.takeCalls()
			if len(calls) != 2 || calls[0].method != tc.rpc || calls[1].method != affiliatev1.AccountService_BindBrowser_FullMethodName {
				t.Fatalf("the core received %v, want %s and BindBrowser", calls, tc.rpc)
			}
			for _, key := range []string{"x-request-id", "x-client-ip", "x-user-agent"} {
				if len(calls[1].metadata.Get(key)) == 0 {
					t.Errorf("BindBrowser has no metadata %s", key)
				}
			}
			bind := calls[1].request.(*affiliatev1.BindBrowserRequest)
			keep, partner := strings.HasSuffix(tc.path, "=true"), strings.HasPrefix(tc.path, "partner")
			if bind.RefreshToken != "refresh" || bind.KeepLoggedIn != keep || (bind.Kind == affiliatev1.AccountKind_ACCOUNT_KIND_PARTNER) != partner {
				t.Errorf("BindBrowser was called with %v", bind)
			}
		})
	}
}

func TestSession_CookieOverHTTPS(t *testing.T) {
	f := newFixture(t, openingCore, overHTTPS(t))
	f.do("POST", "/session/partner/login", loginBody).requireError(t, 403, "HTTPS_REQUIRED")
	response := f.do("POST", "/session/partner/login", loginBody, "X-Forwarded-Proto", "https")
	if want := "__Host-tributary-partner=" + browserSecret + "; Path=/; HttpOnly; Secure; SameSite=Strict"; response.header.Get("Set-Cookie") != want {
		t.Errorf("the cookie is %q, want %q", response.header.Get("Set-Cookie"), want)
	}
	for cookie, status := range map[string]int{"__Host-tributary-partner=": 200, "tributary-partner=": 401, "__Host-tributary-merchant=": 401} {
		response := f.do("POST", "/session/partner/renew", "", "X-Forwarded-Proto", "https", "Cookie", cookie+browserSecret)
		if response.status != status {
			t.Errorf("a renewal with the cookie %s has the status %d, want %d", cookie, response.status, status)
		}
	}
}

func TestSession_RenewAndLogout(t *testing.T) {
	const cleared = "tributary-merchant=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
	limited := coreError(codes.ResourceExhausted, "RATE_LIMIT_EXCEEDED", "", map[string]string{"retry_after": "12"})
	for _, tc := range []struct {
		name, path, cookie string
		err                error
		status             int
		code               string
		calls              int
		deletesCookie      bool
	}{
		{name: "renewal", path: "renew", cookie: sessionCookie, status: 200, calls: 1},
		{name: "renewal without a cookie", path: "renew", status: 401, code: "REFRESH_TOKEN_INVALID", deletesCookie: true},
		{name: "renewal with the cookie of a partner", path: "renew", cookie: "tributary-partner=" + browserSecret, status: 401, code: "REFRESH_TOKEN_INVALID", deletesCookie: true},
		{name: "renewal with a malformed cookie", path: "renew", cookie: "tributary-merchant=x", status: 401, code: "REFRESH_TOKEN_INVALID", deletesCookie: true},
		{
			name: "renewal of a session that has ended", path: "renew", cookie: sessionCookie, err: coreError(codes.Unauthenticated, "REFRESH_TOKEN_INVALID", "", nil),
			status: 401, code: "REFRESH_TOKEN_INVALID", calls: 1, deletesCookie: true,
		},
		{name: "renewal above the limit", path: "renew", cookie: sessionCookie, err: limited, status: 429, code: "RATE_LIMIT_EXCEEDED", calls: 1},
		{
			name: "renewal without a core", path: "renew", cookie: sessionCookie, err: coreError(codes.Unavailable, "SERVICE_UNAVAILABLE", "", nil),
			status: 503, code: "SERVICE_UNAVAILABLE", calls: 1,
		},
		{name: "logout", path: "logout", cookie: sessionCookie, status: 204, calls: 1, deletesCookie: true},
		{name: "logout without a cookie", path: "logout", status: 204, deletesCookie: true},
		{name: "logout above the limit", path: "logout", cookie: sessionCookie, err: limited, status: 429, code: "RATE_LIMIT_EXCEEDED", calls: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, func(ctx context.Context, method string, request proto.Message) (proto.Message, error) {
				_ = grpc.SetHeader(ctx, metadata.Pairs("ratelimit", `"session";r=1;t=2`))
				if tc.err != nil {
					return nil, tc.err
				}
				return openingCore(ctx, method, request)
			})
			response := f.do("POST", "/session/merchant/"+tc.path, "", "Cookie", tc.cookie)
			if tc.code != "" {
				response.requireError(t, tc.status, tc.code)
			}
			if response.status != tc.status || (response.header.Get("Set-Cookie") == cleared) != tc.deletesCookie {
				t.Errorf("status %d and cookie %q, want %d and a deleted cookie: %t", response.status, response.header.Get("Set-Cookie"), tc.status, tc.deletesCookie)
			}
			if tc.status == 200 && response.body != `{"accessToken":"access","tokenType":"Bearer","expiresIn":0,"user":null,"workspace":null}` {
				t.Errorf("the body is %s", response.body)
			}
			if (response.header.Get("RateLimit") != "") != (tc.calls > 0) || response.header.Get("Cache-Control") != "no-store" {
				t.Errorf("the headers are %v, want no-store and those of the core", response.header)
			}
			if calls := f.core.takeCalls(); len(calls) != tc.calls {
				t.Errorf("the core received %v, want %d calls", calls, tc.calls)
			}
		})
	}
}

// A request that the API would refuse gets the same error, and no cookie.
func TestSession_RefusesInvalidRequests(t *testing.T) {
	for _, tc := range []struct {
		name, verb, path, body string
		headers                []string
		status                 int
		code, fields           string
	}{
		{name: "text", verb: "POST", path: "merchant/login", body: loginBody, headers: []string{"Content-Type", "text/plain"}, status: 415, code: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "form in a renewal", verb: "POST", path: "merchant/renew", body: "a=b", headers: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, code: "UNSUPPORTED_MEDIA_TYPE"},
		{name: "unknown key", verb: "POST", path: "merchant/login", body: `{"x":1}`, status: 400, code: "VALIDATION_ERROR", fields: "x=is not a field of this request"},
		{name: "secret in the body", verb: "POST", path: "merchant/renew", body: `{"browserSecret":"x"}`, status: 400, code: "VALIDATION_ERROR", fields: "browserSecret=is not a field of this request"},
		{name: "secret in the query", verb: "POST", path: "merchant/renew?browserSecret=x", status: 400, code: "VALIDATION_ERROR", fields: "browserSecret=is not a parameter of this route"},
		{name: "refresh token in the query", verb: "POST", path: "merchant/login?refreshToken=x", body: loginBody, status: 400, code: "VALIDATION_ERROR", fields: "refreshToken=is not a parameter of this route"},
		{name: "keepLoggedIn is not a boolean", verb: "POST", path: "merchant/login?keepLoggedIn=1", body: loginBody, status: 400, code: "VALIDATION_ERROR", fields: "keepLoggedIn=must be true or false"},
		{name: "keepLoggedIn in the body", verb: "POST", path: "merchant/login", body: `{"keepLoggedIn":true}`, status: 400, code: "VALIDATION_ERROR", fields: "keepLoggedIn=is not a field of this request"},
		{name: "body of a renewal is too large", verb: "POST", path: "merchant/renew", body: strings.Repeat(" ", maxSessionBody+1), status: 413, code: "PAYLOAD_TOO_LARGE"},
		{name: "other method", verb: "GET", path: "merchant/renew", status: 405, code: "METHOD_NOT_ALLOWED"},
		{name: "partners have no invitation", verb: "POST", path: "partner/accept-invite", status: 404, code: "NOT_FOUND"},
		{name: "unknown kind", verb: "POST", path: "admin/login", status: 404, code: "NOT_FOUND"},
		{name: "escaped prefix", verb: "POST", path: "%2e%2e/%73ession/merchant/login", status: 404, code: "NOT_FOUND"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, openingCore)
			response := f.do(tc.verb, "/session/"+tc.path, tc.body, append(tc.headers, "Cookie", sessionCookie)...)
			if got := response.requireError(t, tc.status, tc.code).fields(); got != tc.fields {
				t.Errorf("the details are %q, want %q", got, tc.fields)
			}
			if cookie := response.header.Get("Set-Cookie"); cookie != "" {
				t.Errorf("the response sets the cookie %q", cookie)
			}
			for _, call := range f.core.takeCalls() {
				if call.method != affiliatev1.GateService_Admit_FullMethodName {
					t.Errorf("the core received a call of %s", call.method)
				}
			}
		})
	}
}

func TestSession_FailedBindingSetsNoCookie(t *testing.T) {
	f := newFixture(t, func(ctx context.Context, method string, request proto.Message) (proto.Message, error) {
		if method == affiliatev1.AccountService_BindBrowser_FullMethodName {
			return nil, coreError(codes.Unavailable, "SERVICE_UNAVAILABLE", "", nil)
		}
		return openingCore(ctx, method, request)
	})
	response := f.do("POST", "/session/merchant/login", loginBody)
	response.requireError(t, 503, "SERVICE_UNAVAILABLE")
	if response.header.Get("Set-Cookie") != "" || strings.Contains(response.body, "refresh") {
		t.Errorf("the response has the cookie %q and the body %s, want no token", response.header.Get("Set-Cookie"), response.body)
	}
}

func TestSession_RefusesOtherOrigins(t *testing.T) {
	const app = "https://app.example"
	f := newFixture(t, openingCore, func(c *Config) { c.AllowedOrigins = []string{app} })
	for _, path := range []string{"merchant/login", "merchant/renew", "merchant/logout", "partner/register"} {
		for _, headers := range [][]string{
			{"Origin", app}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site", "Origin", f.url},
		} {
			response := f.do("POST", "/session/"+path, "", append(headers, "Cookie", sessionCookie)...)
			response.requireError(t, 403, "FORBIDDEN")
			if response.header.Get("Access-Control-Allow-Origin") != "" || response.header.Get("Set-Cookie") != "" {
				t.Errorf("%s: the headers are %v, want neither CORS nor a cookie", path, response.header)
			}
		}
		preflight := f.do("OPTIONS", "/session/"+path, "", "Origin", app, "Access-Control-Request-Method", "POST")
		for name := range preflight.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: the response to OPTIONS has the header %s", path, name)
			}
		}
		if preflight.status != http.StatusNoContent || preflight.header.Get("Allow") != "OPTIONS, POST" {
			t.Errorf("%s: OPTIONS has the status %d and Allow %q", path, preflight.status, preflight.header.Get("Allow"))
		}
	}
	if calls := f.core.takeCalls(); len(calls) != 0 {
		t.Errorf("the core received %v, want no calls", calls)
	}
	for _, headers := range [][]string{{"Origin", f.url}, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}} {
		if response := f.do("POST", "/session/merchant/renew", "", append(headers, "Cookie", sessionCookie)...); response.status != http.StatusOK {
			t.Errorf("a renewal with %v has the status %d, want 200", headers, response.status)
		}
	}
}

func TestAPI_IgnoresCookies(t *testing.T) {
	f := newFixture(t, openingCore)
	response := f.do("POST", "/api/v1/auth/merchant/login", loginBody, "Cookie", sessionCookie)
	if response.header.Get("Set-Cookie") != "" || !strings.Contains(response.body, `"refreshToken":"refresh"`) {
		t.Errorf("a login at the API sets the cookie %q and has the body %s", response.header.Get("Set-Cookie"), response.body)
	}
	for _, call := range f.core.takeCalls() {
		for key, values := range call.metadata {
			if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, browserSecret) }) {
				t.Errorf("the core got the cookie in the metadata %s", key)
			}
		}
	}
}
