package program

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// ListGroups returns one page of a programme's groups of participants, sorted by name.
func (s *Service) ListGroups(ctx context.Context, req *affiliatev1.ListGroupsRequest) (*affiliatev1.ListGroupsResponse, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	groups, total, err := programs.ListGroups(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.Group, len(groups))
	for i, group := range groups {
		data[i] = groupToProto(group)
	}
	return &affiliatev1.ListGroupsResponse{
		Data: data, Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// CreateGroup creates a group. The participants in a group have the group's commission
// rate.
func (s *Service) CreateGroup(ctx context.Context, req *affiliatev1.CreateGroupRequest) (*affiliatev1.Group, error) {
	programID, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	at := s.currentTime()
	group := program.Group{
		ID: affiliate.NewID[affiliate.GroupID](at), Scope: server.PrincipalFrom(ctx).Scope(), Program: programID,
		Name: req.GetName(), Version: 1, CreatedAt: at, UpdatedAt: at,
		Rate: server.RateFields(req.Percentage, req.FlatAmountCents, "", new(affiliate.Violations)),
	}
	if err := programs.CreateGroup(ctx, s.db, group, server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	return groupToProto(group), nil
}

// UpdateGroup changes the fields that the update mask names.
func (s *Service) UpdateGroup(ctx context.Context, req *affiliatev1.UpdateGroupRequest) (*affiliatev1.Group, error) {
	program, id, err := groupPathIDs(req)
	if err != nil {
		return nil, err
	}
	patch := groupPatchOf(req, new(affiliate.Violations))
	group, err := programs.UpdateGroup(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, id, patch, s.currentTime(), server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return groupToProto(group), nil
}

// DeleteGroup deletes a group. Errors: GROUP_IN_USE if a participant is in the group or
// an open invitation names it.
func (s *Service) DeleteGroup(ctx context.Context, req *affiliatev1.DeleteGroupRequest) (*affiliatev1.DeleteGroupResponse, error) {
	program, id, err := groupPathIDs(req)
	if err != nil {
		return nil, err
	}
	if err := programs.DeleteGroup(ctx, s.db, server.PrincipalFrom(ctx).Scope(), program, id, s.currentTime(), server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	return &affiliatev1.DeleteGroupResponse{}, nil
}

// groupPathIDs returns the ids of the programme and the group in the request's path.
func groupPathIDs(req interface {
	programRequest
	GetGroupId() string
},
) (affiliate.ProgramID, affiliate.GroupID, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return program, affiliate.GroupID{}, err
	}
	id, err := server.PathID[affiliate.GroupID](req.GetGroupId())
	return program, id, err
}

// groupPatchOf returns the changes of the fields that the request's mask names. If the
// percentage has too many decimals, it adds a violation to found.
func groupPatchOf(req *affiliatev1.UpdateGroupRequest, found *affiliate.Violations) program.GroupPatch {
	var patch program.GroupPatch
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "name":
			patch.Name = affiliate.Set(req.GetName())
		case "percentage":
			patch.Bps = setOrClear(server.OptionalBasisPoints(req.Percentage, "percentage", found))
		case "flat_amount_cents":
			patch.FlatCents = setOrClear(req.FlatAmountCents)
		}
	}
	return patch
}

func groupToProto(g program.Group) *affiliatev1.Group {
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
