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
	"cmp"
	"context"
	"encoding/json"
	"slices"
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

// CreateProgram creates a draft programme. Without a currency in the request, the programme has
// the workspace's currency. Without a slug, the slug is derived from the name. Errors: SLUG_TAKEN.
func (s *Service) CreateProgram(ctx context.Context, req *affiliatev1.CreateProgramRequest) (*affiliatev1.Program, error) {
	draft, err := newProgram(req)
	if err != nil {
		return nil, err
	}
	at, actor := s.currentTime(), server.ActorFrom(ctx)
	draft.ID, draft.Scope = affiliate.NewID[affiliate.ProgramID](at), server.PrincipalFrom(ctx).Scope()
	draft.Version, draft.CreatedAt, draft.UpdatedAt = 1, at, at
	var p program.Program
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		p = draft
		currency, err := programs.LockSlugs(ctx, tx, p.Workspace)
		if err != nil {
			return err
		}
		p.Currency = cmp.Or(p.Currency, currency)
		if p.Slug == "" {
			if p.Slug, err = freeSlug(ctx, tx, p); err != nil {
				return err
			}
		}
		if err := programs.Insert(ctx, tx, p); err != nil {
			return err
		}
		if err := programs.InsertRules(ctx, tx, p, at, actor); err != nil {
			return err
		}
		return tx.Audit(ctx, p.AuditLine("program.create", at, actor, nil, p.Record()))
	})
	return response(p, err)
}

// slugsPerQuery is the number of slugs that one query checks.
const slugsPerQuery = 32

// freeSlug derives slugs from the programme's name and returns the first slug that no other
// programme has.
func freeSlug(ctx context.Context, tx *postgres.Tx, p program.Program) (string, error) {
	candidates := make([]string, 0, slugsPerQuery)
	for slug := range program.Slugs(p.Name) {
		if candidates = append(candidates, slug); len(candidates) < slugsPerQuery {
			continue
		}
		taken, err := programs.TakenSlugs(ctx, tx, p.Scope, p.ID, candidates)
		if err != nil {
			return "", err
		}
		for _, candidate := range candidates {
			if !slices.Contains(taken, candidate) {
				return candidate, nil
			}
		}
		candidates = candidates[:0]
	}
	panic("program: program.Slugs must not end")
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
	return &affiliatev1.ListProgramsResponse{
		Data: server.ConvertAll(programs, toListItem), Total: server.SearchTotal(ctx, total, filter.Search),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// GetProgram returns one programme.
func (s *Service) GetProgram(ctx context.Context, req *affiliatev1.GetProgramRequest) (*affiliatev1.Program, error) {
	id := server.PathID[affiliate.ProgramID](req.GetProgramId())
	return response(programs.Get(ctx, s.db, server.PrincipalFrom(ctx).Scope(), id))
}

// UpdateProgram changes the fields that the update mask names. If nothing changes, it writes
// no audit record and no event. Errors: SLUG_TAKEN, PROGRAM_STATE_INVALID for a new currency
// of a programme that has commissions.
func (s *Service) UpdateProgram(ctx context.Context, req *affiliatev1.UpdateProgramRequest) (*affiliatev1.Program, error) {
	id := server.PathID[affiliate.ProgramID](req.GetProgramId())
	scope, actor, at := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.currentTime()
	var after program.Program
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := programs.LockForUpdate(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		if after, err = before.Patch(patchOf(req)); err != nil {
			return err
		}
		if after.Currency != before.Currency {
			// A commission keeps the currency in which it was earned.
			earned, err := programs.HasCommissions(ctx, tx, scope, id)
			if err != nil {
				return err
			}
			if earned {
				return before.CurrencyFixed()
			}
		}
		if after.Slug != before.Slug {
			if _, err := programs.LockSlugs(ctx, tx, scope.Workspace); err != nil {
				return err
			}
		}
		if after.Slug == "" {
			if after.Slug, err = freeSlug(ctx, tx, after); err != nil {
				return err
			}
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Record(), after.Record())
		if err != nil || oldValues == nil {
			return err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if err := programs.Update(ctx, tx, after); err != nil {
			return err
		}
		if after.RulesVersion != before.RulesVersion {
			if err := programs.InsertRules(ctx, tx, after, at, actor); err != nil {
				return err
			}
		}
		return recordChange(ctx, tx, before, after, "program.update", oldValues, newValues)
	})
	return response(after, err)
}

// recordChange stores everything that follows from a change of a programme: the audit
// record, the event, and the job that updates the edge directory. The audit record has the old
// and new values of all fields, the event only those of its object.
func recordChange(ctx context.Context, tx *postgres.Tx, before, after program.Program, action string, oldValues, newValues any) error {
	previous, _, err := affiliate.ChangedFields(before.Object(), after.Object())
	if err != nil {
		return err
	}
	if previous == nil { // only texts have changed
		previous = map[string]json.RawMessage{}
	}
	if err := tx.Audit(ctx, after.AuditLine(action, after.UpdatedAt, server.ActorFrom(ctx), oldValues, newValues)); err != nil {
		return err
	}
	if err := tx.Publish(ctx, affiliate.NewEvent(after.Scope, affiliate.EventProgramUpdated, after.UpdatedAt, after.Object(), previous)); err != nil {
		return err
	}
	return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: after.Workspace, Program: &after.ID})
}

