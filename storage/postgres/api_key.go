package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tributary-hq/tributary/affiliate"
)

// keyUseResolution is how exactly the last use of a key is noted: a key in
// constant use costs one write a minute, not one a request.
const keyUseResolution = time.Minute

func insertKey(ctx context.Context, tx *Tx, key affiliate.NewAPIKey) error {
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
	RolledAt   *time.Time
}

func (r keyRow) key(scope affiliate.Scope) affiliate.APIKey {
	key := affiliate.APIKey{
		ID: r.ID, Scope: scope, Kind: r.Kind, Name: r.Name, Prefix: r.Prefix, Last4: r.Last4,
		CreatedAt: r.CreatedAt.UTC(), LastUsedAt: UTC(r.LastUsedAt), ExpiresAt: UTC(r.ExpiresAt), RolledAt: UTC(r.RolledAt),
	}
	if r.PublicText != nil {
		key.PublicText = *r.PublicText
	}
	return key
}

const keyColumns = `id, kind, name, public_text, prefix, last4, created_at, last_used_at, expires_at, rolled_at`

// APIKeys lists the keys of a mode that open something at now, newest first.
// The public key is among them, and a rolled one in its grace as well.
func (s *Store) APIKeys(ctx context.Context, scope affiliate.Scope, now time.Time) ([]affiliate.APIKey, error) {
	const query = `
		select ` + keyColumns + `
		from api_keys
		where workspace_id = $1 and mode = $2 and revoked_at is null and (expires_at is null or expires_at > $3)
		order by created_at desc, id desc`
	rows, err := s.pool.Query(ctx, query, scope.Workspace, scope.Mode, now)
	return AllRows(rows, err, func(r keyRow) affiliate.APIKey { return r.key(scope) })
}

// refuseFullKeyring refuses one more secret key beside the ten that a mode may
// have. The workspace is locked, so that parallel creations take turns at
// counting.
func refuseFullKeyring(ctx context.Context, tx *Tx, scope affiliate.Scope, now time.Time) error {
	const count = `
		select count(*) from api_keys
		where workspace_id = $1 and mode = $2 and kind = 'secret'
		  and revoked_at is null and (expires_at is null or expires_at > $3)`
	var active int
	if err := tx.QueryRow(ctx, count, scope.Workspace, scope.Mode, now).Scan(&active); err != nil {
		return err
	}
	if active >= affiliate.MaxSecretKeys {
		return affiliate.Refuse(affiliate.ReasonAPIKeyLimitExceeded)
	}
	return nil
}

// lockKeyring takes the workspace's lock, under which neither its keys nor what
// the actor may do with them change. Errors: NOT_FOUND, FORBIDDEN.
func lockKeyring(ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID, by affiliate.Actor) error {
	if err := tx.LockWorkspace(ctx, workspace); err != nil {
		return err
	}
	role, err := callerRole(ctx, tx, workspace, by)
	if err == nil && !role.MayManageKeys() {
		err = affiliate.Refuse(affiliate.ReasonForbidden)
	}
	return err
}

// CreateSecretKey stores a secret key. Errors: API_KEY_LIMIT_EXCEEDED when the
// mode has its ten already, FORBIDDEN.
func (s *Store) CreateSecretKey(ctx context.Context, key affiliate.NewAPIKey, actor affiliate.Actor) error {
	return s.InTx(ctx, func(tx *Tx) error {
		if err := lockKeyring(ctx, tx, key.Scope.Workspace, actor); err != nil {
			return err
		}
		if err := refuseFullKeyring(ctx, tx, key.Scope, key.CreatedAt); err != nil {
			return err
		}
		if err := insertKey(ctx, tx, key); err != nil {
			return err
		}
		return tx.Audit(ctx, keyAudit(key.APIKey, "api_key.create", key.CreatedAt, actor, nil, keyObject(key.APIKey)))
	})
}

// keyObject is a key as the audit log shows it.
func keyObject(key affiliate.APIKey) map[string]string {
	return map[string]string{"name": key.Name, "prefix": key.Prefix, "last4": key.Last4}
}

func keyAudit(key affiliate.APIKey, action string, at time.Time, by affiliate.Actor, before, after any) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: key.Scope.Workspace, Mode: &key.Scope.Mode, Actor: by, At: at,
		Action: action, ResourceType: "api_key", ResourceID: key.ID, Before: before, After: after,
	}
}

