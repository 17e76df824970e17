package postgres

import (
	"bytes"
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

const makeKey = `
	insert into idempotency_keys as k (workspace_id, mode, method, key, fingerprint, created_at, expires_at)
	values ($1, $2, $3, $4, $5, $6, $7)
	on conflict (workspace_id, mode, method, key) do update
		set fingerprint = excluded.fingerprint, response = null, created_at = excluded.created_at, expires_at = excluded.expires_at
		where k.expires_at <= excluded.created_at`

// queueClaim makes the row of an Idempotency-Key, or waits for the transaction
// that has made it. A transaction claims before everything else that it locks,
// and claims several in one order. claimed: it is the first.
func queueClaim(batch *pgx.Batch, scope affiliate.Scope, key affiliate.IdempotencyKey, claimed *bool) {
	batch.Queue(makeKey, scope.Workspace, scope.Mode, key.Method, key.Key, key.Fingerprint, key.At, key.At.Add(affiliate.IdempotencyTTL)).
		Exec(func(tag pgconn.CommandTag) error {
			*claimed = tag.RowsAffected() > 0
			return nil
		})
}

// ClaimKey makes the row of a key, or waits for the transaction that has made it.
// replay is the response that is stored under the key, nil if this transaction is
// the first. A key that has expired counts as none. Errors: IDEMPOTENCY_KEY_REUSED
// if the key came with another request.
func (tx *Tx) ClaimKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) (replay []byte, err error) {
	batch, claimed := &pgx.Batch{}, false
	queueClaim(batch, scope, key, &claimed)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("idempotency key: %w", err)
	}
	if claimed {
		return nil, nil
	}
	// The claim has locked the row, ended or not, so it is still there.
	return readResponse(ctx, tx, scope, key)
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

// claimKeys is ClaimKey for the reports of a batch that have one: each gets its
// own answer, or its own refusal.
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
		return fmt.Errorf("idempotency keys: %w", err)
	}
	for _, r := range keyed {
		if r.keyClaimed {
			continue
		}
		var err error
		r.recorded.Replay, err = readResponse(ctx, tx, r.Conversion.Scope, *r.Key)
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

// readResponse reads what a key got that has not ended; nil without one.
func readResponse(ctx context.Context, q Queryer, scope affiliate.Scope, key affiliate.IdempotencyKey) ([]byte, error) {
	const read = `
		select fingerprint, response
		from idempotency_keys
		where workspace_id = $1 and mode = $2 and method = $3 and key = $4 and expires_at > $5`
	rows, err := q.Query(ctx, read, scope.Workspace, scope.Mode, key.Method, key.Key, key.At)
	if err != nil {
		return nil, fmt.Errorf("idempotency key: %w", err)
	}
	type answer struct {
		Fingerprint []byte
		Response    []byte
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[answer])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("idempotency key: %w", err)
	case !bytes.Equal(found.Fingerprint, key.Fingerprint):
		return nil, affiliate.Refuse(affiliate.ReasonIdempotencyKeyReused)
	}
	return found.Response, nil
}

// Replay is the answer that was given under a key, nil when there is none yet.
// It waits for nobody: a twin that is at work has not answered.
// IDEMPOTENCY_KEY_REUSED: the key came with another request.
func (s *Store) Replay(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) ([]byte, error) {
	return readResponse(ctx, s.pool, scope, key)
}

// ClaimKey binds a key to a request whose things have answers of their own
// (affiliate.IdempotencyKey.Item). It may be claimed again by the same request;
// IDEMPOTENCY_KEY_REUSED for another.
func (s *Store) ClaimKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) error {
	return s.InTx(ctx, func(tx *Tx) error {
		_, err := tx.ClaimKey(ctx, scope, key)
		return err
	})
}

const dropKey = `
	delete from idempotency_keys
	where workspace_id = $1 and mode = $2 and method = $3 and key = $4 and fingerprint = $5`

// ReleaseKey undoes ClaimKey, for a request that came to nothing.
func (s *Store) ReleaseKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) error {
	if _, err := s.pool.Exec(ctx, dropKey, scope.Workspace, scope.Mode, key.Method, key.Key, key.Fingerprint); err != nil {
		return fmt.Errorf("idempotency key: %w", err)
	}
	return nil
}

// queueRelease undoes queueClaim.
func queueRelease(batch *pgx.Batch, scope affiliate.Scope, key affiliate.IdempotencyKey) {
	batch.Queue(dropKey, scope.Workspace, scope.Mode, key.Method, key.Key, key.Fingerprint)
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

// DropExpiredIdempotencyKeys forgets up to limit keys that have ended, and tells
// how many. A key that somebody claims anew at this moment is left alone.
func (s *Store) DropExpiredIdempotencyKeys(ctx context.Context, now time.Time, limit int) (int64, error) {
	tag, err := s.pool.Exec(ctx, dropExpiredKeys, now, limit)
	if err != nil {
		return 0, fmt.Errorf("idempotency keys: %w", err)
	}
	return tag.RowsAffected(), nil
}

// queueResponse keeps what a claimed key answered, in the transaction that claimed
// it.
func queueResponse(batch *pgx.Batch, scope affiliate.Scope, key *affiliate.IdempotencyKey, response []byte) {
	if key == nil {
		return
	}
	const fill = `
		update idempotency_keys set response = $5
		where workspace_id = $1 and mode = $2 and method = $3 and key = $4`
	batch.Queue(fill, scope.Workspace, scope.Mode, key.Method, key.Key, response)
}
