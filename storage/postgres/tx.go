package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// maxTxAttempts is the maximum number of attempts of a transaction. A transaction is
// repeated after an error for which isRetryable returns true. In these cases it has had
// no effect.
const maxTxAttempts = 4

// Tx is one transaction. In addition to running statements, it can write events, jobs and
// audit records, which commit together with the change that causes them. It can also
// register callbacks that run after the commit. A Tx must not be used after the function
// fn of InTx has returned, nor by two goroutines at the same time.
type Tx struct {
	pgx.Tx
	db          *DB
	afterCommit []func()
	// newDeliveries are the endpoints for which this transaction creates deliveries.
	newDeliveries []webhook.EndpointKey
	notifies      bool // whether this transaction creates notifications
}

// InTx runs fn in a READ COMMITTED transaction. It commits if fn returns nil and rolls
// back otherwise. After an error for which isRetryable returns true it runs fn again in a
// new transaction, at most maxTxAttempts times in total. fn must therefore have no effect
// outside the transaction. If the connection is lost during COMMIT, nothing is
// repeated: the outcome is unknown, and the callbacks of AfterCommit do not run.
func (db *DB) InTx(ctx context.Context, fn func(tx *Tx) error) error {
	return db.InTxOn(ctx, db.pool, fn)
}

// InTx runs fn in a transaction as DB.InTx does, and returns the result of fn.
func InTx[T any](ctx context.Context, db *DB, fn func(tx *Tx) (T, error)) (result T, err error) {
	err = db.InTx(ctx, func(tx *Tx) (err error) {
		result, err = fn(tx)
		return err
	})
	return result, err
}

// InSendingTx does the same as InTx on a connection of the webhook sender, whose
// commits do not wait for the disk.
func (db *DB) InSendingTx(ctx context.Context, fn func(tx *Tx) error) error {
	return db.InTxOn(ctx, db.sender, fn)
}

// InTxOn does the same as InTx on a connection of the given pool.
func (db *DB) InTxOn(ctx context.Context, pool *pgxpool.Pool, fn func(tx *Tx) error) error {
	for attempt := 1; ; attempt++ {
		tx := &Tx{db: db}
		err := pgx.BeginFunc(ctx, pool, func(begun pgx.Tx) error {
			tx.Tx = begun
			return fn(tx)
		})
		if err == nil {
			for _, callback := range tx.afterCommit {
				callback()
			}
			return nil
		}
		if attempt == maxTxAttempts || !isRetryable(err) {
			return err
		}
	}
}

// isRetryable reports whether err means that Postgres has rolled the transaction back and
// that a new attempt can succeed. Besides serialization failures and deadlocks, there are
// two cases:
//
//   - A row violates the constraint of a partition: the row was inserted into a default
//     partition while another transaction created the partition of its day or week. The
//     error then has no constraint name. The error of a CHECK constraint has one.
//   - A row refers to a row that does not exist: a deletion of test data has deleted it after
//     this transaction had read it. The new attempt does not find the row, so it usually
//     returns NOT_FOUND. The error privacy.ErrParticipantDeleted has the same meaning.
func isRetryable(err error) bool {
	if errors.Is(err, privacy.ErrParticipantDeleted) {
		return true
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	switch pgErr.Code {
	case CodeSerializationFailure, codeDeadlock, codeForeignKeyViolation:
		return true
	case codeCheckViolation:
		return pgErr.ConstraintName == ""
	}
	return false
}

// InSnapshot runs fn in a read-only REPEATABLE READ transaction. All its statements
// read the same snapshot.
func (db *DB) InSnapshot(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, db.pool, options, func(tx pgx.Tx) error { return fn(ctx, tx) })
}

// AfterCommit registers a callback that runs after the commit and before InTx returns.
// Callbacks run in the order of registration. They do not run after a rollback. If the
// process crashes after the commit, the callback never runs. A job or a periodic search
// must then do the work of the callback.
func (tx *Tx) AfterCommit(callback func()) { tx.afterCommit = append(tx.afterCommit, callback) }

// Exec executes a statement.
func (tx *Tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return execute(ctx, tx.Tx, sql, args)
}

// Query executes a statement that returns rows.
func (tx *Tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return query(ctx, tx.Tx, sql, args)
}

// QueryRow executes a statement that returns at most one row.
func (tx *Tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return namedRow{tx.Tx.QueryRow(ctx, sql, args...), sql}
}

