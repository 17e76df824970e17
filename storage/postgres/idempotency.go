package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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

// queueClaim queues a statement that inserts the row of an idempotency key. If another
// transaction has inserted the row, the statement waits for the end of that
// transaction. claimed becomes true if this transaction is the first with the key. To
// prevent deadlocks, a transaction claims its keys before it takes any other lock, and
// it claims several keys in a fixed order.
func queueClaim(batch *pgx.Batch, scope affiliate.Scope, key affiliate.IdempotencyKey, claimed *bool) {
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
func (tx *Tx) ClaimKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) (replay []byte, err error) {
	stored, err := tx.claimKey(ctx, scope, key)
	return stored.Response, err
}

// claimKey is ClaimKey. The result is empty if this transaction is the first with the key.
func (tx *Tx) claimKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) (storedResponse, error) {
	batch, claimed := &pgx.Batch{}, false
	queueClaim(batch, scope, key, &claimed)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return storedResponse{}, fmt.Errorf("claim idempotency key: %w", err)
	}
	if claimed {
		return storedResponse{}, nil
	}
	// The statement has locked the existing row although it has not changed it. The row
	// therefore cannot be deleted as expired before it is read here.
	return readStored(ctx, tx, scope, key)
}

// StoreResponse stores the response under a key that the transaction has claimed.
func (tx *Tx) StoreResponse(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey, response []byte) error {
	batch := &pgx.Batch{}
	queueResponse(batch, scope, &key, response)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("idempotency key: %w", err)
	}
	return nil
}

// claimKeys claims the idempotency keys of the reports of a batch. It skips reports
// without a key. It sets the stored response or the error of each report whose key was
// claimed before.
func claimKeys(ctx context.Context, tx *Tx, all []*pendingReport) error {
	keyed := slices.DeleteFunc(slices.Clone(all), func(r *pendingReport) bool { return r.Key == nil })
	if len(keyed) == 0 {
		return nil
	}
	slices.SortFunc(keyed, func(a, b *pendingReport) int {
		return cmp.Or(a.Conversion.Scope.Compare(b.Conversion.Scope), cmp.Compare(a.Key.Method, b.Key.Method), cmp.Compare(a.Key.Key, b.Key.Key))
	})
	batch := &pgx.Batch{}
	for _, r := range keyed {
		queueClaim(batch, r.Conversion.Scope, *r.Key, &r.keyClaimed)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("claim idempotency keys: %w", err)
	}
	for _, r := range keyed {
		if r.keyClaimed {
			continue
		}
		stored, err := readStored(ctx, tx, r.Conversion.Scope, *r.Key)
		r.result.Replay = stored.Response
		var refusal *affiliate.Error
		switch {
		case errors.As(err, &refusal):
			r.err = err
		case err != nil:
			return err
		}
	}
	return nil
}

type storedResponse struct {
	Fingerprint []byte
	Response    []byte
}

// readStored returns the response that is stored under a key, with the fingerprint of its
// request. The response is nil if there is none, or if the key has expired. The fingerprint is
// then nil if the key has expired.
func readStored(ctx context.Context, q Queryer, scope affiliate.Scope, key affiliate.IdempotencyKey) (storedResponse, error) {
	const read = `
		select fingerprint, response
		from idempotency_keys
		where workspace_id = $1 and mode = $2 and method = $3 and key = $4 and expires_at > $5`
	rows, err := q.Query(ctx, read, scope.Workspace, scope.Mode, key.Method, key.Key, key.At)
	if err != nil {
		return storedResponse{}, fmt.Errorf("idempotency key: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[storedResponse])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return storedResponse{}, nil
	case err != nil:
		return storedResponse{}, fmt.Errorf("idempotency key: %w", err)
	case !key.IsOf(found.Fingerprint):
		return storedResponse{}, affiliate.Refuse(affiliate.ReasonIdempotencyKeyReused)
	}
	return found, nil
}

// Replay returns the response that is stored under a key, or nil if there is none yet.
// It does not wait for a transaction that is still processing the same request. Errors:
// IDEMPOTENCY_KEY_REUSED if the key was used with another request.
func (s *Store) Replay(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) ([]byte, error) {
	stored, err := readStored(ctx, s.pool, scope, key)
	return stored.Response, err
}

// ClaimKey claims the key of a request whose items have their own keys and responses
// (affiliate.IdempotencyKey.Item). The same request can claim the key again. The result has the
// fingerprint that is stored, which may be one under an earlier hash key. Errors:
// IDEMPOTENCY_KEY_REUSED if the key was used with another request.
func (s *Store) ClaimKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) (affiliate.IdempotencyKey, error) {
	err := s.InTx(ctx, func(tx *Tx) error {
		stored, err := tx.claimKey(ctx, scope, key)
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

// ReleaseKey deletes a key that ClaimKey has inserted, for a request that failed.
func (s *Store) ReleaseKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) error {
	if _, err := s.pool.Exec(ctx, deleteKey, scope.Workspace, scope.Mode, key.Method, key.Key, key.Fingerprint); err != nil {
		return fmt.Errorf("idempotency key: %w", err)
	}
	return nil
}

// queueRelease queues the deletion of a key that queueClaim has inserted.
func queueRelease(batch *pgx.Batch, scope affiliate.Scope, key affiliate.IdempotencyKey) {
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
func (s *Store) DropExpiredIdempotencyKeys(ctx context.Context, now time.Time, limit int) (int64, error) {
	tag, err := s.pool.Exec(ctx, dropExpiredKeys, now, limit)
	if err != nil {
		return 0, fmt.Errorf("delete expired idempotency keys: %w", err)
	}
	return tag.RowsAffected(), nil
}

// queueResponse queues a statement that stores the response under a key that the same
// transaction has claimed. It does nothing if key is nil.
func queueResponse(batch *pgx.Batch, scope affiliate.Scope, key *affiliate.IdempotencyKey, response []byte) {
	if key == nil {
		return
	}
	const update = `
		update idempotency_keys set response = $5
		where workspace_id = $1 and mode = $2 and method = $3 and key = $4`
	batch.Queue(update, scope.Workspace, scope.Mode, key.Method, key.Key, response)
}
