package account

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const activeServiceTokens = `
	from service_tokens t
	where t.workspace_id = @workspace and t.mode = any(@modes::text[]) and t.revoked_at is null and t.expires_at > @now`

var (
	serviceTokenColumns = postgres.Columns[account.ServiceToken]("t")
	listServiceTokens   = `select ` + serviceTokenColumns + activeServiceTokens + `
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
) ([]account.ServiceToken, int64, error) {
	args := pgx.NamedArgs{"workspace": workspace, "modes": modes, "now": now, "limit": page.Size, "offset": page.Offset()}
	var total int64
	if err := db.QueryRow(ctx, countServiceTokens, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, listServiceTokens, args)
	if err != nil {
		return nil, 0, err
	}
	tokens, err := pgx.CollectRows(rows, pgx.RowToStructByName[account.ServiceToken])
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

// ActiveParticipant returns an approved participant. ok is false if the participant does
// not exist, was erased or is not approved. There is no condition on the mode, because the
// caller's token names the participant, whose mode is returned.
func ActiveParticipant(
	ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, id affiliate.ParticipantID,
) (ref participant.Ref, ok bool, err error) {
	const query = `
		select mode, program_id, partner_id from participants
		where workspace_id = $1 and id = $2 and status = 'approved' and partner_consent is null and erased_at is null`
	ref.Scope.Workspace, ref.Participant = workspace, id
	err = db.QueryRow(ctx, query, workspace, id).Scan(&ref.Scope.Mode, &ref.Program, &ref.Partner)
	if errors.Is(err, pgx.ErrNoRows) {
		return ref, false, nil
	}
	return ref, err == nil, err
}
