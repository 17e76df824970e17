package workspace

import (
	"context"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// ListMembers returns one page of the workspace's members, oldest first.
func (s *Service) ListMembers(ctx context.Context, req *affiliatev1.ListMembersRequest) (*affiliatev1.ListMembersResponse, error) {
	page := server.PageOf(req)
	members, total, err := accounts.Members(ctx, s.db, server.PrincipalFrom(ctx).Workspace, page)
	if err != nil {
		return nil, err
	}
	toProto := func(m account.TeamMember) *affiliatev1.Member { return memberToProto(ctx, m) }
	return &affiliatev1.ListMembersResponse{
		Data: server.ConvertAll(members, toProto), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}, nil
}

// memberChange is the state of a member before or after a change, for the audit log.
// EndedInvites are the invitations that the change has ended.
type memberChange struct {
	Role         affiliate.Role       `json:"role,omitempty"`
	EndedInvites []affiliate.InviteID `json:"ended_invites,omitempty"`
}

// UpdateMember changes the role of a member. The member may have created invitations for
// roles that the member can no longer manage. UpdateMember ends these invitations. If the
// member already has the role, it stores nothing.
func (s *Service) UpdateMember(ctx context.Context, req *affiliatev1.UpdateMemberRequest) (*affiliatev1.Member, error) {
	id := server.PathID[affiliate.UserID](req.GetMemberId())
	role := affiliate.Role(server.EnumName(req.GetRole()))
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	return postgres.InTx(ctx, s.db, func(tx *postgres.Tx) (*affiliatev1.Member, error) {
		callerRole, err := server.LockWorkspace(ctx, tx, caller)
		if err != nil {
			return nil, err
		}
		before, err := accounts.Member(ctx, tx, caller.Workspace, id)
		if err != nil {
			return nil, err
		}
		owners, err := accounts.CountOwners(ctx, tx, caller.Workspace)
		if err != nil {
			return nil, err
		}
		if err := callerRole.CheckRoleChange(before.Role, role, owners); err != nil {
			return nil, err
		}
		after := before
		after.Role = role
		if after == before {
			return memberToProto(ctx, after), nil
		}
		if err := accounts.UpdateRole(ctx, tx, caller.Workspace, id, role); err != nil {
			return nil, err
		}
		ended, err := accounts.EndInvitesBy(ctx, tx, caller.Workspace, id, role.UnmanageableRoles(), at)
		if err != nil {
			return nil, err
		}
		roles := map[string]string{"before": string(before.Role), "after": string(role)}
		if err := tx.Notify(ctx, account.MemberNotification(caller.Workspace, notification.NotifyRoleChanged, id, at, roles)); err != nil {
			return nil, err
		}
		return memberToProto(ctx, after), tx.Audit(ctx, affiliate.AuditLine{
			Workspace: caller.Workspace, Actor: server.ActorFrom(ctx), At: at,
			Action: "member.update", ResourceType: "member", ResourceID: id,
			Before: memberChange{Role: before.Role}, After: memberChange{Role: role, EndedInvites: ended},
		})
	})
}

// RemoveMember removes a member from the workspace. It revokes the member's sessions and
// ends the invitations that the member has created. The member's account is not deleted.
// Every member except the last owner can leave the workspace, with the member's own id or
// with "me". Only a role that manages members can remove other members.
func (s *Service) RemoveMember(ctx context.Context, req *affiliatev1.RemoveMemberRequest) (*affiliatev1.RemoveMemberResponse, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	id := server.PathID[affiliate.UserID](req.GetMemberId())
	if req.GetMemberId() == "me" {
		id = caller.User
	}
	if id != caller.User && !caller.Role.MayManage(affiliate.RoleViewer) {
		return nil, affiliate.Refuse(affiliate.ReasonForbidden)
	}
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		callerRole, err := server.LockWorkspace(ctx, tx, caller)
		if err != nil {
			return err
		}
		removed, err := accounts.Member(ctx, tx, caller.Workspace, id)
		if err != nil {
			return err
		}
		owners, err := accounts.CountOwners(ctx, tx, caller.Workspace)
		if err != nil {
			return err
		}
		if id != caller.User || removed.Role == affiliate.RoleOwner {
			if err := callerRole.CheckRemoval(removed.Role, owners); err != nil {
				return err
			}
		}
		if err := accounts.DeleteMember(ctx, tx, caller.Workspace, id); err != nil {
			return err
		}
		if err := accounts.RevokeSessions(ctx, tx, id, at); err != nil {
			return err
		}
		ended, err := accounts.EndInvitesBy(ctx, tx, caller.Workspace, id, affiliate.Roles(), at)
		if err != nil {
			return err
		}
		// The workspace must not see later names of a former member, so the notification
		// contains the current name.
		name := map[string]string{"name": removed.Name}
		if err := tx.Notify(ctx, account.MemberNotification(caller.Workspace, notification.NotifyMemberLeft, id, at, name)); err != nil {
			return err
		}
		line := affiliate.AuditLine{
			Workspace: caller.Workspace, Actor: server.ActorFrom(ctx), At: at,
			Action: "member.remove", ResourceType: "member", ResourceID: id,
			Before: memberChange{Role: removed.Role},
		}
		if len(ended) > 0 {
			line.After = memberChange{EndedInvites: ended}
		}
		return tx.Audit(ctx, line)
	})
	return &affiliatev1.RemoveMemberResponse{}, err
}

