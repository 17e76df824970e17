// Package pgsession makes sure that the service works with sessions of Postgres: all
// statements of one connection run in the same session of the server.
//
// The service depends on sessions. A connection switches its role and sets its settings
// once, prepares statements, listens for notifications, and holds advisory locks. A
// connection pooler in transaction or statement mode runs the statements of one connection
// in different sessions. Then a statement can run with a wrong role or without a time
// limit, and errors occur only under load. Check finds such a pooler when a program
// starts.
//
// The package also makes River use the time of Postgres (DueNow, UseTime).
package pgsession

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

const (
	// checkTimeout limits the duration of Check. A pooler in session mode lets a connection
	// wait while all its connections to Postgres are in use. Check opens two connections, one after
	// the other. Each tries the servers of a connection string in order, so checkTimeout is enough
	// for the third of three servers.
	checkTimeout = 30 * time.Second
	// deliveryTimeout is the time in which a notification is expected. Postgres needs milliseconds.
	// After this time, Check runs one more statement, which also delivers a late notification.
	deliveryTimeout = time.Second
)

// Check returns an error if a connection to the database at url does not keep its session.
// The error says what to do, and names the mode of the pooler if it is known. url is a libpq
// connection string.
//
// A connection listens on a channel with a random name and then waits, and a second
// connection sends a notification. A pooler in transaction or statement mode gives a
// session to a connection only while the connection runs a statement. So the notification
// never reaches the waiting connection, however many sessions there are and whatever other
// clients do. In its own session, the connection always receives it.
//
// Check does nothing on a standby, which does not support notifications. A program that
// writes does not work there anyway.
func Check(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	// Another check behind the same pooler can have used the session of this connection, so
	// notifications on other channels do not count.
	channel, delivered := "tributary_"+strings.ToLower(rand.Text()), false
	listener, err := connect(ctx, url, func(_ *pgconn.PgConn, n *pgconn.Notification) { delivered = delivered || n.Channel == channel })
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = listener.Close(context.WithoutCancel(ctx)) }()
	standby, err := isStandby(ctx, listener)
	if err != nil || standby {
		return err
	}
	if err := exec(ctx, listener, "listen "+channel); err != nil {
		return err
	}
	notifier, err := connect(ctx, url, nil)
	if err != nil {
		return fmt.Errorf("open a second connection: %w", err)
	}
	defer func() { _ = notifier.Close(context.WithoutCancel(ctx)) }()
	if err := exec(ctx, notifier, "notify "+channel); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("a second connection does not get a session: if the database is behind a connection pooler, its pool is too small: %w", err)
		}
		return err
	}
	waiting, stop := context.WithTimeout(ctx, deliveryTimeout)
	defer stop()
	for !delivered && waiting.Err() == nil {
		if err := listener.WaitForNotification(waiting); err != nil && waiting.Err() == nil {
			return fmt.Errorf("wait for a notification: %w", err)
		}
	}
	if !delivered {
		// Postgres sends all notifications to a session before it reports the end of a
		// statement. If this statement runs in the session that listens, the notification
		// arrives here at the latest, however slow the machine is.
		if err := exec(ctx, listener, "select 1"); err != nil {
			return err
		}
	}
	if delivered {
		return nil
	}
	return describePooler(ctx, url, notifier)
}

func connect(ctx context.Context, url string, onNotification pgconn.NotificationHandler) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.ConnectTimeout, config.OnNotification = connectTimeout, onNotification
	return pgconn.ConnectConfig(ctx, config)
}

// exec runs a statement with the simple protocol, which works behind all poolers.
func exec(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	_, err := conn.Exec(ctx, sql).ReadAll()
	return err
}

func isStandby(ctx context.Context, conn *pgconn.PgConn) (bool, error) {
	results, err := conn.Exec(ctx, "select pg_is_in_recovery()").ReadAll()
	if err != nil {
		return false, err
	}
	return string(results[0].Rows[0][0]) == "t", nil
}

