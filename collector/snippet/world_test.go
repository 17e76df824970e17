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
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
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

// world is a test server: a collector on a real Redis with the referral codes anna and
// ben, and the origins of a merchant. The browser resolves every host name to this
// machine, so a test can choose the host of each page.
type world struct {
	t      *testing.T
	client redis.UniversalClient
	key    affiliate.Key
	port   string // the port of every page

	cdn   string // the collector's origin in the pages
	shop  string // http://www.shop.example:port
	apex  string // http://shop.example:port
	other string // http://www.checkout.example:port

	last *visitor
	// realTimeout keeps the script's own response timeout of 3 s. Otherwise initScripts
	// of a visitor extend it.
	realTimeout bool

	mu    sync.Mutex
	pages map[string]page // by path; each page exists on every host
	seen  []request
	fault func(nth int, w http.ResponseWriter, r *http.Request) bool
}

// request is a request to the collector's origin and its response.
type request struct {
	method, path string
	header       http.Header
	text         string
	body         map[string]any // nil if the body is not JSON
	status       int            // 0 if a fault replaced the response
	setCookie    []string       // of the response
}

func (r request) clickID() string { id, _ := r.body["click_id"].(string); return id }

// page is a document that loads the script. The zero page is an empty page with the
// script.
type page struct {
	attrs  string // more attributes of the script's element
	src    string // address of the script; default <cdn>/v1/script.js
	script string // HTML that replaces the script's element; "none" means no script
	head   string // HTML before the script
	body   string
	csp    string // Content-Security-Policy header
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	at := redistest.New(t)
	w := &world{t: t, key: affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest), pages: map[string]page{}}
	endpoint := clickstream.Endpoint{URL: at}
	var err error
	w.client, err = clickstream.Connect(endpoint)
	check(t, err)
	t.Cleanup(func() { _ = w.client.Close() })
	w.fill()

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

	relay := w.relay(listener.Addr().String())
	w.cdn = "http://cdn.tributary.example:" + serve(t, relay)
	// /t is a first-party proxy to the collector on the merchant's own host.
	mux := http.NewServeMux()
	mux.Handle("/t/", http.StripPrefix("/t", relay))
	mux.HandleFunc("/probe", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", w.servePage)
	w.port = serve(t, mux)
	w.shop, w.apex, w.other = w.origin("www.shop.example"), w.origin("shop.example"), w.origin("www.checkout.example")
	w.page("/", page{})
	return w
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

// fill writes the edge directory as the core does.
func (w *world) fill() {
	w.t.Helper()
	ctx := w.t.Context()
	workspace := affiliate.NewID[affiliate.Workspace](time.Now())
	program := affiliate.NewID[affiliate.Program](time.Now())
	writer := directory.NewWriter(w.client)
	rebuild, err := writer.BeginRebuild(ctx)
	check(w.t, err)
	batch := writer.Batch()
	batch.PutPublicKey(1, w.key.Digest(), &edgev1.PublicKeyEntry{WorkspaceId: workspace.UUID[:], Mode: edgev1.Mode_MODE_TEST})
	for _, code := range []string{"anna", "ben"} {
		participant := affiliate.NewID[affiliate.Participant](time.Now())
		batch.PutReferralCode(1, affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeTest}, code, &edgev1.ReferralCodeEntry{
			ProgramId: program.UUID[:], ParticipantId: participant.UUID[:], Active: true,
			AttributionWindowDays: windowDays, AttributionModel: "last_click",
		})
	}
	check(w.t, batch.Flush(ctx))
	if done, err := writer.MarkComplete(ctx, rebuild); err != nil || !done {
		w.t.Fatal(done, err)
	}
}

// relay forwards requests to the collector and records them. Before it forwards a click,
// it calls w.fault with the number of the click, from 1. If w.fault returns true, it has
// sent the response itself.
func (w *world) relay(target string) http.Handler {
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
			return // the page cancelled the request
		}
		r.Body = io.NopCloser(bytes.NewReader(text))
		seen := request{method: r.Method, path: r.URL.Path, header: r.Header.Clone(), text: string(text)}
		_ = json.Unmarshal(text, &seen.body)
		click := r.Method == http.MethodPost && r.URL.Path == clicksPath

		w.mu.Lock()
		at := len(w.seen)
		w.seen = append(w.seen, seen)
		nth, fault := len(clicksOf(w.seen)), w.fault
		w.mu.Unlock()
		if click && fault != nil && fault(nth, out, r) {
			return
		}
		response := &recorder{ResponseWriter: out}
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen[at].status, w.seen[at].setCookie = response.status, out.Header().Values("Set-Cookie")
		}()
		proxy.ServeHTTP(response, r)
	})
}

type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// closeConnection ends the connection without a response. It returns true.
func closeConnection(out http.ResponseWriter) bool {
	if connection, _, err := http.NewResponseController(out).Hijack(); err == nil {
		_ = connection.Close()
	}
	return true
}

func (w *world) setFault(fault func(nth int, out http.ResponseWriter, r *http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

// hold waits for release, or for the end of the test if the test fails first.
func (w *world) hold(release <-chan struct{}) {
	select {
	case <-release:
	case <-w.t.Context().Done():
	}
}

func (w *world) servePage(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	p, ok := w.pages[r.URL.Path]
	w.mu.Unlock()
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
func (w *world) page(path string, p page) {
	switch p.script {
	case "none":
		p.script = ""
	case "":
		if p.src == "" {
			p.src = w.cdn + "/v1/script.js"
		}
		p.script = `<script async src="` + p.src + `" data-merchant="` + w.key.Reveal() + `" ` + p.attrs + `></script>`
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages[path] = p
}

func (w *world) origin(host string) string { return "http://" + host + ":" + w.port }

func clicksOf(seen []request) []request {
	var clicks []request
	for _, r := range seen {
		if r.path == clicksPath && r.method != http.MethodGet && r.method != http.MethodOptions {
			clicks = append(clicks, r)
		}
	}
	return clicks
}

// requests returns all requests to the collector's origin.
func (w *world) requests() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// clicks returns the requests that registered a click or attempted to.
func (w *world) clicks() []request { return clicksOf(w.requests()) }

// waitClicks waits until at least n clicks were sent and returns their requests.
func (w *world) waitClicks(n int) []request {
	w.t.Helper()
	until(w.t, "enough clicks sent", func() bool { return len(w.clicks()) >= n })
	return w.clicks()
}

// stored returns the clicks in the stream.
func (w *world) stored() []*edgev1.Click {
	w.t.Helper()
	messages, err := w.client.XRange(w.t.Context(), clickstream.Key(0), "-", "+").Result()
	check(w.t, err)
	var clicks []*edgev1.Click
	for _, message := range messages {
		var batch edgev1.ClickBatch
		check(w.t, proto.Unmarshal([]byte(message.Values["b"].(string)), &batch))
		clicks = append(clicks, batch.Clicks...)
	}
	return clicks
}

// waitStored waits until the stream contains n clicks and returns them.
func (w *world) waitStored(n int) []*edgev1.Click {
	w.t.Helper()
	until(w.t, "enough clicks stored", func() bool { return len(w.stored()) >= n })
	clicks := w.stored()
	if len(clicks) != n {
		w.t.Fatalf("%d clicks stored, want %d", len(clicks), n)
	}
	return clicks
}

func idOf(click *edgev1.Click) string {
	id, _ := affiliate.IDFromBytes[affiliate.Click](click.Id)
	return id.String()
}

// waitTimeout bounds every wait of a test.
const waitTimeout = 20 * time.Second

func until(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(waitTimeout); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", waitTimeout, condition)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
