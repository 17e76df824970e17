package snippet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/collector"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const (
	clicksPath = "/v1/clicks"
	cookieName = "aff_click_id"
	windowDays = 30
)

// fixture is a collector with a real Redis, and a web server for the pages of a merchant.
// The directory contains the referral codes anna, with
// a discount, and ben. The browser resolves every host
// name to this machine, so a test can choose the host of each page.
type fixture struct {
	t      *testing.T
	client redis.UniversalClient
	key    account.Key
	port   string // the port of every page

	cdn   string // the origin from which pages load the script
	shop  string // http://www.shop.example:port
	apex  string // http://shop.example:port
	other string // http://www.checkout.example:port

	lastVisitor *visitor
	// keepRealTimeout keeps the script's own response timeout of 3 s. If it is false,
	// each visitor extends the timeout (see extendTimeout).
	keepRealTimeout bool

	mu       sync.Mutex
	pages    map[string]page // by path; each page exists on every host
	received []request       // requests to the collector, in the order of their arrival
	// fault can replace the response to a click; see recordingProxy.
	fault func(nth int, out http.ResponseWriter, r *http.Request) bool
}

// request is a request to the collector, with parts of its response.
type request struct {
	method, path string
	header       http.Header
	text         string
	body         map[string]any // nil if the body is not JSON
	status       int            // 0 if a fault replaced the response
	setCookie    []string       // the headers Set-Cookie of the response
}

func (r request) clickID() string { id, _ := r.body["click_id"].(string); return id }

// page is a document that loads the script. The zero value is a page that contains only
// the script.
type page struct {
	attrs  string // more attributes of the script's element
	src    string // address of the script; default <cdn>/v1/script.js
	script string // HTML instead of the script's element; "none" for a page without script
	head   string // HTML before the script
	body   string
	csp    string // Content-Security-Policy header
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	t.Parallel()
	redisURL := redistest.New(t)
	f := &fixture{t: t, key: account.NewKey(account.PublicKey, affiliate.ModeTest), pages: map[string]page{}}
	endpoint := clickstream.Endpoint{URL: redisURL}
	var err error
	f.client, err = clickstream.Connect(endpoint)
	check(t, err)
	t.Cleanup(func() { _ = f.client.Close() })
	f.fillDirectory()

	c, err := collector.Open(collector.Config{
		Stream: endpoint, Cache: endpoint, AllowHTTP: true, Shards: 1, LimitTracking: 1000, HashKey: bytes.Repeat([]byte("k"), 32),
	}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	check(t, err)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(running, listener, nil) }()
	t.Cleanup(func() {
		stop()
		check(t, <-ended)
	})

	proxy := f.recordingProxy(listener.Addr().String())
	f.cdn = "http://cdn.tributary.example:" + serve(t, proxy)
	// /t is a first-party proxy to the collector on the merchant's own host.
	mux := http.NewServeMux()
	mux.Handle("/t/", http.StripPrefix("/t", proxy))
	mux.HandleFunc("/probe", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", f.servePage)
	f.port = serve(t, mux)
	f.shop, f.apex, f.other = f.origin("www.shop.example"), f.origin("shop.example"), f.origin("www.checkout.example")
	f.page("/", page{})
	return f
}

func serve(t *testing.T, h http.Handler) (port string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	// A browser repeats a request that fails on a reused connection. Disable keep-alive,
	// so that tests see only the requests of the script.
	s.Config.SetKeepAlivesEnabled(false)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return port
}

// fillDirectory writes the edge directory as the core does.
func (f *fixture) fillDirectory() {
	f.t.Helper()
	ctx := f.t.Context()
	workspace := affiliate.NewID[affiliate.WorkspaceID](time.Now())
	program := affiliate.NewID[affiliate.ProgramID](time.Now())
	writer := directory.NewWriter(f.client)
	rebuild, err := writer.BeginRebuild(ctx)
	check(f.t, err)
	batch := writer.Batch()
	batch.PutPublicKey(1, f.key.Digest(), &edgev1.PublicKeyEntry{WorkspaceId: workspace.UUID[:], Mode: edgev1.Mode_MODE_TEST})
	for code, discount := range map[string]*edgev1.Discount{
		"anna": {PromoCode: "ANNA20", Type: string(promocode.DiscountPercentage), Value: 2000},
		"ben":  nil,
	} {
		participant := affiliate.NewID[affiliate.ParticipantID](time.Now())
		batch.PutReferralCode(1, affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeTest}, code, &edgev1.ReferralCodeEntry{
			ProgramId: program.UUID[:], ParticipantId: participant.UUID[:], Active: true,
			AttributionWindowDays: windowDays, AttributionModel: "last_click", Discount: discount,
		})
	}
	check(f.t, batch.Flush(ctx))
	if done, err := writer.MarkComplete(ctx, rebuild); err != nil || !done {
		f.t.Fatalf("MarkComplete = %v, %v; want true", done, err)
	}
}

