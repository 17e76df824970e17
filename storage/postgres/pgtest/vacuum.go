package pgtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// vacuumTimeout is how long VacuumAnalyze repeats the vacuum, with every core
	// busy.
	vacuumTimeout = time.Minute
	// vacuumPause is the time between two repetitions.
	vacuumPause = 50 * time.Millisecond
)

// Database is a connection to a test's database, or a pool of them. VACUUM needs
// the owner, outside of a transaction.
type Database interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// VacuumAnalyze prepares tables for EXPLAIN: it vacuums and analyzes them, and
// repeats the vacuum until all their pages are marked as visible to all
// transactions. Without names it takes every table of the application. A
// partitioned table stands for its partitions.
//
// The planner chooses an index-only scan only if enough pages carry that mark. A
// single VACUUM does not guarantee it. It leaves out each page with a row whose
// insertion was committed asynchronously and is not in the log on disk yet, each
// page with a row that is newer than the oldest snapshot in this database (of
// another session, autovacuum, or a connection that is just being opened), and
// each page that another process has pinned. All of these end by themselves. Pages
// with dead rows are left out too, if they are few and INDEX_CLEANUP is not ON.
func VacuumAnalyze(t testing.TB, db Database, tables ...string) {
	t.Helper()
	if err := vacuumAnalyze(t.Context(), db, vacuumTimeout, tables); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// VacuumAnalyze prepares the fixture's tables for EXPLAIN. Without names it takes
// every table.
func (f *Fixture) VacuumAnalyze(tables ...string) {
	f.t.Helper()
	VacuumAnalyze(f.t, f.SQL, tables...)
}

func vacuumAnalyze(ctx context.Context, db Database, limit time.Duration, tables []string) error {
	deadline := time.Now().Add(limit)
	// The statement that runs at the deadline may end. VACUUM waits for locks of
	// other sessions.
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(vacuumTimeout))
	defer cancel()
	if len(tables) == 0 {
		var err error
		if tables, err = texts(ctx, db, allTablesSQL); err != nil {
			return err
		}
	}
	for vacuum, left := "VACUUM (INDEX_CLEANUP ON, ANALYZE) ", tables; ; vacuum = "VACUUM (INDEX_CLEANUP ON) " {
		sql := vacuum + strings.Join(left, ", ")
		if _, err := db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		var err error
		if left, err = texts(ctx, db, unfinishedSQL, tables); err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return notVisible(ctx, db, left)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(vacuumPause):
		}
	}
}

// notVisible is the error that names the tables and the sessions and prepared
// transactions of this database whose snapshot or transaction is still open.
func notVisible(ctx context.Context, db Database, tables []string) error {
	open, err := texts(ctx, db, openTransactionsSQL)
	if err != nil {
		return err
	}
	return fmt.Errorf("VACUUM leaves pages of %s that are not visible to all; open transactions: %q", strings.Join(tables, ", "), open)
}

func texts(ctx context.Context, db Database, sql string, args ...any) ([]string, error) {
	rows, _ := db.Query(ctx, sql, args...) // CollectRows returns the error
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

const (
	allTablesSQL = `
		select oid::regclass::text from pg_class
		where relkind in ('r', 'p') and not relispartition and relpersistence <> 't'
			and relnamespace::regnamespace::text not in ('pg_catalog', 'information_schema')`

	unfinishedSQL = `
		select oid::regclass::text from pg_class
		where relkind = 'r' and relallvisible < relpages and oid in (
			select coalesce(relid, name::regclass)
			from unnest($1::text[]) name left join lateral pg_partition_tree(name::regclass) on true)`

	openTransactionsSQL = `
		select concat_ws(' ', 'pid', pid, backend_type, application_name, state, 'since', xact_start, query)
		from pg_stat_activity
		where (backend_xid is not null or backend_xmin is not null) and pid <> pg_backend_pid()
			and (datname = current_database() or datname is null)
		union all
		select 'prepared ' || gid from pg_prepared_xacts where database = current_database()`
)