// TransferOwnership makes another member an owner and the caller an admin. It ends the
// open invitations that the caller has created for roles that an admin cannot manage.
func (s *Service) TransferOwnership(ctx context.Context, req *affiliatev1.TransferOwnershipRequest) (*affiliatev1.Member, error) {
	id := server.PathID[affiliate.UserID](req.GetMemberId())
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	if id == caller.User {
		return nil, affiliate.Invalid("member_id", "must be another member")
	}
	return postgres.InTx(ctx, s.db, func(tx *postgres.Tx) (*affiliatev1.Member, error) {
		callerRole, err := server.LockWorkspace(ctx, tx, caller)
		if err != nil {
			return nil, err
		}
		newOwner, err := accounts.Member(ctx, tx, caller.Workspace, id)
		if err != nil {
			return nil, err
		}
		if callerRole != affiliate.RoleOwner {
			return nil, affiliate.Refuse(affiliate.ReasonForbidden)
		}
		before := map[string]any{caller.User.String(): callerRole, id.String(): newOwner.Role}
		newOwner.Role = affiliate.RoleOwner
		if err := accounts.UpdateRole(ctx, tx, caller.Workspace, id, affiliate.RoleOwner); err != nil {
			return nil, err
		}
		if err := accounts.UpdateRole(ctx, tx, caller.Workspace, caller.User, affiliate.RoleAdmin); err != nil {
			return nil, err
		}
		ended, err := accounts.EndInvitesBy(ctx, tx, caller.Workspace, caller.User, affiliate.RoleAdmin.UnmanageableRoles(), at)
		if err != nil {
			return nil, err
		}
		// The former owner does not see notifications about other members any more. The second notification
		// is for the former owner, because the transfer may have been made with a stolen session.
		roles := map[string]string{"before": string(callerRole), "after": string(affiliate.RoleAdmin)}
		if err := tx.Notify(ctx,
			account.MemberNotification(caller.Workspace, notification.NotifyOwnershipMoved, id, at, nil),
			account.MemberNotification(caller.Workspace, notification.NotifyRoleChanged, caller.User, at, roles),
		); err != nil {
			return nil, err
		}
		after := map[string]any{caller.User.String(): affiliate.RoleAdmin, id.String(): affiliate.RoleOwner}
		if len(ended) > 0 {
			after["ended_invites"] = ended
		}
		return memberToProto(ctx, newOwner), tx.Audit(ctx, affiliate.AuditLine{
			Workspace: caller.Workspace, Actor: server.ActorFrom(ctx), At: at,
			Action: "workspace.transfer_ownership", ResourceType: "workspace", ResourceID: caller.Workspace,
			Before: before, After: after,
		})
	})
}

