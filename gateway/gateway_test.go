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

// fillPath puts a value of its own into each parameter.
func fillPath(r contract.Route) string {
	path := r.Template
	for _, field := range r.PathFields {
		path = strings.Replace(path, "{"+string(field.Name())+"}", "id-of-"+string(field.Name()), 1)
	}
	return path
}

// A literal that stands where another route has a parameter (/stats beside
// /{commission_id}) reaches its own RPC, and path parameters reach their fields.
func TestEveryRouteReachesItsOwnRPC(t *testing.T) {
	r := newRig(t, nil)
	for _, route := range allRoutes(t) {
		t.Run(route.Verb+" "+route.Template, func(t *testing.T) {
			answer := r.do(route.Verb, fillPath(route), "")
			if route.RPC == nil {
				if answer.status != 200 || len(r.core.take()) != 0 {
					t.Errorf("%d %s", answer.status, answer.body)
				}
				return
			}
			if want := contract.SuccessStatus(route.FullMethod); answer.status != want {
				t.Errorf("%d %s, want %d", answer.status, answer.body, want)
			}
			call := onlyCall(t, r.core, route.FullMethod)
			for _, field := range route.PathFields {
				if got := call.request.ProtoReflect().Get(field).String(); got != "id-of-"+string(field.Name()) {
					t.Errorf("%s is %q", field.Name(), got)
				}
			}
			if answer.status != http.StatusNoContent && !route.Download() && answer.body != encode(t, emptyReply(route.FullMethod)) {
				t.Errorf("body %s", answer.body)
			}
		})
	}
}

// Every RPC is routed but the gate's, which no client may call.
func TestEveryServiceIsRouted(t *testing.T) {
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
					t.Errorf("%s routed: %v", name, routed[name])
				}
			}
		}
	}
	r := newRig(t, nil)
	r.do("POST", "/affiliate.v1.GateService/Admit", `{}`).refused(t, 404, "NOT_FOUND")
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
		answer := r.do(c.verb, c.path, "")
		if answer.status != c.want {
			t.Errorf("%s %s: %d, want %d", c.verb, c.path, answer.status, c.want)
		}
		if answer.header.Get("X-Http-Code") != "" {
			t.Error("the status metadata came out")
		}
	}
	for _, path := range []string{"/api/v1/auth/logout", "/api/v1/auth/merchant/logout", "/api/v1/auth/partner/logout"} {
		answer := r.do("POST", path, `{"refreshToken":"x"}`)
		if answer.status != 204 || answer.body != "" || answer.header.Get("Content-Type") != "" || answer.header.Get("Content-Length") != "" {
			t.Errorf("%s: %d %q %v", path, answer.status, answer.body, answer.header)
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
			r.do(verb, path, "").refused(t, 404, "NOT_FOUND")
		}
	}
	for _, c := range []struct{ verb, path, allow string }{
		{"DELETE", "/api/v1/programs", "GET, HEAD, OPTIONS, POST"},
		{"PUT", "/api/v1/programs/p", "GET, HEAD, OPTIONS, PATCH"},
		{"DELETE", "/api/v1/conversions", "GET, HEAD, OPTIONS, POST"},
		{"GET", "/api/v1/attribution/simulate", "OPTIONS, POST"},
		{"HEAD", "/api/v1/programs/p/activate", "OPTIONS, POST"},
		// It sends the payouts.
		{"HEAD", "/api/v1/payouts/batches/b/export", "GET, OPTIONS"},
		{"BREW", "/api/v1/health", "GET, HEAD, OPTIONS"},
		{"POST", "/api/v1/openapi.json", "GET, HEAD, OPTIONS"},
		{"TRACE", "/api/v1/programs/a%2Fb", "GET, HEAD, OPTIONS, PATCH"},
	} {
		answer := r.do(c.verb, c.path, "")
		if c.verb == "HEAD" {
			if answer.status != 405 || answer.body != "" {
				t.Errorf("HEAD: %d %q", answer.status, answer.body)
			}
		} else {
			answer.refused(t, 405, "METHOD_NOT_ALLOWED")
		}
		if got := answer.header.Get("Allow"); got != c.allow {
			t.Errorf("%s %s allows %q, want %q", c.verb, c.path, got, c.allow)
		}
	}
	r.do("POST", "/api/v1/programs", `{"name":"x"}`, "X-HTTP-Method-Override", "DELETE")
	onlyCall(t, r.core, affiliatev1.ProgramService_CreateProgram_FullMethodName)
	r.do("POST", "/api/v1/commissions", "page=1", "Content-Type", "application/x-www-form-urlencoded").refused(t, 405, "METHOD_NOT_ALLOWED")
}

func TestPathParametersAreWholeSegments(t *testing.T) {
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
		if answer := r.do("GET", path, ""); answer.status != 200 {
			t.Errorf("%s: %d %s", path, answer.status, answer.body)
			continue
		}
		call := onlyCall(t, r.core, affiliatev1.ProgramService_GetProgram_FullMethodName)
		if got := call.request.(*affiliatev1.GetProgramRequest).GetProgramId(); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestHEADAnswersLikeGETWithoutBody(t *testing.T) {
	r := newRig(t, nil)
	get, head := r.do("GET", "/api/v1/programs", ""), r.do("HEAD", "/api/v1/programs", "")
	if head.status != 200 || head.body != "" || head.header.Get("Content-Length") != get.header.Get("Content-Length") || get.header.Get("Content-Length") == "" {
		t.Errorf("GET %v\nHEAD %d %q %v", get.header, head.status, head.body, head.header)
	}
}

func TestNewRefusesBadConfig(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("no connection")
	}
	for _, origin := range []string{"*", "app.example", "https://app.example/", "https://app.example/x", "https://*.example", "ftp://app.example", "HTTPS://app.example", "null", ""} {
		if _, err := New(Config{Conn: refusing{}, AllowedOrigins: []string{origin}}); err == nil {
			t.Errorf("%q was taken for an origin", origin)
		}
	}
}

func TestPanicsAreTheEnvelopeToo(t *testing.T) {
	log := &syncBuffer{}
	handler, err := New(Config{Conn: panicking{}, AllowHTTP: true, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	r := &rig{t: t, url: server.URL}
	answer := r.do("GET", "/api/v1/programs", "", "X-Request-Id", "panic-1")
	e := answer.refused(t, 500, "INTERNAL_ERROR")
	if strings.Contains(e.Message, "secret") || answer.header.Get("X-Request-Id") != "panic-1" {
		t.Errorf("%v %v", e, answer.header)
	}
	if text := log.String(); !strings.Contains(text, "panic-1") || !strings.Contains(text, "secret detail") {
		t.Errorf("log: %s", text)
	}
}

type panicking struct{ refusing }

func (panicking) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	panic("secret detail")
}
