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

func TestRequestHeaders_ForwardedToCore(t *testing.T) {
	r := newRig(t, nil)
	r.do("GET", "/api/v1/programs", "",
		"Authorization", "Bearer t", "X-Mode", "test", "Idempotency-Key", "k", "User-Agent", "agent/1", "X-Request-Id", "abc",
		"X-Client-Ip", "6.6.6.6", "X-User-Agent", "fake", "X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "evil", "Cookie", "c=d", "Te", "trailers", "Grpc-Timeout", "1n",
		"Grpc-Metadata-X-Client-Ip", "6.6.6.6", "Grpc-Metadata-Authorization", "Bearer evil", "Grpcgateway-Authorization", "Bearer evil", "Connection", "X-Mode", "Accept", "text/html")
	call := onlyCall(t, r.core, affiliatev1.ProgramService_ListPrograms_FullMethodName)
	want := map[string]string{"authorization": "Bearer t", "x-mode": "test", "idempotency-key": "k", "x-user-agent": "agent/1", "x-request-id": "abc", "x-client-ip": "127.0.0.1"}
	for key, values := range call.metadata {
		// gRPC itself adds these keys.
		if slices.Contains([]string{":authority", "content-type", "user-agent", "grpc-accept-encoding"}, key) {
			continue
		}
		if len(values) != 1 || values[0] != want[key] {
			t.Errorf("%s: %q", key, values)
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}

	r.do("GET", "/api/v1/programs", "", "X-Mode", "test", "X-Mode", "live", "Idempotency-Key", "é", "User-Agent", "")
	md := onlyCall(t, r.core, affiliatev1.ProgramService_ListPrograms_FullMethodName).metadata
	if got := md.Get("x-mode"); len(got) != 1 || got[0] != "test, live" {
		t.Errorf("two modes: %q", got)
	}
	if got := md.Get("idempotency-key"); len(got) != 1 || !strings.HasPrefix(got[0], "?") {
		t.Errorf("bytes that metadata cannot carry: %q", got)
	}
	if md.Get("authorization") != nil || md.Get("x-request-id") == nil {
		t.Errorf("%v", md)
	}
}

func TestClientAddress_BehindProxy(t *testing.T) {
	trusted, err := httpedge.ParseProxies("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, nil, func(c *Config) { c.TrustedProxies = trusted })
	r.do("GET", "/api/v1/programs", "", "X-Forwarded-For", "1.2.3.4, 203.0.113.9")
	if got := onlyCall(t, r.core, affiliatev1.ProgramService_ListPrograms_FullMethodName).metadata.Get("x-client-ip"); len(got) != 1 || got[0] != "203.0.113.9" {
		t.Errorf("%q", got)
	}
}

func TestResponseHeaders(t *testing.T) {
	r := newRig(t, func(ctx context.Context, _ string, _ proto.Message) (proto.Message, error) {
		_ = grpc.SetTrailer(ctx, metadata.Pairs("ratelimit", "trailer", "secret", "x"))
		return nil, grpc.SetHeader(ctx, metadata.Pairs("ratelimit-policy", `"general";q=300;w=60`, "ratelimit", `"general";r=1;t=2`,
			"idempotent-replayed", "true", "set-cookie", "a=b", "x-internal", "secret", "location", "http://evil"))
	})
	reply := r.do("GET", "/api/v1/programs", "", "Te", "trailers")
	for name, want := range map[string]string{
		"RateLimit-Policy": `"general";q=300;w=60`, "RateLimit": `"general";r=1;t=2`, "Idempotent-Replayed": "true",
		"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Vary": "Origin",
		"Set-Cookie": "", "X-Internal": "", "Location": "", "Grpc-Metadata-X-Internal": "", "Grpc-Metadata-Content-Type": "", "Grpc-Trailer-Secret": "", "Trailer": "", "Access-Control-Allow-Origin": "", "Strict-Transport-Security": "",
	} {
		if got := reply.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name := range reply.header {
		if strings.HasPrefix(name, "Grpc-") {
			t.Errorf("the response contains %s", name)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	r := newRig(t, nil)
	v7 := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for sent, kept := range map[string]bool{"a": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a b": false, "": false} {
		for _, path := range []string{"/api/v1/programs", "/nowhere", "/api/v1/programs?x=1"} {
			reply := r.do("GET", path, "", "X-Request-Id", sent)
			got := reply.header.Get("X-Request-Id")
			if kept != (got == sent) || !kept && !v7.MatchString(got) {
				t.Errorf("%q: %q", sent, got)
			}
			for _, call := range r.core.takeCalls() {
				if call.metadata.Get("x-request-id")[0] != got {
					t.Errorf("the core got %q", call.metadata.Get("x-request-id"))
				}
			}
		}
	}
}

func TestHTTPSOnly(t *testing.T) {
	proxies, err := httpedge.ParseProxies("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	strict := newRig(t, nil, func(c *Config) { c.AllowHTTP = false })
	for _, path := range []string{"/api/v1/programs", "/nowhere", "/api/v1/openapi.json"} {
		reply := strict.do("GET", path, "", "X-Forwarded-Proto", "https")
		reply.requireError(t, 403, "HTTPS_REQUIRED")
		if reply.header.Get("X-Request-Id") == "" || reply.header.Get("Strict-Transport-Security") != "" {
			t.Errorf("%v", reply.header)
		}
	}
	strict.do("OPTIONS", "/api/v1/programs", "").requireError(t, 403, "HTTPS_REQUIRED")
	if calls := strict.core.takeCalls(); len(calls) > 0 {
		t.Errorf("the core was called: %v", calls)
	}
	behind := newRig(t, nil, func(c *Config) { c.AllowHTTP, c.TrustedProxies = false, proxies })
	behind.do("GET", "/api/v1/health", "").requireError(t, 403, "HTTPS_REQUIRED")
	if reply := behind.do("GET", "/api/v1/health", "", "X-Forwarded-Proto", "https"); reply.status != 200 || reply.header.Get("Strict-Transport-Security") != httpedge.HSTS {
		t.Errorf("%d %v", reply.status, reply.header)
	}

	handler, err := New(Config{Conn: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).TLSClientConfig.MinVersion = tls.VersionTLS12
	response, err := client.Get(server.URL + "/api/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Header.Get("Strict-Transport-Security") != httpedge.HSTS {
		t.Errorf("%d %v", response.StatusCode, response.Header)
	}
}

// refusing is a connection to a core that is not reachable.
type refusing struct{}

func (refusing) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return status.Error(codes.Unavailable, "dial tcp 10.0.0.7:9090: connection refused")
}

func (refusing) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unavailable, "no core")
}

func TestCORS(t *testing.T) {
	const app = "https://app.example"
	r := newRig(t, nil, func(c *Config) { c.AllowedOrigins = []string{app, "http://localhost:3000"} })
	preflight := func(origin string) httpResponse {
		return r.do("OPTIONS", "/api/v1/programs/p", "", "Origin", origin, "Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", "authorization")
	}
	reply := preflight(app)
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": app, "Access-Control-Allow-Methods": "GET, HEAD, OPTIONS, PATCH", "Access-Control-Allow-Headers": corsRequestHeaders,
		"Access-Control-Max-Age": "600", "Access-Control-Allow-Credentials": "", "Vary": "Origin", "Allow": "GET, HEAD, OPTIONS, PATCH",
	} {
		if got := reply.header.Get(name); got != want || reply.status != 204 || reply.body != "" {
			t.Errorf("%d %s: %q, want %q", reply.status, name, got, want)
		}
	}
	for _, origin := range []string{"https://evil.example", "null", "https://app.example.evil", "http://app.example", "https://app.example:8443", "https://APP.example"} {
		reply := preflight(origin)
		simple := r.do("GET", "/api/v1/programs", "", "Origin", origin)
		if reply.status != 204 || simple.status != 200 {
			t.Errorf("%s: %d %d", origin, reply.status, simple.status)
		}
		for name := range reply.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s got %s", origin, name)
			}
		}
		if simple.header.Get("Access-Control-Allow-Origin") != "" || simple.header.Get("Vary") != "Origin" {
			t.Errorf("%s: %v", origin, simple.header)
		}
	}
	simple := r.do("GET", "/nowhere", "", "Origin", app)
	if simple.header.Get("Access-Control-Allow-Origin") != app || !strings.Contains(simple.header.Get("Access-Control-Expose-Headers"), "X-Request-Id") {
		t.Errorf("scripts cannot read the error: %v", simple.header)
	}
	// Scripts can read every header that the core sets.
	exposed := strings.Split(strings.ToLower(simple.header.Get("Access-Control-Expose-Headers")), ", ")
	for name := range responseHeaders {
		if !slices.Contains(exposed, name) {
			t.Errorf("%s is not among %q", name, exposed)
		}
	}
	for _, call := range r.core.takeCalls() {
		if call.method != affiliatev1.ProgramService_ListPrograms_FullMethodName {
			t.Errorf("a preflight reached the core: %s", call.method)
		}
	}
}
