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

// newInviteRow is an invitation with the digests of its tokens.
type newInviteRow struct {
	account.MemberInvite
	Digest     []byte
	MailDigest []byte
}

// tokenInviteRow is an invitation that was found by a token. Mailed says that it is the token
// of the mail.
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
	listInvites   = `select ` + inviteColumns + openInvites + `
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
) ([]account.MemberInvite, int64, error) {
	args := pgx.NamedArgs{"workspace": workspace, "now": now, "limit": page.Size, "offset": page.Offset()}
	var total int64
	if err := db.QueryRow(ctx, countInvites, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, listInvites, args)
	if err != nil {
		return nil, 0, err
	}
	invites, err := pgx.CollectRows(rows, pgx.RowToStructByName[account.MemberInvite])
	return invites, total, err
}

// InviteByToken returns the invitation one of whose tokens has the given digest. mailed
// reports whether this is the token of the mail. Errors: NOT_FOUND.
func InviteByToken(ctx context.Context, db *postgres.DB, digest [sha256.Size]byte) (invite account.MemberInvite, mailed bool, err error) {
	row, err := postgres.OneRow[tokenInviteRow](db.Query(ctx, inviteByToken, digest[:]))
	return row.MemberInvite, row.Mailed, err
}

// LockInviteByToken locks the invitation that InviteByToken returns. Errors: NOT_FOUND.
func LockInviteByToken(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte) (invite account.MemberInvite, mailed bool, err error) {
	row, err := postgres.OneRow[tokenInviteRow](tx.Query(ctx, lockInviteByToken, digest[:]))
	return row.MemberInvite, row.Mailed, err
}

// ParticipantInviteAddress returns the e-mail address, in lower case, of the invitation to
// a programme one of whose tokens has the given digest. mailed reports whether this is the
// token of the mail. The address is empty if the invitation cannot be accepted at the given
// time. The token determines the workspace.
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
	rows, err := tx.Query(ctx, lockInvitesTo, workspace, email)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[account.MemberInvite])
}

// InsertInvite stores an invitation with the digests of its tokens.
func InsertInvite(ctx context.Context, tx *postgres.Tx, invite account.MemberInvite, digests account.InviteDigests) error {
	_, err := insertInvite.Exec(ctx, tx, newInviteRow{invite, digests.Shown[:], digests.Mailed[:]})
	return err
}

// EndInvite ends an invitation, so that it can no longer be accepted.
func EndInvite(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, id affiliate.InviteID, at time.Time) error {
	const end = `update member_invites set ended_at = $3 where workspace_id = $1 and id = $2`
	_, err := tx.Exec(ctx, end, workspace, id, at)
	return err
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
	rows, err := tx.Query(ctx, end, pgx.NamedArgs{"workspace": workspace, "by": inviter, "at": at, "roles": roles})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[affiliate.InviteID])
}
