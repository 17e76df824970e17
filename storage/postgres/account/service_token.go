package account

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const serviceTokenColumns = `
	t.workspace_id, t.mode, t.id, t.name, t.role, t.allow_payouts, t.prefix, t.last4, t.created_by, t.created_at,
	t.expires_at, t.revoked_at, t.rolled_at, t.last_used_at, t.last_used_ip_prefix`

type serviceTokenRow struct {
	WorkspaceID      affiliate.WorkspaceID
	Mode             affiliate.Mode
	ID               affiliate.ServiceTokenID
	Name             string
	Role             affiliate.Role
	AllowPayouts     bool
	Prefix           string
	Last4            string
	CreatedBy        affiliate.UserID
	CreatedAt        time.Time
	ExpiresAt        time.Time
	RevokedAt        *time.Time
	RolledAt         *time.Time
	LastUsedAt       *time.Time
	LastUsedIPPrefix *string `db:"last_used_ip_prefix"`
}

func (r serviceTokenRow) token() account.ServiceToken {
	return account.ServiceToken{
		ID: r.ID, Scope: affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode}, Name: r.Name, Role: r.Role,
		AllowPayouts: r.AllowPayouts, Prefix: r.Prefix, Last4: r.Last4, CreatedBy: r.CreatedBy,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, RevokedAt: r.RevokedAt,
		RolledAt: r.RolledAt, LastUsedAt: r.LastUsedAt, LastUsedIPPrefix: r.LastUsedIPPrefix,
	}
}

const (
	activeServiceTokens = `
		from service_tokens t
		where t.workspace_id = @workspace and t.mode = any(@modes::text[]) and t.revoked_at is null and t.expires_at > @now`
	listServiceTokens = `select ` + serviceTokenColumns + activeServiceTokens + `
		order by t.created_at desc, t.id desc
		limit @limit offset @offset`
	countServiceTokens = `select count(*)` + activeServiceTokens
)

// ServiceTokens returns one page of a workspace's service tokens of the given modes that
// are active at the given time, newest first, and the number of all these tokens.
func ServiceTokens(
	ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, modes []affiliate.Mode, now time.Time, page affiliate.Page,
) ([]account.ServiceToken, int64, error) {
	args := pgx.NamedArgs{"workspace": workspace, "modes": modes, "now": now, "limit": page.Size, "offset": page.Offset()}
	var total int64
	if err := db.QueryRow(ctx, countServiceTokens, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, listServiceTokens, args)
	tokens, err := postgres.AllRows(rows, err, serviceTokenRow.token)
	return tokens, total, err
}

// CountServiceTokens counts the service tokens of a scope that are active at the given
// time.
func CountServiceTokens(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, now time.Time) (active int, err error) {
	args := pgx.NamedArgs{"workspace": scope.Workspace, "modes": []affiliate.Mode{scope.Mode}, "now": now}
	err = tx.QueryRow(ctx, countServiceTokens, args).Scan(&active)
	return active, err
}

// LockServiceToken locks a service token and returns it. Errors: NOT_FOUND.
func LockServiceToken(
	ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, id affiliate.ServiceTokenID,
) (account.ServiceToken, error) {
	const lock = `
		select ` + serviceTokenColumns + `
		from service_tokens t
		where t.workspace_id = $1 and t.mode in ('test', 'live') and t.id = $2
		for no key update`
	row, err := postgres.OneRow[serviceTokenRow](tx.Query(ctx, lock, workspace, id))
	return row.token(), err
}

// InsertServiceToken stores a service token.
func InsertServiceToken(ctx context.Context, tx *postgres.Tx, token account.NewServiceToken) error {
	const insert = `
		insert into service_tokens (workspace_id, id, mode, name, role, allow_payouts, digest, prefix, last4, created_by, created_at, expires_at)
		values (@workspace, @id, @mode, @name, @role, @allow_payouts, @digest, @prefix, @last4, @created_by, @created_at, @expires_at)`
	_, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"workspace": token.Scope.Workspace, "id": token.ID, "mode": token.Scope.Mode, "name": token.Name, "role": token.Role,
		"allow_payouts": token.AllowPayouts, "digest": token.Digest[:], "prefix": token.Prefix, "last4": token.Last4,
		"created_by": token.CreatedBy, "created_at": token.CreatedAt, "expires_at": token.ExpiresAt,
	})
	return err
}

// UpdateServiceToken stores the times at which a service token expires and was revoked or
// rolled.
func UpdateServiceToken(ctx context.Context, tx *postgres.Tx, token account.ServiceToken) error {
	const update = `
		update service_tokens set expires_at = @expires_at, revoked_at = @revoked_at, rolled_at = @rolled_at
		where workspace_id = @workspace and mode = @mode and id = @id`
	_, err := tx.Exec(ctx, update, pgx.NamedArgs{
		"workspace": token.Scope.Workspace, "mode": token.Scope.Mode, "id": token.ID,
		"expires_at": token.ExpiresAt, "revoked_at": token.RevokedAt, "rolled_at": token.RolledAt,
	})
	return err
}

// ActiveServiceToken returns the service token with the given digest if the token is
// active at the given time. It stores the time of its use, rounded down to
// keyUseResolution, and the network of the client. The search covers all workspaces,
// because the token determines the workspace.
func ActiveServiceToken(
	ctx context.Context, db *postgres.DB, digest [sha256.Size]byte, ipPrefix string, now time.Time,
) (token account.ServiceToken, found bool, err error) {
	const (
		find  = `select ` + serviceTokenColumns + ` from service_tokens t where t.digest = $1 and t.revoked_at is null`
		touch = `
			update service_tokens set last_used_at = $3, last_used_ip_prefix = nullif($4, '')
			where workspace_id = $1 and mode = $6 and id = $2 and (last_used_at is null or last_used_at < $5)`
	)
	row, err := postgres.OneRow[serviceTokenRow](db.Query(ctx, find, digest[:]))
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return account.ServiceToken{}, false, nil
	}
	if token = row.token(); err != nil || !token.Active(now) {
		return account.ServiceToken{}, false, err
	}
	if stale := now.Add(-keyUseResolution); token.LastUsedAt == nil || token.LastUsedAt.Before(stale) {
		minute := now.Truncate(keyUseResolution)
		if _, err := db.Exec(ctx, touch, token.Scope.Workspace, token.ID, minute, ipPrefix, stale, token.Scope.Mode); err != nil {
			return account.ServiceToken{}, false, err
		}
	}
	return token, true, nil
}
