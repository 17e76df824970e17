// Package postgres gives access to Postgres. It has the connection pools, transactions
// and migrations, and it maps SQLSTATE codes to errors. It writes the rows that all
// aggregates (such as programmes, commissions or payouts) have in common: events with
// their deliveries, jobs, and the audit log.
//
// Each aggregate has a package of its own with its SQL, row mapping and locking. A function
// of these packages that takes a *Tx runs in the transaction of its caller. A function that
// takes a *DB runs on its own.
//
// Guarantees: a statement for one workspace filters by the workspace, and by the mode
// unless another condition determines the mode. Statements for partners, for look-ups by
// a key, and for periodic jobs can cover all workspaces. A refused call returns an
// *affiliate.Error. Any other failure is returned as the error of the driver, possibly
// wrapped. Events, jobs and audit records commit together with the change that causes
// them.
//
// If the connection is lost during COMMIT, it is unknown whether the transaction has
// committed.
package postgres

import (
	"context"
	"encoding"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/pgsession"
)

// statementTimeout is the maximum duration of a statement. It keeps a slow statement
// from occupying a connection. The statements of API calls are much faster.
const statementTimeout = 10 * time.Second

const (
	// queueConns is the maximum number of connections of the job queue. One of them
	// listens for notifications.
	queueConns = 6
	// senderConns is the maximum number of connections of the webhook sender, which
	// reads deliveries, stores outcomes and renews its leases at the same time.
	senderConns = 4
	// groupConns is the maximum number of connections for grouped calls. It is twice
	// the number of groups that run at the same time (reports of conversions, look-ups of
	// clicks and of API keys), so that a connection that hangs can be replaced.
	groupConns = 6
)

// Config has the connection settings.
type Config struct {
	// URL is a libpq connection string.
	URL string
	// MaxConns is the maximum number of connections that calls and jobs share; 0 means
	// 20. Grouped calls, the job queue and the webhook sender use sixteen more.
	MaxConns int32
	// ErasureKeys are the keys for digests of erased values. By its digest, an erased code stays
	// taken, and a duplicate or a refund finds its erased sale.
	ErasureKeys privacy.ErasureKeys
	// Tracer records spans of statements; nil means none.
	Tracer pgx.QueryTracer
}

// DB is a set of connection pools to one database. Its methods are safe for
// concurrent use.
type DB struct {
	// pool serves calls, jobs and ingestion.
	pool *pgxpool.Pool
	// groups serves groups of calls (Grouper), so that they never wait for a
	// connection of pool. Its statements have generic plans.
	groups *pgxpool.Pool
	// queue serves the job queue's own statements with synchronous_commit off: if a
	// crash loses the completion of a job, the job runs once more.
	queue *pgxpool.Pool
	// sender serves the webhook sender, with generic plans and synchronous_commit off:
	// if a crash loses the outcome of an attempt, the attempt is repeated.
	sender *pgxpool.Pool
	// jobs is the client that inserts jobs.
	jobs *river.Client[pgx.Tx]

	erasureKeys       privacy.ErasureKeys
	exports           exports
	onDeliveries      func([]webhook.EndpointKey)
	onDirectoryChange func(affiliate.SyncDirectory)
	onNotifications   func()
	onEvent           func(affiliate.EventName, affiliate.Mode)
}

