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

func databaseName(t testing.TB, conn *pgx.Conn) string {
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

const countByName = "SELECT count(*) FROM pg_database WHERE datname = $1"

func TestNew_DatabasesAreSeparate(t *testing.T) {
	first, second := connect(t, pgtest.New(t)), connect(t, pgtest.New(t))
	if _, err := first.Exec(t.Context(), "CREATE TABLE only_here ()"); err != nil {
		t.Fatal(err)
	}
	if n := count(t, second, "SELECT count(*) FROM pg_class WHERE relname = 'only_here'"); n != 0 {
		t.Error("a table of one database exists in another database")
	}
}

func TestNew_AppliesMigrations(t *testing.T) {
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
		t.Errorf("running the migrations again changed the number of tables from %d to %d", before, after)
	}
}

func TestNew_DropsDatabaseWhenTestEnds(t *testing.T) {
	var name string
	t.Run("test with an open connection", func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), pgtest.New(t))
		if err != nil {
			t.Fatal(err)
		}
		name = databaseName(t, conn)
	})
	if n := count(t, connect(t, os.Getenv("TRIBUTARY_TEST_DATABASE_URL")), countByName, name); n != 0 {
		t.Errorf("database %s exists after its test", name)
	}
}

func TestNew_InParallelSharesOneTemplate(t *testing.T) {
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
			t.Errorf("the names of the databases are not unique: %q", names)
		}
		seen[name] = true
	}
	admin := connect(t, os.Getenv("TRIBUTARY_TEST_DATABASE_URL"))
	if n := count(t, admin, "SELECT count(*) FROM pg_database WHERE datname LIKE 'tributary\\_tpl\\_%\\_new'"); n != 0 {
		t.Error("an unfinished template exists")
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		pgtest.New(b)
	}
}
