// Package program serves a merchant's programmes, the versions of their commission rules
// and their groups of participants. A programme has one of these statuses:
//
//	draft ──▶ active ◀──▶ paused
//	  └─────────┴───────────┴──▶ archived
//
// The package guarantees that the status changes only along the arrows of the drawing,
// and that an update changes exactly the fields that its mask names. A change of the
// commission rules creates a new version of the rules. Existing commissions keep the
// version of the rules with which they were computed. A group cannot be deleted while a
// participant is in the group.
//
// The package does not guarantee that collectors refuse clicks of a paused programme when
// the response is sent. Collectors read the edge directory, and the core waits at most
// 100 ms for the write to this directory. If the write fails, a job writes the change
// later. In addition, a collector uses the old entry in its cache until Redis notifies
// the collector of the change.
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

// Service implements affiliate.v1.ProgramService.
type Service struct {
	affiliatev1.UnimplementedProgramServiceServer

	db  *postgres.DB
	now func() time.Time
}

// New returns a Service; now is its clock.
func New(db *postgres.DB, now func() time.Time) *Service { return &Service{db: db, now: now} }

// currentTime returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) currentTime() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// CreateProgram creates a draft programme.
func (s *Service) CreateProgram(ctx context.Context, req *affiliatev1.CreateProgramRequest) (*affiliatev1.Program, error) {
	p, err := newProgram(req)
	if err != nil {
		return nil, err
	}
	at := s.currentTime()
	p.ID, p.Scope = affiliate.NewID[affiliate.ProgramID](at), server.PrincipalFrom(ctx).Scope()
	p.CreatedAt, p.UpdatedAt = at, at
	return response(programs.Create(ctx, s.db, p, server.ActorFrom(ctx)))
}

// ListPrograms returns one page of the workspace's programmes in the mode of the call,
// newest first.
func (s *Service) ListPrograms(ctx context.Context, req *affiliatev1.ListProgramsRequest) (*affiliatev1.ListProgramsResponse, error) {
	page := server.PageOf(req)
	filter := program.Filter{Status: program.Status(server.EnumName(req.GetStatus())), Search: req.GetSearch()}
	programs, total, err := programs.List(ctx, s.db, server.PrincipalFrom(ctx).Scope(), filter, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.Program, len(programs))
	for i, p := range programs {
		data[i] = toProto(p)
	}
	return &affiliatev1.ListProgramsResponse{
		Data: data, Total: server.SearchTotal(ctx, total, filter.Search),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// GetProgram returns one programme.
func (s *Service) GetProgram(ctx context.Context, req *affiliatev1.GetProgramRequest) (*affiliatev1.Program, error) {
	id, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	return response(programs.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id))
}

// UpdateProgram changes the fields that the update mask names.
func (s *Service) UpdateProgram(ctx context.Context, req *affiliatev1.UpdateProgramRequest) (*affiliatev1.Program, error) {
	id, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	return response(programs.Update(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id, patchOf(req), s.currentTime(), server.ActorFrom(ctx)))
}

// ActivateProgram activates a draft or paused programme.
func (s *Service) ActivateProgram(ctx context.Context, req *affiliatev1.ActivateProgramRequest) (*affiliatev1.Program, error) {
	return s.move(ctx, req, program.Active)
}

// PauseProgram pauses an active programme. Until the programme is activated again, its
// clicks are refused and its participants earn no commissions.
func (s *Service) PauseProgram(ctx context.Context, req *affiliatev1.PauseProgramRequest) (*affiliatev1.Program, error) {
	return s.move(ctx, req, program.Paused)
}

// ArchiveProgram archives a programme. An archived programme cannot be activated again.
func (s *Service) ArchiveProgram(ctx context.Context, req *affiliatev1.ArchiveProgramRequest) (*affiliatev1.Program, error) {
	return s.move(ctx, req, program.Archived)
}

// ListProgramRules returns one page of the versions of a programme's commission rules,
// newest first.
func (s *Service) ListProgramRules(ctx context.Context, req *affiliatev1.ListProgramRulesRequest) (*affiliatev1.ListProgramRulesResponse, error) {
	id, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	versions, total, err := programs.RuleVersions(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.ProgramRules, len(versions))
	for i, v := range versions {
		data[i] = &affiliatev1.ProgramRules{
			Version: int32(v.Version), //nolint:gosec // users create the versions one by one, so the number is small
			Rules:   server.Rules(v.Rules),
			At:      server.Timestamp(v.At),
			By:      v.By.String(),
		}
	}
	return &affiliatev1.ListProgramRulesResponse{
		Data: data, Total: total,
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

func (s *Service) move(ctx context.Context, req programRequest, to program.Status) (*affiliatev1.Program, error) {
	id, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	return response(programs.Move(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id, to, s.currentTime(), server.ActorFrom(ctx)))
}

// programRequest is a request whose path names a programme.
type programRequest interface{ GetProgramId() string }

func response(p program.Program, err error) (*affiliatev1.Program, error) {
	if err != nil {
		return nil, err
	}
	return toProto(p), nil
}
