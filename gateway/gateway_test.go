package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
		t.Fatal(err)
	}
	if len(routes) < 30 {
		t.Fatalf("only %d routes", len(routes))
	}
	return routes
}

// fillPath replaces each parameter of the path with a different value.
func fillPath(r contract.Route) string {
	path := r.Template
	for _, field := range r.PathFields {
		path = strings.Replace(path, "{"+string(field.Name())+"}", "id-of-"+string(field.Name()), 1)
	}
	return path
}

// Each route calls its own RPC and sets the fields of its path parameters. This also
// holds for a literal such as /stats where another route has a parameter such as
// /{commission_id}.
func TestRoutes_CallTheirRPC(t *testing.T) {
	r := newRig(t, nil)
	for _, route := range allRoutes(t) {
		t.Run(route.Verb+" "+route.Template, func(t *testing.T) {
			response := r.do(route.Verb, fillPath(route), "")
			if route.RPC == nil {
				if response.status != 200 || len(r.core.takeCalls()) != 0 {
					t.Errorf("%d %s", response.status, response.body)
				}
				return
			}
			if want := contract.SuccessStatus(route.FullMethod); response.status != want {
				t.Errorf("%d %s, want %d", response.status, response.body, want)
			}
			call := onlyCall(t, r.core, route.FullMethod)
			for _, field := range route.PathFields {
				if got := call.request.ProtoReflect().Get(field).String(); got != "id-of-"+string(field.Name()) {
					t.Errorf("%s is %q", field.Name(), got)
				}
			}
			if response.status != http.StatusNoContent && !route.Download() && response.body != encode(t, emptyReply(route.FullMethod)) {
				t.Errorf("body %s", response.body)
			}
		})
	}
}

// Every RPC has a route, except those of GateService, which clients must not call.
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
				if routed[name] == (methods.Get(j).Parent().Name() == "GateService") {
					t.Errorf("%s has a route: %v", name, routed[name])
				}
			}
		}
	}
	r := newRig(t, nil)
	r.do("POST", "/affiliate.v1.GateService/Admit", `{}`).requireError(t, 404, "NOT_FOUND")
}

