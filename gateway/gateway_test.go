package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/gateway/contract"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func allRoutes(t testing.TB) []contract.Route {
	t.Helper()
	routes, err := contract.Routes(contract.Files())
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	if len(routes) < 30 {
		t.Fatalf("Routes returns %d routes, want at least 30", len(routes))
	}
	return routes
}

// fillPath returns the path of a route with values instead of parameters.
func fillPath(r contract.Route) string {
	path := r.Template
	for _, field := range r.PathFields {
		path = strings.Replace(path, "{"+string(field.Name())+"}", "id-of-"+string(field.Name()), 1)
	}
	return path
}

// Each route calls its own RPC and sets the fields of its path parameters. This must also
// hold if one route has a literal, such as /stats, where another route has a parameter,
// such as /{commission_id}.
func TestRoutes_CallTheirRPC(t *testing.T) {
	f := newFixture(t, nil)
	for _, route := range allRoutes(t) {
		t.Run(route.Verb+" "+route.Template, func(t *testing.T) {
			response := f.do(route.Verb, fillPath(route), "")
			if route.RPC == nil {
				if response.status != 200 || len(f.core.takeCalls()) != 0 {
					t.Errorf("status %d, want 200 without a call to the core: %s", response.status, response.body)
				}
				return
			}
			if want := route.Status; response.status != want {
				t.Errorf("status %d, want %d: %s", response.status, want, response.body)
			}
			call := requireOneCall(t, f.core, route.FullMethod)
			for _, field := range route.PathFields {
				if got, want := call.request.ProtoReflect().Get(field).String(), "id-of-"+string(field.Name()); got != want {
					t.Errorf("the request to the core has %s = %q, want %q", field.Name(), got, want)
				}
			}
			if response.status == http.StatusNoContent || route.Download() {
				return
			}
			if want := encode(t, emptyResponse(route.FullMethod)); response.body != want {
				t.Errorf("body %s, want %s", response.body, want)
			}
		})
	}
}

// browserMethods are called by the routes of package browsersession, and by no route of the API.
var browserMethods = []protoreflect.Name{"BindBrowser", "RenewBrowserSession", "EndBrowserSession"}

// Every RPC has a route, except browserMethods and the RPCs of GateService, which clients must
// not call.
func TestRoutes_CoverEveryService(t *testing.T) {
	routed := map[protoreflect.FullName]bool{}
	for _, route := range allRoutes(t) {
		if route.RPC != nil {
			routed[route.RPC.FullName()] = true
		}
	}
	for _, file := range contract.Files() {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				name := methods.Get(j).FullName()
				internal := methods.Get(j).Parent().Name() == "GateService" || slices.Contains(browserMethods, methods.Get(j).Name())
				if want := !internal; routed[name] != want {
					t.Errorf("%s has a route: %t, want %t", name, routed[name], want)
				}
			}
		}
	}
	f := newFixture(t, nil)
	f.do("POST", "/affiliate.v1.GateService/Admit", `{}`).requireError(t, 404, "NOT_FOUND")
}

func TestResponse_HasSuccessStatusOfRoute(t *testing.T) {
	f := newFixture(t, func(ctx context.Context, method string, _ proto.Message) (proto.Message, error) {
		if method == affiliatev1.ProgramService_PauseProgram_FullMethodName {
			return nil, grpc.SetHeader(ctx, metadata.Pairs("x-http-code", "202"))
		}
		if method == affiliatev1.ProgramService_ArchiveProgram_FullMethodName {
			return nil, grpc.SetHeader(ctx, metadata.Pairs("x-http-code", "500"))
		}
		return nil, nil
	})
	for _, c := range []struct {
		verb, path string
		want       int
	}{
		{"POST", "/api/v1/auth/merchant/register", 201},
		{"POST", "/api/v1/auth/partner/register", 201},
		{"POST", "/api/v1/api-keys", 201},
		{"POST", "/api/v1/programs", 201},
		{"POST", "/api/v1/partner/programs/p/apply", 201},
		{"POST", "/api/v1/conversions", 201},
		{"POST", "/api/v1/auth/merchant/login", 200},
		{"GET", "/api/v1/programs", 200},
		{"PATCH", "/api/v1/programs/p", 200},
		{"POST", "/api/v1/programs/p/activate", 200},
		{"POST", "/api/v1/programs/p/pause", 202},
		{"POST", "/api/v1/programs/p/archive", 200},
	} {
		response := f.do(c.verb, c.path, "")
		if response.status != c.want {
			t.Errorf("%s %s: status %d, want %d", c.verb, c.path, response.status, c.want)
		}
		if response.header.Get("X-Http-Code") != "" {
			t.Errorf("%s %s: the response contains the metadata x-http-code of the core", c.verb, c.path)
		}
	}
	for _, path := range []string{"/api/v1/auth/logout", "/api/v1/auth/merchant/logout", "/api/v1/auth/partner/logout"} {
		response := f.do("POST", path, `{"refreshToken":"x"}`)
		if response.status != 204 || response.body != "" || response.header.Get("Content-Type") != "" || response.header.Get("Content-Length") != "" {
			t.Errorf("%s: status %d, body %q, headers %v; want 204 without a body", path, response.status, response.body, response.header)
		}
	}
}

