package program_test

import (
	"context"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/program"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

// fixture is a workspace with the currency CHF, its owner, and the service under test.
// The workspace has no programme.
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
	f.service = program.New(f.DB, clock.Now)
	f.scope = affiliate.Scope{Workspace: f.NewWorkspace(pgtest.Row{"currency": "CHF"}), Mode: affiliate.ModeLive}
	f.owner = f.NewMember(f.scope.Workspace, affiliate.RoleOwner)
	return f
}

func (f *fixture) asOwner() context.Context { return f.asOwnerOf(f.scope) }

func (f *fixture) asOwnerOf(scope affiliate.Scope) context.Context {
	return servertest.AsMember(f, scope, f.owner, affiliate.RoleOwner)
}

// inOtherMode returns the context of a call by the owner in the other mode.
func (f *fixture) inOtherMode() context.Context {
	return f.asOwnerOf(affiliate.Scope{Workspace: f.scope.Workspace, Mode: f.scope.Mode.Other()})
}

// inOtherWorkspace returns the context of a call by the owner of a new workspace.
func (f *fixture) inOtherWorkspace() context.Context {
	f.Helper()
	return f.asOwnerOf(affiliate.Scope{Workspace: f.NewWorkspace(), Mode: f.scope.Mode})
}

func (f *fixture) create(req *affiliatev1.CreateProgramRequest) *affiliatev1.Program {
	f.Helper()
	if found := f.service.Check(req); len(found) > 0 {
		f.Fatal(found.Err())
	}
	p, err := f.service.CreateProgram(f.asOwner(), req)
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// createNamed creates a programme with a name and a website. All other fields have their
// default values.
func (f *fixture) createNamed(name string) *affiliatev1.Program {
	f.Helper()
	return f.create(&affiliatev1.CreateProgramRequest{Name: name, WebsiteUrl: new("https://a.example")})
}

func (f *fixture) get(id string) *affiliatev1.Program {
	f.Helper()
	p, err := f.service.GetProgram(f.asOwner(), &affiliatev1.GetProgramRequest{ProgramId: id})
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// update advances the clock by one second and updates a programme.
func (f *fixture) update(id string, req *affiliatev1.UpdateProgramRequest, paths ...string) (*affiliatev1.Program, error) {
	f.clock.Advance(time.Second)
	req.ProgramId, req.UpdateMask = id, &fieldmaskpb.FieldMask{Paths: paths}
	if found := f.service.Check(req); len(found) > 0 {
		return nil, found.Err()
	}
	return f.service.UpdateProgram(f.asOwner(), req)
}

func (f *fixture) mustUpdate(id string, req *affiliatev1.UpdateProgramRequest, paths ...string) *affiliatev1.Program {
	f.Helper()
	p, err := f.update(id, req, paths...)
	if err != nil {
		f.Fatalf("update of %q: %v", paths, err)
	}
	return p
}

var verbs = []string{"activate", "pause", "archive"}

// move changes the status of a programme. verb is an element of verbs and selects the
// method of the service.
func (f *fixture) move(caller context.Context, verb, id string) (*affiliatev1.Program, error) {
	switch verb {
	case "activate":
		return f.service.ActivateProgram(caller, &affiliatev1.ActivateProgramRequest{ProgramId: id})
	case "pause":
		return f.service.PauseProgram(caller, &affiliatev1.PauseProgramRequest{ProgramId: id})
	default:
		return f.service.ArchiveProgram(caller, &affiliatev1.ArchiveProgramRequest{ProgramId: id})
	}
}

func (f *fixture) mustMove(verb, id string) {
	f.Helper()
	if _, err := f.move(f.asOwner(), verb, id); err != nil {
		f.Fatalf("%s: %v", verb, err)
	}
}

// fields returns the names of the fields in violations.
func fields(found affiliate.Violations) (names []string) {
	for _, v := range found {
		names = append(names, v.Field)
	}
	return names
}
