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

// TestRedisLost: without Redis the system says so and does what it can.
func TestRedisLost(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	sys := start(t, setup{redis: redis.URL})
	merchant := sys.merchant(t)
	redis.Kill9()

	wantNotReady(t, sys, "cache")
	sys.caller().send(t, http.MethodGet, sys.edge+"/v1/health", nil).want(http.StatusOK)
	// The API counts by itself and goes on; a click that nobody keeps is not taken.
	merchant.get(t, "/api/v1/programs").want(http.StatusOK)
	lost := sys.click(t, merchant.publicKey(t), object{"referral_code": "any"}).wantError(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	lost.retryAfter()

	redis.Restart()
	wantReady(t, sys)
}

// TestDatabaseLost: without Postgres nothing can be known, and that is what is
// said.
func TestDatabaseLost(t *testing.T) {
	t.Parallel()
	database, cable := throughCable(t, pgtest.New(t))
	sys := start(t, setup{database: database})
	w := sys.world(t, "test", nil)
	w.click(t)
	cable.cut()

	wantNotReady(t, sys, "database")
	t.Run("calls say that it is the service that is not available", func(t *testing.T) {
		for _, got := range []answer{
			w.merchant.get(t, "/api/v1/programs"), w.report(t, purchase(unknownIDs()["program_id"])),
			sys.caller().post(t, "/api/v1/auth/merchant/login", object{"email": w.merchant.email, "password": password}),
		} {
			if strings.Contains(got.body, "127.0.0.1") || strings.Contains(got.body, "connect") {
				t.Errorf("%s tells of the inside: %s", got.what, got.body)
			}
			if refused := got.wantError(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE"); refused.header.Get("Retry-After") == "" {
				t.Errorf("%s does not say when to come back", got.what)
			}
		}
	})
	// Clicks need Redis only.
	click := sys.click(t, w.publicKey, object{"referral_code": w.code}).want(http.StatusCreated).text("click_id")

	cable.mend()
	wantReady(t, sys)
	w.report(t, purchase(click)).want(http.StatusCreated).wantFields(object{"attribution.reason_code": "CLICK_MATCHED"})
}

func wantNotReady(t *testing.T, sys *system, dependency string) {
	t.Helper()
	eventually(t, patience, "readiness notices", func() error {
		if got := sys.caller().get(t, "/api/v1/health/ready"); got.status != http.StatusServiceUnavailable {
			return fmt.Errorf("it answers %d", got.status)
		}
		return nil
	})
	got := sys.caller().get(t, "/api/v1/health/ready").wantError(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	if !strings.Contains(got.text("message"), dependency) {
		t.Errorf("the answer does not name the %s: %s", dependency, got.body)
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
	eventually(t, patience, "the system is ready again", func() error {
		if got := sys.caller().get(t, "/api/v1/health/ready"); got.status != http.StatusOK {
			return fmt.Errorf("it answers %d %s", got.status, got.body)
		}
		return nil
	})
}

// cable is a TCP connection to a server that can be cut and mended.
type cable struct {
	target string

	mu    sync.Mutex
	down  bool
	ends  map[net.Conn]bool
	pumps sync.WaitGroup
}

// throughCable gives a database URL that leads through a cable.
func throughCable(t *testing.T, database string) (string, *cable) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{target: u.Host, ends: map[net.Conn]bool{}}
	listener := listen(t)
	c.pumps.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.pumps.Go(func() { c.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		c.cut()
		c.pumps.Wait()
	})
	u.Host = listener.Addr().String()
	return u.String(), c
}

func (c *cable) carry(near net.Conn) {
	far, err := net.Dial("tcp", c.target)
	if err != nil {
		_ = near.Close()
		return
	}
	if !c.keep(near, far) {
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

// keep remembers the ends, or closes them when the cable is cut.
func (c *cable) keep(ends ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range ends {
		if c.down {
			_ = end.Close()
		}
		c.ends[end] = true
	}
	return !c.down
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = true
	for end := range c.ends {
		_ = end.Close()
	}
	clear(c.ends)
}

func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = false
}
