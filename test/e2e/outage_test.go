package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// TestOutage_Redis checks that a system without Redis reports that it is not ready, still
// serves the API and the short links that it knows, and rejects clicks.
func TestOutage_Redis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	sys := start(t, setup{redis: redis.URL})
	f := sys.newFixture(t, "test", nil)
	merchant := f.merchant
	short := merchant.post(t, f.programPath()+"/links", object{"participantId": f.participant, "destinationUrl": "https://shop.example/beans"}).
		wantStatus(http.StatusCreated).text("shortUrl")
	eventually(t, waitTimeout, "collectors got all messages about changes", func() error {
		if n := sys.count(t, `select count(*) from river.river_job where kind = 'sync_directory' and state not in ('completed', 'scheduled')`); n != 0 {
			return fmt.Errorf("%d jobs are not completed", n)
		}
		return nil
	})
	for range 3 { // a collector does not keep a link that it reads while a message arrives
		sys.awaitLink(t, short)
	}
	redis.Kill9()

	wantNotReady(t, sys, "cache")
	sys.clock.advance(10 * time.Minute) // the cache of the collector has expired
	if got := sys.getShortLink(t, short); got.status != http.StatusFound || !strings.HasPrefix(got.header.Get("Location"), "https://shop.example/beans") {
		t.Errorf("without Redis, the short link returns %d with the location %q, want 302 to https://shop.example/beans", got.status, got.header.Get("Location"))
	}
	sys.client().send(t, http.MethodGet, sys.edge+"/v1/health", nil).wantStatus(http.StatusOK)
	// Without Redis, the API counts requests for the rate limits in memory. The collector
	// rejects clicks, because it cannot store them.
	merchant.get(t, "/api/v1/programs").wantStatus(http.StatusOK)
	rejected := sys.click(t, merchant.publicKey(t), object{"referral_code": "any"}).wantError(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	rejected.retryAfter()

	redis.Restart()
	wantReady(t, sys)
}

// TestOutage_SlowRateLimits checks that rate limits for which Redis is too slow do not stop
// the other parts of the core that use Redis.
func TestOutage_SlowRateLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sys := start(t, setup{redis: server.URL})
	merchant := sys.newMerchant(t)
	client := connectRedis(t, clickstream.Endpoint{URL: server.URL})
	defer func() { _ = client.Close() }()

	// Redis responds to reads only, so each request waits 50 ms for its rate limit. After
	// five requests, the circuit breaker of the rate limits is open.
	if err := client.Do(t.Context(), "client", "pause", waitTimeout.Milliseconds(), "write").Err(); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		merchant.get(t, "/api/v1/programs").wantStatus(http.StatusOK)
	}
	sys.client().get(t, "/api/v1/health/ready").wantStatus(http.StatusOK)
	if !strings.Contains(sys.logs.warnings(), "rate limits are counted by this process alone") {
		t.Error("no request counted its rate limit without Redis")
	}
}

// TestOutage_Postgres checks that a system without Postgres responds to API calls with
// 503 and still accepts clicks.
func TestOutage_Postgres(t *testing.T) {
	t.Parallel()
	database, proxy := startProxy(t, pgtest.New(t))
	sys := start(t, setup{database: database})
	f := sys.newFixture(t, "test", nil)
	f.click(t)
	proxy.interrupt()

	wantNotReady(t, sys, "database")
	t.Run("API calls return SERVICE_UNAVAILABLE", func(t *testing.T) {
		for _, got := range []response{
			f.merchant.get(t, "/api/v1/programs"), f.report(t, purchase(unknownIDs()["click_id"])),
			sys.client().post(t, "/api/v1/auth/merchant/login", object{"email": f.merchant.email, "password": password}),
		} {
			if strings.Contains(got.body, "127.0.0.1") || strings.Contains(got.body, "connect") {
				t.Errorf("%s reveals internal details: %s", got.request, got.body)
			}
			if rejected := got.wantError(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE"); rejected.header.Get("Retry-After") == "" {
				t.Errorf("%s has no Retry-After header", got.request)
			}
		}
	})
	// Clicks need only Redis.
	click := sys.click(t, f.publicKey, object{"referral_code": f.code}).wantStatus(http.StatusCreated).text("click_id")

	proxy.restore()
	wantReady(t, sys)
	f.report(t, purchase(click)).wantStatus(http.StatusCreated).wantFields(object{"attribution.reason_code": "CLICK_MATCHED"})
}

func wantNotReady(t *testing.T, sys *system, dependency string) {
	t.Helper()
	eventually(t, waitTimeout, "readiness fails", func() error {
		if got := sys.client().get(t, "/api/v1/health/ready"); got.status != http.StatusServiceUnavailable {
			return fmt.Errorf("readiness returns %d, want 503", got.status)
		}
		return nil
	})
	got := sys.client().get(t, "/api/v1/health/ready").wantError(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if !strings.Contains(got.text("message"), dependency) {
		t.Errorf("the response does not name the %s: %s", dependency, got.body)
	}
	got.retryAfter()
	if probe := sys.client().send(t, http.MethodGet, sys.metrics+"/readyz", nil).wantStatus(http.StatusServiceUnavailable); !strings.Contains(probe.body, dependency) {
		t.Errorf("/readyz does not name the %s: %s", dependency, probe.body)
	}
	sys.client().get(t, "/api/v1/health").wantStatus(http.StatusOK)
	for _, path := range []string{"/healthz", "/servingz"} {
		sys.client().send(t, http.MethodGet, sys.metrics+path, nil).wantStatus(http.StatusOK)
	}
}

func wantReady(t *testing.T, sys *system) {
	t.Helper()
	eventually(t, waitTimeout, "the system is ready again", func() error {
		if got := sys.client().get(t, "/api/v1/health/ready"); got.status != http.StatusOK {
			return fmt.Errorf("readiness returns %d %s", got.status, got.body)
		}
		return nil
	})
}

// tcpProxy is a TCP proxy in front of a server. A test can interrupt and restore its
// connections.
type tcpProxy struct {
	target string

	mu          sync.Mutex
	interrupted bool
	conns       map[net.Conn]bool
	goroutines  sync.WaitGroup
}

// startProxy starts a proxy in front of the database. It returns the URL with which the
// system connects to the database through the proxy.
func startProxy(t *testing.T, database string) (string, *tcpProxy) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	p := &tcpProxy{target: u.Host, conns: map[net.Conn]bool{}}
	listener := listen(t)
	p.goroutines.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.goroutines.Go(func() { p.forward(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.interrupt()
		p.goroutines.Wait()
	})
	u.Host = listener.Addr().String()
	return u.String(), p
}

func (p *tcpProxy) forward(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	if !p.track(client, server) {
		return
	}
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			_, _ = io.Copy(to, from)
			_, _ = to.Close(), from.Close()
		})
	}
	both.Wait()
}

// track stores connections, so that interrupt can close them. If the proxy is
// interrupted, track closes the connections and returns false.
func (p *tcpProxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.interrupted {
			_ = conn.Close()
		}
		p.conns[conn] = true
	}
	return !p.interrupted
}

func (p *tcpProxy) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interrupted = true
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
}

func (p *tcpProxy) restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interrupted = false
}