// Open connects as the service's restricted role. The schema must exist (Migrate).
func Open(ctx context.Context, cfg Config) (*DB, error) {
	if cfg.MaxConns == 0 {
		cfg.MaxConns = 20
	}
	groupSettings := map[string]string{
		"plan_cache_mode": "force_generic_plan",
		// A generic plan that was made while a table was small must not scan the table
		// once it has grown.
		"enable_seqscan": "off",
		// If a statement waits longer than this for a row lock, the whole group fails and
		// its calls are repeated one by one. Then only the calls that need this row wait
		// for it.
		"lock_timeout": "1s",
		// If a process hangs inside a transaction, the transaction ends after this time
		// and releases its locks.
		"idle_in_transaction_session_timeout": "5s",
	}
	queueSettings := map[string]string{"synchronous_commit": "off"}
	senderSettings := maps.Clone(groupSettings)
	maps.Copy(senderSettings, queueSettings)

	db := &DB{
		erasureKeys:  cfg.ErasureKeys,
		onDeliveries: func([]webhook.EndpointKey) {}, onDirectoryChange: func(affiliate.SyncDirectory) {}, onNotifications: func() {},
		onEvent: func(affiliate.EventName, affiliate.Mode) {},
	}
	for _, open := range []struct {
		pool     **pgxpool.Pool
		conns    int32
		settings map[string]string
	}{
		{&db.pool, cfg.MaxConns, nil},
		{&db.groups, groupConns, groupSettings},
		{&db.queue, queueConns, queueSettings},
		{&db.sender, senderConns, senderSettings},
	} {
		var err error
		if *open.pool, err = connect(ctx, cfg.URL, open.conns, open.settings, cfg.Tracer); err != nil {
			db.Close()
			return nil, err
		}
	}
	var err error
	jobs := &river.Config{Schema: queueSchema, Middleware: []rivertype.Middleware{&pgsession.DueNow{}}}
	if db.jobs, err = river.NewClient(riverpgxv5.New(db.pool), jobs); err != nil {
		db.Close()
		return nil, fmt.Errorf("job inserter: %w", err)
	}
	if err := db.Ping(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return db, nil
}

// connect creates a pool whose connections have the given settings in addition to the
// settings that all pools share. It opens no connection; the pool does this when it runs
// the first statement.
func connect(ctx context.Context, url string, conns int32, settings map[string]string, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	config, err := pgsession.ParsePool(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = conns
	config.ConnConfig.Tracer = tracer
	config.ConnConfig.OnPgError = func(_ *pgconn.PgConn, err *pgconn.PgError) bool {
		// A server that has become a standby may keep its connections open. The pool must
		// connect to the new primary instead.
		return err.Severity != "FATAL" && err.Code != codeReadOnly
	}
	if validate := config.ConnConfig.ValidateConnect; validate != nil { // target_session_attrs
		config.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
			if err := validate(ctx, conn); err != nil {
				return standbyError{err}
			}
			return nil
		}
	}
	config.PingTimeout = 2 * time.Second
	config.ConnConfig.RuntimeParams["application_name"] = "tributary"
	all := map[string]string{
		"statement_timeout": strconv.FormatInt(statementTimeout.Milliseconds(), 10),
		"timezone":          "UTC",
		// Statements are short and frequent. Parallel workers and compilation would cost
		// more than they save.
		"max_parallel_workers_per_gather": "0",
		"jit":                             "off",
	}
	maps.Copy(all, settings)
	config.AfterConnect = prepareConn(all)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return pool, nil
}

// standbyError means that a server of the connection string does not accept writes. It has
// the SQLSTATE code with which a standby refuses a write.
type standbyError struct{ error }

func (e standbyError) Unwrap() error  { return e.error }
func (standbyError) SQLState() string { return codeReadOnly }

// prepareConn returns a function that prepares a new connection. It registers the types of ids
// and times, applies the settings to the session, and switches from the login role to the
// service's restricted role.
func prepareConn(settings map[string]string) func(context.Context, *pgx.Conn) error {
	sql := pgsession.SetStatements(settings) + "set role " + appRole
	return func(ctx context.Context, conn *pgx.Conn) error {
		registerTypes(conn.TypeMap())
		_, err := conn.Exec(ctx, sql)
		return err
	}
}

// Close waits until no connection is in use and closes all connections.
func (db *DB) Close() {
	for _, pool := range []*pgxpool.Pool{db.pool, db.groups, db.queue, db.sender} {
		if pool != nil {
			pool.Close()
		}
	}
}

// Ping reports whether the database responds.
func (db *DB) Ping(ctx context.Context) error { return db.pool.Ping(ctx) }

// Exec runs a statement outside a transaction. The methods of DB and Tx that take a statement name
// it in their errors, so that callers need not.
func (db *DB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return execute(ctx, db.pool, sql, args)
}

// Query runs a statement outside a transaction.
func (db *DB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return query(ctx, db.pool, sql, args)
}

// QueryRow runs a statement that returns at most one row outside a transaction.
func (db *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return namedRow{db.pool.QueryRow(ctx, sql, args...), sql}
}

// SendBatch runs statements in one round trip, which is a transaction of its own.
func (db *DB) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	return namedBatch{db.pool.SendBatch(ctx, batch), batch}
}

// SendingPool returns the pool of the webhook sender, for statements outside a
// transaction.
func (db *DB) SendingPool() *pgxpool.Pool { return db.sender }

// ErasureKeys returns Config.ErasureKeys.
func (db *DB) ErasureKeys() privacy.ErasureKeys { return db.erasureKeys }

// OnDeliveries registers a callback that runs after each commit of a transaction that has
// created deliveries or made them due. Its argument contains the endpoints of these
// deliveries. The callback must not block. It does not run for commits of other
// processes, so the webhook sender also searches for new deliveries periodically. The
// callback must be set before the first transaction.
func (db *DB) OnDeliveries(callback func([]webhook.EndpointKey)) { db.onDeliveries = callback }

