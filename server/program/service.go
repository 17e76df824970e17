// Package program serves a merchant's programmes, the versions of their rules,
// and their groups of partners.
//
//	draft ──▶ active ◀──▶ paused
//	  └─────────┴───────────┴──▶ archived
//
// It guarantees that a move happens only from a status that leads there, that a
// patch changes exactly the fields that its mask names, and that commission
// rules are never changed in place: what differs becomes the next version, and
// commissions keep the one that made them. A group is deleted only when nobody is
// in it.
//
// It does not promise that the edge refuses clicks of a paused programme from the
// response on: the core waits at most 100 ms for the edge directory, the job of the
// change repeats the write, and a collector uses a cached entry until Redis announces
// the change.
package program

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Service is affiliate.v1.ProgramService.
type Service struct {
	affiliatev1.UnimplementedProgramServiceServer

	store Store
	now   func() time.Time
}

// New makes the service; now is its clock.
func New(store Store, now func() time.Time) *Service { return &Service{store: store, now: now} }

// at is the instant of a change: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// CreateProgram makes a draft.
func (s *Service) CreateProgram(ctx context.Context, req *affiliatev1.CreateProgramRequest) (*affiliatev1.Program, error) {
	p, err := newProgram(req)
	if err != nil {
		return nil, err
	}
	at := s.at()
	p.ID, p.Scope = affiliate.NewID[affiliate.Program](at), server.PrincipalFrom(ctx).Scope()
	p.CreatedAt, p.UpdatedAt = at, at
	return answer(s.store.CreateProgram(ctx, p, server.ActorFrom(ctx)))
}

// ListPrograms pages through the programmes, newest first.
func (s *Service) ListPrograms(ctx context.Context, req *affiliatev1.ListProgramsRequest) (*affiliatev1.ListProgramsResponse, error) {
	page := server.PageOf(req)
	filter := affiliate.ProgramFilter{Status: affiliate.ProgramStatus(server.Word(req.GetStatus())), Search: req.GetSearch()}
	programs, total, err := s.store.ListPrograms(ctx, server.PrincipalFrom(ctx).Scope(), filter, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.Program, len(programs))
	for i, p := range programs {
		data[i] = toProto(p)
	}
	return &affiliatev1.ListProgramsResponse{
		Data: data, Total: server.SearchTotal(ctx, total, filter.Search),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both came in as int32
	}, nil
}

// GetProgram reads one programme.
func (s *Service) GetProgram(ctx context.Context, req *affiliatev1.GetProgramRequest) (*affiliatev1.Program, error) {
	id, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	return answer(s.store.Program(ctx, server.PrincipalFrom(ctx).Scope(), id))
}

// UpdateProgram changes what the mask names.
func (s *Service) UpdateProgram(ctx context.Context, req *affiliatev1.UpdateProgramRequest) (*affiliatev1.Program, error) {
	id, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	return answer(s.store.UpdateProgram(ctx, server.PrincipalFrom(ctx).Scope(), id, patchOf(req), s.at(), server.ActorFrom(ctx)))
}

// ActivateProgram opens a draft or paused programme.
func (s *Service) ActivateProgram(ctx context.Context, req *affiliatev1.ActivateProgramRequest) (*affiliatev1.Program, error) {
	return s.move(ctx, req, affiliate.ProgramActive)
}

// PauseProgram stops clicks and commissions until it is activated again.
func (s *Service) PauseProgram(ctx context.Context, req *affiliatev1.PauseProgramRequest) (*affiliatev1.Program, error) {
	return s.move(ctx, req, affiliate.ProgramPaused)
}

// ArchiveProgram ends a programme for good.
func (s *Service) ArchiveProgram(ctx context.Context, req *affiliatev1.ArchiveProgramRequest) (*affiliatev1.Program, error) {
	return s.move(ctx, req, affiliate.ProgramArchived)
}

// ListProgramRules pages through every version of the rules, newest first.
func (s *Service) ListProgramRules(ctx context.Context, req *affiliatev1.ListProgramRulesRequest) (*affiliatev1.ListProgramRulesResponse, error) {
	id, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	versions, total, err := s.store.ProgramRules(ctx, server.PrincipalFrom(ctx).Scope(), id, page)
	if err != nil {
		return nil, err
	}
	data := make([]*affiliatev1.ProgramRules, len(versions))
	for i, v := range versions {
		data[i] = &affiliatev1.ProgramRules{
			Version: int32(v.Version), //nolint:gosec // counts what people change by hand
			Rules:   server.Rules(v.Rules),
			At:      server.Timestamp(v.At),
			By:      v.By.String(),
		}
	}
	return &affiliatev1.ListProgramRulesResponse{
		Data: data, Total: total,
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both came in as int32
	}, nil
}

func (s *Service) move(ctx context.Context, req named, to affiliate.ProgramStatus) (*affiliatev1.Program, error) {
	id, err := server.PathID[affiliate.Program](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	return answer(s.store.MoveProgram(ctx, server.PrincipalFrom(ctx).Scope(), id, to, s.at(), server.ActorFrom(ctx)))
}

// named is a request about one programme.
type named interface{ GetProgramId() string }

func answer(p affiliate.Program, err error) (*affiliatev1.Program, error) {
	if err != nil {
		return nil, err
	}
	return toProto(p), nil
}
