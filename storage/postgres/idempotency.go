package postgres

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// claimKey makes the row of an Idempotency-Key, or waits for the transaction that
// has made it and reads what it left. A transaction claims before everything else
// that it locks. replay is the answer that was given under the key, nil when this
// transaction is the first. IDEMPOTENCY_KEY_REUSED: the key came with another
// request. Keys that have ended are as good as none.
func claimKey(ctx context.Context, tx pgx.Tx, scope affiliate.Scope, key *affiliate.IdempotencyKey) (replay []byte, err error) {
	if key == nil {
		return nil, nil
	}
	const claim = `
		insert into idempotency_keys as k (workspace_id, mode, method, key, fingerprint, created_at, expires_at)
		values ($1, $2, $3, $4, $5, $6, $7)
		on conflict (workspace_id, mode, method, key) do update
			set fingerprint = excluded.fingerprint, response = null, created_at = excluded.created_at, expires_at = excluded.expires_at
			where k.expires_at <= excluded.created_at`
	const read = `
		select fingerprint, response
		from idempotency_keys
		where workspace_id = $1 and mode = $2 and method = $3 and key = $4`
	tag, err := tx.Exec(ctx, claim, scope.Workspace, scope.Mode, key.Method, key.Key, key.Fingerprint, key.At, key.At.Add(affiliate.IdempotencyTTL))
	if err != nil {
		return nil, fmt.Errorf("idempotency key: %w", err)
	}
	if tag.RowsAffected() > 0 {
		return nil, nil
	}
	var fingerprint []byte
	if err := tx.QueryRow(ctx, read, scope.Workspace, scope.Mode, key.Method, key.Key).Scan(&fingerprint, &replay); err != nil {
		return nil, fmt.Errorf("idempotency key: %w", err)
	}
	if !bytes.Equal(fingerprint, key.Fingerprint) {
		return nil, affiliate.Refuse(affiliate.ReasonIdempotencyKeyReused)
	}
	return replay, nil
}

// queueAnswer keeps what a claimed key answered, in the transaction that claimed
// it.
func queueAnswer(batch *pgx.Batch, scope affiliate.Scope, key *affiliate.IdempotencyKey, response []byte) {
	if key == nil {
		return
	}
	const fill = `
		update idempotency_keys set response = $5
		where workspace_id = $1 and mode = $2 and method = $3 and key = $4`
	batch.Queue(fill, scope.Workspace, scope.Mode, key.Method, key.Key, response)
}
