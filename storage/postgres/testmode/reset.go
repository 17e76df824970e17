// Package testmode has the SQL that deletes the test data of a workspace, and that stores
// the progress of the deletion.
//
// Each statement deletes or reads a limited number of rows, which it finds with an index.
// The caller decides which rows are deleted next. A function with a *postgres.Tx runs in the
// caller's transaction. The other functions do not.
package testmode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Attempt runs fn in a transaction, as postgres.DB.InTx does. It returns
// privacy.ErrTestDataBusy if all attempts failed because other transactions have changed
// the same rows, or have inserted rows that refer to a row that fn deletes.
func Attempt(ctx context.Context, db *postgres.DB, fn func(tx *postgres.Tx) error) error {
	err := db.InTx(ctx, fn)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && slices.Contains(conflictCodes, pgErr.Code) {
		return fmt.Errorf("%w: %w", privacy.ErrTestDataBusy, err)
	}
	return err
}

// conflictCodes are the SQLSTATE codes of serialization_failure, deadlock_detected and
// foreign_key_violation.
var conflictCodes = []string{"40001", "40P01", "23503"}

// indexPlans makes Postgres find rows with indexes and nested loops, and stop at the limit.
// The statistics do not say how many rows a workspace has in test mode. With an average
// number, Postgres could read whole tables, or all rows of a workspace for each part.
const indexPlans = `
	select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`

// InSnapshot does the same as Attempt, but all statements of the transaction see the same snapshot of the database.
// Therefore fn can see, and delete, either all or none of the rows that another transaction has inserted. If
// another transaction changes a row that fn deletes, fn runs again.
func InSnapshot(ctx context.Context, db *postgres.DB, fn func(tx *postgres.Tx) error) error {
	return Attempt(ctx, db, func(tx *postgres.Tx) error {
		if _, err := tx.Exec(ctx, `set transaction isolation level repeatable read`); err != nil {
			return err
		}
		return fn(tx)
	})
}

// insertReset inserts a running deletion, unless another deletion of the workspace is
// running.
const insertReset = `
	insert into test_data_resets (workspace_id, id, started_at, user_id, ip_prefix, request_id)
	values (@workspace, @id, @at, @user, @ip_prefix, @request_id)
	on conflict (workspace_id) where finished_at is null do nothing`

// StartReset stores that a deletion is running. started is false if another deletion of the
// workspace is running. The actor of the deletion must be a user or a service token.
func StartReset(ctx context.Context, tx *postgres.Tx, r privacy.TestDataReset) (started bool, err error) {
	tag, err := tx.Exec(ctx, insertReset, pgx.NamedArgs{
		"workspace": r.Workspace, "id": r.ID, "at": r.StartedAt, "user": r.Actor.ID(),
		"ip_prefix": r.Actor.AddressPrefix, "request_id": r.Actor.RequestID,
	})
	return tag.RowsAffected() == 1, err
}

const lockReset = `
	select user_id, ip_prefix, request_id, started_at, clicks_after, events_after, deleted
	from test_data_resets
	where workspace_id = $1 and id = $2 and finished_at is null
	for no key update`

type resetRow struct {
	UserID      affiliate.UserID
	IPPrefix    string `db:"ip_prefix"`
	RequestID   string
	StartedAt   time.Time
	ClicksAfter affiliate.ClickID
	EventsAfter affiliate.EventID
	Deleted     privacy.TestDataCounts
}

// LockReset locks a running deletion, so that its transactions run one after another. found
// is false if the deletion is finished. The statements that follow in the transaction read
// indexes and not whole tables.
func LockReset(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, id privacy.TestDataResetID) (r privacy.RunningReset, found bool, err error) {
	if _, err := tx.Exec(ctx, indexPlans); err != nil {
		return r, false, err
	}
	row, found, err := postgres.Optional[resetRow](ctx, tx, lockReset, workspace, id)
	if err != nil || !found {
		return r, false, err
	}
	return privacy.RunningReset{
		TestDataReset: privacy.TestDataReset{
			Workspace: workspace, ID: id, StartedAt: row.StartedAt,
			Actor: affiliate.Actor{User: &row.UserID, AddressPrefix: row.IPPrefix, RequestID: row.RequestID},
		},
		ClicksAfter: row.ClicksAfter, EventsAfter: row.EventsAfter, Deleted: row.Deleted,
	}, true, nil
}

