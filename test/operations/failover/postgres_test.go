//go:build operations

// Package failover tests the acknowledged writes when the primary of Postgres fails and a
// synchronous standby is promoted, and when the master of Redis fails and sentinels promote
// a replica.
package failover

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/test/operations/shop"
	"github.com/tributary-hq/tributary/test/operations/stack"
	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	// before is the time for which the load runs before the failure.
	before = 4 * time.Second
	// detection is the time from the failure to the promotion. A tool such as Patroni needs
	// longer with its default settings.
	detection = 2 * time.Second
	// writesAgain is the longest permitted time from the failure to the first successful
	// write.
	writesAgain = 30 * time.Second
	workers     = 8
)

// pair is a primary and its synchronous standby.
type pair struct{ primary, standby *servers.Server }

// url is a connection string with both servers. The client uses the one that accepts writes.
func (p pair) url() string {
	host := func(s *servers.Server) string {
		_, address, _ := strings.Cut(s.URL, "@")
		address, _, _ = strings.Cut(address, "/")
		return address
	}
	return "postgres://tributary@" + host(p.primary) + "," + host(p.standby) + "/tributary?sslmode=disable&target_session_attrs=read-write"
}

func startPair(t *testing.T) pair {
	t.Helper()
	start := func(cfg servers.PostgresConfig) *servers.Server {
		t.Helper()
		dir, err := servers.TempDir()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Dir, cfg.Durable = dir, true
		server, err := servers.StartPostgres(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Stop(context.Background()); _ = os.RemoveAll(dir) })
		return server
	}
	var p pair
	p.primary = start(servers.PostgresConfig{})
	p.standby = start(servers.PostgresConfig{Primary: port(t, p.primary)})
	// The standby does not copy this setting, so its commits do not wait after the
	// promotion.
	execute(t, p.primary, "alter system set synchronous_standby_names = 'standby'", "select pg_reload_conf()")
	process.Eventually(t, 20*time.Second, "the standby is synchronous", func() bool {
		return query[string](t, p.primary.URL, "select coalesce(max(sync_state), '') from pg_stat_replication") == "sync"
	})
	return p
}

