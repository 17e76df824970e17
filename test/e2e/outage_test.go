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

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// TestOutage_Redis checks that the system without Redis reports the outage and keeps
// working as far as possible.
func TestOutage_Redis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	sys := start(t, setup{redis: redis.URL})
	merchant := sys.merchant(t)
	redis.Kill9()

	wantNotReady(t, sys, "cache")
	sys.caller().send(t, http.MethodGet, sys.edge+"/v1/health", nil).want(http.StatusOK)
	// The API counts requests in memory and keeps working. A click that cannot be stored
	// is rejected.
	merchant.get(t, "/api/v1/programs").want(http.StatusOK)
	lost := sys.click(t, merchant.publicKey(t), object{"referral_code": "any"}).wantError(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	lost.retryAfter()

	redis.Restart()
	wantReady(t, sys)
}

// TestOutage_Postgres checks that API calls without Postgres return 503, and that clicks
// are still accepted.
func TestOutage_Postgres(t *testing.T) {
	t.Parallel()
	database, cable := startProxy(t, pgtest.New(t))
	sys := start(t, setup{database: database})
	w := sys.world(t, "test", nil)
	w.click(t)
	cable.interrupt()

	wantNotReady(t, sys, "database")
	t.Run("API calls return SERVICE_UNAVAILABLE", func(t *testing.T) {
		for _, got := range []response{
			w.merchant.get(t, "/api/v1/programs"), w.report(t, purchase(unknownIDs()["program_id"])),
			sys.caller().post(t, "/api/v1/auth/merchant/login", object{"email": w.merchant.email, "password": password}),
		} {
			if strings.Contains(got.body, "127.0.0.1") || strings.Contains(got.body, "connect") {
				t.Errorf("%s reveals internal details: %s", got.request, got.body)
			}
			if refused := got.wantError(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE"); refused.header.Get("Retry-After") == "" {
				t.Errorf("%s has no Retry-After header", got.request)
			}
		}
	})
	// Clicks need only Redis.
	click := sys.click(t, w.publicKey, object{"referral_code": w.code}).want(http.StatusCreated).text("click_id")

	cable.restore()
	wantReady(t, sys)
	w.report(t, purchase(click)).want(http.StatusCreated).wantFields(object{"attribution.reason_code": "CLICK_MATCHED"})
}

func wantNotReady(t *testing.T, sys *system, dependency string) {
	t.Helper()
	eventually(t, waitTimeout, "readiness fails", func() error {
		if got := sys.caller().get(t, "/api/v1/health/ready"); got.status != http.StatusServiceUnavailable {
			return fmt.Errorf("it returns %d", got.status)
		}
		return nil
	})
	got := sys.caller().get(t, "/api/v1/health/ready").wantError(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if !strings.Contains(got.text("message"), dependency) {
		t.Errorf("the response does not name the %s: %s", dependency, got.body)
	}
	got.retryAfter()
	if probe := sys.caller().send(t, http.MethodGet, sys.metrics+"/readyz", nil).want(http.StatusServiceUnavailable); !strings.Contains(probe.body, dependency) {
		t.Errorf("the probe does not name the %s: %s", dependency, probe.body)
	}
	sys.caller().get(t, "/api/v1/health").want(http.StatusOK)
	sys.caller().send(t, http.MethodGet, sys.metrics+"/healthz", nil).want(http.StatusOK)
}

func wantReady(t *testing.T, sys *system) {
	t.Helper()
	eventually(t, waitTimeout, "the system is ready again", func() error {
		if got := sys.caller().get(t, "/api/v1/health/ready"); got.status != http.StatusOK {
			return fmt.Errorf("it returns %d %s", got.status, got.body)
		}
		return nil
	})
}

// tcpProxy is a TCP proxy in front of a server. A test can interrupt and restore it.
type tcpProxy struct {
	target string

	mu          sync.Mutex
	interrupted bool
	conns       map[net.Conn]bool
	pumps       sync.WaitGroup
}

// startProxy starts a cable to the database and returns the URL of the cable.
func startProxy(t *testing.T, database string) (string, *tcpProxy) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	c := &tcpProxy{target: u.Host, conns: map[net.Conn]bool{}}
	listener := listen(t)
	c.pumps.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.pumps.Go(func() { c.forward(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		c.interrupt()
		c.pumps.Wait()
	})
	u.Host = listener.Addr().String()
	return u.String(), c
}

func (c *tcpProxy) forward(near net.Conn) {
	far, err := net.Dial("tcp", c.target)
	if err != nil {
		_ = near.Close()
		return
	}
	if !c.track(near, far) {
		return
	}
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
		both.Go(func() {
			_, _ = io.Copy(to, from)
			_, _ = to.Close(), from.Close()
		})
	}
	both.Wait()
}

// track stores the connections, or closes them if the cable is interrupted.
func (c *tcpProxy) track(ends ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range ends {
		if c.interrupted {
			_ = end.Close()
		}
		c.conns[end] = true
	}
	return !c.interrupted
}

func (c *tcpProxy) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	for end := range c.conns {
		_ = end.Close()
	}
	clear(c.conns)
}

func (c *tcpProxy) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = false
}
