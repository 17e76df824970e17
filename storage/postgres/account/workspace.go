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
	total, err := postgres.Value[int64](ctx, db, countMembers, args)
	if err != nil {
		return nil, 0, err
	}
	members, err := postgres.List[account.TeamMember](ctx, db, list, args)
	return members, total, err
}

// Member returns a member of a workspace. Errors: NOT_FOUND.
func Member(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, user affiliate.UserID) (account.TeamMember, error) {
	const query = selectMembers + ` and m.user_id = @user`
	return postgres.OneRow[account.TeamMember](tx.Query(ctx, query, pgx.NamedArgs{"workspace": workspace, "user": user}))
}

// HasVerifiedMember reports whether a member of a workspace has an address and has verified
// it. email must be in lower case.
func HasVerifiedMember(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, email string) (bool, error) {
	const query = `
		select exists (
			select from members m join users u on u.id = m.user_id
			where m.workspace_id = $1 and u.email = $2 and u.email_verified_at is not null)`
	return postgres.Value[bool](ctx, tx, query, workspace, email)
}

// CountOwners counts the owners of a workspace.
func CountOwners(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID) (int, error) {
	const count = `select count(*) from members where workspace_id = $1 and role = 'owner'`
	return postgres.Value[int](ctx, tx, count, workspace)
}

// WorkspaceInUse reports whether a workspace has several members or a programme in live mode
// that is not a draft.
func WorkspaceInUse(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID) (bool, error) {
	const query = `
		select (select count(*) from members where workspace_id = $1) > 1
			or exists (select from programs where workspace_id = $1 and mode = 'live' and status <> 'draft')`
	return postgres.Value[bool](ctx, tx, query, workspace)
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
	return postgres.Exec(ctx, tx, insert, member.Workspace, user, member.Role, at)
}

// UpdateRole stores the role of a member.
func UpdateRole(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, user affiliate.UserID, role affiliate.Role) error {
	return postgres.Exec(ctx, tx, `update members set role = $3 where workspace_id = $1 and user_id = $2`, workspace, user, role)
}

// DeleteMember removes a user from a workspace. The row of the user remains.
func DeleteMember(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, user affiliate.UserID) error {
	return postgres.Exec(ctx, tx, `delete from members where workspace_id = $1 and user_id = $2`, workspace, user)
}

type newInviteRow struct {
	account.MemberInvite
	Digest     []byte
	MailDigest []byte
}

// tokenInviteRow is an invitation that was found by a token. Mailed is true if this token was
// sent by mail.
type tokenInviteRow struct {
	account.MemberInvite
	Mailed bool
}

const openInvites = `
	from member_invites i
	where i.workspace_id = @workspace and i.ended_at is null and i.expires_at > @now`

var (
	inviteColumns = postgres.Columns[account.MemberInvite]("i")
	insertInvite  = postgres.RowsOf[newInviteRow](`insert into member_invites ({columns}) values {rows}`)
	listInvites   = `select ` + inviteColumns + `, ` + postgres.ActorName("i.invited_by::text", "i.workspace_id") + ` as invited_by_name` + openInvites + `
		order by i.created_at desc, i.id desc
		limit @limit offset @offset`
	lockInvite = `select ` + inviteColumns + ` from member_invites i where i.workspace_id = $1 and i.id = $2 for no key update`
	// The statement has no condition on the workspace, because the token determines the
	// workspace.
	inviteByToken = `
		select ` + inviteColumns + `, i.mail_digest = $1 as mailed
		from member_invites i
		where i.digest = $1 or i.mail_digest = $1`
	lockInviteByToken = inviteByToken + ` for no key update`
	lockInvitesTo     = `
		select ` + inviteColumns + `
		from member_invites i
		where i.workspace_id = $1 and i.email = $2 and i.ended_at is null
		for no key update`
)

var countInvites = postgres.CountUpTo(affiliate.MaxTotal, openInvites)

