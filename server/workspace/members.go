package workspace

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// ListMembers pages through the members, oldest first.
func (s *Service) ListMembers(ctx context.Context, req *affiliatev1.ListMembersRequest) (*affiliatev1.ListMembersResponse, error) {
	page := server.PageOf(req)
	members, total, err := s.store.Members(ctx, server.PrincipalFrom(ctx).Workspace, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.Member, len(members))
	for i, m := range members {
		data[i] = member(ctx, m)
	}
	return &affiliatev1.ListMembersResponse{
		Data: data, Total: total,
		Page: int32(page.Number), Limit: int32(page.Size), // both came in as int32
	}, nil
}

// UpdateMember gives a member another role.
func (s *Service) UpdateMember(ctx context.Context, req *affiliatev1.UpdateMemberRequest) (*affiliatev1.Member, error) {
	id, err := server.PathID[affiliate.User](req.GetMemberId())
	if err != nil {
		return nil, err
	}
	role := affiliate.Role(server.Word(req.GetRole()))
	m, err := s.store.UpdateMember(ctx, server.PrincipalFrom(ctx).Workspace, id, role, s.at(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return member(ctx, m), nil
}

// RemoveMember takes a member out and ends its sessions.
func (s *Service) RemoveMember(ctx context.Context, req *affiliatev1.RemoveMemberRequest) (*affiliatev1.RemoveMemberResponse, error) {
	id, err := server.PathID[affiliate.User](req.GetMemberId())
	if err != nil {
		return nil, err
	}
	if err := s.store.RemoveMember(ctx, server.PrincipalFrom(ctx).Workspace, id, s.at(), server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	return &affiliatev1.RemoveMemberResponse{}, nil
}

// TransferOwnership makes another member an owner and the caller an admin.
func (s *Service) TransferOwnership(ctx context.Context, req *affiliatev1.TransferOwnershipRequest) (*affiliatev1.Member, error) {
	id, err := server.PathID[affiliate.User](req.GetMemberId())
	if err != nil {
		return nil, err
	}
	caller := server.PrincipalFrom(ctx)
	if id == caller.User {
		return nil, affiliate.Invalid("member_id", "must be another member")
	}
	m, err := s.store.TransferOwnership(ctx, caller.Workspace, id, s.at(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return member(ctx, m), nil
}

func member(ctx context.Context, m affiliate.TeamMember) *affiliatev1.Member {
	email := m.Email
	if server.PrincipalFrom(ctx).Role == affiliate.RoleViewer {
		email = affiliate.MaskEmail(email)
	}
	return &affiliatev1.Member{
		Id:        m.ID.String(),
		Name:      m.Name,
		Email:     email,
		Role:      server.FromWord[affiliatev1.Role](m.Role),
		CreatedAt: server.Timestamp(m.CreatedAt),
	}
}
