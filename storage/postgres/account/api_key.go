package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// keyUseResolution is the precision of an API key's last_used_at. ActiveKey writes the
// time of use only if the stored time is older than this. Therefore a key that is used
// all the time causes at most one write per minute.
const keyUseResolution = time.Minute

const keyColumns = `
	workspace_id, mode, id, kind, name, digest, coalesce(public_text, '') as public_text, prefix, last4,
	created_at, last_used_at, expires_at, revoked_at, rolled_at`

type keyRow struct {
	WorkspaceID affiliate.WorkspaceID
	Mode        affiliate.Mode
	ID          affiliate.APIKeyID
	Kind        account.KeyKind
	Name        string
	Digest      []byte
	PublicText  string
	Prefix      string
	Last4       string
	CreatedAt   time.Time
	LastUsedAt  *time.Time
	ExpiresAt   *time.Time
	RevokedAt   *time.Time
	RolledAt    *time.Time
}

func (r keyRow) key() account.APIKey {
	return account.APIKey{
		ID: r.ID, Scope: affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode}, Kind: r.Kind, Name: r.Name,
		PublicText: r.PublicText, Prefix: r.Prefix, Last4: r.Last4, CreatedAt: r.CreatedAt,
		LastUsedAt: r.LastUsedAt, ExpiresAt: r.ExpiresAt,
		RevokedAt: r.RevokedAt, RolledAt: r.RolledAt,
	}
}

// ActiveKeys returns the API keys of a scope that are active at the given time, newest
// first. A key that was rolled is included until its grace period ends.
func ActiveKeys(ctx context.Context, db *postgres.DB, scope affiliate.Scope, now time.Time) ([]account.APIKey, error) {
	const query = `
		select ` + keyColumns + `
		from api_keys
		where workspace_id = $1 and mode = $2 and revoked_at is null and (expires_at is null or expires_at > $3)
		order by created_at desc, id desc`
	rows, err := db.Query(ctx, query, scope.Workspace, scope.Mode, now)
	return postgres.AllRows(rows, err, keyRow.key)
}

// CountSecretKeys counts the secret keys of a scope that are active at the given time.
func CountSecretKeys(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, now time.Time) (active int, err error) {
	const count = `
		select count(*) from api_keys
		where workspace_id = $1 and mode = $2 and kind = 'secret'
		  and revoked_at is null and (expires_at is null or expires_at > $3)`
	err = tx.QueryRow(ctx, count, scope.Workspace, scope.Mode, now).Scan(&active)
	return active, err
}

// LockKey locks an API key and returns it. Errors: NOT_FOUND.
func LockKey(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.APIKeyID) (account.APIKey, error) {
	const lock = `
		select ` + keyColumns + `
		from api_keys
		where workspace_id = $1 and mode = $2 and id = $3
		for no key update`
	row, err := postgres.OneRow[keyRow](tx.Query(ctx, lock, scope.Workspace, scope.Mode, id))
	return row.key(), err
}

// InsertKey stores an API key.
func InsertKey(ctx context.Context, tx *postgres.Tx, key account.NewAPIKey) error {
	const insert = `
		insert into api_keys (workspace_id, id, mode, kind, name, digest, public_text, prefix, last4, created_at, expires_at)
		values (@workspace, @id, @mode, @kind, @name, @digest, nullif(@public_text, ''), @prefix, @last4, @created_at, @expires_at)`
	_, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"workspace": key.Scope.Workspace, "id": key.ID, "mode": key.Scope.Mode, "kind": key.Kind, "name": key.Name,
		"digest": key.Digest[:], "public_text": key.PublicText, "prefix": key.Prefix, "last4": key.Last4,
		"created_at": key.CreatedAt, "expires_at": key.ExpiresAt,
	})
	return err
}

// UpdateKey stores the times at which an API key expires and was revoked or rolled.
func UpdateKey(ctx context.Context, tx *postgres.Tx, key account.APIKey) error {
	const update = `
		update api_keys set expires_at = @expires_at, revoked_at = @revoked_at, rolled_at = @rolled_at
		where workspace_id = @workspace and mode = @mode and id = @id`
	_, err := tx.Exec(ctx, update, pgx.NamedArgs{
		"workspace": key.Scope.Workspace, "mode": key.Scope.Mode, "id": key.ID,
		"expires_at": key.ExpiresAt, "revoked_at": key.RevokedAt, "rolled_at": key.RolledAt,
	})
	return err
}

// keyLookup is a look-up of an API key by its digest.
type keyLookup struct {
	digest [sha256.Size]byte
	key    account.APIKey
	found  bool
}

// Keys finds API keys by their digests. Look-ups that run at the same time share one round
// trip. A Keys is safe for concurrent use.
type Keys struct {
	db      *postgres.DB
	lookups *postgres.Lookups[*keyLookup]
}

// NewKeys returns a Keys that uses db.
func NewKeys(db *postgres.DB) *Keys { return &Keys{db, postgres.NewLookups(db, findKeys)} }

// Use returns the API key with the given digest if the key is active at the given time, and
// stores the time of its use, rounded down to keyUseResolution. The search covers all
// workspaces, because the key determines the workspace.
func (k *Keys) Use(ctx context.Context, digest [sha256.Size]byte, now time.Time) (key account.APIKey, found bool, err error) {
	const touch = `
		update api_keys set last_used_at = $3
		where workspace_id = $1 and id = $2 and (last_used_at is null or last_used_at < $4)`
	lookup := &keyLookup{digest: digest}
	if err := k.lookups.Do(ctx, lookup); err != nil || !lookup.found || !lookup.key.Active(now) {
		return account.APIKey{}, false, err
	}
	key = lookup.key
	if stale := now.Add(-keyUseResolution); key.LastUsedAt == nil || key.LastUsedAt.Before(stale) {
		minute := now.Truncate(keyUseResolution)
		if _, err := k.db.Exec(ctx, touch, key.Scope.Workspace, key.ID, minute, stale); err != nil {
			return account.APIKey{}, false, err
		}
	}
	return key, true, nil
}

// findKeys reads the API keys for a group of look-ups in one statement.
func findKeys(ctx context.Context, pool *pgxpool.Pool, group []*keyLookup) error {
	const query = `select ` + keyColumns + ` from api_keys where digest = any($1) and revoked_at is null`
	byDigest := map[[sha256.Size]byte][]*keyLookup{}
	for _, lookup := range group {
		byDigest[lookup.digest] = append(byDigest[lookup.digest], lookup)
	}
	digests := make([][]byte, 0, len(byDigest))
	for digest := range byDigest {
		digests = append(digests, bytes.Clone(digest[:]))
	}
	rows, err := pool.Query(ctx, query, digests)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[keyRow])
	for _, row := range found {
		for _, lookup := range byDigest[[sha256.Size]byte(row.Digest)] {
			lookup.key, lookup.found = row.key(), true
		}
	}
	return err
}
