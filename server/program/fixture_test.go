package program_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/program"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// fixture is a workspace with the currency CHF, its owner, and the service under test. It
// has no programme.
type fixture struct {
	*pgtest.Fixture
	service *program.Service
	scope   affiliate.Scope // live mode
	owner   affiliate.UserID
	clock   *pgtest.Clock
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC))
	f := &fixture{Fixture: pgtest.Open(t, clock.Now), clock: clock}
	f.service = program.New(f.Store, clock.Now)
	f.scope = affiliate.Scope{Workspace: f.NewWorkspace(pgtest.Row{"currency": "CHF"}), Mode: affiliate.ModeLive}
	f.owner = f.NewMember(f.scope.Workspace, affiliate.RoleOwner)
	return f
}

func (f *fixture) asMerchant(workspace affiliate.WorkspaceID, mode affiliate.Mode) context.Context {
	return servertest.AsMember(f, affiliate.Scope{Workspace: workspace, Mode: mode}, f.owner, affiliate.RoleOwner)
}

// liveContext returns the context of a call in live mode by an owner of the workspace.
func (f *fixture) liveContext() context.Context {
	return f.asMerchant(f.scope.Workspace, affiliate.ModeLive)
}

func (f *fixture) create(req *affiliatev1.CreateProgramRequest) *affiliatev1.Program {
	f.Helper()
	if wrong := f.service.Check(req); len(wrong) > 0 {
		f.Fatalf("check: %v", wrong)
	}
	p, err := f.service.CreateProgram(f.liveContext(), req)
	if err != nil {
		f.Fatal(err)
	}
	return p
}

func (f *fixture) update(id string, req *affiliatev1.UpdateProgramRequest, paths ...string) (*affiliatev1.Program, error) {
	f.Helper()
	f.clock.Advance(time.Second)
	req.ProgramId, req.UpdateMask = id, &fieldmaskpb.FieldMask{Paths: paths}
	if wrong := f.service.Check(req); len(wrong) > 0 {
		return nil, wrong.Err()
	}
	return f.service.UpdateProgram(f.liveContext(), req)
}

func (f *fixture) move(ctx context.Context, verb, id string) (*affiliatev1.Program, error) {
	switch verb {
	case "activate":
		return f.service.ActivateProgram(ctx, &affiliatev1.ActivateProgramRequest{ProgramId: id})
	case "pause":
		return f.service.PauseProgram(ctx, &affiliatev1.PauseProgramRequest{ProgramId: id})
	default:
		return f.service.ArchiveProgram(ctx, &affiliatev1.ArchiveProgramRequest{ProgramId: id})
	}
}
