package pgtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Fixture is a test database. Its methods create the data that a test needs and read what the
// service wrote. An error in a method ends the test.
type Fixture struct {
	testing.TB
	// URL is the URL of the database. A test can use it to open its own connections.
	URL string
	// DB is the handle of the database for the service under test.
	DB *postgres.DB
	// SQL is a pool of connections as the owner of the database, who has all rights.
	SQL *pgxpool.Pool
	// Now returns the time at which the fixture creates data.
	Now func() time.Time
}

// ErasureKeys has the key of the digests that stay after an erasure.
var ErasureKeys = privacy.NewErasureKeys(affiliate.HashKeys{[]byte("key of the tests")})

// Row holds the values of a row by column name.
type Row = map[string]any

// Open returns a fixture for an empty database. If the package uses Main, this can be the
// database of an earlier test: its rows are deleted, but its sequences continue.
func Open(t testing.TB, now func() time.Time) *Fixture {
	t.Helper()
	d, err := acquire(t.Context())
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := release(d, t.Failed()); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return &Fixture{TB: t, URL: d.url, DB: d.db, SQL: d.sql, Now: now}
}

// Exec runs a statement as the owner of the database.
func (f *Fixture) Exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.SQL.Exec(f.Context(), sql, args...); err != nil {
		f.Fatalf("%s: %v", sql, err)
	}
}

// ExecWithoutForeignKeys runs a statement like Exec, but Postgres does not check foreign
// keys and runs no triggers. A test can insert many rows of a table without the rows that
// they refer to.
func (f *Fixture) ExecWithoutForeignKeys(sql string, args ...any) {
	f.Helper()
	f.inTx("set local session_replication_role = replica", func(tx pgx.Tx) error {
		if _, err := tx.Exec(f.Context(), sql, args...); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		return nil
	})
}

// Plan returns the query plan of a statement.
func (f *Fixture) Plan(sql string, args ...any) string {
	f.Helper()
	return f.PlanWith("", sql, args...)
}

// PlanWith returns the query plan of the statement sql. It first runs the statement
// setSQL, which changes planner settings, in the same transaction.
func (f *Fixture) PlanWith(setSQL, sql string, args ...any) (plan string) {
	f.Helper()
	f.inTx(setSQL, func(tx pgx.Tx) error {
		lines, err := texts(f.Context(), tx, "explain (costs off) "+sql, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
		if err != nil {
			return fmt.Errorf("explain %s: %w", sql, err)
		}
		plan = strings.Join(lines, "\n")
		return nil
	})
	return plan
}

// inTx runs the statement setSQL and then the function fn, in one transaction.
func (f *Fixture) inTx(setSQL string, fn func(pgx.Tx) error) {
	f.Helper()
	err := pgx.BeginFunc(f.Context(), f.SQL, func(tx pgx.Tx) error {
		if _, err := tx.Exec(f.Context(), setSQL); err != nil {
			return err
		}
		return fn(tx)
	})
	if err != nil {
		f.Fatal(err)
	}
}

// Count returns the number that a query selects.
func (f *Fixture) Count(sql string, args ...any) (n int) {
	f.Helper()
	if err := f.SQL.QueryRow(f.Context(), sql, args...).Scan(&n); err != nil {
		f.Fatalf("%s: %v", sql, err)
	}
	return n
}

// CountLockWaits returns the number of sessions of the fixture's database that wait for a
// lock. A query of pg_locks would also count the sessions of databases of other tests,
// because a table has the same oid in each copy of the template.
func (f *Fixture) CountLockWaits() int {
	f.Helper()
	return f.Count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
}

// WantCount reports an error if the number that a query selects differs from wantCount.
// description names the rows that the query counts.
func (f *Fixture) WantCount(wantCount int, description, sql string, args ...any) {
	f.Helper()
	if got := f.Count(sql, args...); got != wantCount {
		f.Errorf("%s: got %d, want %d", description, got, wantCount)
	}
}

// Texts returns the values of a query that selects one column of type text.
func (f *Fixture) Texts(sql string, args ...any) []string {
	f.Helper()
	rows, _ := f.SQL.Query(f.Context(), sql, args...)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.Fatalf("%s: %v", sql, err)
	}
	return texts
}

// Insert inserts one row into a table. The inserted row combines all given rows. If
// several of these contain the same column, the value in the last of them is used.
func (f *Fixture) Insert(table string, rows ...Row) {
	f.Helper()
	row := merged(rows...)
	columns := slices.Sorted(maps.Keys(row))
	places, args := make([]string, len(columns)), make([]any, len(columns))
	for i, column := range columns {
		places[i], args[i] = fmt.Sprintf("$%d", i+1), row[column]
	}
	f.Exec("insert into "+table+" ("+strings.Join(columns, ", ")+") values ("+strings.Join(places, ", ")+")", args...)
}

func merged(rows ...Row) Row {
	combined := Row{}
	for _, row := range rows {
		maps.Copy(combined, row)
	}
	return combined
}

// StartWorkers starts the job workers of config and stops them when the test ends. Jobs
// without a worker in config stay in the queue.
func (f *Fixture) StartWorkers(config *river.Config) {
	f.Helper()
	config.SkipUnknownJobCheck, config.Logger = true, slog.New(slog.DiscardHandler)
	client, err := f.DB.WorkerClient(config)
	if err != nil {
		f.Fatal(err)
	}
	if err := client.Start(context.WithoutCancel(f.Context())); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.StopAndCancel(ctx); err != nil {
			f.Error(err)
		}
	})
}

// ReasonOf returns the error code of err, or the empty string if err is nil. It ends the
// test if err has no error code.
func ReasonOf(t testing.TB, err error) affiliate.Reason {
	t.Helper()
	var refusal *affiliate.Error
	if errors.As(err, &refusal) {
		return refusal.Reason
	}
	if err != nil {
		t.Fatalf("the error has no error code: %v", err)
	}
	return ""
}

// RequireRefusal ends the test unless the error code of err is the given reason. fields
// are the expected fields of the first violations in err. If an element of fields is
// empty, the violation at its position may have any field or may be missing.
// RequireRefusal returns the metadata of the error.
func RequireRefusal(t testing.TB, err error, reason affiliate.Reason, fields ...string) map[string]string {
	t.Helper()
	var refusal *affiliate.Error
	if !errors.As(err, &refusal) || refusal.Reason != reason {
		t.Fatalf("got %v, want %s", err, reason)
	}
	for i, field := range fields {
		if field != "" && (i >= len(refusal.Violations) || refusal.Violations[i].Field != field) {
			t.Fatalf("got %v with the violations %v, want violation %d to be of the field %s", err, refusal.Violations, i, field)
		}
	}
	return refusal.Metadata
}