func describePooler(ctx context.Context, url string, conn *pgconn.PgConn) error {
	mode := "transaction"
	// PgBouncer accepts no transactions in statement mode.
	if err := exec(ctx, conn, "begin"); err != nil && strings.Contains(err.Error(), "statement pooling") {
		mode = "statement"
	}
	if isPgBouncer(ctx, url) {
		return fmt.Errorf("the database is behind PgBouncer in %[1]s mode (pool_mode = %[1]s), which runs the statements of one connection in different sessions: "+
			"set pool_mode = session for this database in PgBouncer, or connect to Postgres directly", mode)
	}
	return errors.New("the database is behind a connection pooler in transaction or statement mode, " +
		"which runs the statements of one connection in different sessions: " +
		"set the pooler to session mode for this database, or connect to Postgres directly")
}

// isPgBouncer opens a connection with an unknown setting and reports whether it is refused with
// PgBouncer's error message.
func isPgBouncer(ctx context.Context, url string) bool {
	config, err := pgconn.ParseConfig(url)
	if err != nil {
		return false
	}
	config.RuntimeParams["tributary.unknown"] = "1"
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err == nil {
		_ = conn.Close(ctx)
		return false
	}
	return strings.Contains(err.Error(), "unsupported startup parameter")
}

// SetStatements returns the statements that change settings of a session. A new connection
// runs them instead of sending the settings when it connects, because PgBouncer accepts
// only a few settings there and can be configured to ignore the others.
func SetStatements(settings map[string]string) string {
	var sql strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&sql, "set %s = '%s';", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return sql.String()
}

// DueNow is a middleware of River clients that insert jobs. It makes Postgres set the times of
// a job that is due at once. River would set them with the clock of the process but fetches
// jobs with the clock of Postgres, so a process whose clock is ahead would delay its jobs. A
// delayed unique job would also keep other processes from inserting the same job.
type DueNow struct{ river.MiddlewareDefaults }

// InsertMany implements rivertype.JobInsertMiddleware. River's statement replaces the zero time
// by now().
func (*DueNow) InsertMany(
	ctx context.Context, jobs []*rivertype.JobInsertParams, insert func(context.Context) ([]*rivertype.JobInsertResult, error),
) ([]*rivertype.JobInsertResult, error) {
	for _, job := range jobs {
		job.CreatedAt = &time.Time{}
		if job.State == rivertype.JobStateAvailable {
			job.ScheduledAt = &time.Time{}
		}
	}
	return insert(ctx)
}

// UseTime sets the clock of a River client that runs jobs to the time of Postgres, for retries, snoozed
// jobs and periodic jobs. The function now returns this time. River has no other setting for its clock.
//
// One part of River still uses the machine's clock: the leader of the clients rescues jobs that
// have been running for longer than RescueStuckJobsAfter. If its clock is ahead, it starts jobs
// a second time that are still running. A process does not start if its clock is wrong by more
// than 30 seconds, so RescueStuckJobsAfter must be at least 30 seconds longer than the longest
// job. If the clock is set wrong later, a job can run twice at the same time. Each job allows
// that, because it can also be repeated after a crash.
func UseTime(cfg *river.Config, now func() time.Time) {
	cfg.Test, cfg.RetryPolicy = river.TestConfig{Time: jobTime{now}}, retryPolicy{now}
}

// jobTime is the clock of a River client.
type jobTime struct{ now func() time.Time }

func (t jobTime) Now() time.Time { return t.now() }

// NowOrNil implements rivertype.TimeGenerator. With nil, River's statements use now().
func (jobTime) NowOrNil() *time.Time { return nil }

// retryPolicy has the delays of River's default policy.
type retryPolicy struct{ now func() time.Time }

// NextRetry implements river.ClientRetryPolicy. It is used for workers without a NextRetry.
func (p retryPolicy) NextRetry(job *rivertype.JobRow) time.Time {
	var standard river.DefaultClientRetryPolicy
	return p.now().Add(time.Until(standard.NextRetry(job)))
}

// connectTimeout is the longest time that a program waits for one server of a connection
// string. Without it, a server that does not respond would use up all the time, and the
// other servers of the string would not be tried.
const connectTimeout = 5 * time.Second

// Connect opens a connection to the database at url.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database url: %w", err)
	}
	config.ConnectTimeout = connectTimeout
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// ParsePool returns the configuration of a pool of connections to the database at url.
func ParsePool(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("database url: %w", err)
	}
	config.ConnConfig.ConnectTimeout = connectTimeout
	return config, nil
}
