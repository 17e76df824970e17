package participant_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

const (
	pending   = affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_PENDING
	approved  = affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED
	rejected  = affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_REJECTED
	suspended = affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_SUSPENDED
)

var (
	statuses = []string{"pending", "approved", "rejected", "suspended"}
	verbs    = []string{"approve", "reject", "suspend", "reinstate"}
)

// fixture is a shop in live mode with the service under test.
type fixture struct {
	*pgtest.Shop
	service *participant.Service
	clock   *pgtest.Clock
}

// newFixture returns a fixture. programColumns replaces default values of the columns of
// the shop's programme.
func newFixture(t *testing.T, programColumns ...pgtest.Row) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive, programColumns...)
	return &fixture{shop, newService(t, shop.DB, clock.Now), clock}
}

// unusableHash is the password hash of accounts that the service makes.
const unusableHash = "unusable"

// limiter allows every invitation, except those to full@example.com.
type limiter struct{}

func (limiter) Allow(_ context.Context, _ server.Zone, subject string) server.Allowance {
	return server.Allowance{Allowed: subject != "address:full@example.com", RetryAfter: 60}
}

func newService(t *testing.T, db *postgres.DB, now func() time.Time, requireVerified ...bool) *participant.Service {
	t.Helper()
	signer, err := server.ParseTokenKeys("k1:"+base64.StdEncoding.EncodeToString(make([]byte, ed25519.SeedSize)), now)
	if err != nil {
		t.Fatal(err)
	}
	return participant.New(participant.Config{
		DB: db, Seal: servertest.Seal(t), Signer: signer, UnusableHash: func() string { return unusableHash }, Now: now,
		Invitations: server.Invitations{Limiter: limiter{}, RequireVerified: len(requireVerified) > 0},
	})
}

// in returns a fixture whose methods work in another shop.
func (f *fixture) in(shop *pgtest.Shop) *fixture { return &fixture{shop, f.service, f.clock} }

// inNewProgram returns a fixture whose methods work in a new programme of the workspace.
func (f *fixture) inNewProgram(changes ...pgtest.Row) *fixture {
	f.Helper()
	shop := *f.Shop
	shop.Program = f.NewProgram(f.Scope, changes...)
	return f.in(&shop)
}

func (f *fixture) asPartner(id affiliate.UserID) context.Context {
	return servertest.AsPartner(f, id, f.Scope.Mode)
}

func (f *fixture) asMember(role affiliate.Role) context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, role)
}

func (f *fixture) asOwner() context.Context { return f.asMember(affiliate.RoleOwner) }

// changeTime returns the time that the service stores if it makes a change now.
func (f *fixture) changeTime() time.Time { return f.Now().Truncate(time.Millisecond) }

// apply sends the partner's application to the programme. The functions in change can
// modify the request before it is sent.
func (f *fixture) apply(partner affiliate.UserID, change ...func(*affiliatev1.ApplyRequest)) (*affiliatev1.Participant, error) {
	req := &affiliatev1.ApplyRequest{ProgramId: f.Program.String()}
	for _, c := range change {
		c(req)
	}
	if err := servertest.Check(f.service, req); err != nil {
		return nil, err
	}
	return f.service.Apply(f.asPartner(partner), req)
}