// ActivateProgram activates a draft or paused programme.
func (s *Service) ActivateProgram(ctx context.Context, req *affiliatev1.ActivateProgramRequest) (*affiliatev1.Program, error) {
	return s.move(ctx, req, program.Active, "program.activate")
}

// PauseProgram pauses an active programme. Until the programme is activated again, its
// clicks are refused and its participants earn no commissions.
func (s *Service) PauseProgram(ctx context.Context, req *affiliatev1.PauseProgramRequest) (*affiliatev1.Program, error) {
	return s.move(ctx, req, program.Paused, "program.pause")
}

// ArchiveProgram archives a programme. An archived programme cannot be activated again.
func (s *Service) ArchiveProgram(ctx context.Context, req *affiliatev1.ArchiveProgramRequest) (*affiliatev1.Program, error) {
	return s.move(ctx, req, program.Archived, "program.archive")
}

// ListProgramRules returns one page of the versions of a programme's commission rules,
// newest first.
func (s *Service) ListProgramRules(ctx context.Context, req *affiliatev1.ListProgramRulesRequest) (*affiliatev1.ListProgramRulesResponse, error) {
	id := server.PathID[affiliate.ProgramID](req.GetProgramId())
	page, scope := server.PageOf(req), server.PrincipalFrom(ctx).Scope()
	p, err := programs.Get(ctx, s.db, scope, id)
	if err != nil {
		return nil, err
	}
	versions, err := programs.ListRules(ctx, s.db, scope, id, page)
	if err != nil {
		return nil, err
	}
	toProto := func(v program.RulesVersion) *affiliatev1.ProgramRules {
		//nolint:gosec // users create the versions one by one, so the number is small
		return &affiliatev1.ProgramRules{Version: int32(v.Version), Rules: server.Rules(v.Rules), At: server.Timestamp(v.At), By: v.By.String(), ByName: v.ByName}
	}
	return &affiliatev1.ListProgramRulesResponse{
		Data: server.ConvertAll(versions, toProto), Total: int64(p.RulesVersion), // versions are numbered from 1 without gaps
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// move changes the status of a programme. Errors: PROGRAM_STATE_INVALID, VALIDATION_ERROR if a
// programme without a page is activated.
func (s *Service) move(ctx context.Context, req programRequest, to program.Status, action string) (*affiliatev1.Program, error) {
	id := server.PathID[affiliate.ProgramID](req.GetProgramId())
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	var after program.Program
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := programs.LockForUpdate(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		if after, err = before.Move(to, at); err != nil {
			return err
		}
		if err := programs.Update(ctx, tx, after); err != nil {
			return err
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Record(), after.Record())
		if err != nil {
			return err
		}
		return recordChange(ctx, tx, before, after, action, oldValues, newValues)
	})
	return response(after, err)
}

// programRequest is a request whose path names a programme.
type programRequest interface{ GetProgramId() string }

func response(p program.Program, err error) (*affiliatev1.Program, error) {
	if err != nil {
		return nil, err
	}
	return toProto(p), nil
}