// OpenInvites returns one page of a workspace's invitations that are open at the given
// time, newest first, and the number of open invitations, up to affiliate.MaxTotal.
func OpenInvites(
	ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, now time.Time, page affiliate.Page,
) ([]account.ListedInvite, int64, error) {
	args := pgx.NamedArgs{"workspace": workspace, "now": now, "limit": page.Size, "offset": page.Offset()}
	total, err := postgres.Value[int64](ctx, db, countInvites, args)
	if err != nil {
		return nil, 0, err
	}
	invites, err := postgres.List[account.ListedInvite](ctx, db, listInvites, args)
	return invites, total, err
}

// InviteByToken returns the invitation that has a token with the given digest. mailed reports
// whether this token was sent by mail. Errors: NOT_FOUND.
func InviteByToken(ctx context.Context, db *postgres.DB, digest [sha256.Size]byte) (invite account.MemberInvite, mailed bool, err error) {
	row, err := postgres.OneRow[tokenInviteRow](db.Query(ctx, inviteByToken, digest[:]))
	return row.MemberInvite, row.Mailed, err
}

// LockInviteByToken locks the invitation that InviteByToken returns. Errors: NOT_FOUND.
func LockInviteByToken(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte) (invite account.MemberInvite, mailed bool, err error) {
	row, err := postgres.OneRow[tokenInviteRow](tx.Query(ctx, lockInviteByToken, digest[:]))
	return row.MemberInvite, row.Mailed, err
}

// ParticipantInviteAddress returns the e-mail address, in lower case, of the invitation to a
// programme that has a token with the given digest. mailed reports whether this token was sent
// by mail. The address is empty if there is no such invitation, or if it cannot be accepted at
// the given time. The token determines the workspace.
func ParticipantInviteAddress(ctx context.Context, db *postgres.DB, digest [sha256.Size]byte, now time.Time) (address string, mailed bool, err error) {
	const query = `
		select email, mail_digest = $1
		from participant_invites
		where (digest = $1 or mail_digest = $1) and ended_at is null and expires_at > $2`
	err = db.QueryRow(ctx, query, digest[:], now).Scan(&address, &mailed)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	return address, mailed, err
}

// LockInvite locks an invitation and returns it. Errors: NOT_FOUND.
func LockInvite(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, id affiliate.InviteID) (account.MemberInvite, error) {
	return postgres.OneRow[account.MemberInvite](tx.Query(ctx, lockInvite, workspace, id))
}

// LockInvitesTo locks and returns a workspace's invitations to an email address that
// have neither been accepted nor revoked. Expired invitations are included.
func LockInvitesTo(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, email string) ([]account.MemberInvite, error) {
	return postgres.List[account.MemberInvite](ctx, tx, lockInvitesTo, workspace, email)
}

// InsertInvite stores an invitation with the digests of its tokens.
func InsertInvite(ctx context.Context, tx *postgres.Tx, invite account.MemberInvite, digests account.InviteDigests) error {
	_, err := insertInvite.Exec(ctx, tx, newInviteRow{invite, digests.Shown[:], digests.Mailed[:]})
	return err
}

// EndInvite ends an invitation, so that it can no longer be accepted.
func EndInvite(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, id affiliate.InviteID, at time.Time) error {
	return postgres.Exec(ctx, tx, `update member_invites set ended_at = $3 where workspace_id = $1 and id = $2`, workspace, id, at)
}

// EndInvitesBy ends the open invitations that a member has sent for any of the given
// roles. It returns their ids.
func EndInvitesBy(
	ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, inviter affiliate.UserID, roles []affiliate.Role, at time.Time,
) ([]affiliate.InviteID, error) {
	const end = `
		update member_invites set ended_at = @at
		where workspace_id = @workspace and invited_by = @by and ended_at is null and expires_at > @at
		  and role = any(@roles)
		returning id`
	return postgres.Values[affiliate.InviteID](ctx, tx, end, pgx.NamedArgs{"workspace": workspace, "by": inviter, "at": at, "roles": roles})
}
