package workspace

import (
	"context"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// ListInvites pages through the invitations that can still be accepted.
func (s *Service) ListInvites(ctx context.Context, req *affiliatev1.ListInvitesRequest) (*affiliatev1.ListInvitesResponse, error) {
	page := server.PageOf(req)
	invites, total, err := s.store.MemberInvites(ctx, server.PrincipalFrom(ctx).Workspace, s.at(), page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.Invite, len(invites))
	for i, invite := range invites {
		data[i] = &affiliatev1.Invite{
			Id:        invite.ID.String(),
			Email:     invite.Email,
			Role:      server.FromWord[affiliatev1.Role](invite.Role),
			InvitedBy: invite.InvitedBy.String(),
			CreatedAt: server.Timestamp(invite.CreatedAt),
			ExpiresAt: server.Timestamp(invite.ExpiresAt),
		}
	}
	return &affiliatev1.ListInvitesResponse{
		Data: data, Total: total,
		Page: int32(page.Number), Limit: int32(page.Size), // both came in as int32
	}, nil
}

// CreateInvite invites an address and shows the token.
func (s *Service) CreateInvite(ctx context.Context, req *affiliatev1.CreateInviteRequest) (*affiliatev1.CreatedInvite, error) {
	caller, at := server.PrincipalFrom(ctx), s.at()
	token, digest := affiliate.NewInviteToken()
	invite := affiliate.MemberInvite{
		Invite: affiliate.Invite{
			ID:        affiliate.NewID[affiliate.Invite](at),
			Email:     strings.ToLower(req.GetEmail()),
			InvitedBy: caller.User,
			CreatedAt: at,
			ExpiresAt: at.Add(affiliate.InviteLife),
		},
		Workspace: caller.Workspace,
		Role:      affiliate.Role(server.Word(req.GetRole())),
	}
	if err := s.store.CreateMemberInvite(ctx, invite, digest, server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	return &affiliatev1.CreatedInvite{
		Id:        invite.ID.String(),
		Email:     invite.Email,
		Role:      server.FromWord[affiliatev1.Role](invite.Role),
		InvitedBy: invite.InvitedBy.String(),
		CreatedAt: server.Timestamp(invite.CreatedAt),
		ExpiresAt: server.Timestamp(invite.ExpiresAt),
		Token:     token,
	}, nil
}

// RevokeInvite ends an invitation.
func (s *Service) RevokeInvite(ctx context.Context, req *affiliatev1.RevokeInviteRequest) (*affiliatev1.RevokeInviteResponse, error) {
	id, err := server.PathID[affiliate.Invite](req.GetInviteId())
	if err != nil {
		return nil, err
	}
	if err := s.store.RevokeMemberInvite(ctx, server.PrincipalFrom(ctx).Workspace, id, s.at(), server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	return &affiliatev1.RevokeInviteResponse{}, nil
}
