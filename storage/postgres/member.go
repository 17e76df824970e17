package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

func insertMember(ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID, user affiliate.UserID, role affiliate.Role, at time.Time) error {
	const insert = `
		insert into members (workspace_id, user_id, role, created_at)
		values ($1, $2, $3, $4)`
	_, err := tx.Exec(ctx, insert, workspace, user, role, at)
	return err
}

const selectMembers = `
	select u.id, u.name, u.email, m.role, m.created_at
	from members m
	join users u on u.id = m.user_id
	where m.workspace_id = @workspace`

func collectMember(row pgx.CollectableRow) (affiliate.TeamMember, error) {
	member, err := pgx.RowToStructByName[affiliate.TeamMember](row)
	member.CreatedAt = member.CreatedAt.UTC()
	return member, err
}

// Members reads one page, oldest first, and counts all pages.
func (s *Store) Members(ctx context.Context, workspace affiliate.WorkspaceID, page affiliate.Page) ([]affiliate.TeamMember, int64, error) {
	const count = `select count(*) from members where workspace_id = @workspace`
	const list = selectMembers + `
		order by m.created_at, m.user_id
		limit @limit offset @offset`
	args := pgx.NamedArgs{"workspace": workspace, "limit": page.Size, "offset": page.Offset()}
	var total int64
	if err := s.pool.QueryRow(ctx, count, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := s.pool.Query(ctx, list, args)
	if err != nil {
		return nil, 0, err
	}
	members, err := pgx.CollectRows(rows, collectMember)
	return members, total, err
}

// callerRole is what the actor may do now, under the workspace's lock: it may be
// less than when the call was let in. Errors: FORBIDDEN for who is no member any
// more.
func callerRole(ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID, by affiliate.Actor) (role affiliate.Role, err error) {
	const query = `select role from members where workspace_id = $1 and user_id = $2`
	err = tx.QueryRow(ctx, query, workspace, by.User).Scan(&role)
	if errors.Is(err, pgx.ErrNoRows) {
		err = affiliate.Refuse(affiliate.ReasonForbidden)
	}
	return role, err
}

// lockTeam takes the workspace's lock, under which roles do not change, and reads
// the actor's role and a member. Errors: NOT_FOUND, FORBIDDEN.
func lockTeam(
	ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID, id affiliate.UserID, by affiliate.Actor,
) (caller affiliate.Role, member affiliate.TeamMember, err error) {
	if err := tx.LockWorkspace(ctx, workspace); err != nil {
		return caller, member, err
	}
	if caller, err = callerRole(ctx, tx, workspace, by); err != nil {
		return caller, member, err
	}
	rows, err := tx.Query(ctx, selectMembers+` and m.user_id = @user`, pgx.NamedArgs{"workspace": workspace, "user": id})
	if err != nil {
		return caller, member, err
	}
	member, err = pgx.CollectExactlyOneRow(rows, collectMember)
	if errors.Is(err, pgx.ErrNoRows) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return caller, member, err
}

// keepOwner refuses to take the last owner's role away.
func keepOwner(ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID, losing affiliate.Role) error {
	const others = `select count(*) from members where workspace_id = $1 and role = 'owner'`
	if losing != affiliate.RoleOwner {
		return nil
	}
	var owners int
	if err := tx.QueryRow(ctx, others, workspace).Scan(&owners); err != nil {
		return err
	}
	if owners < 2 {
		return affiliate.Refuse(affiliate.ReasonLastOwner)
	}
	return nil
}

// endInvites ends the open invitations of a member's making that invite to a role
// which one of role left, empty when nothing is left, may not manage: a token of
// the member's own must not be a way back. It tells which.
func endInvites(
	ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID, by affiliate.UserID, left affiliate.Role, at time.Time,
) ([]affiliate.InviteID, error) {
	const end = `
		update member_invites set ended_at = @at
		where workspace_id = @workspace and invited_by = @by and ended_at is null and expires_at > @at
		  and role = any(@roles)
		returning id`
	lost := slices.DeleteFunc(affiliate.Roles(), left.MayManage)
	rows, err := tx.Query(ctx, end, pgx.NamedArgs{"workspace": workspace, "by": by, "at": at, "roles": lost})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[affiliate.InviteID])
}

func setRole(ctx context.Context, tx *Tx, workspace affiliate.WorkspaceID, id affiliate.UserID, role affiliate.Role) error {
	const update = `update members set role = $3 where workspace_id = $1 and user_id = $2`
	_, err := tx.Exec(ctx, update, workspace, id, role)
	return err
}

func memberAudit(workspace affiliate.WorkspaceID, id affiliate.UserID, action string, at time.Time, by affiliate.Actor) affiliate.AuditLine {
	return affiliate.AuditLine{Workspace: workspace, Actor: by, At: at, Action: action, ResourceType: "member", ResourceID: id}
}

