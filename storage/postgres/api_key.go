package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// keyUseResolution is how exactly the last use of a key is noted: a key in
// constant use costs one write a minute, not one a request.
const keyUseResolution = time.Minute

func insertKey(ctx context.Context, tx pgx.Tx, key affiliate.NewAPIKey) error {
	const insert = `
		insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at, expires_at)
		values ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8, $9, $10, $11)`
	_, err := tx.Exec(ctx, insert, key.Scope.Workspace, key.ID, key.Scope.Mode, key.Kind, key.Name, key.Digest[:],
		key.PublicText, key.Prefix, key.Last4, key.CreatedAt, key.ExpiresAt)
	return err
}

// keyRow is a row of api_keys as lists read it.
type keyRow struct {
	ID         affiliate.APIKeyID
	Kind       affiliate.KeyKind
	Name       string
	PublicText *string
	Prefix     string
	Last4      string
	CreatedAt  time.Time
	LastUsedAt *time.Time
	ExpiresAt  *time.Time
}

func (r keyRow) key(scope affiliate.Scope) affiliate.APIKey {
	key := affiliate.APIKey{
		ID: r.ID, Scope: scope, Kind: r.Kind, Name: r.Name, Prefix: r.Prefix, Last4: r.Last4,
		CreatedAt: r.CreatedAt, LastUsedAt: r.LastUsedAt, ExpiresAt: r.ExpiresAt,
	}
	if r.PublicText != nil {
		key.PublicText = *r.PublicText
	}
	return key
}

// APIKeys lists the keys of a mode that open something at now, newest first.
// The public key is among them.
func (s *Store) APIKeys(ctx context.Context, scope affiliate.Scope, now time.Time) ([]affiliate.APIKey, error) {
	const query = `
		select id, kind, name, public_text, prefix, last4, created_at, last_used_at, expires_at
		from api_keys
		where workspace_id = $1 and mode = $2 and revoked_at is null and (expires_at is null or expires_at > $3)
		order by created_at desc, id desc`
	rows, err := s.pool.Query(ctx, query, scope.Workspace, scope.Mode, now)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (affiliate.APIKey, error) {
		r, err := pgx.RowToStructByName[keyRow](row)
		return r.key(scope), err
	})
}

// CreateSecretKey stores a secret key unless the mode has its ten already. The
// workspace row is locked, so that parallel creations take turns at counting.
func (s *Store) CreateSecretKey(ctx context.Context, key affiliate.NewAPIKey, actor affiliate.Actor) error {
	// Not FOR UPDATE: every insert in the workspace holds a key share lock on it.
	const lock = `select from workspaces where id = $1 for no key update`
	const count = `
		select count(*) from api_keys
		where workspace_id = $1 and mode = $2 and kind = 'secret'
		  and revoked_at is null and (expires_at is null or expires_at > $3)`
	return s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lock, key.Scope.Workspace); err != nil {
			return err
		}
		var active int
		if err := tx.QueryRow(ctx, count, key.Scope.Workspace, key.Scope.Mode, key.CreatedAt).Scan(&active); err != nil {
			return err
		}
		if active >= affiliate.MaxSecretKeys {
			return affiliate.Refuse(affiliate.ReasonAPIKeyLimitExceeded)
		}
		if err := insertKey(ctx, tx, key); err != nil {
			return err
		}
		return record(ctx, tx, audit{
			Workspace: key.Scope.Workspace, Mode: &key.Scope.Mode, Actor: actor, At: key.CreatedAt,
			Action: "api_key.create", ResourceType: "api_key", ResourceID: key.ID,
			After: map[string]string{"name": key.Name, "prefix": key.Prefix, "last4": key.Last4},
		})
	})
}

// LiveKey finds a key by its digest unless it is revoked or expired. It is the
// one read of api_keys without a workspace: the key is what tells the workspace.
func (s *Store) LiveKey(ctx context.Context, digest [sha256.Size]byte, now time.Time) (affiliate.APIKey, bool, error) {
	const query = `
		select workspace_id, mode, id, kind, name, prefix, last4, created_at, last_used_at, expires_at
		from api_keys
		where digest = $1 and revoked_at is null and (expires_at is null or expires_at > $2)`
	const touch = `
		update api_keys set last_used_at = $3
		where workspace_id = $1 and id = $2 and (last_used_at is null or last_used_at < $4)`
	var key affiliate.APIKey
	err := s.pool.QueryRow(ctx, query, digest[:], now).Scan(&key.Scope.Workspace, &key.Scope.Mode, &key.ID, &key.Kind,
		&key.Name, &key.Prefix, &key.Last4, &key.CreatedAt, &key.LastUsedAt, &key.ExpiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return affiliate.APIKey{}, false, nil
	}
	if err != nil {
		return affiliate.APIKey{}, false, err
	}
	if stale := now.Add(-keyUseResolution); key.LastUsedAt == nil || key.LastUsedAt.Before(stale) {
		minute := now.Truncate(keyUseResolution)
		if _, err := s.pool.Exec(ctx, touch, key.Scope.Workspace, key.ID, minute, stale); err != nil {
			return affiliate.APIKey{}, false, err
		}
	}
	return key, true, nil
}