// recordingProxy returns a handler that forwards requests to the collector and records
// them. Before the handler forwards a click, it calls f.fault with the number of the
// click. The first click has the number 1. If f.fault returns true, it has written a
// response itself, and the handler does not forward the click.
func (f *fixture) recordingProxy(target string) http.Handler {
	proxy := &httputil.ReverseProxy{
		ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: target})
			r.Out.Host = r.In.Host
		},
	}
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return // The page cancelled the request.
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		received := request{method: r.Method, path: r.URL.Path, header: r.Header.Clone(), text: string(text)}
		_ = json.Unmarshal(text, &received.body)
		isClick := r.Method == http.MethodPost && r.URL.Path == clicksPath

		f.mu.Lock()
		index := len(f.received)
		f.received = append(f.received, received)
		nth, fault := len(filterClicks(f.received)), f.fault
		f.mu.Unlock()
		if isClick && fault != nil && fault(nth, out, r) {
			return
		}
		response := &statusRecorder{ResponseWriter: out}
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.received[index].status, f.received[index].setCookie = response.status, out.Header().Values("Set-Cookie")
		}()
		proxy.ServeHTTP(response, r)
	})
}

// statusRecorder is an http.ResponseWriter that stores the status of the response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// closeConnection closes the connection without a response. It always returns true, as a
// fault must.
func closeConnection(out http.ResponseWriter) bool {
	if connection, _, err := http.NewResponseController(out).Hijack(); err == nil {
		_ = connection.Close()
	}
	return true
}

func (f *fixture) setFault(fault func(nth int, out http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// waitUntil waits until release is closed, or until the test ends if it fails before
// that.
func (f *fixture) waitUntil(release <-chan struct{}) {
	select {
	case <-release:
	case <-f.t.Context().Done():
	}
}

func (f *fixture) servePage(out http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	p, ok := f.pages[r.URL.Path]
	f.mu.Unlock()
	if !ok {
		http.NotFound(out, r)
		return
	}
	h := out.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	if p.csp != "" {
		h.Set("Content-Security-Policy", p.csp)
	}
	_, _ = io.WriteString(out, `<!doctype html><html lang="en"><head><title>Shop</title>`+p.head+p.script+`</head><body>`+p.body+`</body></html>`)
}

// page serves a document at the same path on every host.
func (f *fixture) page(path string, p page) {
	switch p.script {
	case "none":
		p.script = ""
	case "":
		if p.src == "" {
			p.src = f.cdn + "/v1/script.js"
		}
		p.script = `<script async src="` + p.src + `" data-merchant="` + f.key.Reveal() + `" ` + p.attrs + `></script>`
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pages[path] = p
}

func (f *fixture) origin(host string) string { return "http://" + host + ":" + f.port }

// filterClicks returns the requests to register a click.
func filterClicks(requests []request) []request {
	var clicks []request
	for _, r := range requests {
		if r.path == clicksPath && r.method != http.MethodGet && r.method != http.MethodOptions {
			clicks = append(clicks, r)
		}
	}
	return clicks
}

// requests returns all requests to the collector.
func (f *fixture) requests() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.received)
}

// clicks returns the requests to register a click, whatever the response was.
func (f *fixture) clicks() []request { return filterClicks(f.requests()) }

// waitClicks waits until the collector has received at least n clicks. It returns all
// requests to register a click.
func (f *fixture) waitClicks(n int) []request {
	f.t.Helper()
	waitFor(f.t, strconv.Itoa(n)+" clicks at the collector", func() bool { return len(f.clicks()) >= n })
	return f.clicks()
}

// storedClicks returns the clicks in the stream.
func (f *fixture) storedClicks() []*edgev1.Click {
	f.t.Helper()
	messages, err := f.client.XRange(f.t.Context(), clickstream.Key(0), "-", "+").Result()
	check(f.t, err)
	var clicks []*edgev1.Click
	for _, message := range messages {
		var batch edgev1.ClickBatch
		check(f.t, proto.Unmarshal([]byte(message.Values["b"].(string)), &batch))
		clicks = append(clicks, batch.Clicks...)
	}
	return clicks
}

// waitStored waits until the stream contains n clicks and returns them.
func (f *fixture) waitStored(n int) []*edgev1.Click {
	f.t.Helper()
	waitFor(f.t, strconv.Itoa(n)+" stored clicks", func() bool { return len(f.storedClicks()) >= n })
	clicks := f.storedClicks()
	if len(clicks) != n {
		f.t.Fatalf("%d clicks are stored, want %d", len(clicks), n)
	}
	return clicks
}

func idOf(click *edgev1.Click) string {
	id, _ := affiliate.IDFromBytes[affiliate.ClickID](click.Id)
	return id.String()
}

// waitTimeout bounds every wait of a test.
const waitTimeout = 20 * time.Second

// waitFor waits until isTrue returns true. expected describes the condition.
func waitFor(t *testing.T, expected string, isTrue func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(waitTimeout); !isTrue(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", waitTimeout, expected)
		}
	}
}

// check requires that err is nil.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// put writes entries to the directory and publishes the change.
func put(ctx context.Context, writer *directory.Writer, add func(*directory.Batch)) error {
	batch := writer.Changes()
	add(batch)
	return batch.Flush(ctx)
}
