package postgres_test

import (
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/servers"
)

// behindPgBouncer returns a URL of the database behind PgBouncer in the given mode.
func behindPgBouncer(t *testing.T, database, mode string) string {
	t.Helper()
	dir, err := servers.MemoryDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bouncer, err := servers.StartPgBouncer(t.Context(), servers.PgBouncerConfig{
		Dir: dir, Database: database, Settings: map[string]string{"pool_mode": mode},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bouncer.Kill)
	return bouncer.URL
}

// PgBouncer refuses most settings when a connection starts, so the connections must change
// them later.
func TestOpen_SettingsBehindPgBouncer(t *testing.T) {
	t.Parallel()
	database := behindPgBouncer(t, pgtest.New(t), "session")
	if err := postgres.Migrate(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	if v, err := postgres.CheckSchema(t.Context(), database); err != nil || v.Newer() {
		t.Fatalf("CheckSchema returned %+v, %v, want a current schema", v, err)
	}
	db, err := postgres.Open(t.Context(), postgres.Config{URL: database, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	for _, pool := range []struct {
		name     string
		pool     *pgxpool.Pool
		settings map[string]string
	}{
		{"calls", db.Pools()["calls"], map[string]string{
			"role": "tributary_app", "statement_timeout": "10s", "TimeZone": "UTC", "application_name": "tributary", "jit": "off",
			"max_parallel_workers_per_gather": "0", "synchronous_commit": "on",
		}},
		{"sender", db.SendingPool(), map[string]string{
			"role": "tributary_app", "statement_timeout": "10s", "plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "lock_timeout": "1s",
			"idle_in_transaction_session_timeout": "5s", "synchronous_commit": "off",
		}},
	} {
		for name, want := range pool.settings {
			var got string
			if err := pool.pool.QueryRow(t.Context(), "select current_setting($1)", name).Scan(&got); err != nil || got != want {
				t.Errorf("pool of %s: %s = %q, %v; want %q", pool.name, name, got, err, want)
			}
		}
	}
}

func TestMigrate_RefusesTransactionMode(t *testing.T) {
	t.Parallel()
	database := behindPgBouncer(t, pgtest.New(t), "transaction")
	const want = "behind PgBouncer in transaction mode"
	if err := postgres.Migrate(t.Context(), database); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Migrate returned %v, want an error with %q", err, want)
	}
	if _, err := postgres.CheckSchema(t.Context(), database); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("CheckSchema returned %v, want an error with %q", err, want)
	}
}