// mustApply creates a partner and sends the partner's application to the programme.
func (f *fixture) mustApply(name string) *affiliatev1.Participant {
	f.Helper()
	p, err := f.apply(f.NewPartner(name))
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// get returns the participant as the owner sees it.
func (f *fixture) get(id string) *affiliatev1.Participant {
	f.Helper()
	p, err := f.service.GetParticipant(f.asOwner(), &affiliatev1.GetParticipantRequest{ProgramId: f.Program.String(), ParticipantId: id})
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// move changes the status of a participant. verb is an element of verbs and selects the
// method of the service.
func (f *fixture) move(ctx context.Context, verb, program, id string, reason *string) (*affiliatev1.Participant, error) {
	switch verb {
	case "approve":
		return f.service.ApproveParticipant(ctx, &affiliatev1.ApproveParticipantRequest{ProgramId: program, ParticipantId: id})
	case "reject":
		return f.service.RejectParticipant(ctx, &affiliatev1.RejectParticipantRequest{ProgramId: program, ParticipantId: id, Reason: reason})
	case "suspend":
		return f.service.SuspendParticipant(ctx, &affiliatev1.SuspendParticipantRequest{ProgramId: program, ParticipantId: id, Reason: reason})
	default:
		return f.service.ReinstateParticipant(ctx, &affiliatev1.ReinstateParticipantRequest{ProgramId: program, ParticipantId: id})
	}
}

func (f *fixture) mustMove(verb, id string) *affiliatev1.Participant {
	f.Helper()
	p, err := f.move(f.asOwner(), verb, f.Program.String(), id, nil)
	if err != nil {
		f.Fatalf("%s: %v", verb, err)
	}
	return p
}

// bulk changes the status of several participants. verb is approve or reject.
func (f *fixture) bulk(ctx context.Context, verb, program string, ids ...string) (*affiliatev1.BulkParticipantsResponse, error) {
	if verb == "approve" {
		return f.service.BulkApproveParticipants(ctx, &affiliatev1.BulkApproveParticipantsRequest{ProgramId: program, ParticipantIds: ids})
	}
	return f.service.BulkRejectParticipants(ctx, &affiliatev1.BulkRejectParticipantsRequest{ProgramId: program, ParticipantIds: ids, Reason: new("spam")})
}

type updateRequest = affiliatev1.UpdateParticipantRequest

func (f *fixture) update(id string, req *updateRequest, paths ...string) (*affiliatev1.Participant, error) {
	return f.updateAs(f.asMember(affiliate.RoleManager), f.Program.String(), id, req, paths...)
}

func (f *fixture) updateAs(ctx context.Context, program, id string, req *updateRequest, paths ...string) (*affiliatev1.Participant, error) {
	req.ProgramId, req.ParticipantId, req.UpdateMask = program, id, &fieldmaskpb.FieldMask{Paths: paths}
	if err := servertest.Check(f.service, req); err != nil {
		return nil, err
	}
	return f.service.UpdateParticipant(ctx, req)
}

func (f *fixture) mustUpdate(id string, req *updateRequest, paths ...string) *affiliatev1.Participant {
	f.Helper()
	p, err := f.update(id, req, paths...)
	if err != nil {
		f.Fatalf("update of %q: %v", paths, err)
	}
	return p
}

// inParallel calls a function n times at the same time and returns the errors.
func inParallel(n int, call func(i int) error) []error {
	errs := make([]error, n)
	var calls sync.WaitGroup
	for i := range errs {
		calls.Go(func() { errs[i] = call(i) })
	}
	calls.Wait()
	return errs
}

// requireOneSuccess checks that exactly one call succeeded, and that all other calls were
// refused with the given error code.
func requireOneSuccess(t *testing.T, errs []error, reason affiliate.Reason) {
	t.Helper()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
			continue
		}
		pgtest.RequireRefusal(t, err, reason)
	}
	if succeeded != 1 {
		t.Errorf("%d of %d parallel calls succeeded, want 1", succeeded, len(errs))
	}
}

// wantEvents checks the types of the events. The order of the events does not matter, but
// want must be sorted. If ids are given, it checks only the events about objects with
// these ids.
func (f *fixture) wantEvents(ids []string, want ...string) {
	f.Helper()
	types, _ := f.Events(ids...)
	slices.Sort(types)
	if !slices.Equal(types, want) {
		f.Errorf("events have the types %q, want %q", types, want)
	}
}

// wantAudits checks how many audit records an actor has for an action.
func (f *fixture) wantAudits(want int, action string, actor affiliate.UserID) {
	f.Helper()
	f.WantCount(want, "audit records of "+action, `select count(*) from audit_log where action = $1 and actor = $2`, action, actor.String())
}

// directoryJobs returns the number of jobs that update a participant in the edge
// directory.
func (f *fixture) directoryJobs(id string) int {
	f.Helper()
	return f.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args ->> 'participant' = $1`, id)
}

// rowText returns the participant's row as text.
func (f *fixture) rowText(id string) string {
	f.Helper()
	return f.Texts(`select p::text from participants p where id::text = $1`, id)[0]
}

// checkCounts checks that the list lengths in the table list_counts are equal to the
// actual numbers of rows.
func (f *fixture) checkCounts() {
	f.Helper()
	const countDifferences = `
		select count(*) from (
			select program_id, 'participants.' || status as what, count(*) as n from participants group by 1, 2
			union all
			select program_id, 'links', count(*) from links where deleted_at is null group by 1
		) actual full join (
			select program_id, what, sum(n) as n from list_counts group by 1, 2 having sum(n) <> 0
		) stored using (program_id, what)
		where actual.n is distinct from stored.n`
	f.WantCount(0, "lists whose stored length is wrong", countDifferences)
}