func TestSuccessStatuses(t *testing.T) {
	r := newRig(t, func(ctx context.Context, method string, _ proto.Message) (proto.Message, error) {
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
		response := r.do(c.verb, c.path, "")
		if response.status != c.want {
			t.Errorf("%s %s: %d, want %d", c.verb, c.path, response.status, c.want)
		}
		if response.header.Get("X-Http-Code") != "" {
			t.Error("the response contains the status metadata")
		}
	}
	for _, path := range []string{"/api/v1/auth/logout", "/api/v1/auth/merchant/logout", "/api/v1/auth/partner/logout"} {
		response := r.do("POST", path, `{"refreshToken":"x"}`)
		if response.status != 204 || response.body != "" || response.header.Get("Content-Type") != "" || response.header.Get("Content-Length") != "" {
			t.Errorf("%s: %d %q %v", path, response.status, response.body, response.header)
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	r := newRig(t, nil)
	for _, path := range []string{
		"/", "/api", "/api/v1/nothing", "/api/v1/programs/", "/api/v1/programs//commissions", "/api/v1//programs", "//api/v1/programs",
		"/api/v1/programs/p/activate/", "/api/v1/health/", "/api/v1/%70rograms", "/api/v1/programs%2fp",
		"/v1/clicks", "/api/v1/openapi.json/", "/api/v2/programs", "/API/v1/programs",
	} {
		for _, verb := range []string{"GET", "POST", "OPTIONS"} {
			r.do(verb, path, "").requireError(t, 404, "NOT_FOUND")
		}
	}
	for _, c := range []struct{ verb, path, allow string }{
		{"DELETE", "/api/v1/programs", "GET, HEAD, OPTIONS, POST"},
		{"PUT", "/api/v1/programs/p", "GET, HEAD, OPTIONS, PATCH"},
		{"DELETE", "/api/v1/conversions", "GET, HEAD, OPTIONS, POST"},
		{"GET", "/api/v1/attribution/simulate", "OPTIONS, POST"},
		{"HEAD", "/api/v1/programs/p/activate", "OPTIONS, POST"},
		// The export marks the payouts as sent, so HEAD is not allowed.
		{"HEAD", "/api/v1/payouts/batches/b/export", "GET, OPTIONS"},
		{"BREW", "/api/v1/health", "GET, HEAD, OPTIONS"},
		{"POST", "/api/v1/openapi.json", "GET, HEAD, OPTIONS"},
		{"TRACE", "/api/v1/programs/a%2Fb", "GET, HEAD, OPTIONS, PATCH"},
	} {
		response := r.do(c.verb, c.path, "")
		if c.verb == "HEAD" {
			if response.status != 405 || response.body != "" {
				t.Errorf("HEAD: %d %q", response.status, response.body)
			}
		} else {
			response.requireError(t, 405, "METHOD_NOT_ALLOWED")
		}
		if got := response.header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s allows %q, want %q", c.verb, c.path, got, c.allow)
		}
	}
	r.do("POST", "/api/v1/programs", `{"name":"x"}`, "X-HTTP-Method-Override", "DELETE")
	onlyCall(t, r.core, affiliatev1.ProgramService_CreateProgram_FullMethodName)
	r.do("POST", "/api/v1/commissions", "page=1", "Content-Type", "application/x-www-form-urlencoded").requireError(t, 405, "METHOD_NOT_ALLOWED")
}

func TestPathParameters_MatchWholeSegments(t *testing.T) {
	r := newRig(t, nil)
	for path, want := range map[string]string{
		"/api/v1/programs/a%2Fb":        "a/b",
		"/api/v1/programs/x%2Factivate": "x/activate",
		"/api/v1/programs/%C3%A9":       "é",
		"/api/v1/programs/a%ffb":        "a\ufffdb",
		"/api/v1/programs/a%00b":        "a\ufffdb",
		"/api/v1/programs/a:b":          "a:b",
		"/api/v1/programs/a%20b%2525":   "a b%25",
	} {
		if response := r.do("GET", path, ""); response.status != 200 {
			t.Errorf("%s: %d %s", path, response.status, response.body)
			continue
		}
		call := onlyCall(t, r.core, affiliatev1.ProgramService_GetProgram_FullMethodName)
		if got := call.request.(*affiliatev1.GetProgramRequest).GetProgramId(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestHEAD_RespondsLikeGETWithoutBody(t *testing.T) {
	r := newRig(t, nil)
	get, head := r.do("GET", "/api/v1/programs", ""), r.do("HEAD", "/api/v1/programs", "")
	if head.status != 200 || head.body != "" || head.header.Get("Content-Length") != get.header.Get("Content-Length") || get.header.Get("Content-Length") == "" {
		t.Errorf("GET %v\nHEAD %d %q %v", get.header, head.status, head.body, head.header)
	}
}

func TestNew_RejectsInvalidConfig(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("a config without a connection was accepted")
	}
	for _, origin := range []string{"*", "app.example", "https://app.example/", "https://app.example/x", "https://*.example", "ftp://app.example", "HTTPS://app.example", "null", ""} {
		if _, err := New(Config{Conn: refusing{}, AllowedOrigins: []string{origin}}); err == nil {
			t.Errorf("%q was accepted as an origin", origin)
		}
	}
}

func TestPanic_HasEnvelope(t *testing.T) {
	log := &syncBuffer{}
	handler, err := New(Config{Conn: panicking{}, AllowHTTP: true, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	r := &rig{t: t, url: server.URL}
	response := r.do("GET", "/api/v1/programs", "", "X-Request-Id", "panic-1")
	e := response.requireError(t, 500, "INTERNAL_ERROR")
	if strings.Contains(e.Message, "secret") || response.header.Get("X-Request-Id") != "panic-1" {
		t.Errorf("%v %v", e, response.header)
	}
	if text := log.String(); !strings.Contains(text, "panic-1") || !strings.Contains(text, "secret detail") {
		t.Errorf("log: %s", text)
	}
}

type panicking struct{ refusing }

func (panicking) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	panic("secret detail")
}