// OnDirectoryChange registers a callback that runs after each commit that enqueued a
// SyncDirectory job, before InTx returns. The callback must return within a limited
// time. If it does not run or fails, the job does the same work later. The callback
// must be set before the first transaction.
func (db *DB) OnDirectoryChange(callback func(affiliate.SyncDirectory)) {
	db.onDirectoryChange = callback
}

// OnNotifications registers a callback that runs after each commit of a transaction that
// has created notifications. The callback must not block. It does not run for commits of
// other processes. The callback must be set before the first transaction.
func (db *DB) OnNotifications(callback func()) { db.onNotifications = callback }

// OnEvent registers a callback that runs for each event after the commit of its
// transaction. The callback must not block. It does not run for commits of other
// processes. The callback must be set before the first transaction.
func (db *DB) OnEvent(callback func(affiliate.EventName, affiliate.Mode)) { db.onEvent = callback }

// Time returns the time of the server.
func (db *DB) Time(ctx context.Context) (at time.Time, err error) {
	err = db.queue.QueryRow(ctx, `select clock_timestamp()`).Scan(&at)
	return at, err
}

// Pools returns the connection pools by name.
func (db *DB) Pools() map[string]*pgxpool.Pool {
	return map[string]*pgxpool.Pool{"calls": db.pool, "groups": db.groups, "queue": db.queue, "webhooks": db.sender}
}

// WorkerClient creates a River client that runs the jobs for which cfg has workers. It
// sets the schema in cfg, and the names of the indexes that River rebuilds from time to
// time. The caller sets the queues and workers in cfg.
func (db *DB) WorkerClient(cfg *river.Config) (*river.Client[pgx.Tx], error) {
	cfg.Schema = queueSchema
	cfg.Middleware = append(cfg.Middleware, &pgsession.DueNow{})
	cfg.ReindexerIndexNames = slices.DeleteFunc(river.ReindexerIndexNamesDefault(), func(name string) bool {
		return slices.Contains(unusedQueueIndexes, name)
	})
	return river.NewClient(riverpgxv5.New(db.queue), cfg)
}

// idCodec is pgx's uuid codec with a faster path for the service's id types. Without
// it, pgx would inspect the type of each value and convert it through text.
type idCodec struct{ pgtype.UUIDCodec }

// PlanEncode returns the plan for sending a value.
func (c idCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(encoding.BinaryMarshaler); ok && format == pgtype.BinaryFormatCode {
		return idPlan{}
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

type idPlan struct{}

// Encode appends the sixteen bytes of the id.
func (idPlan) Encode(value any, buf []byte) ([]byte, error) {
	id, err := value.(encoding.BinaryMarshaler).MarshalBinary()
	return append(buf, id...), err
}

// PlanScan returns the plan for receiving a value.
func (c idCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(encoding.BinaryUnmarshaler); ok && format == pgtype.BinaryFormatCode {
		return idPlan{}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

// Scan reads the sixteen bytes of the id. Null becomes the zero id.
func (idPlan) Scan(src []byte, target any) error {
	if src == nil {
		src = make([]byte, 16)
	}
	return target.(encoding.BinaryUnmarshaler).UnmarshalBinary(src)
}

// registerTypes registers idCodec on a new connection, and a codec that returns times in UTC.
func registerTypes(m *pgtype.Map) {
	id := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: idCodec{}}
	m.RegisterType(id)
	m.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: &pgtype.ArrayCodec{ElementType: id}})
	at := &pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}}
	m.RegisterType(at)
	m.RegisterType(&pgtype.Type{Name: "_timestamptz", OID: pgtype.TimestamptzArrayOID, Codec: &pgtype.ArrayCodec{ElementType: at}})
}

// selectJobQueues reads the state of queues from River's index on state, queue, priority
// and time. It searches the index once for each of River's four priorities, because
// within a priority the first entry is the oldest job. It counts at most 1,000 retries per queue.
const selectJobQueues = `
	select q.queue,
		(select min(first.scheduled_at)
		from generate_series(1, 4) p (priority)
		cross join lateral (
			select j.scheduled_at from ` + queueSchema + `.river_job j
			where j.state = 'available' and j.queue = q.queue and j.priority = p.priority
			order by j.scheduled_at limit 1
		) first) as oldest_waiting,
		(select count(*) from (
			select from ` + queueSchema + `.river_job j where j.state = 'retryable' and j.queue = q.queue limit 1000
		) counted) as retrying
	from unnest($1::text[]) q (queue)`

// JobQueueStats returns the state of each of the given queues.
func (db *DB) JobQueueStats(ctx context.Context, queues []string) ([]affiliate.JobQueueStats, error) {
	return List[affiliate.JobQueueStats](ctx, db, selectJobQueues, queues)
}
