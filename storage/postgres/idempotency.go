package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
)

const insertKey = `
	insert into idempotency_keys as k (workspace_id, mode, method, key, fingerprint, created_at, expires_at)
	values ($1, $2, $3, $4, $5, $6, $7)
	on conflict (workspace_id, mode, method, key) do update
		set fingerprint = excluded.fingerprint, response = null, created_at = excluded.created_at, expires_at = excluded.expires_at
		where k.expires_at <= excluded.created_at`

// QueueClaim queues a statement that inserts the row of an idempotency key. If another
// transaction has inserted the row, the statement waits for the end of that
// transaction. claimed becomes true if this transaction is the first with the key. To
// prevent deadlocks, a transaction claims its keys before it takes any other lock, and
// it claims several keys in a fixed order.
func QueueClaim(batch *pgx.Batch, scope affiliate.Scope, key affiliate.IdempotencyKey, claimed *bool) {
	batch.Queue(insertKey, scope.Workspace, scope.Mode, key.Method, key.Key, key.Fingerprint, key.At, key.At.Add(affiliate.IdempotencyTTL)).
		Exec(func(tag pgconn.CommandTag) error {
			*claimed = tag.RowsAffected() > 0
			return nil
		})
}

// ClaimKey inserts the row of an idempotency key. If another transaction has inserted
// the row, ClaimKey waits for the end of that transaction. replay is the response that
// is stored under the key, or nil if this transaction is the first with the key. An
// expired key counts as new. Errors: IDEMPOTENCY_KEY_REUSED if the key was used with
// another request.
func ClaimKey(ctx context.Context, tx *Tx, scope affiliate.Scope, key affiliate.IdempotencyKey) (replay []byte, err error) {
	stored, err := claimKey(ctx, tx, scope, key)
	return stored.Response, err
}

// claimKey does the work of ClaimKey. The result is empty if this transaction is the first with the key.
func claimKey(ctx context.Context, tx *Tx, scope affiliate.Scope, key affiliate.IdempotencyKey) (StoredResponse, error) {
	batch, claimed := &pgx.Batch{}, false
	QueueClaim(batch, scope, key, &claimed)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return StoredResponse{}, err
	}
	if claimed {
		return StoredResponse{}, nil
	}
	// The statement has locked the existing row although it has not changed it. The row
	// therefore cannot be deleted as expired before it is read here.
	return ReadStored(ctx, tx, scope, key)
}

// StoreResponse stores the response under a key that the transaction has claimed.
func StoreResponse(ctx context.Context, tx *Tx, scope affiliate.Scope, key affiliate.IdempotencyKey, response []byte) error {
	batch := &pgx.Batch{}
	QueueResponse(batch, scope, &key, response)
	return tx.SendBatch(ctx, batch).Close()
}

// StoredResponse is a response that is stored under a key, with the fingerprint of its request.
type StoredResponse struct {
	Fingerprint []byte
	Response    []byte
}

// ReadStored returns the response and the fingerprint of the request that are stored under a
// key. Both are nil if the key is new or has expired. Only the response is nil if it is not
// stored yet. Errors: IDEMPOTENCY_KEY_REUSED if the key was used with another request.
func ReadStored(ctx context.Context, q Queryer, scope affiliate.Scope, key affiliate.IdempotencyKey) (StoredResponse, error) {
	const read = `
		select fingerprint, response
		from idempotency_keys
		where workspace_id = $1 and mode = $2 and method = $3 and key = $4 and expires_at > $5`
	rows, _ := q.Query(ctx, read, scope.Workspace, scope.Mode, key.Method, key.Key, key.At)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[StoredResponse])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return StoredResponse{}, nil
	case err != nil:
		return StoredResponse{}, fmt.Errorf("idempotency key: %w", err)
	case !key.IsOf(found.Fingerprint):
		return StoredResponse{}, affiliate.Refuse(affiliate.ReasonIdempotencyKeyReused)
	}
	return found, nil
}

// Replay returns the response that is stored under a key, or nil if there is none yet.
// It does not wait for a transaction that is still processing the same request. Errors:
// IDEMPOTENCY_KEY_REUSED if the key was used with another request.
func Replay(ctx context.Context, db *DB, scope affiliate.Scope, key affiliate.IdempotencyKey) ([]byte, error) {
	stored, err := ReadStored(ctx, db, scope, key)
	return stored.Response, err
}

// ClaimKeyAlone claims the key of a request whose items have their own keys and responses
// (affiliate.IdempotencyKey.Item). The same request can claim the key again. The result has the
// stored fingerprint, which may have been made with an earlier hash key. Errors:
// IDEMPOTENCY_KEY_REUSED if the key was used with another request.
func ClaimKeyAlone(ctx context.Context, db *DB, scope affiliate.Scope, key affiliate.IdempotencyKey) (affiliate.IdempotencyKey, error) {
	err := db.InTx(ctx, func(tx *Tx) error {
		stored, err := claimKey(ctx, tx, scope, key)
		if stored.Fingerprint != nil {
			key.Fingerprint = stored.Fingerprint
		}
		return err
	})
	return key, err
}

const deleteKey = `
	delete from idempotency_keys
	where workspace_id = $1 and mode = $2 and method = $3 and key = $4 and fingerprint = $5`

// ReleaseKey deletes a key that ClaimKeyAlone has inserted, for a request of which no item
// succeeded.
func ReleaseKey(ctx context.Context, db *DB, scope affiliate.Scope, key affiliate.IdempotencyKey) error {
	return Exec(ctx, db, deleteKey, scope.Workspace, scope.Mode, key.Method, key.Key, key.Fingerprint)
}

// QueueRelease queues the deletion of a key that QueueClaim has inserted.
func QueueRelease(batch *pgx.Batch, scope affiliate.Scope, key affiliate.IdempotencyKey) {
	batch.Queue(deleteKey, scope.Workspace, scope.Mode, key.Method, key.Key, key.Fingerprint)
}

const dropExpiredKeys = `
	delete from idempotency_keys k
	using (
		select workspace_id, mode, method, key from idempotency_keys
		where expires_at <= $1
		order by expires_at
		limit $2
		for update skip locked) as ended
	where k.workspace_id = ended.workspace_id and k.mode = ended.mode and k.method = ended.method and k.key = ended.key`

// DropExpiredIdempotencyKeys deletes at most limit expired keys and returns the number of
// deleted keys. It skips a key that another transaction claims at the same time.
func DropExpiredIdempotencyKeys(ctx context.Context, db *DB, now time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, dropExpiredKeys, now, limit)
	return tag.RowsAffected(), err
}

// QueueResponse queues a statement that stores the response under a key that the same
// transaction has claimed. It does nothing if key is nil.
func QueueResponse(batch *pgx.Batch, scope affiliate.Scope, key *affiliate.IdempotencyKey, response []byte) {
	if key == nil {
		return
	}
	const update = `
		update idempotency_keys set response = $5
		where workspace_id = $1 and mode = $2 and method = $3 and key = $4`
	batch.Queue(update, scope.Workspace, scope.Mode, key.Method, key.Key, response)
}
