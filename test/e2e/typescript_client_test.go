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
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// typeScriptClient is the folder of the TypeScript client.
const typeScriptClient = "../../clients/typescript"

// TestTypeScriptClient installs the client as its README says, runs the example of the
// README, and runs the client's own tests. Between the client and the service is a proxy
// in which the client's tests can cause faults. The promo code is the one of the example.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	const limit = 50
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_LIMIT_CONVERSIONS": strconv.Itoa(limit)}})
	f := sys.newFixture(t, "test", nil)
	promo := f.merchant.post(t, f.programPath()+"/promo-codes", object{"participantId": f.participant, "code": "ADA10", "discountType": "percentage", "discountValue": 10}).wantStatus(http.StatusCreated).text("code")
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

	factors := map[string]object{}
	for _, a := range []caller{sys.newMerchant(t), sys.newPartner(t)} {
		factors[a.kind] = object{"email": a.email, "code": a.enableFactor(t)[0]}
	}
	factorsJSON, err := json.Marshal(factors)
	if err != nil {
		t.Fatal(err)
	}

	dir := copyTypeScriptClient(t)
	shop := installTypeScriptClient(t, dir)
	example := codeBlock(t, "ts")
	runTypeScriptExample(t, shop, example, []string{"TRIBUTARY_API_URL=" + sys.api, "TRIBUTARY_SECRET_KEY=" + f.secretKey, "ORDER=order-1001"})
	// The compiler also checks the types of the example and of the excerpt. In the package's own
	// folder, the name of the package in the example means the compiled package. The compiler
	// also checks the declarations of the package, but not those of the language's libraries.
	excerpt := "import { Session, TributaryError } from \"@tributary-hq/client\";\ndeclare const baseUrl: string, email: string, password: string;\n" +
		codeBlock(t, "ts excerpt") + "void logIn;\n"
	for name, text := range map[string]string{"example.mts": example, "excerpt.mts": excerpt} {
		if err := os.WriteFile(filepath.Join(dir, "test", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, dir, nil, "node_modules/.bin/tsc", "--rootDir", ".", "--outDir", "compiled", "--skipLibCheck", "false", "--skipDefaultLibCheck", "true")
	run(t, dir, []string{
		"BASE_URL=" + proxy.URL, "EMAIL=" + f.merchant.email, "PASSWORD=" + password, "SECRET_KEY=" + f.secretKey,
		"FACTORS=" + string(factorsJSON), "PROGRAM_ID=" + f.program, "PROMO_CODE=" + promo, "WEBHOOK=" + string(webhook), "WEBHOOK_SECRET=" + endpoint.text("signingSecret"),
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
	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json", "tsconfig.build.json", "generate.mjs", "README.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(read(t, filepath.Join(typeScriptClient, name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// codeBlock returns the first code block of the client's README that begins with the
// given line.
func codeBlock(t *testing.T, firstLine string) string {
	t.Helper()
	block := regexp.MustCompile("(?ms)^```" + firstLine + "\n(.*?)^```$").FindStringSubmatch(read(t, filepath.Join(typeScriptClient, "README.md")))
	if block == nil {
		t.Fatalf("the README of the client has no code block %s", firstLine)
	}
	return block[1]
}

// installTypeScriptClient runs the installation of the client's README with the client in
// dir. It returns the folder in which it installed the client.
func installTypeScriptClient(t *testing.T, dir string) string {
	t.Helper()
	shop := t.TempDir()
	script := strings.NewReplacer("/path/to/tributary/clients/typescript", dir, "/path/to/shop", shop).Replace(codeBlock(t, "sh excerpt"))
	run(t, dir, []string{"npm_config_prefer_offline=true", "npm_config_audit=false", "npm_config_fund=false"}, "bash", "-ec", script)
	return shop
}

// runTypeScriptExample runs the example in the client's README as JavaScript. shop
// contains the installed client.
func runTypeScriptExample(t *testing.T, shop, example string, env []string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(shop, "report.mjs"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	out := run(t, shop, env, "node", "report.mjs")
	if !strings.HasPrefix(out, "true ") {
		t.Errorf("the example of the README printed %q, want an attributed conversion", out)
	}
}

// run runs a command and returns its output. It fails the test if the command fails.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s %v\n%s", name, args, out)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
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

// useUpConversionLimit uses up the rate limit of the secret key and then sets the clock to
// 58 seconds after the first request, however long the requests took. The next request is
// possible in about two seconds.
func useUpConversionLimit(t *testing.T, f fixture, limit int) {
	t.Helper()
	f.sys.clock.advance(2 * time.Minute)
	begin := f.sys.clock.now()
	for range limit {
		f.sys.client().withCredential(f.secretKey).post(t, "/api/v1/conversions", object{})
	}
	f.sys.clock.advance(begin.Add(58 * time.Second).Sub(f.sys.clock.now()))
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