const saveProgress = `
	update test_data_resets set clicks_after = @clicks_after, events_after = @events_after, deleted = @deleted
	where workspace_id = @workspace and id = @id`

// SaveProgress stores the progress of a locked deletion.
func SaveProgress(ctx context.Context, tx *postgres.Tx, r privacy.RunningReset) error {
	return postgres.Exec(ctx, tx, saveProgress, pgx.NamedArgs{
		"workspace": r.Workspace, "id": r.ID, "clicks_after": r.ClicksAfter, "events_after": r.EventsAfter, "deleted": r.Deleted,
	})
}

const finishReset = `
	update test_data_resets set finished_at = $3
	where workspace_id = $1 and id = $2 and finished_at is null`

// FinishReset stores that a locked deletion is finished.
func FinishReset(ctx context.Context, tx *postgres.Tx, r privacy.RunningReset, at time.Time) error {
	return postgres.Exec(ctx, tx, finishReset, r.Workspace, r.ID, at)
}

const archivePrograms = `
	update programs set status = 'archived', version = version + 1, updated_at = @at
	where ctid = any (array(
		select ctid from programs where workspace_id = @workspace and mode = 'test' and status <> 'archived' limit @limit
	))`

// ArchivePrograms archives at most limit programmes of test mode. It returns their number.
func ArchivePrograms(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, limit int, at time.Time) (int64, error) {
	tag, err := tx.Exec(ctx, archivePrograms, pgx.NamedArgs{"workspace": workspace, "limit": limit, "at": at})
	return tag.RowsAffected(), err
}

const hasOpenPrograms = `
	select exists (select from programs where workspace_id = $1 and mode = 'test' and status <> 'archived')`

// HasOpenPrograms reports whether test mode has a programme that is not archived.
func HasOpenPrograms(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID) (bool, error) {
	return postgres.Value[bool](ctx, tx, hasOpenPrograms, workspace)
}

// referralCodes reads a range of the primary key. The CTE keeps Postgres from joining all
// codes before it applies the limit.
const referralCodes = `
	with page as materialized (
		select workspace_id, code, link_id from referral_codes
		where workspace_id = $1 and mode = 'test' and code > $2
		order by code
		limit $3
	)
	select p.code, l.short_key
	from page p
	join links l on l.workspace_id = p.workspace_id and l.id = p.link_id
	order by p.code`

// ReferralCodes returns at most limit referral codes of test mode with their links, ordered
// by code. The result starts after the given code.
func ReferralCodes(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, after string, limit int) ([]privacy.TestCode, error) {
	return postgres.List[privacy.TestCode](ctx, db, referralCodes, workspace, after, limit)
}

// PublicKeys returns the public keys of test mode, also those that were revoked.
func PublicKeys(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID) ([]string, error) {
	const query = `select public_text from api_keys where workspace_id = $1 and mode = 'test' and kind = 'public'`
	return postgres.Values[string](ctx, db, query, workspace)
}

// countRecords counts the records that the API reports, except clicks. Each part stops at
// the limit.
const countRecords = `
	select
		(select count(*) from (select from programs where workspace_id = @workspace and mode = 'test' limit @limit) x)
		+ (select count(*) from (
			select from programs p
			cross join lateral (select t.workspace_id, t.id from participants t where t.workspace_id = p.workspace_id and t.program_id = p.id offset 0) t
			where p.workspace_id = @workspace and p.mode = 'test' limit @limit) x)
		+ (select count(*) from (
			select from programs p
			cross join lateral (select t.workspace_id, t.id from participants t where t.workspace_id = p.workspace_id and t.program_id = p.id offset 0) t
			cross join lateral (select from links l where l.workspace_id = t.workspace_id and l.participant_id = t.id offset 0) l
			where p.workspace_id = @workspace and p.mode = 'test' limit @limit) x)
		+ (select count(*) from (select from conversions where workspace_id = @workspace and mode = 'test' limit @limit) x)
		+ (select count(*) from (select from commissions where workspace_id = @workspace and mode = 'test' limit @limit) x)
		+ (select count(*) from (
			select from webhook_endpoints e
			cross join lateral (select from webhook_deliveries d where d.workspace_id = e.workspace_id and d.endpoint_id = e.id offset 0) d
			where e.workspace_id = @workspace and e.mode = 'test' limit @limit) x)
		+ (select count(*) from (
			select from mails where workspace_id = @workspace and logged and status <> 'pending' limit @limit) x)
		+ (select count(*) from (select from promo_codes where workspace_id = @workspace and mode = 'test' limit @limit) x)
		+ (select count(*) from (select from payouts where workspace_id = @workspace and mode = 'test' limit @limit) x)`

