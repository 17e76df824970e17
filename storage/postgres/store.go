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
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/tributary-hq/tributary/affiliate"
)

// statementTimeout ends a statement that would hold a connection for longer; no
// call of the API may need as much.
const statementTimeout = 10 * time.Second

// queueConns bounds the connections of the job queue, one of which listens;
// sendingConns those of the sender, which reads, stores outcomes and keeps what it
// serves at the same time.
const (
	queueConns   = 6
	sendingConns = 4
)

const (
	// lookedUpTogether bounds the clicks, or keys, of one round trip.
	lookedUpTogether = 64
	lookupTimeout    = 5 * time.Second
	// gatheredConns are as many again as groups are at work, for those that replace
	// one which hangs.
	gatheredConns = 2 * (recorders + 2)
)

// txAttempts bounds how often a transaction is repeated after a serialization
// failure or a deadlock, both of which say that nothing happened.
const txAttempts = 4

// Config says where the database is.
type Config struct {
	// URL is a libpq connection string.
	URL string
	// MaxConns bounds the connections that calls and jobs share; 0 means 20. What is
	// gathered, the job queue and the sender have sixteen more.
	MaxConns int32
}

// Store is the one door to Postgres. Its methods are safe for concurrent use.
type Store struct {
	pool    *pgxpool.Pool
	jobs    *river.Client[pgx.Tx]
	exports exports

	// gathered has connections for groups of gathered calls alone, so that nothing
	// else keeps reports waiting. Its statements are always the same, and their plans
	// do not depend on values.
	gathered *pgxpool.Pool
	// queue is for the job queue's own bookkeeping, which does not wait for the disk:
	// what a crash takes of it, jobs that were done, is done once more.
	queue *pgxpool.Pool
	// sending is for the sender of webhooks. It does not wait for the disk either: an
	// outcome that a crash takes is an attempt that is made once more. Its plans do not
	// depend on values.
	sending  *pgxpool.Pool
	recorder gatherer[*recording]
	clicks   gatherer[*clickLookup]
	keys     gatherer[*keyLookup]

	// deliveriesMade is told behind each COMMIT which endpoints got deliveries.
	deliveriesMade func([]affiliate.EndpointKey)
}

// Open connects as the service's restricted role. The schema must be there
// (Migrate).
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.MaxConns == 0 {
		cfg.MaxConns = 20
	}
	bounded := map[string]string{
		"plan_cache_mode": "force_generic_plan",
		// A plan that was made while a table was small is not to walk it when it has
		// grown.
		"enable_seqscan": "off",
		// A lock that somebody holds for longer is to keep only those waiting who want
		// it: their group is repeated one by one. A process that was stopped or cut off
		// in a transaction is not to be such a somebody.
		"lock_timeout":                        "1s",
		"idle_in_transaction_session_timeout": "5s",
	}
	unhurried := map[string]string{"synchronous_commit": "off"}
	sending := maps.Clone(bounded)
	maps.Copy(sending, unhurried)
	var pools []*pgxpool.Pool
	closeAll := func() {
		for _, pool := range pools {
			pool.Close()
		}
	}
	for _, of := range []struct {
		conns    int32
		settings map[string]string
	}{{cfg.MaxConns, nil}, {gatheredConns, bounded}, {queueConns, unhurried}, {sendingConns, sending}} {
		pool, err := connect(ctx, cfg.URL, of.conns, of.settings)
		if err != nil {
			closeAll()
			return nil, err
		}
		pools = append(pools, pool)
	}
	jobs, err := river.NewClient(riverpgxv5.New(pools[0]), &river.Config{Schema: queueSchema})
	if err != nil {
		closeAll()
		return nil, fmt.Errorf("job inserter: %w", err)
	}
	s := newStore(pools[0], pools[1], jobs)
	s.queue, s.sending = pools[2], pools[3]
	if err := s.Ping(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return s, nil
}

// connect makes a pool whose connections have these settings beside the usual
// ones. It connects when it is used first.
func connect(ctx context.Context, url string, conns int32, settings map[string]string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database url: %w", err)
	}
	config.MaxConns = conns
	config.ConnConfig.ConnectTimeout = 5 * time.Second
	config.PingTimeout = 2 * time.Second
	maps.Copy(config.ConnConfig.RuntimeParams, map[string]string{
		"statement_timeout": strconv.FormatInt(statementTimeout.Milliseconds(), 10),
		"timezone":          "UTC",
		"application_name":  "tributary",
		// Calls are short and many: starting workers, or compiling, would cost more
		// than it saves.
		"max_parallel_workers_per_gather": "0",
		"jit":                             "off",
	})
	maps.Copy(config.ConnConfig.RuntimeParams, settings)
	config.AfterConnect = readyConn
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return pool, nil
}

func newStore(pool, gathered *pgxpool.Pool, jobs *river.Client[pgx.Tx]) *Store {
	s := &Store{pool: pool, jobs: jobs, gathered: gathered, deliveriesMade: func([]affiliate.EndpointKey) {}}
	s.recorder = gatherer[*recording]{
		most: recordedTogether, atOnce: recorders, timeout: recordTimeout, together: gathered, alone: pool,
		wants: wantsOf, work: s.recordTogether,
	}
	s.clicks = gatherer[*clickLookup]{
		most: lookedUpTogether, atOnce: 1, timeout: lookupTimeout, together: gathered, alone: pool, work: s.findClicks,
	}
	s.keys = gatherer[*keyLookup]{
		most: lookedUpTogether, atOnce: 1, timeout: lookupTimeout, together: gathered, alone: pool, work: s.findKeys,
	}
	return s
}

// readyConn is for a new connection.
func readyConn(ctx context.Context, conn *pgx.Conn) error {
	registerIDs(conn.TypeMap())
	_, err := conn.Exec(ctx, "set role "+appRole)
	return err
}

// Close waits for connections in use and closes them all.
func (s *Store) Close() {
	s.pool.Close()
	s.gathered.Close()
	s.queue.Close()
	s.sending.Close()
}

// Ping asks whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// WorkerClient makes a River client that works the jobs whose workers cfg names.
// The schema is set here, with the indexes that are there to be rebuilt now and
// then; queues and workers are the caller's.
func (s *Store) WorkerClient(cfg *river.Config) (*river.Client[pgx.Tx], error) {
	cfg.Schema = queueSchema
	cfg.ReindexerIndexNames = slices.DeleteFunc(river.ReindexerIndexNamesDefault(), func(name string) bool {
		return slices.Contains(unusedQueueIndexes, name)
	})
	return river.NewClient(riverpgxv5.New(s.queue), cfg)
}

// InTx runs fn in one READ COMMITTED transaction: it commits when fn returns
// nil, rolls back otherwise, and starts over, a few times, after a
// serialization failure or a deadlock. So fn must have no effect outside the
// transaction. Once COMMIT was sent and its answer is lost nothing is repeated:
// the outcome is unknown and the error says so.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.inTx(ctx, s.pool, fn)
}

// inTx is InTx on a connection of a pool. Behind COMMIT the sender is told which
// endpoints have something new.
func (s *Store) inTx(ctx context.Context, pool *pgxpool.Pool, fn func(ctx context.Context, tx pgx.Tx) error) error {
	for attempt := 1; ; attempt++ {
		told := &told{}
		inside := context.WithValue(ctx, toldKey{}, told)
		err := pgx.BeginFunc(inside, pool, func(tx pgx.Tx) error { return fn(inside, tx) })
		if err == nil && len(told.endpoints) > 0 {
			s.deliveriesMade(told.endpoints)
		}
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
