package program

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// ListGroups returns one page of a programme's groups of participants, sorted by name.
func (s *Service) ListGroups(ctx context.Context, req *affiliatev1.ListGroupsRequest) (*affiliatev1.ListGroupsResponse, error) {
	program := server.PathID[affiliate.ProgramID](req.GetProgramId())
	page, scope := server.PageOf(req), server.PrincipalFrom(ctx).Scope()
	if _, err := programs.Get(ctx, s.db, scope, program); err != nil {
		return nil, err
	}
	groups, total, err := programs.ListGroups(ctx, s.db, scope, program, page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListGroupsResponse{
		Data: server.ConvertAll(groups, groupToProto), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// CreateGroup creates a group. The participants in a group have the group's commission
// rate. Errors: PROGRAM_STATE_INVALID if the programme is archived, VALIDATION_ERROR if the
// name is taken.
func (s *Service) CreateGroup(ctx context.Context, req *affiliatev1.CreateGroupRequest) (*affiliatev1.Group, error) {
	programID := server.PathID[affiliate.ProgramID](req.GetProgramId())
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	group := program.Group{
		ID: affiliate.NewID[affiliate.GroupID](at), Workspace: scope.Workspace, Program: programID,
		Name: req.GetName(), Version: 1, CreatedAt: at, UpdatedAt: at,
		Rate: server.RateFields(req.Percentage, req.FlatAmountCents, "", new(affiliate.Violations)),
	}
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if _, err := programs.LockOpen(ctx, tx, scope, programID); err != nil {
			return err
		}
		if err := programs.InsertGroup(ctx, tx, group); err != nil {
			return err
		}
		return tx.Audit(ctx, groupAudit(group, scope.Mode, "group.create", at, server.ActorFrom(ctx), nil, group.Object()))
	})
	return groupResponse(group, err)
}

// UpdateGroup changes the fields that the update mask names. If nothing changes, it writes no
// audit record. Errors: the same as for CreateGroup.
func (s *Service) UpdateGroup(ctx context.Context, req *affiliatev1.UpdateGroupRequest) (*affiliatev1.Group, error) {
	programID, id := groupPathIDs(req)
	patch := groupPatchOf(req, new(affiliate.Violations))
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	var after program.Group
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if _, err := programs.LockOpen(ctx, tx, scope, programID); err != nil {
			return err
		}
		before, err := programs.LockGroup(ctx, tx, scope, programID, id)
		if err != nil {
			return err
		}
		if after, err = before.Patch(patch); err != nil {
			return err
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || oldValues == nil {
			return err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if err := programs.UpdateGroup(ctx, tx, after); err != nil {
			return err
		}
		return tx.Audit(ctx, groupAudit(after, scope.Mode, "group.update", at, server.ActorFrom(ctx), oldValues, newValues))
	})
	return groupResponse(after, err)
}

// DeleteGroup deletes a group. Errors: GROUP_IN_USE if a participant is in the group or
// an open invitation names it.
func (s *Service) DeleteGroup(ctx context.Context, req *affiliatev1.DeleteGroupRequest) (*affiliatev1.DeleteGroupResponse, error) {
	programID, id := groupPathIDs(req)
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		group, err := programs.LockGroupForDeletion(ctx, tx, scope, programID, id)
		if err != nil {
			return err
		}
		invites, err := programs.CountOpenInvites(ctx, tx, scope, id, at)
		if err != nil {
			return err
		}
		if group.Participants > 0 || invites > 0 {
			return program.GroupInUse(group.Participants)
		}
		if err := programs.DeleteGroup(ctx, tx, scope, id); err != nil {
			return err
		}
		return tx.Audit(ctx, groupAudit(group, scope.Mode, "group.delete", at, server.ActorFrom(ctx), group.Object(), nil))
	})
	if err != nil {
		return nil, err
	}
	return &affiliatev1.DeleteGroupResponse{}, nil
}

func groupAudit(
	g program.Group, mode affiliate.Mode, action string, at time.Time, by affiliate.Actor, before, after any,
) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: g.Workspace, Mode: &mode, Actor: by, At: at,
		Action: action, ResourceType: "group", ResourceID: g.ID, Before: before, After: after,
	}
}

// groupPathIDs returns the ids of the programme and the group in the request's path.
func groupPathIDs(req interface {
	programRequest
	GetGroupId() string
},
) (affiliate.ProgramID, affiliate.GroupID) {
	return server.PathID[affiliate.ProgramID](req.GetProgramId()), server.PathID[affiliate.GroupID](req.GetGroupId())
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

func groupResponse(g program.Group, err error) (*affiliatev1.Group, error) {
	if err != nil {
		return nil, err
	}
	return groupToProto(g), nil
}

func groupToProto(g program.Group) *affiliatev1.Group {
	return &affiliatev1.Group{
		Id:              g.ID.String(),
		ProgramId:       g.Program.String(),
		Name:            g.Name,
		Percentage:      server.Percentage(g.Bps),
		FlatAmountCents: g.FlatCents,
		Participants:    g.Participants,
		CreatedAt:       server.Timestamp(g.CreatedAt),
		UpdatedAt:       server.Timestamp(g.UpdatedAt),
	}
}