// memberObject is a member as the audit log keeps it, with the invitations that
// the change ended.
type memberObject struct {
	Role         affiliate.Role       `json:"role,omitempty"`
	EndedInvites []affiliate.InviteID `json:"ended_invites,omitempty"`
}

// UpdateMember gives a member another role and ends those of the member's
// invitations that the role could not make; the same one leaves no trace. Errors:
// NOT_FOUND, FORBIDDEN, LAST_OWNER.
func (s *Store) UpdateMember(
	ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.UserID, role affiliate.Role, at time.Time, by affiliate.Actor,
) (affiliate.TeamMember, error) {
	var after affiliate.TeamMember
	err := s.InTx(ctx, func(tx *Tx) error {
		caller, member, err := lockTeam(ctx, tx, workspace, id, by)
		if err != nil {
			return err
		}
		if !caller.MayManage(member.Role) || !caller.MayManage(role) {
			return affiliate.Refuse(affiliate.ReasonForbidden)
		}
		after = member
		if member.Role == role {
			return nil
		}
		if err := keepOwner(ctx, tx, workspace, member.Role); err != nil {
			return err
		}
		if err := setRole(ctx, tx, workspace, id, role); err != nil {
			return err
		}
		ended, err := endInvites(ctx, tx, workspace, id, role, at)
		if err != nil {
			return err
		}
		after.Role = role
		line := memberAudit(workspace, id, "member.update", at, by)
		line.Before, line.After = memberObject{Role: member.Role}, memberObject{Role: role, EndedInvites: ended}
		return tx.Audit(ctx, line)
	})
	return after, err
}

// RemoveMember takes a member out and ends all its sessions and invitations. The
// account stays, without a workspace. Errors: NOT_FOUND, FORBIDDEN, LAST_OWNER.
func (s *Store) RemoveMember(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.UserID, at time.Time, by affiliate.Actor) error {
	const remove = `delete from members where workspace_id = $1 and user_id = $2`
	return s.InTx(ctx, func(tx *Tx) error {
		caller, member, err := lockTeam(ctx, tx, workspace, id, by)
		if err != nil {
			return err
		}
		if !caller.MayManage(member.Role) {
			return affiliate.Refuse(affiliate.ReasonForbidden)
		}
		if err := keepOwner(ctx, tx, workspace, member.Role); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, remove, workspace, id); err != nil {
			return err
		}
		if err := revokeSessions(ctx, tx, id, at); err != nil {
			return err
		}
		ended, err := endInvites(ctx, tx, workspace, id, "", at)
		if err != nil {
			return err
		}
		line := memberAudit(workspace, id, "member.remove", at, by)
		line.Before = memberObject{Role: member.Role}
		if len(ended) > 0 {
			line.After = memberObject{EndedInvites: ended}
		}
		return tx.Audit(ctx, line)
	})
}

// TransferOwnership makes another member an owner and the actor an admin, whose
// invitations of owners end. Errors: NOT_FOUND, FORBIDDEN for who is no owner any
// more.
func (s *Store) TransferOwnership(
	ctx context.Context, workspace affiliate.WorkspaceID, to affiliate.UserID, at time.Time, by affiliate.Actor,
) (affiliate.TeamMember, error) {
	var after affiliate.TeamMember
	err := s.InTx(ctx, func(tx *Tx) error {
		caller, member, err := lockTeam(ctx, tx, workspace, to, by)
		if err != nil {
			return err
		}
		if caller != affiliate.RoleOwner {
			return affiliate.Refuse(affiliate.ReasonForbidden)
		}
		if err := setRole(ctx, tx, workspace, to, affiliate.RoleOwner); err != nil {
			return err
		}
		if err := setRole(ctx, tx, workspace, *by.User, affiliate.RoleAdmin); err != nil {
			return err
		}
		ended, err := endInvites(ctx, tx, workspace, *by.User, affiliate.RoleAdmin, at)
		if err != nil {
			return err
		}
		after = member
		after.Role = affiliate.RoleOwner
		from := by.User.String()
		is := map[string]any{from: affiliate.RoleAdmin, to.String(): affiliate.RoleOwner}
		if len(ended) > 0 {
			is["ended_invites"] = ended
		}
		return tx.Audit(ctx, affiliate.AuditLine{
			Workspace: workspace, Actor: by, At: at,
			Action: "workspace.transfer_ownership", ResourceType: "workspace", ResourceID: workspace,
			Before: map[string]affiliate.Role{from: affiliate.RoleOwner, to.String(): member.Role},
			After:  is,
		})
	})
	return after, err
}

// revokeSessions ends all sessions of a user, whose access tokens end with them.
func revokeSessions(ctx context.Context, tx *Tx, user affiliate.UserID, at time.Time) error {
	const revoke = `update sessions set revoked_at = $2 where user_id = $1 and revoked_at is null`
	_, err := tx.Exec(ctx, revoke, user, at)
	return err
}