// SendBatch executes statements in one round trip.
func (tx *Tx) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	return namedBatch{tx.Tx.SendBatch(ctx, batch), batch}
}

// ErasureKeys returns Config.ErasureKeys.
func (tx *Tx) ErasureKeys() privacy.ErasureKeys { return tx.db.erasureKeys }

// DeliveriesAdded stores in tx the endpoints for which this transaction creates deliveries.
// After the commit, the callback of OnDeliveries receives these endpoints.
func (tx *Tx) DeliveriesAdded(endpoints ...webhook.EndpointKey) {
	if len(endpoints) == 0 {
		return
	}
	if len(tx.newDeliveries) == 0 {
		tx.AfterCommit(func() { tx.db.onDeliveries(tx.newDeliveries) })
	}
	tx.newDeliveries = append(tx.newDeliveries, endpoints...)
}

// unfinishedStates are the states of jobs that have not ended.
var unfinishedStates = []rivertype.JobState{
	rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning, rivertype.JobStateRetryable, rivertype.JobStateScheduled,
}

// Enqueue inserts jobs in one round trip. The jobs run after the commit. For a
// SyncDirectory job, Enqueue also makes the callback of OnDirectoryChange run after the commit.
// An EraseData job is not inserted if the erasure has a job that has not ended.
func (tx *Tx) Enqueue(ctx context.Context, jobs ...affiliate.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	inserted := make([]river.InsertManyParams, len(jobs))
	for i, job := range jobs {
		options := &river.InsertOpts{Queue: river.QueueDefault}
		switch job := job.(type) {
		case affiliate.SyncDirectory:
			options.Queue = affiliate.DirectoryQueue
			tx.AfterCommit(func() { tx.db.onDirectoryChange(job) })
		case processor.ApplyProcessorEvent, promocode.SyncPromoCode, processor.ResyncProcessor:
			options.Queue, options.MaxAttempts = processor.Queue, processor.Attempts
		case processor.CheckProcessorEndpoint:
			options.Queue, options.MaxAttempts = processor.Queue, 1 // the next check follows after an hour
		case processor.TidyProcessorEndpoints, processor.RemoveProcessorEndpoint, processor.SyncPromoCodes:
			options.Queue = processor.Queue
		case privacy.BuildExport:
			options.Queue, options.MaxAttempts = privacy.ExportQueue, privacy.ExportAttempts
		case notification.SendMail:
			options.Queue, options.MaxAttempts = notification.MailQueue, notification.MailAttempts
		case privacy.EraseData:
			options.UniqueOpts = river.UniqueOpts{ByArgs: true, ByState: unfinishedStates}
		case privacy.DeleteTestData:
			options.MaxAttempts, options.ScheduledAt = privacy.DeleteTestDataAttempts, job.NotBefore
		}
		inserted[i] = river.InsertManyParams{Args: job, InsertOpts: options}
	}
	if _, err := tx.db.jobs.InsertManyTx(ctx, tx.Tx, inserted); err != nil {
		return fmt.Errorf("enqueue %d jobs of kind %s: %w", len(jobs), jobs[0].Kind(), err)
	}
	return nil
}

// Audit appends a record to the audit log.
func (tx *Tx) Audit(ctx context.Context, line affiliate.AuditLine) error {
	before, after, err := auditJSON(line.Before, line.After)
	if err != nil {
		return err
	}
	const insert = `
		insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id,
			before, after, ip_prefix, request_id, participant_token)
		values (@workspace, @id, @mode, @at, @actor, @action, @resource_type, @resource_id::uuid,
			@before, @after, nullif(@ip_prefix, ''), nullif(@request_id, ''), @participant_token)`
	return Exec(ctx, tx, insert, pgx.NamedArgs{
		"workspace": line.Workspace, "id": affiliate.NewID[affiliate.AuditID](line.At), "mode": line.Mode, "at": line.At,
		"actor": line.Actor.String(), "action": line.Action,
		"resource_type": line.ResourceType, "resource_id": line.ResourceID.String(), "before": before, "after": after,
		"ip_prefix": line.Actor.AddressPrefix, "request_id": line.Actor.RequestID, "participant_token": line.Actor.ParticipantToken,
	})
}

