package gateway

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

func TestRequestHeaders_OnlyListedOnesAreForwarded(t *testing.T) {
	f := newFixture(t, nil)
	f.do("GET", "/api/v1/programs", "",
		"Authorization", "Bearer t", "X-Mode", "test", "Idempotency-Key", "k", "User-Agent", "agent/1", "X-Request-Id", "abc",
		"X-Client-Ip", "6.6.6.6", "X-User-Agent", "fake", "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil", "Cookie", "c=d", "Te", "trailers", "Grpc-Timeout", "1n",
		"Grpc-Metadata-X-Client-Ip", "6.6.6.6", "Grpc-Metadata-Authorization", "Bearer evil", "Grpcgateway-Authorization", "Bearer evil", "Connection", "X-Mode", "Accept", "text/html")
	call := requireOneCall(t, f.core, affiliatev1.ProgramService_ListPrograms_FullMethodName)
	want := map[string]string{"authorization": "Bearer t", "x-mode": "test", "idempotency-key": "k", "x-user-agent": "agent/1", "x-request-id": "abc", "x-client-ip": "127.0.0.1"}
	for key, values := range call.metadata {
		// gRPC itself adds these keys.
		if slices.Contains([]string{":authority", "content-type", "user-agent", "grpc-accept-encoding"}, key) {
			continue
		}
		if len(values) != 1 || values[0] != want[key] {
			t.Errorf("the core got the metadata %s = %q, want %q", key, values, want[key])
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("the core did not get the metadata %v", want)
	}

	f.do("GET", "/api/v1/programs", "", "X-Mode", "test", "X-Mode", "live", "Idempotency-Key", "é", "User-Agent", "")
	md := requireOneCall(t, f.core, affiliatev1.ProgramService_ListPrograms_FullMethodName).metadata
	if got := md.Get("x-mode"); len(got) != 1 || got[0] != "test, live" {
		t.Errorf("two headers X-Mode: the core got %q, want one value %q", got, "test, live")
	}
	if got := md.Get("idempotency-key"); len(got) != 1 || !strings.HasPrefix(got[0], "?") {
		t.Errorf("a header with bytes that metadata cannot contain: the core got %q, want question marks", got)
	}
	if md.Get("authorization") != nil || md.Get("x-request-id") == nil {
		t.Errorf("without Authorization and X-Request-Id, the core got the metadata %v, want a new request id and no authorization", md)
	}
}

func TestClientAddress_BehindProxy(t *testing.T) {
	trusted, err := httpedge.ParseProxies("127.0.0.1")
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	f := newFixture(t, nil, func(c *Config) { c.TrustedProxies = trusted })
	f.do("GET", "/api/v1/programs", "", "X-Forwarded-For", "1.2.3.4, 203.0.113.9")
	if got := requireOneCall(t, f.core, affiliatev1.ProgramService_ListPrograms_FullMethodName).metadata.Get("x-client-ip"); len(got) != 1 || got[0] != "203.0.113.9" {
		t.Errorf("the core got x-client-ip = %q, want 203.0.113.9", got)
	}
}

func TestResponseHeaders_OnlyListedOnesComeFromCore(t *testing.T) {
	f := newFixture(t, func(ctx context.Context, _ string, _ proto.Message) (proto.Message, error) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("ratelimit", "trailer", "secret", "x"))
		return nil, grpc.SetHeader(ctx, metadata.Pairs("ratelimit-policy", `"general";q=300;w=60`, "ratelimit", `"general";r=1;t=2`,
			"idempotent-replayed", "true", "set-cookie", "a=b", "x-internal", "secret", "location", "http://evil"))
	})
	response := f.do("GET", "/api/v1/programs", "", "Te", "trailers")
	for name, want := range map[string]string{
		"RateLimit-Policy": `"general";q=300;w=60`, "RateLimit": `"general";r=1;t=2`, "Idempotent-Replayed": "true",
		"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Vary": "Origin",
		"Set-Cookie": "", "X-Internal": "", "Location": "", "Grpc-Metadata-X-Internal": "", "Grpc-Metadata-Content-Type": "", "Grpc-Trailer-Secret": "", "Trailer": "", "Access-Control-Allow-Origin": "", "Strict-Transport-Security": "",
	} {
		if got := response.header.Get(name); got != want {
			t.Errorf("the header %s is %q, want %q", name, got, want)
		}
	}
	for name := range response.header {
		if strings.HasPrefix(name, "Grpc-") {
			t.Errorf("the response has the header %s", name)
		}
	}
}

