package program

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// ListGroups pages through the programme's groups of partners, by name.
func (s *Service) ListGroups(ctx context.Context, req *affiliatev1.ListGroupsRequest) (*affiliatev1.ListGroupsResponse, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	groups, total, err := s.store.ListGroups(ctx, server.PrincipalFrom(ctx).Scope(), program, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.Group, len(groups))
	for i, group := range groups {
		data[i] = groupToProto(group)
	}
	return &affiliatev1.ListGroupsResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both came in as int32
	}, nil
}

// CreateGroup makes a group with a rate of its own.
func (s *Service) CreateGroup(ctx context.Context, req *affiliatev1.CreateGroupRequest) (*affiliatev1.Group, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	at := s.at()
	group := affiliate.Group{
		ID: affiliate.NewID[affiliate.Group](at), Scope: server.PrincipalFrom(ctx).Scope(), Program: program,
		Name: req.GetName(), Version: 1, CreatedAt: at, UpdatedAt: at,
		Rate: server.RateFields(req.Percentage, req.FlatAmountCents, "", new(affiliate.Violations)),
	}
	if err := s.store.CreateGroup(ctx, group, server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	return groupToProto(group), nil
}

// UpdateGroup changes what the mask names.
func (s *Service) UpdateGroup(ctx context.Context, req *affiliatev1.UpdateGroupRequest) (*affiliatev1.Group, error) {
	program, id, err := groupID(req)
	if err != nil {
		return nil, err
	}
	patch := groupPatchOf(req, new(affiliate.Violations))
	group, err := s.store.UpdateGroup(ctx, server.PrincipalFrom(ctx).Scope(), program, id, patch, s.at(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return groupToProto(group), nil
}

// DeleteGroup ends a group without partners.
func (s *Service) DeleteGroup(ctx context.Context, req *affiliatev1.DeleteGroupRequest) (*affiliatev1.DeleteGroupResponse, error) {
	program, id, err := groupID(req)
	if err != nil {
		return nil, err
	}
	if err := s.store.DeleteGroup(ctx, server.PrincipalFrom(ctx).Scope(), program, id, s.at(), server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	return &affiliatev1.DeleteGroupResponse{}, nil
}

// groupID reads the path's ids; what is no UUID names nothing.
func groupID(req interface {
	named
	GetGroupId() string
},
) (affiliate.ProgramID, affiliate.GroupID, error) {
	program, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return program, affiliate.GroupID{}, err
	}
	id, err := server.PathID[affiliate.Group](req.GetGroupId())
	return program, id, err
}

// groupPatchOf is the update as its mask words it, and notes rates with too many
// decimals.
func groupPatchOf(req *affiliatev1.UpdateGroupRequest, found *affiliate.Violations) affiliate.GroupPatch {
	var patch affiliate.GroupPatch
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "name":
			patch.Name = affiliate.Set(req.GetName())
		case "percentage":
			patch.Bps = optional(server.OptionalBasisPoints(req.Percentage, "percentage", found))
		case "flat_amount_cents":
			patch.FlatCents = optional(req.FlatAmountCents)
		}
	}
	return patch
}

func groupToProto(g affiliate.Group) *affiliatev1.Group {
	return &affiliatev1.Group{
		Id:              g.ID.String(),
		ProgramId:       g.Program.String(),
		Name:            g.Name,
		Percentage:      server.Percentage(g.Rate.Bps),
		FlatAmountCents: g.Rate.FlatCents,
		Participants:    g.Participants,
		CreatedAt:       server.Timestamp(g.CreatedAt),
		UpdatedAt:       server.Timestamp(g.UpdatedAt),
	}
}
