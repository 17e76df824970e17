package pgtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	// resetTimeout limits the time to empty a database for the next test.
	resetTimeout = 10 * time.Second
	// sessionTimeout limits the wait for sessions that a test has closed. Postgres needs
	// some milliseconds to end a session.
	sessionTimeout = time.Second
	// keptConns is the number of connections of a pool that stay open for the next test.
	keptConns = 4
)

// database is a database that several tests use, one after the other. The
// first statements on a new connection to a new database take most of the time of a
// typical test, because Postgres has to read its catalog and to plan each statement.
type database struct {
	name string
	url  string
	db   *postgres.DB
	sql  *pgxpool.Pool
	// filled contains the tables that have rows after the migrations.
	filled []string
	// state is the schema and the content of the filled tables before the next test.
	state string
}

// idle contains the databases that are ready for the next test.
var idle struct {
	sync.Mutex
	// reuse is set by Main, before the first test. Main drops the databases after the last
	// test, so a package without Main does not reuse them.
	reuse     bool
	databases []*database
}

// acquire returns an idle database, or a new one.
func acquire(ctx context.Context) (*database, error) {
	idle.Lock()
	if n := len(idle.databases); n > 0 {
		d := idle.databases[n-1]
		idle.databases = idle.databases[:n-1]
		idle.Unlock()
		return d, nil
	}
	idle.Unlock()
	return newDatabase(ctx)
}

// release makes a database available for the next test. If the test failed, if the package
// does not use Main, or if reset returns an error, it drops the database.
func release(d *database, failed bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), resetTimeout)
	defer cancel()
	if failed || !idle.reuse || d.reset(ctx) != nil {
		return d.drop()
	}
	idle.Lock()
	defer idle.Unlock()
	idle.databases = append(idle.databases, d)
	return nil
}

func newDatabase(ctx context.Context) (_ *database, err error) {
	name, url, err := create()
	if err != nil {
		return nil, err
	}
	d := &database{name: name, url: url}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.drop())
		}
	}()
	if d.db, err = postgres.Open(ctx, postgres.Config{URL: url, ErasureKeys: ErasureKeys}); err != nil {
		return nil, err
	}
	if d.sql, err = pgxpool.New(ctx, url); err != nil {
		return nil, err
	}
	if !idle.reuse {
		return d, nil
	}
	if d.filled, err = texts(ctx, d.sql, filledSQL); err != nil {
		return nil, err
	}
	d.state, err = d.readState(ctx)
	return d, err
}

func (d *database) drop() error {
	if d.db != nil {
		d.db.Close()
	}
	if d.sql != nil {
		d.sql.Close()
	}
	return drop(d.name)
}

// reset deletes the rows that the test has inserted. It returns an error if the database
// still differs from a new one in a way that could change the results of the next test:
//
//   - A connection is in use, is broken, or does not belong to the pools.
//   - The schema has changed, or a table has been vacuumed or analyzed.
//   - Rows that the migrations inserted have changed.
//
// Sequences continue after their last value.
func (d *database) reset(ctx context.Context) error {
	d.db.OnDeliveries(func([]webhook.EndpointKey) {})
	d.db.OnDirectoryChange(func(affiliate.SyncDirectory) {})
	d.db.OnNotifications(func() {})
	d.db.OnEvent(func(affiliate.EventName, affiliate.Mode) {})
	if err := d.db.Ping(ctx); err != nil {
		return err // the test has closed the handle
	}
	pools := d.db.Pools()
	pools["sql"] = d.sql
	for _, pool := range pools {
		if err := checkConnections(ctx, pool); err != nil {
			return err
		}
	}
	if err := d.awaitSessions(ctx, pools); err != nil {
		return err
	}
	filled, err := texts(ctx, d.sql, filledSQL)
	if err != nil {
		return err
	}
	if state, err := d.readState(ctx); err != nil || state != d.state {
		return errors.Join(err, errors.New("the schema has changed"))
	}
	// Without foreign keys and triggers, the order of the tables does not matter.
	statements := []string{"set local session_replication_role = replica"}
	for _, table := range filled {
		if !slices.Contains(d.filled, table) {
			statements = append(statements, "delete from "+table)
		}
	}
	// Tests read these tables in the order of the insertions. Rows that are inserted into
	// the space of deleted rows can have another order.
	statements = append(statements, "truncate events, audit_log")
	err = pgx.BeginFunc(ctx, d.sql, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, strings.Join(statements, "; "))
		return err
	})
	if err != nil {
		return err
	}
	d.state, err = d.readState(ctx)
	return err
}

// checkConnections returns an error if a connection of the pool is in use or broken. It closes
// all connections except keptConns of them, whose advisory locks it releases.
func checkConnections(ctx context.Context, pool *pgxpool.Pool) error {
	conns := pool.AcquireAllIdle(ctx)
	var failed error
	for i, conn := range conns {
		if i >= keptConns {
			failed = errors.Join(failed, conn.Hijack().Close(ctx))
			continue
		}
		_, err := conn.Exec(ctx, "select pg_advisory_unlock_all()")
		failed = errors.Join(failed, err)
		conn.Release()
	}
	if stat := pool.Stat(); stat.AcquiredConns()+stat.ConstructingConns() > 0 {
		return errors.Join(failed, errors.New("a connection is in use"))
	}
	return failed
}

// awaitSessions waits until the database has no sessions except those of the pools.
func (d *database) awaitSessions(ctx context.Context, pools map[string]*pgxpool.Pool) error {
	const sql = "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend'"
	own := int32(0)
	for _, pool := range pools {
		own += pool.Stat().TotalConns()
	}
	for deadline := time.Now().Add(sessionTimeout); ; time.Sleep(2 * time.Millisecond) {
		var sessions int32
		if err := d.sql.QueryRow(ctx, sql).Scan(&sessions); err != nil || sessions <= own {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("another session is open")
		}
	}
}

// readState returns a text that differs after each change of the schema, after VACUUM and
// ANALYZE, and after each change of a row in the filled tables. Each change of a row
// changes the number of rows or their transaction ids (xmin). VACUUM changes relpages.
func (d *database) readState(ctx context.Context) (string, error) {
	states := []string{"(select sum(relpages)::text from pg_class)"}
	for _, table := range append(slices.Clone(catalog), d.filled...) {
		states = append(states, "(select count(*) || ':' || sum(xmin::text::bigint) from "+table+")")
	}
	var state string
	err := d.sql.QueryRow(ctx, "select concat_ws(' ', "+strings.Join(states, ", ")+")").Scan(&state)
	return state, err
}

// catalog contains the tables of Postgres that change if the schema changes or if a table
// is analyzed.
var catalog = []string{
	"pg_attrdef", "pg_attribute", "pg_class", "pg_constraint", "pg_index", "pg_namespace", "pg_proc", "pg_rewrite", "pg_statistic", "pg_trigger", "pg_type",
}

// filledSQL returns the tables that have or had rows.
const filledSQL = `
	select oid::regclass::text from pg_class
	where relkind = 'r' and relnamespace::regnamespace::text not in ('pg_catalog', 'information_schema') and pg_relation_size(oid) > 0`
