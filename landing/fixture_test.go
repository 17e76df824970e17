package landing_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/landing"
	"github.com/tributary-hq/tributary/landing/store"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/ratelimit"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m, Migrate: store.Migrate}.Run()) }

const (
	waitlist = "/api/public/waitlist"
	count    = "/api/public/waitlist/waitlist-count"
	contact  = "/api/public/contact"
)

// redisTimeout is long, so that the tests also pass on a slow machine.
const redisTimeout = 10 * time.Second

// clock is a fake clock. Its time changes only when the test calls advance.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// options change the fixture. The zero value is the default.
type options struct {
	base, total int32 // total is by default 1000
	redis       string
	hashKey     []byte
	database    string // by default a new one
	origins     []string
	proxies     []netip.Prefix // by default loopback is a trusted proxy
	allowHTTP   *bool          // by default true
	clock       *clock
}

// fixture is a landing service with a server.
type fixture struct {
	*landing.Service
	t        *testing.T
	url      string
	database string
	store    *store.Store
	clock    *clock
	registry *prometheus.Registry
	// address is the last part of the client address of the next request.
	address atomic.Int64
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newFixture(t *testing.T, o options) *fixture {
	t.Helper()
	f := &fixture{t: t, database: o.database, clock: o.clock, registry: prometheus.NewRegistry()}
	if f.clock == nil {
		f.clock = newClock()
	}
	if f.database == "" {
		f.database = pgtest.New(t)
	}
	var err error
	f.store, err = store.Open(t.Context(), f.database, nil)
	check(t, err)
	t.Cleanup(f.store.Close)
	if o.total == 0 {
		o.total = 1000
	}
	log := slog.New(slog.DiscardHandler)
	f.Service = landing.New(landing.Config{
		Store: f.store, WaitlistBase: o.base, WaitlistTotal: o.total, Log: log, Registry: f.registry, Now: f.clock.now,
	})
	limits := ratelimit.NewLimiter(nil, ratelimit.Options{HashKey: o.hashKey, Now: f.clock.now})
	if o.redis != "" {
		client, err := clickstream.Connect(clickstream.Endpoint{URL: o.redis})
		check(t, err)
		t.Cleanup(func() { _ = client.Close() })
		limits = ratelimit.NewLimiter(client, ratelimit.Options{HashKey: o.hashKey, Now: f.clock.now, Timeout: redisTimeout})
	}
	if o.proxies == nil {
		o.proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	allowHTTP := o.allowHTTP == nil || *o.allowHTTP
	handler, err := f.Handler(landing.HTTPConfig{Limits: limits, Limit: 5, Origins: o.origins, TrustedProxies: o.proxies, AllowHTTP: allowHTTP})
	check(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func hashKey() []byte {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return key
}

// response is a response that was read to its end.
type response struct {
	status int
	header http.Header
	body   string
}

// code returns the code of an error response. It fails the test if the body does not have
// the format of errors.
func (r response) code(t *testing.T) string {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(r.body), &body); err != nil {
		t.Fatalf("status %d, body %q: %v", r.status, r.body, err)
	}
	code, _ := body["code"].(string)
	if len(body) != 4 || body["statusCode"] != float64(r.status) || body["error"] != http.StatusText(r.status) || body["message"] == "" || code == "" {
		t.Errorf("the body is not an error of status %d: %s", r.status, r.body)
	}
	return code
}

// send sends a request. A header is a line such as "Origin: https://a.example". Unless the
// headers contain X-Forwarded-For, the request has a client address of its own.
func (f *fixture) send(method, path, body string, headers ...string) response {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, strings.NewReader(body))
	check(f.t, err)
	r.Header.Set("Content-Type", "application/json")
	n := f.address.Add(1)
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255))
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if value == "" {
			r.Header.Del(name)
			continue
		}
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	check(f.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	check(f.t, err)
	return response{resp.StatusCode, resp.Header, string(text)}
}

func (f *fixture) post(path, body string, headers ...string) response {
	f.t.Helper()
	return f.send(http.MethodPost, path, body, headers...)
}

// texts returns the first column of the rows of a query.
func (f *fixture) texts(sql string) []string {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.database)
	check(f.t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) }()
	rows, _ := conn.Query(f.t.Context(), sql)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(f.t, err)
	return list
}

func (f *fixture) emails() []string {
	f.t.Helper()
	return f.texts(`select email from landing.waitlist_entries order by 1`)
}

func (f *fixture) contacts() []store.ContactMessage {
	f.t.Helper()
	list, err := f.store.ContactMessages(f.t.Context(), [16]byte{}, 100)
	check(f.t, err)
	return list
}

// body returns a JSON object with the fields of a valid form and the given changes. A nil
// value removes a field.
func body(path string, changes map[string]any) string {
	fields := map[string]any{"email": "ada@example.com", "website": "", "elapsedMs": 4000}
	if path == contact {
		fields["name"], fields["message"] = "Ada Byron", "A message with enough characters."
	}
	for name, value := range changes {
		if fields[name] = value; value == nil {
			delete(fields, name)
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// raw is a JSON text.
type raw = json.RawMessage

// rejections returns the number of requests that are counted as rejected.
func (f *fixture) rejections() (n float64) {
	f.t.Helper()
	families, err := f.registry.Gather()
	check(f.t, err)
	for _, family := range families {
		if family.GetName() == "tributary_landing_requests_rejected_total" {
			for _, metric := range family.GetMetric() {
				n += metric.GetCounter().GetValue()
			}
		}
	}
	return n
}
