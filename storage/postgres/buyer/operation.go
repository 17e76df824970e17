// Package buyer has the SQL for the erasure of buyers: its operations, the search for the
// conversions of a buyer, and the statements that replace or delete data.
//
// The package reads, locks and stores rows. Its callers decide which values it stores. A
// function with the parameter tx runs in the caller's transaction. The other functions run on
// their own.
package buyer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const operationColumns = `
	o.workspace_id, o.id, o.kind, o.identity, o.status, o.step, o.position, o.failures, o.lease_until, o.recovering, o.created_at,
	o.requested_at`

type operationRow struct {
	WorkspaceID affiliate.WorkspaceID
	ID          privacy.BuyerErasureID
	Kind        privacy.BuyerIdentityKind
	Identity    []byte
	Status      privacy.BuyerErasureStatus
	Step        privacy.BuyerErasureStep
	Position    string
	Failures    int
	LeaseUntil  *time.Time
	Recovering  bool
	CreatedAt   time.Time
	RequestedAt time.Time
}

func (r operationRow) operation() privacy.BuyerErasure {
	e := privacy.BuyerErasure{
		ID: r.ID, Workspace: r.WorkspaceID, Identity: privacy.BuyerIdentity{Kind: r.Kind, Digests: splitIdentity(r.Identity)}, Status: r.Status,
		Progress: privacy.BuyerErasureProgress{Step: r.Step, Position: r.Position}, Failures: r.Failures, CreatedAt: r.CreatedAt,
		RequestedAt: r.RequestedAt,
	}
	if r.LeaseUntil != nil {
		e.Lease = privacy.BuyerErasureWork{Until: *r.LeaseUntil, Recovering: r.Recovering}
	}
	return e
}

// digestSize is the size of a digest in the column identity, in bytes. The column has the digests
// of the identity under all hash keys, one after another.
const digestSize = sha256.Size

func splitIdentity(stored []byte) affiliate.Digests {
	return slices.Collect(slices.Chunk(stored, digestSize))
}

func joinIdentity(digests affiliate.Digests) []byte { return bytes.Join(digests, nil) }

// Erasure returns an erasure of a workspace. Errors: NOT_FOUND.
func Erasure(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, id privacy.BuyerErasureID) (privacy.BuyerErasure, error) {
	const read = `
		select ` + operationColumns + `
		from buyer_erasures o
		where o.workspace_id = $1 and o.id = $2`
	row, err := postgres.OneRow[operationRow](db.Query(ctx, read, workspace, id))
	return row.operation(), err
}

// Ids of erasures begin with the time, so the primary key has the order of the list.
const (
	ofWorkspace  = ` from buyer_erasures o where o.workspace_id = $1`
	listErasures = `select o.id, o.status, o.created_at, o.finished_at` + ofWorkspace + ` order by o.id desc limit $2 offset $3`
)

// Erasures returns one page of the erasures of a workspace, newest first, and the number of erasures on all
// pages, up to affiliate.MaxTotal.
func Erasures(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, page affiliate.Page) ([]privacy.ListedBuyerErasure, int64, error) {
	total, err := postgres.Value[int64](ctx, db, postgres.CountUpTo(affiliate.MaxTotal, ofWorkspace), workspace)
	if err != nil {
		return nil, 0, err
	}
	erasures, err := postgres.List[privacy.ListedBuyerErasure](ctx, db, listErasures, workspace, page.Size, page.Offset())
	return erasures, total, err
}

// ErasureOfKey returns the erasure for which an Idempotency-Key was used, with the fingerprint
// of the identity in the request. found is false if the key is new or has expired.
func ErasureOfKey(
	ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, key string, now time.Time,
) (id privacy.BuyerErasureID, fingerprint []byte, found bool, err error) {
	const read = `
		select k.operation_id, k.fingerprint
		from buyer_erasure_keys k
		where k.workspace_id = $1 and k.key = $2 and k.expires_at > $3`
	err = tx.QueryRow(ctx, read, workspace, key, now).Scan(&id, &fingerprint)
	if errors.Is(err, pgx.ErrNoRows) {
		return id, nil, false, nil
	}
	return id, fingerprint, err == nil, err
}

// lockActiveErasure searches the few erasures of a workspace that are being processed. It
// compares each digest in the column identity, which has at most affiliate.MaxHashKeys digests.
const lockActiveErasure = `
	select ` + operationColumns + `
	from buyer_erasures o
	where o.workspace_id = $1 and o.kind = $2 and o.status = 'processing' and (
		substring(o.identity from 1 for $4) = any($3) or substring(o.identity from 1 + $4 for $4) = any($3)
		or substring(o.identity from 1 + 2 * $4 for $4) = any($3))
	order by o.created_at, o.id
	for no key update`

