package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// keyUseResolution is the precision of last_used_at of API keys and service tokens. The time of
// a use is stored only if the stored time is older than this. Therefore a key that is used all
// the time causes at most one write per minute.
const keyUseResolution = time.Minute

var (
	keyColumns = postgres.Columns[account.APIKey]("k")
	activeKeys = `
		select ` + keyColumns + `
		from api_keys k
		where k.workspace_id = $1 and k.mode = $2 and k.revoked_at is null and (k.expires_at is null or k.expires_at > $3)
		order by k.created_at desc, k.id desc`
	lockKey = `
		select ` + keyColumns + `
		from api_keys k
		where k.workspace_id = $1 and k.mode = $2 and k.id = $3
		for no key update`
	keysByDigest = `select ` + keyColumns + ` from api_keys k where k.digest = any($1) and k.revoked_at is null`
	insertKey    = postgres.RowsOf[account.APIKey](`insert into api_keys ({columns}) values {rows}`)
	updateKey    = postgres.RowsOf[account.APIKey](`
		update api_keys k set {changes}
		from (values {typed rows}) as t ({columns})
		where k.workspace_id = t.workspace_id and k.mode = t.mode and k.id = t.id`)
)

// ActiveKeys returns the API keys of a scope that are active at the given time, newest
// first. A key that was rolled is included until its grace period ends.
func ActiveKeys(ctx context.Context, db *postgres.DB, scope affiliate.Scope, now time.Time) ([]account.APIKey, error) {
	return postgres.List[account.APIKey](ctx, db, activeKeys, scope.Workspace, scope.Mode, now)
}

// CountSecretKeys counts the secret keys of a scope that are active at the given time.
func CountSecretKeys(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, now time.Time) (int, error) {
	const count = `
		select count(*) from api_keys
		where workspace_id = $1 and mode = $2 and kind = 'secret'
		  and revoked_at is null and (expires_at is null or expires_at > $3)`
	return postgres.Value[int](ctx, tx, count, scope.Workspace, scope.Mode, now)
}

// LockKey locks an API key and returns it. Errors: NOT_FOUND.
func LockKey(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.APIKeyID) (account.APIKey, error) {
	return postgres.OneRow[account.APIKey](tx.Query(ctx, lockKey, scope.Workspace, scope.Mode, id))
}

// InsertKey stores an API key.
func InsertKey(ctx context.Context, tx *postgres.Tx, key account.APIKey) error {
	_, err := insertKey.Exec(ctx, tx, key)
	return err
}

// UpdateKey stores an API key that the transaction has locked.
func UpdateKey(ctx context.Context, tx *postgres.Tx, key account.APIKey) error {
	_, err := updateKey.Exec(ctx, tx, key)
	return err
}

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
		if _, err := k.db.Exec(ctx, touch, key.Workspace, key.ID, minute, stale); err != nil {
			return account.APIKey{}, false, err
		}
	}
	return key, true, nil
}

// findKeys reads the API keys for a group of look-ups in one statement.
func findKeys(ctx context.Context, pool *pgxpool.Pool, group []*keyLookup) error {
	byDigest := map[[sha256.Size]byte][]*keyLookup{}
	for _, lookup := range group {
		byDigest[lookup.digest] = append(byDigest[lookup.digest], lookup)
	}
	digests := make([][]byte, 0, len(byDigest))
	for digest := range byDigest {
		digests = append(digests, bytes.Clone(digest[:]))
	}
	rows, _ := pool.Query(ctx, keysByDigest, digests)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[account.APIKey])
	for _, row := range found {
		for _, lookup := range byDigest[[sha256.Size]byte(row.Digest)] {
			lookup.key, lookup.found = row, true
		}
	}
	return err
}

const activeServiceTokens = `
	from service_tokens t
	where t.workspace_id = @workspace and t.mode = any(@modes::text[]) and t.revoked_at is null and t.expires_at > @now`

var (
	serviceTokenColumns = postgres.Columns[account.ServiceToken]("t")
	listServiceTokens   = `select ` + serviceTokenColumns + `, ` + postgres.ActorName("t.created_by::text", "t.workspace_id") + ` as created_by_name` + activeServiceTokens + `
		order by t.created_at desc, t.id desc
		limit @limit offset @offset`
	countServiceTokens = `select count(*)` + activeServiceTokens
	lockServiceToken   = `
		select ` + serviceTokenColumns + `
		from service_tokens t
		where t.workspace_id = $1 and t.mode in ('test', 'live') and t.id = $2
		for no key update`
	findServiceToken   = `select ` + serviceTokenColumns + ` from service_tokens t where t.digest = $1 and t.revoked_at is null`
	insertServiceToken = postgres.RowsOf[account.ServiceToken](`insert into service_tokens ({columns}) values {rows}`)
	updateServiceToken = postgres.RowsOf[account.ServiceToken](`
		update service_tokens s set {changes}
		from (values {typed rows}) as t ({columns})
		where s.workspace_id = t.workspace_id and s.mode = t.mode and s.id = t.id`)
)

