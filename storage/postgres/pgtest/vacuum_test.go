package pgtest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// countNotVisible counts the pages of the tables of createTables that are not marked as
// visible to all transactions.
const countNotVisible = `select coalesce(sum(relpages - relallvisible), 0) from pg_class where relname in ('plain', 'monday', 'tuesday')`

// createTables creates a plain table and a partitioned table, with many pages each.
func createTables(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for _, sql := range []string{
		`create table plain (n int)`,
		`create table days (n int, day text) partition by list (day)`,
		`create table monday partition of days for values in ('monday')`,
		`create table tuesday partition of days for values in ('tuesday')`,
		`insert into plain select generate_series(1, 10000)`,
		`insert into days select n, case when n % 2 = 0 then 'monday' else 'tuesday' end from generate_series(1, 10000) n`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

// openSnapshot opens a transaction with a snapshot in another session. While the
// transaction is open, newer rows are not visible to all transactions.
func openSnapshot(t *testing.T, url string) pgx.Tx {
	t.Helper()
	tx, err := connect(t, url).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select 'holds a snapshot'`); err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestVacuumAnalyze_WaitsForOpenSnapshots(t *testing.T) {
	t.Parallel()
	for name, tables := range map[string][]string{"named tables": {"plain", "days"}, "all tables": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtest.New(t)
			conn, observer := connect(t, url), connect(t, url)
			tx := openSnapshot(t, url)
			createTables(t, conn)
			closed := make(chan error, 1)
			go func() {
				// Wait until the first vacuum has ended, which increases vacuum_count.
				// Then check that it has not marked all pages, and close the snapshot.
				vacuums, err := 0, error(nil)
				for vacuums == 0 && err == nil {
					err = observer.QueryRow(t.Context(), `select vacuum_count from pg_stat_user_tables where relname = 'plain'`).Scan(&vacuums)
				}
				pages := 0
				if err == nil {
					err = observer.QueryRow(t.Context(), countNotVisible).Scan(&pages)
				}
				if err == nil && pages == 0 {
					err = errors.New("a vacuum marked all pages although a snapshot was open")
				}
				closed <- errors.Join(err, tx.Rollback(t.Context()))
			}()
			pgtest.VacuumAnalyze(t, conn, tables...)
			if err := <-closed; err != nil {
				t.Error(err)
			}
			if n := count(t, conn, countNotVisible); n != 0 {
				t.Errorf("%d pages are not marked as visible to all transactions, want 0", n)
			}
			if n := count(t, conn, `select count(*) from pg_stats where tablename in ('plain', 'days', 'monday')`); n != 5 {
				t.Errorf("%d columns have statistics, want 5", n)
			}
		})
	}
}

// A VACUUM without INDEX_CLEANUP ON does not remove dead rows if they are few. Their
// pages are then not marked as visible. VacuumAnalyze must mark these
// pages too.
func TestVacuumAnalyze_RemovesFewDeadRows(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.New(t))
	createTables(t, conn)
	for _, sql := range []string{`insert into plain select generate_series(1, 50000)`, `create index on plain (n)`, `delete from plain where n = 7`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.VacuumAnalyze(t, conn, "plain", "days")
	if n := count(t, conn, countNotVisible); n != 0 {
		t.Errorf("%d pages are not marked as visible to all transactions, want 0", n)
	}
}

// Rows that were committed asynchronously are visible to all transactions only after
// they have been written to the write-ahead log on disk.
func TestVacuumAnalyze_WaitsForAsynchronousCommits(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.New(t))
	if _, err := conn.Exec(t.Context(), `set synchronous_commit = off`); err != nil {
		t.Fatal(err)
	}
	createTables(t, conn)
	pgtest.VacuumAnalyze(t, conn, "plain", "days")
	if n := count(t, conn, countNotVisible); n != 0 {
		t.Errorf("%d pages are not marked as visible to all transactions, want 0", n)
	}
}

func TestVacuumAnalyze_TimeoutErrorListsOpenTransactions(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	conn := connect(t, url)
	tx := openSnapshot(t, url)
	defer func() { _ = tx.Rollback(t.Context()) }()
	createTables(t, conn)
	err := pgtest.VacuumAnalyzeWithin(t.Context(), conn, 10*time.Millisecond, []string{"plain"})
	if err == nil || !strings.Contains(err.Error(), "pages of plain") || !strings.Contains(err.Error(), "holds a snapshot") {
		t.Errorf("VacuumAnalyzeWithin returned %v, want an error with the pages of plain and the open transaction", err)
	}
}