func memberToProto(ctx context.Context, m account.TeamMember) *affiliatev1.Member {
	email := m.Email
	if server.PrincipalFrom(ctx).Role == affiliate.RoleViewer {
		email = affiliate.MaskEmail(email)
	}
	return &affiliatev1.Member{
		Id:           m.ID.String(),
		Name:         m.Name,
		SecondFactor: m.SecondFactor,
		Email:        email,
		Role:         server.EnumValue[affiliatev1.Role](m.Role),
		CreatedAt:    server.Timestamp(m.CreatedAt),
	}
}

// ListInvites returns one page of the workspace's open invitations.
func (s *Service) ListInvites(ctx context.Context, req *affiliatev1.ListInvitesRequest) (*affiliatev1.ListInvitesResponse, error) {
	page := server.PageOf(req)
	invites, total, err := accounts.OpenInvites(ctx, s.db, server.PrincipalFrom(ctx).Workspace, s.currentTime(), page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListInvitesResponse{
		Data: server.ConvertAll(invites, listedToProto), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), // both were int32 in the request
	}, nil
}

func listedToProto(invite account.ListedInvite) *affiliatev1.Invite {
	out := inviteToProto(invite.MemberInvite)
	out.InvitedByName = invite.InvitedByName
	return out
}

func inviteToProto(invite account.MemberInvite) *affiliatev1.Invite {
	return &affiliatev1.Invite{
		Id:        invite.ID.String(),
		Email:     invite.Email,
		Role:      server.EnumValue[affiliatev1.Role](invite.Role),
		InvitedBy: invite.InvitedBy.String(),
		CreatedAt: server.Timestamp(invite.CreatedAt),
		ExpiresAt: server.Timestamp(invite.ExpiresAt),
	}
}

// inviteObject returns the fields of an invitation for the audit log. The e-mail address
// is masked, because records of the audit log cannot be changed when a person's data must
// be erased.
func inviteObject(invite account.MemberInvite) map[string]string {
	return map[string]string{"email": affiliate.MaskEmail(invite.Email), "role": string(invite.Role)}
}