// ServiceTokens returns one page of a workspace's service tokens of the given modes that
// are active at the given time, newest first, and the number of all these tokens.
func ServiceTokens(
	ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, modes []affiliate.Mode, now time.Time, page affiliate.Page,
) ([]account.ListedServiceToken, int64, error) {
	args := pgx.NamedArgs{"workspace": workspace, "modes": modes, "now": now, "limit": page.Size, "offset": page.Offset()}
	total, err := postgres.Value[int64](ctx, db, countServiceTokens, args)
	if err != nil {
		return nil, 0, err
	}
	tokens, err := postgres.List[account.ListedServiceToken](ctx, db, listServiceTokens, args)
	return tokens, total, err
}

// CountServiceTokens counts the service tokens of a scope that are active at the given
// time.
func CountServiceTokens(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, now time.Time) (int, error) {
	args := pgx.NamedArgs{"workspace": scope.Workspace, "modes": []affiliate.Mode{scope.Mode}, "now": now}
	return postgres.Value[int](ctx, tx, countServiceTokens, args)
}

// LockServiceToken locks a service token and returns it. Errors: NOT_FOUND.
func LockServiceToken(
	ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, id affiliate.ServiceTokenID,
) (account.ServiceToken, error) {
	return postgres.OneRow[account.ServiceToken](tx.Query(ctx, lockServiceToken, workspace, id))
}

// InsertServiceToken stores a service token.
func InsertServiceToken(ctx context.Context, tx *postgres.Tx, token account.ServiceToken) error {
	_, err := insertServiceToken.Exec(ctx, tx, token)
	return err
}

// UpdateServiceToken stores a service token that the transaction has locked.
func UpdateServiceToken(ctx context.Context, tx *postgres.Tx, token account.ServiceToken) error {
	_, err := updateServiceToken.Exec(ctx, tx, token)
	return err
}

// ActiveServiceToken returns the service token with the given digest if the token is
// active at the given time. It stores the time of its use, rounded down to
// keyUseResolution, and the network of the client. The search covers all workspaces,
// because the token determines the workspace.
func ActiveServiceToken(
	ctx context.Context, db *postgres.DB, digest [sha256.Size]byte, ipPrefix string, now time.Time,
) (token account.ServiceToken, found bool, err error) {
	const touch = `
		update service_tokens set last_used_at = $3, last_used_ip_prefix = nullif($4, '')
		where workspace_id = $1 and mode = $6 and id = $2 and (last_used_at is null or last_used_at < $5)`
	token, err = postgres.OneRow[account.ServiceToken](db.Query(ctx, findServiceToken, digest[:]))
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return account.ServiceToken{}, false, nil
	}
	if err != nil || !token.Active(now) {
		return account.ServiceToken{}, false, err
	}
	if stale := now.Add(-keyUseResolution); token.LastUsedAt == nil || token.LastUsedAt.Before(stale) {
		minute := now.Truncate(keyUseResolution)
		if _, err := db.Exec(ctx, touch, token.Workspace, token.ID, minute, ipPrefix, stale, token.Mode); err != nil {
			return account.ServiceToken{}, false, err
		}
	}
	return token, true, nil
}

// ActiveParticipant returns an approved participant, and whether the address of the partner is
// verified. ok is false if the participant does not exist, was erased, is not approved or lacks
// the partner's consent. There is no condition on the mode, because the caller's token names the
// participant. The mode is in the result.
func ActiveParticipant(
	ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, id affiliate.ParticipantID,
) (ref participant.Ref, verified, ok bool, err error) {
	const query = `
		select t.mode, t.program_id, t.partner_id, u.email_verified_at is not null
		from participants t join users u on u.id = t.partner_id
		where t.workspace_id = $1 and t.id = $2 and t.status = 'approved' and t.partner_consent is null and t.erased_at is null`
	ref.Scope.Workspace, ref.Participant = workspace, id
	err = db.QueryRow(ctx, query, workspace, id).Scan(&ref.Scope.Mode, &ref.Program, &ref.Partner, &verified)
	if errors.Is(err, pgx.ErrNoRows) {
		return ref, false, false, nil
	}
	return ref, verified, err == nil, err
}
