package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

type memberInviteRow struct {
	WorkspaceID affiliate.WorkspaceID `db:"workspace_id"`
	ID          affiliate.InviteID    `db:"id"`
	Email       string                `db:"email"`
	Role        affiliate.Role        `db:"role"`
	InvitedBy   affiliate.UserID      `db:"invited_by"`
	CreatedAt   time.Time             `db:"created_at"`
	ExpiresAt   time.Time             `db:"expires_at"`
}

func (r memberInviteRow) invite() affiliate.MemberInvite {
	return affiliate.MemberInvite{
		Invite: affiliate.Invite{
			ID: r.ID, Email: r.Email, InvitedBy: r.InvitedBy, CreatedAt: r.CreatedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(),
		},
		Workspace: r.WorkspaceID,
		Role:      r.Role,
	}
}

const memberInviteColumns = `i.workspace_id, i.id, i.email, i.role, i.invited_by, i.created_at, i.expires_at`

const (
	whereInvitesOpen = `
		from member_invites i
		where i.workspace_id = @workspace and i.ended_at is null and i.expires_at > @now`
	countMemberInvites = `select count(*)` + whereInvitesOpen
	listMemberInvites  = `select ` + memberInviteColumns + whereInvitesOpen + `
		order by i.created_at desc, i.id desc
		limit @limit offset @offset`
)

// MemberInvites reads one page of those that can still be accepted, newest first,
// and counts all pages.
func (s *Store) MemberInvites(ctx context.Context, workspace affiliate.WorkspaceID, now time.Time, page affiliate.Page) ([]affiliate.MemberInvite, int64, error) {
	args := pgx.NamedArgs{"workspace": workspace, "now": now, "limit": page.Size, "offset": page.Offset()}
	var total int64
	if err := s.pool.QueryRow(ctx, countMemberInvites, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := s.pool.Query(ctx, listMemberInvites, args)
	invites, err := AllRows(rows, err, memberInviteRow.invite)
	return invites, total, err
}

// inviteObject is an invitation as the audit log shows it. The log is never
// changed, so the address is not in it.
func inviteObject(invite affiliate.MemberInvite) map[string]string {
	return map[string]string{"email": affiliate.MaskEmail(invite.Email), "role": string(invite.Role)}
}

func inviteAudit(invite affiliate.MemberInvite, action string, at time.Time, by affiliate.Actor) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: invite.Workspace, Actor: by, At: at,
		Action: action, ResourceType: "member_invite", ResourceID: invite.ID,
	}
}

// hasWorkspace reports whether the merchant's account of an address is a member
// of any workspace. It names none: an address has one account, and that one at
// most one workspace.
func hasWorkspace(ctx context.Context, tx *Tx, email string) (has bool, err error) {
	const query = `
		select exists (
			select from users u join members m on m.user_id = u.id
			where u.kind = 'merchant' and u.email = $1
		)`
	err = tx.QueryRow(ctx, query, email).Scan(&has)
	return has, err
}

// CreateMemberInvite stores an invitation and ends an earlier one of the address.
// Errors: FORBIDDEN for a role that the actor may not give, now or in the earlier
// one, EMAIL_TAKEN.
func (s *Store) CreateMemberInvite(ctx context.Context, invite affiliate.MemberInvite, digest [sha256.Size]byte, by affiliate.Actor) error {
	const insert = `
		insert into member_invites (workspace_id, id, email, role, digest, invited_by, created_at, expires_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8)`
	return s.InTx(ctx, func(tx *Tx) error {
		// Of invitations of one address at the same time, the last stays open.
		if err := tx.LockWorkspace(ctx, invite.Workspace); err != nil {
			return err
		}
		caller, err := callerRole(ctx, tx, invite.Workspace, by)
		if err != nil {
			return err
		}
		if !caller.MayManage(invite.Role) {
			return affiliate.Refuse(affiliate.ReasonForbidden)
		}
		taken, err := hasWorkspace(ctx, tx, invite.Email)
		if err != nil {
			return err
		}
		if taken {
			return affiliate.Refuse(affiliate.ReasonEmailTaken)
		}
		is := inviteObject(invite)
		if err := replaceInvite(ctx, tx, invite, caller, is); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, insert, invite.Workspace, invite.ID, invite.Email, invite.Role, digest[:],
			invite.InvitedBy, invite.CreatedAt, invite.ExpiresAt)
		if err != nil {
			return err
		}
		line := inviteAudit(invite, "member_invite.create", invite.CreatedAt, by)
		line.After = is
		return tx.Audit(ctx, line)
	})
}

// replaceInvite ends the earlier invitation of the address, if there is one, and
// names it in the new one's line. One that has expired is nobody's business any
// more; an open one ends like a revoked one. Errors: FORBIDDEN.
func replaceInvite(ctx context.Context, tx *Tx, by affiliate.MemberInvite, caller affiliate.Role, is map[string]string) error {
	const replace = `
		update member_invites i set ended_at = $3
		where i.workspace_id = $1 and i.email = $2 and i.ended_at is null
		returning ` + memberInviteColumns
	rows, err := tx.Query(ctx, replace, by.Workspace, by.Email, by.CreatedAt)
	if err != nil {
		return err
	}
	replaced, err := pgx.CollectRows(rows, pgx.RowToStructByName[memberInviteRow])
	for _, row := range replaced {
		if row.ExpiresAt.After(by.CreatedAt) && !caller.MayManage(row.Role) {
			return affiliate.Refuse(affiliate.ReasonForbidden)
		}
		is["replaces"] = row.ID.String()
	}
	return err
}

