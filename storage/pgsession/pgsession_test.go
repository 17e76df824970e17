package pgsession_test

import (
	"context"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tributary-hq/tributary/storage/pgsession"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/servers"
)

func startPgBouncer(t *testing.T, database string, settings map[string]string) *servers.Server {
	t.Helper()
	dir, err := servers.MemoryDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bouncer, err := servers.StartPgBouncer(t.Context(), servers.PgBouncerConfig{Dir: dir, Database: database, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bouncer.Kill)
	return bouncer
}

// poolModes are the modes of PgBouncer.
var poolModes = []string{"session", "transaction", "statement"}

func TestCheck_PgBouncer(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	var group sync.WaitGroup
	defer group.Wait()
	for _, mode := range poolModes {
		for _, pool := range []map[string]string{
			{"default_pool_size": "20"},
			{"default_pool_size": "20", "server_round_robin": "1"},
			{"default_pool_size": "20", "server_reset_query_always": "1"},
			{"default_pool_size": "2"},
			{"default_pool_size": "1"},
		} {
			if mode == "session" && pool["default_pool_size"] == "1" {
				continue // two connections need two sessions, see TestCheck_PoolTooSmall
			}
			pool["pool_mode"] = mode
			bouncer := startPgBouncer(t, database, pool)
			group.Go(func() { checkMode(t, mode, bouncer.URL) })
		}
	}
}

// checkMode checks the result of Check behind PgBouncer in the given mode.
func checkMode(t *testing.T, mode, url string) {
	t.Helper()
	err := pgsession.Check(t.Context(), url)
	if mode == "session" {
		if err != nil {
			t.Errorf("Check behind PgBouncer in session mode returned %v", err)
		}
		return
	}
	want := "behind PgBouncer in " + mode + " mode (pool_mode = " + mode + ")"
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "set pool_mode = session") {
		t.Errorf("Check behind PgBouncer in %s mode returned %v, want an error with %q and the advice to set pool_mode = session", mode, err, want)
	}
}

// Other clients take and return the sessions of the pool in any order while Check runs.
func TestCheck_PgBouncerUnderLoad(t *testing.T) {
	t.Parallel()
	const checks = 5
	database := pgtest.New(t)
	var group sync.WaitGroup
	defer group.Wait()
	for _, mode := range poolModes {
		bouncer := startPgBouncer(t, database, map[string]string{"pool_mode": mode, "default_pool_size": "12"})
		statements := startLoad(t, bouncer.URL)
		for range checks {
			group.Go(func() {
				before := statements.Load()
				checkMode(t, mode, bouncer.URL)
				if n := statements.Load() - before; mode != "session" && n < 10 {
					t.Errorf("the load ran %d statements during Check in %s mode, want more", n, mode)
				}
			})
		}
	}
}

// startLoad runs statements on two connections without a pause until the test ends. It
// returns the number of statements.
func startLoad(t *testing.T, url string) *atomic.Int64 {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 2
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	var count atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{}, config.MaxConns)
	for range config.MaxConns {
		go func() {
			for ctx.Err() == nil {
				if _, err := pool.Exec(ctx, "select count(*) from pg_class"); err == nil {
					count.Add(1)
				}
			}
			done <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		stop()
		for range config.MaxConns {
			<-done
		}
		pool.Close()
	})
	return &count
}

func TestCheck_PostgresWithoutPooler(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	if err := pgsession.Check(t.Context(), database); err != nil {
		t.Errorf("Check without a pooler returned %v", err)
	}
	startLoad(t, database)
	for range 20 {
		if err := pgsession.Check(t.Context(), database); err != nil {
			t.Fatalf("Check without a pooler, under load, returned %v", err)
		}
	}
}

func TestCheck_PoolTooSmall(t *testing.T) {
	t.Parallel()
	bouncer := startPgBouncer(t, pgtest.New(t), map[string]string{"pool_mode": "session", "default_pool_size": "1"})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := pgsession.Check(ctx, bouncer.URL); err == nil || !strings.Contains(err.Error(), "its pool is too small") {
		t.Errorf("Check with one session for two connections returned %v, want an error about the size of the pool", err)
	}
}

// The first server of the connection string accepts connections and does not respond, like
// a machine that has crashed behind a load balancer. The second server must be used.
func TestCheck_FirstServerDoesNotRespond(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	database := strings.Replace(pgtest.New(t), "@", "@"+silent.Addr().String()+",", 1)
	if err := pgsession.Check(t.Context(), database); err != nil {
		t.Errorf("Check returned %v", err)
	}
	conn, err := pgsession.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCheck_ServerUnavailable(t *testing.T) {
	t.Parallel()
	addresses, err := servers.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := pgsession.Check(t.Context(), "postgres://tributary@"+addresses[0]+"/tributary"); err == nil || !strings.HasPrefix(err.Error(), "connect: ") {
		t.Errorf("Check without a server returned %v, want an error of the connection", err)
	}
}

func TestSetStatements(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	settings := map[string]string{"statement_timeout": "10s", "jit": "off", "application_name": "it's"}
	if _, err := conn.Exec(t.Context(), pgsession.SetStatements(settings)); err != nil {
		t.Fatal(err)
	}
	for name, want := range settings {
		var got string
		if err := conn.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
}

// Jobs are retried at a time of Postgres, with the delays of River, whatever the clock of the
// machine.
func TestUseTime_RetriesAtTimesOfPostgres(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(-10 * time.Minute) // the machine is ten minutes ahead
	var cfg river.Config
	pgsession.UseTime(&cfg, func() time.Time { return now })
	if got := cfg.Test.Time.Now(); !got.Equal(now) {
		t.Errorf("River's clock shows %s, want %s", got, now)
	}
	if got := cfg.Test.Time.NowOrNil(); got != nil {
		t.Errorf("River's statements use the time %s, want now()", got)
	}
	for failures, want := range map[int]time.Duration{0: time.Second, 2: 81 * time.Second} {
		job := &rivertype.JobRow{Attempt: failures + 1, Errors: make([]rivertype.AttemptError, failures)}
		if delay := cfg.RetryPolicy.NextRetry(job).Sub(now); delay < want*8/10 || delay > want*12/10 {
			t.Errorf("after %d failures, the next attempt is %s later, want about %s", failures+1, delay, want)
		}
	}
}
