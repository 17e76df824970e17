package pgtest_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func database(t testing.TB, conn *pgx.Conn) string {
	t.Helper()
	var name string
	if err := conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	return name
}

func count(t testing.TB, conn *pgx.Conn, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const named = "SELECT count(*) FROM pg_database WHERE datname = $1"

func TestEachDatabaseIsItsOwn(t *testing.T) {
	one, other := connect(t, pgtest.New(t)), connect(t, pgtest.New(t))
	if _, err := one.Exec(t.Context(), "CREATE TABLE only_here ()"); err != nil {
		t.Fatal(err)
	}
	if n := count(t, other, "SELECT count(*) FROM pg_class WHERE relname = 'only_here'"); n != 0 {
		t.Error("one test's table is seen in another's database")
	}
}

func TestDatabaseIsMigrated(t *testing.T) {
	url := pgtest.New(t)
	conn := connect(t, url)
	const tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
	before := count(t, conn, tables)
	if before == 0 {
		t.Error("there are no tables")
	}
	if err := postgres.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	if after := count(t, conn, tables); after != before {
		t.Errorf("migrating again changed %d tables into %d", before, after)
	}
}

func TestDatabaseEndsWithItsTest(t *testing.T) {
	var name string
	t.Run("a test that leaves its connection open", func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), pgtest.New(t))
		if err != nil {
			t.Fatal(err)
		}
		name = database(t, conn)
	})
	if n := count(t, connect(t, os.Getenv("TRIBUTARY_TEST_DATABASE_URL")), named, name); n != 0 {
		t.Errorf("%s is still there", name)
	}
}

func TestParallelTestsShareOneTemplate(t *testing.T) {
	var wg sync.WaitGroup
	names := make([]string, 8)
	for i := range names {
		wg.Go(func() {
			conn, err := pgx.Connect(t.Context(), pgtest.New(t))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close(context.Background()) }()
			if err := conn.QueryRow(t.Context(), "SELECT current_database()").Scan(&names[i]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	seen := make(map[string]bool)
	for _, name := range names {
		if name == "" || seen[name] {
			t.Errorf("databases: %q", names)
		}
		seen[name] = true
	}
	admin := connect(t, os.Getenv("TRIBUTARY_TEST_DATABASE_URL"))
	if n := count(t, admin, "SELECT count(*) FROM pg_database WHERE datname LIKE 'tributary\\_tpl\\_%\\_new'"); n != 0 {
		t.Error("an unfinished template was left behind")
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		pgtest.New(b)
	}
}