func port(t *testing.T, s *servers.Server) int {
	t.Helper()
	config, err := pgx.ParseConfig(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return int(config.Port)
}

func execute(t *testing.T, s *servers.Server, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func query[T any](t *testing.T, url, statement string, args ...any) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if err := conn.QueryRow(t.Context(), statement, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return value
}

// load sends clicks, conversions, approvals and payouts, and remembers what was
// acknowledged.
type load struct {
	shop    *shop.Shop
	partner *shop.Partner
	counter atomic.Int64
	over    atomic.Bool
	group   sync.WaitGroup

	mu       sync.Mutex
	orders   []string // acknowledged conversions
	approved []string // the commissions whose approval was acknowledged
	batches  []string // the payout batches whose confirmation was acknowledged
	statuses map[int]int
	failures []string  // responses that are neither a success, nor a 409 of a repetition, nor a 503
	latest   time.Time // the newest acknowledged conversion
}

func startLoad(t *testing.T, s *shop.Shop) *load {
	t.Helper()
	l := &load{shop: s, partner: s.Join(t, "ada"), statuses: map[int]int{}}
	for n := range workers {
		l.group.Go(func() {
			for !l.over.Load() {
				if n == 0 {
					l.payOut(t.Context())
				} else {
					l.sell(t.Context())
				}
			}
		})
	}
	return l
}

func (l *load) stop() { l.over.Store(true); l.group.Wait() }

// call sends a request and counts its status. It returns the response of a success.
func (l *load) call(ctx context.Context, method, path, credential string, body map[string]any) map[string]any {
	response := map[string]any{}
	status, err := l.shop.Call(ctx, method, path, credential, body, &response)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses[status]++
	switch {
	case err == nil:
		return response
	case status != http.StatusServiceUnavailable && status != http.StatusConflict:
		l.failures = append(l.failures, fmt.Sprint(method, " ", path, ": ", err))
	}
	return nil
}

func (l *load) sell(ctx context.Context) {
	order := fmt.Sprintf("order-%d", l.counter.Add(1))
	sale := l.call(ctx, http.MethodPost, "/conversions", l.shop.SecretKey, map[string]any{
		"event_type": "purchase", "external_transaction_id": order, "amount_cents": 10000, "currency": "EUR", "promo_code": l.partner.Promo,
	})
	if sale == nil {
		return
	}
	l.mu.Lock()
	l.orders, l.latest = append(l.orders, order), time.Now()
	l.mu.Unlock()
	commission, _ := sale["commission"].(map[string]any)
	id, _ := commission["id"].(string)
	if l.call(ctx, http.MethodPatch, "/programs/"+l.shop.ProgramID+"/commissions/"+id+"/approve", l.shop.Token, nil) != nil {
		l.mu.Lock()
		l.approved = append(l.approved, id)
		l.mu.Unlock()
	}
}

// payOut creates a batch of all approved commissions and confirms it. If the response to the
// confirmation is lost, the batch stays as it is.
func (l *load) payOut(ctx context.Context) {
	time.Sleep(200 * time.Millisecond)
	batch := l.call(ctx, http.MethodPost, "/payouts/batches", l.shop.Token, map[string]any{})
	id, _ := batch["id"].(string)
	if id != "" && l.call(ctx, http.MethodPost, "/payouts/batches/"+id+"/confirm", l.shop.Token, nil) != nil {
		l.mu.Lock()
		l.batches = append(l.batches, id)
		l.mu.Unlock()
	}
}

// acknowledgedAfter reports whether a conversion was acknowledged after the given time.
func (l *load) acknowledgedAfter(at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest.After(at)
}

func TestPostgres_PromotedStandbyHasAllWrites(t *testing.T) {
	p := startPair(t)
	s := stack.New(t, "TRIBUTARY_DATABASE_URL="+p.url())
	core := s.StartCoreWithGateway(t)
	client := &http.Client{Timeout: 30 * time.Second}
	l := startLoad(t, shop.Open(t, client, "http://"+s.Gateway, ""))
	time.Sleep(before)

	failed := time.Now()
	p.primary.Kill()
	time.Sleep(detection)
	execute(t, p.standby, "select pg_promote()")
	promoted := time.Now()
	process.Eventually(t, writesAgain-detection, "conversions are accepted again", func() bool { return l.acknowledgedAfter(promoted) })
	t.Logf("conversions were accepted again %s after the failure and %s after the promotion", time.Since(failed).Round(time.Millisecond), time.Since(promoted).Round(time.Millisecond))
	time.Sleep(before)
	l.stop()

	t.Logf("statuses %v; %d conversions, %d approvals and %d payout batches were acknowledged", l.statuses, len(l.orders), len(l.approved), len(l.batches))
	for _, failure := range l.failures[:min(5, len(l.failures))] {
		t.Errorf("an unexpected response: %s", failure)
	}
	if len(l.orders) == 0 || len(l.approved) == 0 || len(l.batches) < 2 || l.statuses[http.StatusServiceUnavailable] == 0 {
		t.Error("the load had no conversions, approvals, payouts or failed requests")
	}
	for _, check := range []struct {
		what, statement string
		acknowledged    []string
	}{
		{"conversions", "select count(*) from conversions where external_transaction_id = any($1)", l.orders},
		{"approvals", "select count(*) from commissions where id = any($1::uuid[]) and status <> 'pending'", l.approved},
		{"payout batches", "select count(*) from payout_batches where id = any($1::uuid[]) and status = 'confirmed'", l.batches},
	} {
		if stored := query[int](t, p.standby.URL, check.statement, check.acknowledged); stored != len(check.acknowledged) {
			t.Errorf("%d of %d acknowledged %s are stored", stored, len(check.acknowledged), check.what)
		}
	}
	// No conversion, commission or payout exists twice, and all sums agree.
	if report := process.Run(t, s.Settings, process.Binary(t, "core"), "check"); strings.Contains(report, "VIOLATED") {
		t.Errorf("core check printed:\n%s", report)
	}
	if core.Ended() {
		t.Errorf("the core has ended:\n%s", core.Log(t))
	}
}

// A server that becomes a standby without closing its connections, as some managed databases
// do, must not keep the service from using the new primary.
func TestPostgres_ConnectionsToADemotedPrimaryAreClosed(t *testing.T) {
	p := startPair(t)
	s := stack.New(t, "TRIBUTARY_DATABASE_URL="+p.url())
	s.StartCoreWithGateway(t)
	opened := shop.Open(t, &http.Client{Timeout: 30 * time.Second}, "http://"+s.Gateway, "")
	l := startLoad(t, opened)
	process.Eventually(t, 20*time.Second, "conversions are accepted", func() bool { return l.acknowledgedAfter(time.Time{}) })
	execute(t, p.primary, "alter system set synchronous_standby_names = ''", "alter system set default_transaction_read_only = on", "select pg_reload_conf()")
	execute(t, p.standby, "select pg_promote()")
	promoted := time.Now()
	process.Eventually(t, writesAgain, "conversions are accepted by the new primary", func() bool { return l.acknowledgedAfter(promoted.Add(time.Second)) })
	l.stop()
	for _, failure := range l.failures[:min(5, len(l.failures))] {
		t.Errorf("an unexpected response: %s", failure)
	}
	last := l.orders[len(l.orders)-1]
	if query[int](t, p.standby.URL, "select count(*) from conversions where external_transaction_id = $1", last) != 1 {
		t.Errorf("the newest conversion %s is not stored on the new primary", last)
	}
}
