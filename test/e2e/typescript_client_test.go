package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// typeScriptClient is the folder of the TypeScript client.
const typeScriptClient = "../../clients/typescript"

// TestTypeScriptClient compiles the client and runs the client's own tests against the
// service. Between them is a proxy in which the client's tests can cause faults.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	const limit = 50
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_LIMIT_CONVERSIONS": strconv.Itoa(limit)}})
	f := sys.newFixture(t, "test", nil)
	promo := f.merchant.post(t, f.programPath()+"/promo-codes", object{"participantId": f.participant, "code": "TYPED", "discountType": "percentage", "discountValue": 10}).wantStatus(http.StatusCreated).text("code")
	proxy := startFaultyProxy(t, f, limit)

	hook := startReceiver(t)
	endpoint := f.merchant.post(t, "/api/v1/webhooks", object{"url": hook.url, "subscriptions": []string{"*"}}).wantStatus(http.StatusCreated)
	f.merchant.post(t, "/api/v1/webhooks/"+endpoint.text("id")+"/test-ping", nil).wantStatus(http.StatusOK)
	ping := hook.requests()[0]
	headers := map[string]string{}
	for name := range ping.header {
		headers[name] = ping.header.Get(name)
	}
	webhook, err := json.Marshal(map[string]any{"body": string(ping.body), "headers": headers})
	if err != nil {
		t.Fatal(err)
	}

	dir := copyTypeScriptClient(t)
	run(t, dir, nil, "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
	run(t, dir, nil, "npx", "--no-install", "tsc", "--outDir", "compiled")
	run(t, dir, []string{
		"BASE_URL=" + proxy.URL, "EMAIL=" + f.merchant.email, "PASSWORD=" + password, "SECRET_KEY=" + f.secretKey,
		"PROGRAM_ID=" + f.program, "PROMO_CODE=" + promo, "WEBHOOK=" + string(webhook), "WEBHOOK_SECRET=" + endpoint.text("signingSecret"),
		"OPENAPI_FILE=" + filepath.Join(dir, "../../gen/openapi/tributary.json"),
	}, "node", "--test", "compiled/test/client.test.js")

	t.Run("GeneratedTypesAreCurrent", func(t *testing.T) {
		fresh := t.TempDir()
		run(t, dir, nil, "node", "generate.mjs", fresh)
		for _, name := range []string{"schema.ts", "events.ts"} {
			if read(t, filepath.Join(fresh, name)) != read(t, filepath.Join(typeScriptClient, "src", name)) {
				t.Errorf("src/%s differs from the OpenAPI document: run `npm ci && npm run generate` in clients/typescript", name)
			}
		}
	})
}

// copyTypeScriptClient copies the client and the documents that its generator reads to a
// temporary folder, so that npm does not write into the repository. It returns the path
// of the copied client.
func copyTypeScriptClient(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "clients/typescript")
	for source, copied := range map[string]string{
		typeScriptClient + "/src":  dir + "/src",
		typeScriptClient + "/test": dir + "/test",
		"../../gen/openapi":        root + "/gen/openapi",
	} {
		if err := os.CopyFS(copied, os.DirFS(source)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json", "generate.mjs"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(read(t, filepath.Join(typeScriptClient, name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs a command and fails the test if the command fails.
func run(t *testing.T, dir string, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s %v\n%s", name, args, out)
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// faultyProxy is a reverse proxy of the gateway. A request POST /fault?kind=… causes a
// fault. A request GET /received?method=…&path=… returns the number of requests that the
// proxy has received with this method and path.
type faultyProxy struct {
	fixture fixture
	limit   int
	proxy   *httputil.ReverseProxy

	mu       sync.Mutex
	next     string // the fault of the next request
	received map[string]int
}

func startFaultyProxy(t *testing.T, f fixture, limit int) *httptest.Server {
	t.Helper()
	target, err := url.Parse(f.sys.api)
	if err != nil {
		t.Fatal(err)
	}
	p := &faultyProxy{fixture: f, limit: limit, proxy: httputil.NewSingleHostReverseProxy(target), received: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /fault", func(rw http.ResponseWriter, r *http.Request) {
		p.cause(t, r.URL.Query().Get("kind"))
		rw.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /received", func(rw http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		_, _ = fmt.Fprint(rw, p.received[r.URL.Query().Get("method")+" "+r.URL.Query().Get("path")])
	})
	mux.HandleFunc("/", p.forward)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// cause causes a fault of the given kind. The kind use-up-limit takes effect immediately.
// A fault of any other kind affects the next request.
func (p *faultyProxy) cause(t *testing.T, kind string) {
	t.Helper()
	if kind != "use-up-limit" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.next = kind
		return
	}
	useUpConversionLimit(t, p.fixture, p.limit)
}

// useUpConversionLimit uses up the rate limit of the secret key and then advances the
// clock, so that the next request is possible in about two seconds.
func useUpConversionLimit(t *testing.T, f fixture, limit int) {
	t.Helper()
	f.sys.clock.advance(2 * time.Minute)
	for range limit {
		f.sys.client().withCredential(f.secretKey).post(t, "/api/v1/conversions", object{})
	}
	f.sys.clock.advance(58 * time.Second)
}

func (p *faultyProxy) forward(rw http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.received[r.Method+" "+r.URL.Path]++
	fault := p.next
	p.next = ""
	p.mu.Unlock()
	switch fault {
	case "unavailable":
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader(http.StatusServiceUnavailable)
	case "lose-response":
		p.proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	default:
		p.proxy.ServeHTTP(rw, r)
	}
}