func TestRequestID_IsTakenFromRequestOrCreated(t *testing.T) {
	f := newFixture(t, nil)
	v7 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for sent, kept := range map[string]bool{"a": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a b": false, "": false} {
		for _, path := range []string{"/api/v1/programs", "/nowhere", "/api/v1/programs?x=1"} {
			response := f.do("GET", path, "", "X-Request-Id", sent)
			got := response.header.Get("X-Request-Id")
			if kept != (got == sent) || !kept && !v7.MatchString(got) {
				t.Errorf("the request has the id %q and the response %q, want the same id: %t, and otherwise a UUIDv7", sent, got, kept)
			}
			for _, call := range f.core.takeCalls() {
				if forwarded := call.metadata.Get("x-request-id"); forwarded[0] != got {
					t.Errorf("the core got the request id %q, want %q", forwarded, got)
				}
			}
		}
	}
}

func TestPlainHTTP_IsRefused(t *testing.T) {
	proxies, err := httpedge.ParseProxies("127.0.0.1")
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	strict := newFixture(t, nil, func(c *Config) { c.AllowHTTP = false })
	for _, path := range []string{"/api/v1/programs", "/nowhere", "/api/v1/openapi.json"} {
		response := strict.do("GET", path, "", "X-Forwarded-Proto", "https")
		response.requireError(t, 403, "HTTPS_REQUIRED")
		if response.header.Get("X-Request-Id") == "" || response.header.Get("Strict-Transport-Security") != "" {
			t.Errorf("%s: headers %v, want X-Request-Id and no Strict-Transport-Security", path, response.header)
		}
	}
	strict.do("OPTIONS", "/api/v1/programs", "").requireError(t, 403, "HTTPS_REQUIRED")
	if calls := strict.core.takeCalls(); len(calls) > 0 {
		t.Errorf("the core received the calls %v, want none", calls)
	}
	behindProxy := newFixture(t, nil, func(c *Config) { c.AllowHTTP, c.TrustedProxies = false, proxies })
	behindProxy.do("GET", "/api/v1/health", "").requireError(t, 403, "HTTPS_REQUIRED")
	if response := behindProxy.do("GET", "/api/v1/health", "", "X-Forwarded-Proto", "https"); response.status != 200 || response.header.Get("Strict-Transport-Security") != httpedge.HSTS {
		t.Errorf("HTTPS through a trusted proxy: status %d with headers %v, want 200 with Strict-Transport-Security", response.status, response.header)
	}

	handler, err := New(Config{Conn: unreachableCore{}})
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).TLSClientConfig.MinVersion = tls.VersionTLS12
	response, err := client.Get(server.URL + "/api/v1/openapi.json")
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Header.Get("Strict-Transport-Security") != httpedge.HSTS {
		t.Errorf("HTTPS: status %d with headers %v, want 200 with Strict-Transport-Security", response.StatusCode, response.Header)
	}
}

// unreachableCore is a connection to a core that cannot be reached.
type unreachableCore struct{}

func (unreachableCore) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return status.Error(codes.Unavailable, "dial tcp 10.0.0.7:9090: connection refused")
}

func (unreachableCore) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unavailable, "no core")
}

