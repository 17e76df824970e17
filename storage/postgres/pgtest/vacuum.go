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
	// vacuumTimeout is the time after which VacuumAnalyze stops repeating the vacuum. It
	// is long enough for a machine with all cores busy.
	vacuumTimeout = time.Minute
	// vacuumPause is the time between two runs of the vacuum.
	vacuumPause = 50 * time.Millisecond
)

// Database is a connection, or a pool of connections, to the database of a test. Because
// of VACUUM, it must be connected as the owner and must not be in a transaction.
type Database interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// VacuumAnalyze prepares tables for EXPLAIN. It vacuums and analyzes them, and repeats
// the vacuum until all their pages are marked as visible to all transactions. Without
// table names it processes all tables of the database except those of Postgres itself.
// The name of a partitioned table includes its partitions.
//
// The planner chooses an index-only scan only if enough pages have this mark. A single
// VACUUM is not enough, because it does not mark these pages:
//
//   - pages with a row whose insertion was committed asynchronously and is not yet in
//     the write-ahead log on disk
//   - pages with a row that is newer than the oldest snapshot in this database; the
//     snapshot can belong to another session, to autovacuum or to a connection that is
//     being opened
//   - pages that another process has pinned
//   - pages with dead rows, if these are few and INDEX_CLEANUP is not ON
//
// The first three conditions end after some time. VacuumAnalyze sets INDEX_CLEANUP ON
// because of the fourth condition.
func VacuumAnalyze(t testing.TB, db Database, tables ...string) {
	t.Helper()
	if err := vacuumAnalyze(t.Context(), db, vacuumTimeout, tables); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// VacuumAnalyze prepares tables of the fixture's database for EXPLAIN. Without table
// names it processes all tables, as the function VacuumAnalyze does.
func (f *Fixture) VacuumAnalyze(tables ...string) {
	f.Helper()
	VacuumAnalyze(f.TB, f.SQL, tables...)
}

func vacuumAnalyze(ctx context.Context, db Database, limit time.Duration, tables []string) error {
	deadline := time.Now().Add(limit)
	// A statement that is running at the deadline gets additional time to finish,
	// because VACUUM may have to wait for the locks of other sessions.
	ctx, cancel := context.WithDeadline(ctx, deadline.Add(vacuumTimeout))
	defer cancel()
	if len(tables) == 0 {
		var err error
		if tables, err = texts(ctx, db, allTablesSQL); err != nil {
			return err
		}
	}
	for vacuum, remaining := "VACUUM (INDEX_CLEANUP ON, ANALYZE) ", tables; ; vacuum = "VACUUM (INDEX_CLEANUP ON) " {
		sql := vacuum + strings.Join(remaining, ", ")
		if _, err := db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		var err error
		if remaining, err = texts(ctx, db, unfinishedSQL, tables); err != nil || len(remaining) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return notVisibleError(ctx, db, remaining)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(vacuumPause):
		}
	}
}

// notVisibleError returns an error that lists the tables with pages that are not
// visible to all transactions. It also lists the sessions and prepared transactions of
// this database that have an open snapshot or transaction.
func notVisibleError(ctx context.Context, db Database, tables []string) error {
	open, err := texts(ctx, db, openTransactionsSQL)
	if err != nil {
		return err
	}
	return fmt.Errorf("after VACUUM, some pages of %s are not visible to all transactions; open transactions: %q", strings.Join(tables, ", "), open)
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
