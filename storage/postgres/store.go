// Package postgres keeps everything that must not be lost: one file per
// aggregate, plain SQL beside the function that runs it.
//
// It guarantees that an exported method is one transaction, that every
// statement on a workspace's rows names workspace and mode, and that a refusal
// comes back as *affiliate.Error while an accident comes back as it is. What
// follows from a change (event rows, jobs) commits with the change.
//
// It does not decide anything about money or legality: package affiliate does,
// and the statements here only hold the database to it. It does not promise
// that a commit whose answer was lost has not happened.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// statementTimeout ends a statement that would hold a connection for longer; no
// call of the API may need as much.
const statementTimeout = 10 * time.Second

// txAttempts bounds how often a transaction is repeated after a serialization
// failure or a deadlock, both of which say that nothing happened.
const txAttempts = 4

// Config says where the database is.
type Config struct {
	// URL is a libpq connection string.
	URL string
	// MaxConns bounds the pool; 0 means 20.
	MaxConns int32
}

// Store is the one door to Postgres. Its methods are safe for concurrent use.
type Store struct {
	pool     *pgxpool.Pool
	jobs     *river.Client[pgx.Tx]
	exports  exports
	recorder gatherer[*recording]
	clicks   gatherer[*clickLookup]
}

// Open connects as the service's restricted role. The schema must be there
// (Migrate).
func Open(ctx context.Context, cfg Config) (*Store, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("database url: %w", err)
	}
	pc.MaxConns = cfg.MaxConns
	if pc.MaxConns == 0 {
		pc.MaxConns = 20
	}
	pc.ConnConfig.ConnectTimeout = 5 * time.Second
	pc.ConnConfig.RuntimeParams["statement_timeout"] = strconv.FormatInt(statementTimeout.Milliseconds(), 10)
	pc.ConnConfig.RuntimeParams["timezone"] = "UTC"
	// Calls are short and many: starting workers would cost more than they save.
	pc.ConnConfig.RuntimeParams["max_parallel_workers_per_gather"] = "0"
	pc.ConnConfig.RuntimeParams["application_name"] = "tributary"
	pc.AfterConnect = readyConn
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: queueSchema})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("job inserter: %w", err)
	}
	return newStore(pool, jobs), nil
}

func newStore(pool *pgxpool.Pool, jobs *river.Client[pgx.Tx]) *Store {
	s := &Store{pool: pool, jobs: jobs}
	s.recorder = gatherer[*recording]{
		most: recordedTogether, atOnce: recorders, timeout: recordTimeout, wants: wantsOf, work: s.recordTogether,
	}
	s.clicks = gatherer[*clickLookup]{most: lookedUpTogether, atOnce: lookups, timeout: lookupTimeout, work: s.findClicks}
	return s
}

// readyConn is for a new connection.
func readyConn(ctx context.Context, conn *pgx.Conn) error {
	registerIDs(conn.TypeMap())
	_, err := conn.Exec(ctx, "set role "+appRole)
	return err
}

// Close waits for connections in use and closes them all.
func (s *Store) Close() { s.pool.Close() }

// Ping asks whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// WorkerClient makes a River client that works the jobs whose workers cfg names.
// The schema is set here; queues and workers are the caller's.
func (s *Store) WorkerClient(cfg *river.Config) (*river.Client[pgx.Tx], error) {
	cfg.Schema = queueSchema
	return river.NewClient(riverpgxv5.New(s.pool), cfg)
}

// InTx runs fn in one READ COMMITTED transaction: it commits when fn returns
// nil, rolls back otherwise, and starts over, a few times, after a
// serialization failure or a deadlock. So fn must have no effect outside the
// transaction. Once COMMIT was sent and its answer is lost nothing is repeated:
// the outcome is unknown and the error says so.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return fn(ctx, tx) })
		if err == nil || attempt == txAttempts || !startsOver(err) {
			return err
		}
	}
}

// inSnapshot runs fn in a transaction that only reads, and whose statements all
// see what the first one saw.
func (s *Store) inSnapshot(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error { return fn(ctx, tx) })
}

func startsOver(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == codeSerializationFailure || pgErr.Code == codeDeadlock)
}