// RollKey stores a successor, of the same kind, name and end as the key that it
// replaces; the old one works until the grace is over, or stops at once without
// one. Errors: NOT_FOUND for a key that opens nothing or has a successor,
// API_KEY_LIMIT_EXCEEDED, FORBIDDEN.
func (s *Store) RollKey(ctx context.Context, id affiliate.APIKeyID, successor affiliate.NewAPIKey, grace time.Duration, by affiliate.Actor) (affiliate.APIKey, error) {
	const lock = `
		select ` + keyColumns + `
		from api_keys
		where workspace_id = $1 and mode = $2 and id = $3 and kind = $4
		  and revoked_at is null and (expires_at is null or expires_at > $5) and rolled_at is null
		for no key update`
	const end = `
		update api_keys set rolled_at = $4, expires_at = $5, revoked_at = $6
		where workspace_id = $1 and mode = $2 and id = $3`
	scope, at := successor.Scope, successor.CreatedAt
	err := s.InTx(ctx, func(tx *Tx) error {
		if err := lockKeyring(ctx, tx, scope.Workspace, by); err != nil {
			return err
		}
		row, err := OneRow[keyRow](tx.Query(ctx, lock, scope.Workspace, scope.Mode, id, successor.Kind, at))
		if err != nil {
			return err
		}
		old := row.key(scope)
		successor.Name, successor.ExpiresAt = old.Name, old.ExpiresAt
		is := keyObject(successor.APIKey)
		is["successor"] = successor.ID.String()
		if until := at.Add(grace); grace <= 0 {
			old.RevokedAt = &at
			is["revoked_at"] = affiliate.FormatTime(at)
		} else {
			if old.ExpiresAt == nil || until.Before(*old.ExpiresAt) {
				old.ExpiresAt = &until
			}
			is["expires_at"] = affiliate.FormatTime(*old.ExpiresAt)
		}
		if _, err := tx.Exec(ctx, end, scope.Workspace, scope.Mode, id, at, old.ExpiresAt, old.RevokedAt); err != nil {
			return err
		}
		if successor.Kind == affiliate.SecretKey {
			if err := refuseFullKeyring(ctx, tx, scope, at); err != nil {
				return err
			}
		}
		if err := insertKey(ctx, tx, successor); err != nil {
			return err
		}
		if err := tx.Audit(ctx, keyAudit(old, "api_key.roll", at, by, keyObject(old), is)); err != nil {
			return err
		}
		if successor.Kind != affiliate.PublicKey {
			return nil
		}
		return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: scope.Workspace})
	})
	return successor.APIKey, err
}

// RevokeSecretKey stops a secret key. Errors: NOT_FOUND for one that opens
// nothing, and for a public key; FORBIDDEN.
func (s *Store) RevokeSecretKey(ctx context.Context, scope affiliate.Scope, id affiliate.APIKeyID, at time.Time, by affiliate.Actor) error {
	const revoke = `
		update api_keys set revoked_at = $4
		where workspace_id = $1 and mode = $2 and id = $3 and kind = 'secret'
		  and revoked_at is null and (expires_at is null or expires_at > $4)
		returning ` + keyColumns
	return s.InTx(ctx, func(tx *Tx) error {
		if err := lockKeyring(ctx, tx, scope.Workspace, by); err != nil {
			return err
		}
		row, err := OneRow[keyRow](tx.Query(ctx, revoke, scope.Workspace, scope.Mode, id, at))
		if err != nil {
			return err
		}
		key := row.key(scope)
		return tx.Audit(ctx, keyAudit(key, "api_key.revoke", at, by, keyObject(key), nil))
	})
}

// keyLookup asks for a key.
type keyLookup struct {
	digest [sha256.Size]byte
	now    time.Time

	key affiliate.APIKey
	ok  bool
}

// LiveKey finds a key by its digest unless it is revoked or expired. It is the
// one read of api_keys without a workspace: the key is what tells the workspace.
// Look-ups of the same time share a round trip.
func (s *Store) LiveKey(ctx context.Context, digest [sha256.Size]byte, now time.Time) (affiliate.APIKey, bool, error) {
	const touch = `
		update api_keys set last_used_at = $3
		where workspace_id = $1 and id = $2 and (last_used_at is null or last_used_at < $4)`
	l := &keyLookup{digest: digest, now: now}
	if err := s.keys.do(ctx, l); err != nil || !l.ok {
		return affiliate.APIKey{}, false, err
	}
	key := l.key
	if stale := now.Add(-keyUseResolution); key.LastUsedAt == nil || key.LastUsedAt.Before(stale) {
		minute := now.Truncate(keyUseResolution)
		if _, err := s.pool.Exec(ctx, touch, key.Scope.Workspace, key.ID, minute, stale); err != nil {
			return affiliate.APIKey{}, false, err
		}
	}
	return key, true, nil
}

// findKeys answers look-ups in one statement. It only reads: no failure is final.
func (s *Store) findKeys(ctx context.Context, pool *pgxpool.Pool, all []*keyLookup) (final bool, err error) {
	const query = `
		select digest, workspace_id, mode, id, kind, name, prefix, last4, created_at, last_used_at, expires_at
		from api_keys
		where digest = any($1) and revoked_at is null`
	asked := map[[sha256.Size]byte][]*keyLookup{}
	for _, l := range all {
		asked[l.digest] = append(asked[l.digest], l)
	}
	digests := make([][]byte, 0, len(asked))
	for digest := range asked {
		digests = append(digests, bytes.Clone(digest[:]))
	}
	rows, err := pool.Query(ctx, query, digests)
	if err != nil {
		return false, err
	}
	var digest []byte
	var key affiliate.APIKey
	_, err = pgx.ForEachRow(rows, []any{
		&digest, &key.Scope.Workspace, &key.Scope.Mode, &key.ID, &key.Kind,
		&key.Name, &key.Prefix, &key.Last4, &key.CreatedAt, &key.LastUsedAt, &key.ExpiresAt,
	}, func() error {
		for _, l := range asked[[sha256.Size]byte(digest)] {
			l.key, l.ok = key, key.ExpiresAt == nil || key.ExpiresAt.After(l.now)
		}
		return nil
	})
	return false, err
}
