package account

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var (
	selectWorkspace = `select ` + postgres.Columns[account.Workspace]("w") + ` from workspaces w where w.id = $1`
	lockSettings    = selectWorkspace + ` and w.erased_at is null for no key update`
	insertWorkspace = postgres.RowsOf[account.Workspace](`insert into workspaces ({columns}) values {rows}`)
	updateWorkspace = postgres.RowsOf[account.Workspace](`
		update workspaces w set {changes}
		from (values {typed rows}) as t ({columns})
		where w.id = t.id`)
)

// Workspace returns a workspace. Errors: NOT_FOUND.
func Workspace(ctx context.Context, db postgres.Queryer, id affiliate.WorkspaceID) (account.Workspace, error) {
	return postgres.OneRow[account.Workspace](db.Query(ctx, selectWorkspace, id))
}

// LockSettings locks the row of a workspace and returns the workspace. Errors: NOT_FOUND, also
// if the workspace is erased.
func LockSettings(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) (account.Workspace, error) {
	return postgres.OneRow[account.Workspace](tx.Query(ctx, lockSettings, id))
}

// InsertWorkspace stores a workspace.
func InsertWorkspace(ctx context.Context, tx *postgres.Tx, w account.Workspace) error {
	_, err := insertWorkspace.Exec(ctx, tx, w)
	return err
}

// UpdateWorkspace stores the settings of a workspace that the transaction has locked.
func UpdateWorkspace(ctx context.Context, tx *postgres.Tx, w account.Workspace) error {
	_, err := updateWorkspace.Exec(ctx, tx, w)
	return err
}

const selectMembers = `
	select u.id, u.name, u.email, m.role, m.created_at,
		exists (select from second_factors f where f.user_id = u.id and f.confirmed_at is not null) as second_factor
	from members m
	join users u on u.id = m.user_id
	where m.workspace_id = @workspace`

var countMembers = postgres.CountUpTo(affiliate.MaxTotal, `from members where workspace_id = @workspace`)

// Members returns one page of the members of a workspace, oldest first, and the number of
// members, up to affiliate.MaxTotal.
func Members(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, page affiliate.Page) ([]account.TeamMember, int64, error) {
	const list = selectMembers + `
		order by m.created_at, m.user_id
		limit @limit offset @offset`
	args := pgx.NamedArgs{"workspace": workspace, "limit": page.Size, "offset": page.Offset()}
	var total int64
	if err := db.QueryRow(ctx, countMembers, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, list, args)
	if err != nil {
		return nil, 0, err
	}
	members, err := pgx.CollectRows(rows, pgx.RowToStructByName[account.TeamMember])
	return members, total, err
}

// Member returns a member of a workspace. Errors: NOT_FOUND.
func Member(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, user affiliate.UserID) (account.TeamMember, error) {
	const query = selectMembers + ` and m.user_id = @user`
	return postgres.OneRow[account.TeamMember](tx.Query(ctx, query, pgx.NamedArgs{"workspace": workspace, "user": user}))
}

// HasVerifiedMember reports whether a member of a workspace has an address and has verified
// it. email must be in lower case.
func HasVerifiedMember(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, email string) (found bool, err error) {
	const query = `
		select exists (
			select from members m join users u on u.id = m.user_id
			where m.workspace_id = $1 and u.email = $2 and u.email_verified_at is not null)`
	err = tx.QueryRow(ctx, query, workspace, email).Scan(&found)
	return found, err
}

// CountOwners counts the owners of a workspace.
func CountOwners(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID) (owners int, err error) {
	const count = `select count(*) from members where workspace_id = $1 and role = 'owner'`
	err = tx.QueryRow(ctx, count, workspace).Scan(&owners)
	return owners, err
}

// WorkspaceInUse reports whether a workspace has several members or a programme in live
// mode that was active.
func WorkspaceInUse(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID) (used bool, err error) {
	const query = `
		select (select count(*) from members where workspace_id = $1) > 1
			or exists (select from programs where workspace_id = $1 and mode = 'live' and status <> 'draft')`
	err = tx.QueryRow(ctx, query, workspace).Scan(&used)
	return used, err
}

// RevokeCredentials revokes the secret keys and the service tokens of a workspace.
func RevokeCredentials(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, at time.Time) error {
	const (
		keys   = `update api_keys set revoked_at = $2 where workspace_id = $1 and kind = 'secret' and revoked_at is null`
		tokens = `update service_tokens set revoked_at = $2 where workspace_id = $1 and revoked_at is null`
	)
	for _, statement := range []string{keys, tokens} {
		if _, err := tx.Exec(ctx, statement, workspace, at); err != nil {
			return err
		}
	}
	return nil
}

// InsertMember adds a user to a workspace.
func InsertMember(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, member account.Member, at time.Time) error {
	const insert = `insert into members (workspace_id, user_id, role, created_at) values ($1, $2, $3, $4)`
	_, err := tx.Exec(ctx, insert, member.Workspace, user, member.Role, at)
	return err
}

// UpdateRole stores the role of a member.
func UpdateRole(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, user affiliate.UserID, role affiliate.Role) error {
	const update = `update members set role = $3 where workspace_id = $1 and user_id = $2`
	_, err := tx.Exec(ctx, update, workspace, user, role)
	return err
}

// DeleteMember removes a user from a workspace. The row of the user remains.
func DeleteMember(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, user affiliate.UserID) error {
	const remove = `delete from members where workspace_id = $1 and user_id = $2`
	_, err := tx.Exec(ctx, remove, workspace, user)
	return err
}