// CreateInvite creates an invitation of an e-mail address to the workspace and mails a
// token to the address. The response contains another token. No other response contains
// that token, except that a request with the same Idempotency-Key returns the first response
// again. Earlier invitations of the same address end.
func (s *Service) CreateInvite(ctx context.Context, req *affiliatev1.CreateInviteRequest) (*affiliatev1.CreatedInvite, error) {
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	tokens, digests := account.NewInviteTokens()
	invite := account.MemberInvite{
		Invite:    account.NewInvite(strings.ToLower(req.GetEmail()), caller.User, at),
		Workspace: caller.Workspace,
		Role:      affiliate.Role(server.EnumName(req.GetRole())),
	}
	key, err := server.OptionalKey(ctx, affiliatev1.WorkspaceService_CreateInvite_FullMethodName, req, at)
	if err != nil {
		return nil, err
	}
	// An invitation of a member has no mode, so an Idempotency-Key is valid for both modes.
	keyScope, replayed := affiliate.Scope{Workspace: caller.Workspace, Mode: affiliate.ModeLive}, false
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		stored, err := server.ClaimKey(ctx, tx, keyScope, key)
		if err != nil {
			return err
		}
		if replayed = stored != nil; replayed {
			if invite.ID, tokens.Shown, err = s.seal.OpenInvite(stored); err != nil {
				return err
			}
			invite, err = accounts.LockInvite(ctx, tx, caller.Workspace, invite.ID)
			return err
		}
		callerRole, err := server.LockWorkspace(ctx, tx, caller)
		if err != nil {
			return err
		}
		if !callerRole.MayManage(invite.Role) {
			return affiliate.Refuse(affiliate.ReasonForbidden)
		}
		// An account can be a member of only one workspace. An account of another workspace
		// whose address was never verified may belong to a stranger, so the person who reads
		// the mail of the address can take over the account.
		account, _, err := accounts.AccountByEmail(ctx, tx, affiliate.Merchant, invite.Email)
		if err != nil {
			return err
		}
		if account.Member != nil && (account.EmailVerified || account.Member.Workspace == invite.Workspace) {
			return affiliate.Refuse(affiliate.ReasonEmailTaken)
		}
		object := inviteObject(invite)
		earlier, err := accounts.LockInvitesTo(ctx, tx, invite.Workspace, invite.Email)
		if err != nil {
			return err
		}
		for _, replaced := range earlier {
			// The new invitation revokes an open earlier invitation, so the caller must
			// have the permission to revoke the earlier invitation.
			if replaced.Open(at) && !callerRole.MayManage(replaced.Role) {
				return affiliate.Refuse(affiliate.ReasonForbidden)
			}
			if err := accounts.EndInvite(ctx, tx, replaced.Workspace, replaced.ID, at); err != nil {
				return err
			}
			object["replaces"] = replaced.ID.String()
		}
		if err := accounts.InsertInvite(ctx, tx, invite, digests); err != nil {
			return err
		}
		if err := s.invitations.Admit(ctx, tx, invite.Email); err != nil {
			return err
		}
		if err := s.mailInvite(ctx, tx, invite, tokens.Mailed); err != nil {
			return err
		}
		if err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: invite.Workspace, Actor: server.ActorFrom(ctx), At: at,
			Action: "member_invite.create", ResourceType: "member_invite", ResourceID: invite.ID, After: object,
		}); err != nil {
			return err
		}
		return server.StoreResponse(ctx, tx, keyScope, key, s.seal.SealInvite(invite.ID, tokens.Shown))
	})
	if err != nil {
		return nil, err
	}
	if replayed {
		server.MarkReplayed(ctx)
	}
	out := &affiliatev1.CreatedInvite{Token: tokens.Shown}
	server.CopyShared(out.ProtoReflect(), inviteToProto(invite).ProtoReflect())
	return out, nil
}

func (s *Service) mailInvite(ctx context.Context, tx *postgres.Tx, invite account.MemberInvite, token string) error {
	workspace, err := accounts.Workspace(ctx, tx, invite.Workspace)
	if err != nil {
		return err
	}
	inviter, err := accounts.Member(ctx, tx, invite.Workspace, invite.InvitedBy)
	if err != nil {
		return err
	}
	mail := invite.Mail(workspace.Name, inviter.Name)
	mail.Secret = s.seal.SealMailToken(mail.ID, token)
	return tx.SendMail(ctx, mail)
}

// RevokeInvite revokes an open invitation.
func (s *Service) RevokeInvite(ctx context.Context, req *affiliatev1.RevokeInviteRequest) (*affiliatev1.RevokeInviteResponse, error) {
	id := server.PathID[affiliate.InviteID](req.GetInviteId())
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if err := postgres.LockWorkspace(ctx, tx, caller.Workspace); err != nil {
			return err
		}
		invite, err := accounts.LockInvite(ctx, tx, caller.Workspace, id)
		if err != nil {
			return err
		}
		if !invite.Open(at) {
			return affiliate.Refuse(affiliate.ReasonNotFound)
		}
		callerRole, err := server.CurrentRole(ctx, tx, caller)
		if err != nil {
			return err
		}
		if !callerRole.MayManage(invite.Role) {
			return affiliate.Refuse(affiliate.ReasonForbidden)
		}
		if err := accounts.EndInvite(ctx, tx, invite.Workspace, invite.ID, at); err != nil {
			return err
		}
		return tx.Audit(ctx, affiliate.AuditLine{
			Workspace: invite.Workspace, Actor: server.ActorFrom(ctx), At: at,
			Action: "member_invite.revoke", ResourceType: "member_invite", ResourceID: invite.ID, Before: inviteObject(invite),
		})
	})
	return &affiliatev1.RevokeInviteResponse{}, err
}