func TestUnknownPathsAndMethods_AreRefused(t *testing.T) {
	f := newFixture(t, nil)
	for _, path := range []string{
		"/api", "/api/v1/nothing", "/api/v1/programs/", "/api/v1/programs//commissions", "/api/v1//programs", "//api/v1/programs",
		"/api/v1/programs/p/activate/", "/api/v1/health/", "/api/v1/%70rograms", "/api/v1/programs%2fp",
		"/v1/clicks", "/api/v1/openapi.json/", "/api/v2/programs", "/API/v1/programs",
	} {
		for _, verb := range []string{"GET", "POST", "OPTIONS"} {
			f.do(verb, path, "").requireError(t, 404, "NOT_FOUND")
		}
	}
	for _, c := range []struct{ verb, path, allow string }{
		{"DELETE", "/api/v1/programs", "GET, HEAD, OPTIONS, POST"},
		{"PUT", "/api/v1/programs/p", "GET, HEAD, OPTIONS, PATCH"},
		{"DELETE", "/api/v1/conversions", "GET, HEAD, OPTIONS, POST"},
		{"GET", "/api/v1/attribution/simulate", "OPTIONS, POST"},
		{"HEAD", "/api/v1/programs/p/activate", "OPTIONS, POST"},
		{"BREW", "/api/v1/health", "GET, HEAD, OPTIONS"},
		{"POST", "/api/v1/openapi.json", "GET, HEAD, OPTIONS"},
		{"TRACE", "/api/v1/programs/a%2Fb", "GET, HEAD, OPTIONS, PATCH"},
	} {
		response := f.do(c.verb, c.path, "")
		if c.verb == "HEAD" {
			if response.status != 405 || response.body != "" {
				t.Errorf("HEAD %s: status %d with the body %q, want 405 without a body", c.path, response.status, response.body)
			}
		} else {
			response.requireError(t, 405, "METHOD_NOT_ALLOWED")
		}
		if got := response.header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s: the header Allow is %q, want %q", c.verb, c.path, got, c.allow)
		}
	}
	f.do("POST", "/api/v1/programs", `{"name":"x"}`, "X-HTTP-Method-Override", "DELETE")
	requireOneCall(t, f.core, affiliatev1.ProgramService_CreateProgram_FullMethodName)
	f.do("POST", "/api/v1/commissions", "page=1", "Content-Type", "application/x-www-form-urlencoded").requireError(t, 405, "METHOD_NOT_ALLOWED")
}

func TestPathParameters_MatchWholeSegments(t *testing.T) {
	f := newFixture(t, nil)
	for path, want := range map[string]string{
		"/api/v1/programs/a%2Fb":        "a/b",
		"/api/v1/programs/x%2Factivate": "x/activate",
		"/api/v1/programs/%C3%A9":       "é",
		"/api/v1/programs/a%ffb":        "a\ufffdb",
		"/api/v1/programs/a%00b":        "a\ufffdb",
		"/api/v1/programs/a:b":          "a:b",
		"/api/v1/programs/a%20b%2525":   "a b%25",
	} {
		if response := f.do("GET", path, ""); response.status != 200 {
			t.Errorf("%s: status %d, want 200: %s", path, response.status, response.body)
			continue
		}
		call := requireOneCall(t, f.core, affiliatev1.ProgramService_GetProgram_FullMethodName)
		if got := call.request.(*affiliatev1.GetProgramRequest).GetProgramId(); got != want {
			t.Errorf("%s: the core got the id %q, want %q", path, got, want)
		}
	}
}

func TestHEAD_RespondsLikeGETWithoutBody(t *testing.T) {
	f := newFixture(t, nil)
	get, head := f.do("GET", "/api/v1/programs", ""), f.do("HEAD", "/api/v1/programs", "")
	if head.status != 200 || head.body != "" || head.header.Get("Content-Length") != get.header.Get("Content-Length") || get.header.Get("Content-Length") == "" {
		t.Errorf("GET has the headers %v\nHEAD has the status %d, the body %q and the headers %v, want 200, no body and the same Content-Length", get.header, head.status, head.body, head.header)
	}
}

func TestNew_RejectsInvalidConfig(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("New accepted a config without a connection, want an error")
	}
	for _, origin := range []string{"*", "app.example", "https://app.example/", "https://app.example/x", "https://*.example", "ftp://app.example", "HTTPS://app.example", "null", ""} {
		if _, err := New(Config{Conn: unreachableCore{}, AllowedOrigins: []string{origin}}); err == nil {
			t.Errorf("New accepted the origin %q, want an error", origin)
		}
	}
}

func TestPanic_RespondsWithInternalError(t *testing.T) {
	log := &logBuffer{}
	handler, err := New(Config{Conn: panickingCore{}, AllowHTTP: true, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	f := &fixture{t: t, url: server.URL}
	response := f.do("GET", "/api/v1/programs", "", "X-Request-Id", "panic-1")
	e := response.requireError(t, 500, "INTERNAL_ERROR")
	if strings.Contains(e.Message, "secret") || response.header.Get("X-Request-Id") != "panic-1" {
		t.Errorf("response %v with headers %v, want the request id panic-1 and no text of the panic", e, response.header)
	}
	if text := log.String(); !strings.Contains(text, "panic-1") || !strings.Contains(text, "secret detail") {
		t.Errorf("logged %q, want the request id and the text of the panic", text)
	}
}

// panickingCore is a connection to a core whose calls panic.
type panickingCore struct{ unreachableCore }

func (panickingCore) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	panic("secret detail")
}