// AuditAccount appends a record to the audit log of an account.
func (tx *Tx) AuditAccount(ctx context.Context, line affiliate.AccountAuditLine) error {
	before, after, err := auditJSON(line.Before, line.After)
	if err != nil {
		return err
	}
	const insert = `
		insert into account_audit_log (user_id, id, at, action, before, after, ip_prefix, request_id)
		values (@user, @id, @at, @action, @before, @after, nullif(@ip_prefix, ''), nullif(@request_id, ''))`
	return Exec(ctx, tx, insert, pgx.NamedArgs{
		"user": line.User, "id": affiliate.NewID[affiliate.ID[affiliate.AccountAuditLine]](line.At), "at": line.At, "action": line.Action,
		"before": before, "after": after, "ip_prefix": line.Actor.AddressPrefix, "request_id": line.Actor.RequestID,
	})
}

// auditJSON encodes the state before and after a change. Nil stays nil.
func auditJSON(before, after any) (encodedBefore, encodedAfter []byte, err error) {
	if before != nil {
		if encodedBefore, err = json.Marshal(before); err != nil {
			return nil, nil, err
		}
	}
	if after != nil {
		encodedAfter, err = json.Marshal(after)
	}
	return encodedBefore, encodedAfter, err
}

// LockWorkspace locks the workspace's row until the transaction ends, so that changes
// of its team, keys and endpoints run one after another. Errors: NOT_FOUND.
func LockWorkspace(ctx context.Context, tx *Tx, id affiliate.WorkspaceID) error {
	// FOR UPDATE would conflict with the key share lock that each insert of a row of
	// the workspace takes on the workspace's row.
	const lock = `select from workspaces where id = $1 and erased_at is null for no key update`
	tag, err := tx.Exec(ctx, lock, id)
	if err == nil && tag.RowsAffected() == 0 {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return err
}

// HoldBooks returns the time up to which the books of a workspace are closed, or nil if no period is closed. Until
// the transaction ends, no other transaction can close them up to a later time (LockBooks). The database calls
// hold_books for each entry that is added to the ledger, too.
func HoldBooks(ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID) (*time.Time, error) {
	return Value[*time.Time](ctx, tx, `select hold_books($1)`, workspace)
}

// booksTimeout is how long LockBooks waits. While it waits, new transactions that add to the
// ledger wait too.
const booksTimeout = 3 * time.Second

// LockBooks waits until the transactions that have called HoldBooks for a workspace have ended. Later calls of
// HoldBooks wait until this transaction ends. If LockBooks does not get the lock within booksTimeout, the
// transaction fails and the response is SERVICE_UNAVAILABLE.
func LockBooks(ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID) error {
	if _, err := tx.Exec(ctx, fmt.Sprintf("set local lock_timeout = %d", booksTimeout.Milliseconds())); err != nil {
		return err
	}
	return Exec(ctx, tx, `select pg_advisory_xact_lock(hashtextextended('books:' || $1::uuid, 0))`, workspace)
}

// SQLSTATE codes that the service handles (PostgreSQL documentation, appendix A).
const (
	codeForeignKeyViolation  = "23503"
	CodeUniqueViolation      = "23505"
	codeCheckViolation       = "23514"
	codeReadOnly             = "25006"
	CodeSerializationFailure = "40001"
	codeDeadlock             = "40P01"
	codeLockTimeout          = "55P03"
)

// uniqueRefusals maps unique indexes that the values of a request can violate to the reason of
// the refusal. Package program handles the index groups_name. A violation of any other unique
// index is an internal error.
var uniqueRefusals = map[string]affiliate.Reason{
	"programs_slug":            affiliate.ReasonSlugTaken,
	"workspaces_slug":          affiliate.ReasonSlugTaken,
	"promo_codes_code":         affiliate.ReasonPromoCodeTaken,
	"participants_external_id": affiliate.ReasonExternalIDTaken,
}

// Refusal returns the *affiliate.Error for a unique violation that a caller's values
// cause. It returns every other error unchanged.
func Refusal(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == CodeUniqueViolation {
		if reason, ok := uniqueRefusals[pgErr.ConstraintName]; ok {
			return affiliate.Refuse(reason)
		}
	}
	return err
}

// RefuseIfNone returns a refusal if a successful statement has changed no row.
func RefuseIfNone(tag pgconn.CommandTag, err error, reason affiliate.Reason) error {
	if err == nil && tag.RowsAffected() == 0 {
		return affiliate.Refuse(reason)
	}
	return err
}