// LockActiveErasure locks and returns the oldest erasure of a buyer that has the status
// processing. It returns nil if the buyer has no such erasure.
func LockActiveErasure(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, identity privacy.BuyerIdentity) (*privacy.BuyerErasure, error) {
	rows, err := tx.Query(ctx, lockActiveErasure, workspace, identity.Kind, identity.Digests, digestSize)
	found, err := postgres.AllRows(rows, err, operationRow.operation)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// InsertErasure stores a new erasure.
func InsertErasure(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) error {
	const insert = `
		insert into buyer_erasures (workspace_id, id, kind, identity, status, step, created_at, requested_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8)`
	return postgres.Exec(ctx, tx, insert, e.Workspace, e.ID, e.Identity.Kind, joinIdentity(e.Identity.Digests), e.Status,
		e.Progress.Step, e.CreatedAt, e.RequestedAt)
}

// takeOver moves the lists of the failed erasures with one of the fingerprints to a new
// erasure, whose lists are empty. Conversions that are not erased are followed again.
const takeOver = `
	with failed as (
		select o.id from buyer_erasure_keys k
		join buyer_erasures o on o.workspace_id = k.workspace_id and o.id = k.operation_id
		where k.workspace_id = $1 and k.fingerprint = any($3) and o.status = 'failed'
	), sales as (
		delete from buyer_erasure_sales s
		where s.workspace_id = $1 and s.operation_id in (select f.id from failed f) and s.mode in ('test', 'live')
		returning s.conversion_id, s.mode, s.followed, s.erased
	), customers as (
		delete from buyer_erasure_customers u
		where u.workspace_id = $1 and u.operation_id in (select f.id from failed f)
		returning u.ref
	), moved as (
		insert into buyer_erasure_sales (workspace_id, operation_id, conversion_id, mode, followed, erased)
		select $1, $2, s.conversion_id, s.mode, bool_or(s.erased), bool_or(s.erased) from sales s group by s.conversion_id, s.mode
	)
	insert into buyer_erasure_customers (workspace_id, operation_id, ref)
	select distinct $1::uuid, $2::uuid, u.ref from customers u`

// TakeOver moves the lists of failed erasures of the same buyer to a new erasure. The failed
// erasures may have erased a part of the data by which the rest can be found. fingerprints are
// privacy.ErasureKeys.Fingerprints of the buyer.
func TakeOver(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, fingerprints affiliate.Digests) error {
	return postgres.Exec(ctx, tx, takeOver, e.Workspace, e.ID, fingerprints)
}

// Join stores that a request has joined a locked erasure: the time and the identity of the
// request, and the next step.
func Join(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) error {
	const join = `update buyer_erasures set requested_at = $3, step = $4, position = $5, identity = $6 where workspace_id = $1 and id = $2`
	return postgres.Exec(ctx, tx, join, e.Workspace, e.ID, e.RequestedAt, e.Progress.Step, e.Progress.Position, joinIdentity(e.Identity.Digests))
}

// LockErasure locks an erasure until the transaction ends, so that no request joins it, and
// returns it.
func LockErasure(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure) (privacy.BuyerErasure, error) {
	const lock = `
		select ` + operationColumns + `
		from buyer_erasures o
		where o.workspace_id = $1 and o.id = $2
		for no key update`
	row, err := postgres.OneRow[operationRow](tx.Query(ctx, lock, e.Workspace, e.ID))
	return row.operation(), err
}

// PutKey stores the Idempotency-Key of a request for an erasure. It replaces an expired key.
func PutKey(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, key string, fingerprint []byte, expiresAt time.Time) error {
	const put = `
		insert into buyer_erasure_keys (workspace_id, key, operation_id, fingerprint, expires_at)
		values ($1, $2, $3, $4, $5)
		on conflict (workspace_id, key) do update set
			operation_id = excluded.operation_id, fingerprint = excluded.fingerprint, expires_at = excluded.expires_at`
	return postgres.Exec(ctx, tx, put, e.Workspace, key, e.ID, fingerprint, expiresAt)
}

// Worker identifies one attempt of the job of an erasure.
type Worker = uuid.UUID

// ClaimErasure gives a worker the lease of an erasure that is processing and that no other
// worker owns, and returns the erasure. If the lease of an earlier worker has expired, the
// claim counts as a failure, and the erasure is being recovered. Errors: NOT_FOUND if the
// erasure cannot be claimed.
func ClaimErasure(ctx context.Context, db *postgres.DB, job privacy.EraseBuyer, worker Worker, now, until time.Time) (privacy.BuyerErasure, error) {
	const claim = `
		update buyer_erasures o set
			lease_owner = @worker, lease_until = @until, recovering = o.lease_owner is not null,
			failures = o.failures + case when o.lease_owner is null then 0 else 1 end
		where o.workspace_id = @workspace and o.id = @id and o.status = 'processing' and (o.lease_until is null or o.lease_until <= @now)
		returning ` + operationColumns
	row, err := postgres.OneRow[operationRow](db.Query(ctx, claim, pgx.NamedArgs{
		"workspace": job.Workspace, "id": job.Operation, "worker": worker, "until": until, "now": now,
	}))
	return row.operation(), err
}

// Advance stores how far the worker has come and renews its lease. Errors: NOT_FOUND if the
// worker no longer has the lease.
func Advance(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, worker Worker, until time.Time) error {
	const update = `
		update buyer_erasures set step = @step, position = @position, lease_until = @until
		where workspace_id = @workspace and id = @id and lease_owner = @worker and status = 'processing'`
	tag, err := tx.Exec(ctx, update, pgx.NamedArgs{
		"workspace": e.Workspace, "id": e.ID, "step": e.Progress.Step, "position": e.Progress.Position, "worker": worker, "until": until,
	})
	if err == nil && tag.RowsAffected() == 0 {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return err
}

// ReleaseErasure ends the lease of a worker. If failed is true, it adds 1 to the failures of the erasure.
func ReleaseErasure(ctx context.Context, db *postgres.DB, e privacy.BuyerErasure, worker Worker, failed bool) error {
	const release = `
		update buyer_erasures set
			lease_owner = null, lease_until = null, recovering = false, failures = failures + case when $4 then 1 else 0 end
		where workspace_id = $1 and id = $2 and lease_owner = $3 and status = 'processing'`
	return postgres.Exec(ctx, db, release, e.Workspace, e.ID, worker, failed)
}

// FinishErasure stores the final status of an erasure, and deletes the digests of the identity
// and, unless the erasure has failed, the lists of the conversions and customers. Errors:
// NOT_FOUND if the worker no longer has the lease.
func FinishErasure(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, worker Worker, status privacy.BuyerErasureStatus, at time.Time) error {
	const finish = `
		update buyer_erasures set status = $4, finished_at = $5, identity = null, position = '', lease_owner = null, lease_until = null, recovering = false
		where workspace_id = $1 and id = $2 and lease_owner = $3 and status = 'processing'`
	const deleteSales = `
		delete from buyer_erasure_sales s
		where s.workspace_id = $1 and s.operation_id = $2 and s.mode in ('test', 'live')`
	const deleteCustomersOfList = `delete from buyer_erasure_customers where workspace_id = $1 and operation_id = $2`
	tag, err := tx.Exec(ctx, finish, e.Workspace, e.ID, worker, status, at)
	if err == nil && tag.RowsAffected() == 0 {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil || status == privacy.BuyerErasureFailed {
		return err
	}
	for _, statement := range []string{deleteSales, deleteCustomersOfList} {
		if _, err := tx.Exec(ctx, statement, e.Workspace, e.ID); err != nil {
			return err
		}
	}
	return nil
}

const (
	deleteErasureKeys = `
		delete from buyer_erasure_keys k
		using (select workspace_id, key from buyer_erasure_keys where expires_at <= $1 order by expires_at limit $2) as old
		where k.workspace_id = old.workspace_id and k.key = old.key`
	deleteErasures = `
		with old as (
			select workspace_id, id from buyer_erasures where finished_at <= $1 order by finished_at limit $2
		), sales as (
			delete from buyer_erasure_sales s using old
			where s.workspace_id = old.workspace_id and s.operation_id = old.id and s.mode in ('test', 'live')
		), customers as (
			delete from buyer_erasure_customers u using old
			where u.workspace_id = old.workspace_id and u.operation_id = old.id
		)
		delete from buyer_erasures o using old
		where o.workspace_id = old.workspace_id and o.id = old.id`
)

// DeleteErasureKeys deletes at most limit Idempotency-Keys of erasures, of all workspaces, that
// have expired, and returns their number.
func DeleteErasureKeys(ctx context.Context, db *postgres.DB, now time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, deleteErasureKeys, now, limit)
	return tag.RowsAffected(), err
}

// DeleteErasures deletes at most limit erasures, of all workspaces, that have ended before the
// given time, and returns their number.
func DeleteErasures(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, deleteErasures, before, limit)
	return tag.RowsAffected(), err
}