// countClicks reads the clicks of a workspace in both modes, because no index contains the
// mode. It reads at most @inspected clicks.
const countClicks = `
	select count(*) as inspected, count(*) filter (where mode = 'test') as test
	from (select mode from clicks where workspace_id = @workspace order by id limit @inspected) x`

// CountRecords returns the number of records that the API reports, if this number is at most
// limit. Otherwise it returns a larger number than limit. It also returns a larger number
// than limit if the workspace has maxClicks or more clicks in both modes together.
func CountRecords(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, limit, maxClicks int) (int64, error) {
	if _, err := tx.Exec(ctx, indexPlans); err != nil {
		return 0, err
	}
	var records, inspected, clicks int64
	err := tx.QueryRow(ctx, countRecords, pgx.NamedArgs{"workspace": workspace, "limit": limit + 1}).Scan(&records)
	if err != nil {
		return 0, err
	}
	if records > int64(limit) {
		return records, nil
	}
	args := pgx.NamedArgs{"workspace": workspace, "inspected": maxClicks}
	if err := tx.QueryRow(ctx, countClicks, args).Scan(&inspected, &clicks); err != nil {
		return 0, err
	}
	if inspected >= int64(maxClicks) {
		return int64(limit) + 1, nil
	}
	return records + clicks, nil
}

// activePromotionCodes selects promo codes that exist at the processor. If the connection to
// the processor was deleted, it selects none, because the service cannot deactivate them.
const activePromotionCodes = `
	select distinct promo_code_id from processor_promo_codes c
	where c.workspace_id = $1 and c.mode = 'test' and c.active
		and exists (select from processor_connections x where x.workspace_id = $1 and x.mode = 'test' and x.deleted_at is null)
	limit $2`

// PromoCodesAtProcessor returns at most limit promo codes of test mode that are active at
// the connected processor.
func PromoCodesAtProcessor(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, limit int) ([]affiliate.PromoCodeID, error) {
	return postgres.Values[affiliate.PromoCodeID](ctx, tx, activePromotionCodes, workspace, limit)
}

// uuids returns the ids as values that pgx can send as uuid[].
func uuids[T any](ids []affiliate.ID[T]) []uuid.UUID {
	list := make([]uuid.UUID, len(ids))
	for i, id := range ids {
		list[i] = id.UUID
	}
	return list
}

const (
	auditPage = `
		select id, coalesce(mode = 'test' and resource_type <> all($4) and num_nonnulls(before, after, ip_prefix) > 0, false) as cleared from audit_log
		where workspace_id = $1 and id > $2
		order by id
		limit $3`
	clearAudit = `select erase_texts('audit_log', $1, $2, $3)`
)

// keptResources are the types of resources of test mode that are not test data.
var keptResources = []string{"api_key", "service_token", "webhook", "processor_connection", "workspace", "member", "member_invite"}

type auditRow struct {
	ID      affiliate.AuditID
	Cleared bool
}

// ClearAuditLog reads at most limit entries of the audit log of a workspace, starting after the given id. It removes
// the values and the network from entries about test data. The actor, the action, the record and the time stay. It
// returns the last id and the number of entries that it has read.
func ClearAuditLog(
	ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, after affiliate.AuditID, limit int,
) (last affiliate.AuditID, read int, err error) {
	page, err := postgres.List[auditRow](ctx, tx, auditPage, workspace, after, limit, keptResources)
	if err != nil {
		return after, 0, err
	}
	if len(page) == 0 {
		return after, 0, nil
	}
	last, read = page[len(page)-1].ID, len(page)
	page = slices.DeleteFunc(page, func(r auditRow) bool { return !r.Cleared })
	if len(page) == 0 {
		return last, read, nil
	}
	ids := make([]affiliate.AuditID, len(page))
	for i, entry := range page {
		ids[i] = entry.ID
	}
	_, err = tx.Exec(ctx, clearAudit, workspace, uuids(ids), privacy.Pseudonym(workspace.UUID))
	return last, read, err
}