func TestCORS_OnlyAllowedOriginsGetHeaders(t *testing.T) {
	const app = "https://app.example"
	f := newFixture(t, nil, func(c *Config) { c.AllowedOrigins = []string{app, "http://localhost:3000"} })
	preflight := func(origin string) httpResponse {
		return f.do("OPTIONS", "/api/v1/programs/p", "", "Origin", origin, "Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "authorization")
	}
	response := preflight(app)
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": app, "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS, PATCH", "Access-Control-Allow-Headers": corsRequestHeaders,
		"Access-Control-Max-Age": "600", "Access-Control-Allow-Credentials": "", "Vary": "Origin", "Allow": "GET, HEAD, OPTIONS, PATCH",
	} {
		if got := response.header.Get(name); got != want || response.status != 204 || response.body != "" {
			t.Errorf("preflight: status %d with %s = %q, want 204 with %q and no body", response.status, name, got, want)
		}
	}
	for _, origin := range []string{"https://evil.example", "null", "https://app.example.evil", "http://app.example", "https://app.example:8443", "https://APP.example"} {
		response := preflight(origin)
		simple := f.do("GET", "/api/v1/programs", "", "Origin", origin)
		if response.status != 204 || simple.status != 200 {
			t.Errorf("%s: preflight has the status %d and GET %d, want 204 and 200", origin, response.status, simple.status)
		}
		for name := range response.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: the response to the preflight has the header %s", origin, name)
			}
		}
		if simple.header.Get("Access-Control-Allow-Origin") != "" || simple.header.Get("Vary") != "Origin" {
			t.Errorf("%s: GET has the headers %v, want Vary: Origin and no Access-Control-Allow-Origin", origin, simple.header)
		}
	}
	simple := f.do("GET", "/nowhere", "", "Origin", app)
	if simple.header.Get("Access-Control-Allow-Origin") != app || !strings.Contains(simple.header.Get("Access-Control-Expose-Headers"), "X-Request-Id") {
		t.Errorf("the error response has the headers %v, want the CORS headers that let scripts read it", simple.header)
	}
	// Scripts must be able to read every header that the core sets, except those that the
	// browser uses itself or always lets scripts read.
	exposed := strings.Split(strings.ToLower(simple.header.Get("Access-Control-Expose-Headers")), ", ")
	for name, header := range responseHeaders {
		if header != "Vary" && header != "Content-Encoding" && header != "Cache-Control" && !slices.Contains(exposed, name) {
			t.Errorf("Access-Control-Expose-Headers contains %q, but not %s", exposed, name)
		}
	}
	for _, call := range f.core.takeCalls() {
		if call.method != affiliatev1.ProgramService_ListPrograms_FullMethodName {
			t.Errorf("a preflight caused a call of %s", call.method)
		}
	}
}

// The routes for participant tokens answer scripts of every origin. An origin of the
// configuration gets its own name, as on all other routes.
func TestCORS_AnyOriginOnRoutesForParticipantTokens(t *testing.T) {
	const app, page = "https://app.example", "https://page.merchant.example"
	f := newFixture(t, nil, func(c *Config) { c.AllowedOrigins = []string{app} })
	for _, tc := range []struct{ path, origin, want string }{
		{"/api/v1/partner/links", page, "*"},
		{"/api/v1/partner/links", "null", "*"},
		{"/api/v1/partner/links", app, app},
		{"/api/v1/partner/links", "", ""},
		{"/api/v1/partner/profile", page, ""},
	} {
		preflight := f.do("OPTIONS", tc.path, "", "Origin", tc.origin, "Access-Control-Request-Method", "GET")
		simple := f.do("GET", tc.path, "", "Origin", tc.origin)
		for kind, header := range map[string]http.Header{"preflight": preflight.header, "GET": simple.header} {
			if got := header.Get("Access-Control-Allow-Origin"); got != tc.want || header.Get("Access-Control-Allow-Credentials") != "" {
				t.Errorf("%s of %s from %q allows the origin %q, want %q without credentials", kind, tc.path, tc.origin, got, tc.want)
			}
		}
		if allowed := preflight.header.Get("Access-Control-Allow-Headers") != ""; allowed != (tc.want != "") {
			t.Errorf("the preflight of %s from %q allows headers: %t", tc.path, tc.origin, allowed)
		}
	}
	// The gateway's own refusal of a body can be read too.
	if got := f.do("POST", "/api/v1/partner/links", "{", "Origin", page, "Content-Type", "application/json").header.Get("Access-Control-Allow-Origin"); got != "*" {
		t.Errorf("a response to a broken body allows the origin %q, want *", got)
	}
}
