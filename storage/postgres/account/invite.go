package account

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const inviteColumns = `i.workspace_id, i.id, i.email, i.role, i.invited_by, i.created_at, i.expires_at, i.ended_at`

type inviteRow struct {
	WorkspaceID affiliate.WorkspaceID
	ID          affiliate.InviteID
	Email       string
	Role        affiliate.Role
	InvitedBy   affiliate.UserID
	CreatedAt   time.Time
	ExpiresAt   time.Time
	EndedAt     *time.Time
}

func (r inviteRow) invite() affiliate.MemberInvite {
	return affiliate.MemberInvite{
		Invite: affiliate.Invite{
			ID: r.ID, Email: r.Email, InvitedBy: r.InvitedBy,
			CreatedAt: r.CreatedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(), EndedAt: postgres.UTC(r.EndedAt),
		},
		Workspace: r.WorkspaceID,
		Role:      r.Role,
	}
}

const (
	openInvites = `
		from member_invites i
		where i.workspace_id = @workspace and i.ended_at is null and i.expires_at > @now`
	listInvites = `select ` + inviteColumns + openInvites + `
		order by i.created_at desc, i.id desc
		limit @limit offset @offset`
)

var countInvites = postgres.CountUpTo(affiliate.MaxTotal, openInvites)

// OpenInvites returns one page of a workspace's invitations that are open at the given
// time, newest first, and the number of open invitations, up to affiliate.MaxTotal.
func (s *Store) OpenInvites(
	ctx context.Context, workspace affiliate.WorkspaceID, now time.Time, page affiliate.Page,
) ([]affiliate.MemberInvite, int64, error) {
	args := pgx.NamedArgs{"workspace": workspace, "now": now, "limit": page.Size, "offset": page.Offset()}
	var total int64
	if err := s.db.Pool().QueryRow(ctx, countInvites, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := s.db.Pool().Query(ctx, listInvites, args)
	invites, err := postgres.AllRows(rows, err, inviteRow.invite)
	return invites, total, err
}

// inviteByToken has no condition on the workspace, because the token determines the
// workspace.
const inviteByToken = `select ` + inviteColumns + ` from member_invites i where i.digest = $1`

// InviteByToken returns the invitation whose token has the given digest. Errors:
// NOT_FOUND.
func (s *Store) InviteByToken(ctx context.Context, digest [sha256.Size]byte) (affiliate.MemberInvite, error) {
	row, err := postgres.OneRow[inviteRow](s.db.Pool().Query(ctx, inviteByToken, digest[:]))
	return row.invite(), err
}

// LockInviteByToken locks the invitation whose token has the given digest and returns
// it. Errors: NOT_FOUND.
func (tx *Tx) LockInviteByToken(ctx context.Context, digest [sha256.Size]byte) (affiliate.MemberInvite, error) {
	row, err := postgres.OneRow[inviteRow](tx.Query(ctx, inviteByToken+` for no key update`, digest[:]))
	return row.invite(), err
}

// ParticipantInviteAddress returns the e-mail address of the invitation to a programme
// whose token has the given digest. found is false if the invitation cannot be accepted at
// the given time. The token determines the workspace.
func (s *Store) ParticipantInviteAddress(ctx context.Context, digest [sha256.Size]byte, now time.Time) (address string, found bool, err error) {
	const query = `select email from participant_invites where digest = $1 and ended_at is null and expires_at > $2`
	err = s.db.Pool().QueryRow(ctx, query, digest[:], now).Scan(&address)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	return address, err == nil, err
}

// LockInvite locks an invitation and returns it. Errors: NOT_FOUND.
func (tx *Tx) LockInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID) (affiliate.MemberInvite, error) {
	const lock = `select ` + inviteColumns + ` from member_invites i where i.workspace_id = $1 and i.id = $2 for no key update`
	row, err := postgres.OneRow[inviteRow](tx.Query(ctx, lock, workspace, id))
	return row.invite(), err
}

// LockInvitesTo locks and returns a workspace's invitations to an email address that
// have neither been accepted nor revoked. Expired invitations are included.
func (tx *Tx) LockInvitesTo(ctx context.Context, workspace affiliate.WorkspaceID, email string) ([]affiliate.MemberInvite, error) {
	const lock = `
		select ` + inviteColumns + `
		from member_invites i
		where i.workspace_id = $1 and i.email = $2 and i.ended_at is null
		for no key update`
	rows, err := tx.Query(ctx, lock, workspace, email)
	return postgres.AllRows(rows, err, inviteRow.invite)
}

// InsertInvite stores an invitation with the digest of its token.
func (tx *Tx) InsertInvite(ctx context.Context, invite affiliate.MemberInvite, digest [sha256.Size]byte) error {
	const insert = `
		insert into member_invites (workspace_id, id, email, role, digest, invited_by, created_at, expires_at)
		values (@workspace, @id, @email, @role, @digest, @invited_by, @created_at, @expires_at)`
	_, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"workspace": invite.Workspace, "id": invite.ID, "email": invite.Email, "role": invite.Role, "digest": digest[:],
		"invited_by": invite.InvitedBy, "created_at": invite.CreatedAt, "expires_at": invite.ExpiresAt,
	})
	return err
}

// EndInvite ends an invitation, so that it can no longer be accepted.
func (tx *Tx) EndInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID, at time.Time) error {
	const end = `update member_invites set ended_at = $3 where workspace_id = $1 and id = $2`
	_, err := tx.Exec(ctx, end, workspace, id, at)
	return err
}

// EndInvitesBy ends the open invitations that a member has sent for any of the given
// roles. It returns their ids.
func (tx *Tx) EndInvitesBy(
	ctx context.Context, workspace affiliate.WorkspaceID, inviter affiliate.UserID, roles []affiliate.Role, at time.Time,
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
