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

// world is a collector on a real Redis with the codes anna and ben, and the
// origins of a merchant. Every host name leads to this machine, so a page has
// the host that its test needs.
type world struct {
	t      *testing.T
	client redis.UniversalClient
	key    affiliate.Key
	port   string // of every page

	cdn   string // the collector's origin, as pages see it
	shop  string // http://www.shop.example:port
	apex  string // http://shop.example:port
	other string // http://www.checkout.example:port

	last      *visitor
	impatient bool // pages give up after 3 s, as they do elsewhere

	mu    sync.Mutex
	pages map[string]page // by path, on every host
	seen  []request
	fault func(nth int, w http.ResponseWriter, r *http.Request) bool
}

// request is one that came to the collector's origin. Setting a cookie is the
// answer's part.
type request struct {
	method, path string
	header       http.Header
	text         string
	body         map[string]any // nil when it is no JSON
	status       int            // 0 when a fault took the answer
	setCookie    []string
}

func (r request) id() string { id, _ := r.body["click_id"].(string); return id }

// page is a document that loads the script. The zero page is a plain shop.
type page struct {
	attrs  string // of the script's element, besides src and data-merchant
	src    string // default <cdn>/v1/script.js
	script string // takes the element's place; "none": no script
	head   string // before the script
	body   string
	csp    string
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
	// A merchant's own host may hand /t on to the collector.
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
	// A browser repeats by itself what fails on a connection it has used before.
	s.Config.SetKeepAlivesEnabled(false)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return port
}

// fill writes the directory as the core does.
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

// relay hands requests on to the collector, remembers them, and lets w.fault
// come between: it counts clicks from 1 and says whether it has answered.
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
			return // the page broke off
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
		answer := &recorder{ResponseWriter: out}
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.seen[at].status, w.seen[at].setCookie = answer.status, out.Header().Values("Set-Cookie")
		}()
		proxy.ServeHTTP(answer, r)
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

// cut ends the connection without an answer.
func cut(out http.ResponseWriter) bool {
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

// hold waits for release, or for the end of a test that has failed before it.
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

// page serves a document at a path of every host.
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

// requests are all that came to the collector's origin.
func (w *world) requests() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// clicks are the requests that registered, or tried to register, a click.
func (w *world) clicks() []request { return clicksOf(w.requests()) }

// waitClicks waits for n of them.
func (w *world) waitClicks(n int) []request {
	w.t.Helper()
	until(w.t, "so many clicks sent", func() bool { return len(w.clicks()) >= n })
	return w.clicks()
}

// stored are the clicks of the stream.
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

// waitStored waits until n clicks are durable.
func (w *world) waitStored(n int) []*edgev1.Click {
	w.t.Helper()
	until(w.t, "so many clicks stored", func() bool { return len(w.stored()) >= n })
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

// patience bounds every wait. Nothing that works takes so long.
const patience = 20 * time.Second

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
