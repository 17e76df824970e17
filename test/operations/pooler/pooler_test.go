//go:build operations

// Package pooler tests that the programs work behind PgBouncer with the configuration in
// deploy/pgbouncer, and that they refuse its other modes.
package pooler

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/test/operations/shop"
	"github.com/tributary-hq/tributary/test/operations/stack"
	"github.com/tributary-hq/tributary/tools/servers"
)

const sample = "../../../deploy/pgbouncer/pgbouncer.ini"

// startPgBouncer starts PgBouncer with the settings of the sample and returns the URL of
// the database behind it.
func startPgBouncer(t *testing.T, database, mode string) string {
	t.Helper()
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "[pgbouncer]\n")
	settings := map[string]string{}
	for line := range strings.Lines(section) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " = "); ok && !strings.HasPrefix(line, ";") {
			settings[name] = value
		}
	}
	if settings["pool_mode"] != "session" || settings["default_pool_size"] == "" {
		t.Fatalf("%s has the settings %v, want session mode and a pool size", sample, settings)
	}
	settings["pool_mode"] = mode
	dir, err := servers.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bouncer, err := servers.StartPgBouncer(t.Context(), servers.PgBouncerConfig{Dir: dir, Database: database, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bouncer.Kill)
	return bouncer.URL
}

// redisURL returns the URL of a database of the shared Redis.
func redisURL(t *testing.T, database string) string {
	t.Helper()
	target, err := url.Parse(os.Getenv("TRIBUTARY_TEST_REDIS_URL"))
	if err != nil || target.Host == "" {
		t.Fatal("no servers: run `make operations`")
	}
	target.Path = "/" + database
	return target.String()
}

// receiver counts webhooks by event type.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	events map[string]int
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{events: map[string]int{}}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, event := range []string{"conversion.created", "commission.approved"} {
			if strings.Contains(string(body), `"`+event+`"`) {
				r.events[event]++
			}
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count(event string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[event]
}

func TestSessionMode(t *testing.T) {
	const sellers, salesPerSeller = 8, 25
	direct := pgtest.New(t)
	database := startPgBouncer(t, direct, "session")
	hooks := startReceiver(t)
	dir := t.TempDir()
	authority := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hooks.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	d := stack.At(t, "TRIBUTARY_DATABASE_URL="+database, "TRIBUTARY_REDIS_URL="+redisURL(t, "11"), "TRIBUTARY_WEBHOOK_CA_FILE="+authority)
	process.Run(t, d.Settings, process.Binary(t, "core"), "migrate")
	core, landing := d.StartCoreWithGateway(t), d.StartLanding(t)
	d.StartCollector(t)
	// The job queue of each program keeps a session that listens. It runs no other statement in this
	// session in the first seconds.
	process.Await(t, "the job queues listen", func() error {
		if n := query(t, direct, `select count(distinct application_name) from pg_stat_activity where datname = current_database() and query ilike 'listen "%river.%'`); n != 2 {
			return fmt.Errorf("%d programs listen, want the core and the landing service", n)
		}
		return nil
	})

	opened := shop.Open(t, http.DefaultClient, "http://"+d.Gateway, "http://"+d.Collector)
	var created struct{ ID string }
	opened.Must(t, http.MethodPost, "/webhooks", opened.Token, shop.Object{"url": hooks.URL, "subscriptions": []string{"*"}}, &created)
	// A job writes the code to the edge directory.
	partner := opened.Join(t, "ada")
	click := opened.AwaitCode(t, partner.Code)

	var group sync.WaitGroup
	for seller := range sellers {
		group.Go(func() {
			for n := range salesPerSeller {
				if _, _, err := opened.Sell(t.Context(), fmt.Sprintf("order-%d-%d", seller, n), partner.Promo, ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	_, sale, err := opened.Sell(t.Context(), "order-with-click", "", click)
	if err != nil || !sale.Attributed {
		t.Errorf("a sale with a click: %+v, %v; want an attributed sale", sale, err)
	}
	opened.Pay(t, sale.Commission.ID)
	const want = sellers*salesPerSeller + 1
	process.Await(t, "all webhooks have arrived", func() error {
		if conversions, approved := hooks.count("conversion.created"), hooks.count("commission.approved"); conversions < want || approved < 1 {
			return fmt.Errorf("%d webhooks about conversions, %d about commissions; want %d and 1", conversions, approved, want)
		}
		return nil
	})
	if n := query(t, direct, "select count(*) from conversions"); n != want {
		t.Errorf("the database has %d conversions, want %d", n, want)
	}
	core.Stop(t)
	landing.Stop(t)
	if out := process.Run(t, d.Settings, process.Binary(t, "core"), "check"); strings.Contains(out, "VIOLATED") {
		t.Errorf("core check:\n%s", out)
	}
}

func query(t *testing.T, database, sql string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOtherModes_AreRefused(t *testing.T) {
	database := pgtest.New(t)
	for _, mode := range []string{"transaction", "statement"} {
		d := stack.At(t, "TRIBUTARY_DATABASE_URL="+startPgBouncer(t, database, mode), "TRIBUTARY_REDIS_URL="+redisURL(t, "12"))
		for _, argv := range [][]string{{"core", "migrate"}, {"core", "serve"}, {"core", "check"}, {"landing", "migrate"}, {"landing"}} {
			t.Run(mode+" "+strings.Join(argv, " "), func(t *testing.T) {
				t.Parallel()
				process.Start(t, d.Settings, append([]string{process.Binary(t, argv[0])}, argv[1:]...)...).WantExit(t, "behind PgBouncer in "+mode+" mode (pool_mode = "+mode+")")
			})
		}
	}
}
