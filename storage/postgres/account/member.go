package account

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const selectMembers = `
	select u.id, u.name, u.email, m.role, m.created_at,
		exists (select from second_factors f where f.user_id = u.id and f.confirmed_at is not null) as second_factor
	from members m
	join users u on u.id = m.user_id
	where m.workspace_id = @workspace`

var countMembers = postgres.CountUpTo(affiliate.MaxTotal, `from members where workspace_id = @workspace`)

type memberRow struct {
	ID        affiliate.UserID
	Name      string
	Email     string
	Role      affiliate.Role
	CreatedAt time.Time
	// SecondFactor is true if the member has a second factor that is confirmed.
	SecondFactor bool
}

func (r memberRow) member() account.TeamMember {
	return account.TeamMember{ID: r.ID, Name: r.Name, Email: r.Email, Role: r.Role, SecondFactor: r.SecondFactor, CreatedAt: r.CreatedAt}
}

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
	members, err := postgres.AllRows(rows, err, memberRow.member)
	return members, total, err
}

// Member returns a member of a workspace. Errors: NOT_FOUND.
func Member(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, user affiliate.UserID) (account.TeamMember, error) {
	const query = selectMembers + ` and m.user_id = @user`
	row, err := postgres.OneRow[memberRow](tx.Query(ctx, query, pgx.NamedArgs{"workspace": workspace, "user": user}))
	return row.member(), err
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