// RevokeMemberInvite ends an invitation. Errors: NOT_FOUND for one that cannot be
// accepted any more, FORBIDDEN for a role that the actor may not give.
func (s *Store) RevokeMemberInvite(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.InviteID, at time.Time, by affiliate.Actor) error {
	const revoke = `
		update member_invites i set ended_at = $3
		where i.workspace_id = $1 and i.id = $2 and i.ended_at is null and i.expires_at > $3
		returning ` + memberInviteColumns
	return s.InTx(ctx, func(tx *Tx) error {
		if err := tx.LockWorkspace(ctx, workspace); err != nil {
			return err
		}
		row, err := OneRow[memberInviteRow](tx.Query(ctx, revoke, workspace, id, at))
		if err != nil {
			return err
		}
		caller, err := callerRole(ctx, tx, workspace, by)
		if err != nil {
			return err
		}
		if !caller.MayManage(row.Role) {
			return affiliate.Refuse(affiliate.ReasonForbidden)
		}
		line := inviteAudit(row.invite(), "member_invite.revoke", at, by)
		line.Before = inviteObject(row.invite())
		return tx.Audit(ctx, line)
	})
}

// MemberInviteOpen reports whether a token can be accepted. It names no
// workspace: the token is what tells it.
func (s *Store) MemberInviteOpen(ctx context.Context, digest [sha256.Size]byte, now time.Time) (open bool, err error) {
	const query = `select exists (select from member_invites where digest = $1 and ended_at is null and expires_at > $2)`
	err = s.pool.QueryRow(ctx, query, digest[:], now).Scan(&open)
	return open, err
}

// AcceptMemberInvite spends a token: it makes the user a member, with a session.
// The account of the invited address is the given one, or, when the address has
// one without a workspace, that one with the given name and password. Errors:
// NOT_FOUND for a token that cannot be accepted any more, EMAIL_TAKEN.
func (s *Store) AcceptMemberInvite(
	ctx context.Context, digest [sha256.Size]byte, user affiliate.User, passwordHash string,
	session affiliate.Session, refresh [sha256.Size]byte, by affiliate.Actor,
) (affiliate.Account, error) {
	// Two calls with one token meet at its row: the second finds it ended. No
	// workspace is named, as above.
	const spend = `
		update member_invites i set ended_at = $2
		where i.digest = $1 and i.ended_at is null and i.expires_at > $2
		returning ` + memberInviteColumns
	const read = `select ` + accountColumns + ` from users u ` + accountJoins + ` where u.id = $1`
	var account affiliate.Account
	at := user.CreatedAt
	err := s.InTx(ctx, func(tx *Tx) error {
		row, err := OneRow[memberInviteRow](tx.Query(ctx, spend, digest[:], at))
		if err != nil {
			return err
		}
		joining := user
		joining.Email = row.Email
		if joining.ID, err = takeOver(ctx, tx, joining, passwordHash); err != nil {
			return err
		}
		if err := insertMember(ctx, tx, row.WorkspaceID, joining.ID, row.Role, at); err != nil {
			return err
		}
		opened := session
		opened.User = joining.ID
		if err := insertSession(ctx, tx, opened, refresh); err != nil {
			return err
		}
		who := by
		who.User = &joining.ID
		line := memberAudit(row.WorkspaceID, joining.ID, "member.join", at, who)
		line.After = map[string]string{"role": string(row.Role), "invite": row.ID.String()}
		if err := tx.Audit(ctx, line); err != nil {
			return err
		}
		account, err = scanAccount(tx.QueryRow(ctx, read, joining.ID))
		return err
	})
	return account, err
}

// takeOver makes the account of an invited address and tells its id. One that a
// member left behind gets the new name and password and loses its sessions, and
// its address has to be verified again: whoever has the token may be another.
func takeOver(ctx context.Context, tx *Tx, user affiliate.User, passwordHash string) (affiliate.UserID, error) {
	// Held, so that of two workspaces that invited the address one gets it.
	const find = `
		select id from users
		where kind = 'merchant' and email = $1 and erased_at is null
		for no key update`
	const update = `
		update users set name = $2, password_hash = $3, email_verified_at = null, version = version + 1
		where id = $1`
	var left affiliate.UserID
	err := tx.QueryRow(ctx, find, user.Email).Scan(&left)
	if errors.Is(err, pgx.ErrNoRows) {
		return user.ID, insertUser(ctx, tx, user, passwordHash)
	}
	if err != nil {
		return left, err
	}
	taken, err := hasWorkspace(ctx, tx, user.Email)
	if err != nil {
		return left, err
	}
	if taken {
		return left, affiliate.Refuse(affiliate.ReasonEmailTaken)
	}
	if err := revokeSessions(ctx, tx, left, user.CreatedAt); err != nil {
		return left, err
	}
	_, err = tx.Exec(ctx, update, left, user.Name, passwordHash)
	return left, err
}
