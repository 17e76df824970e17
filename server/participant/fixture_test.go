package participant_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// fixture is a shop in live mode, with the service under test.
type fixture struct {
	*pgtest.Shop
	service *participant.Service
	clock   *pgtest.Clock
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive)
	return &fixture{shop, participant.New(shop.Store, clock.Now), clock}
}

func (f *fixture) asPartner(id affiliate.UserID) context.Context {
	return servertest.AsPartner(f, id, affiliate.ModeLive)
}

func (f *fixture) asMerchant(role affiliate.Role) context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, role)
}

func (f *fixture) apply(partner affiliate.UserID, change func(*affiliatev1.ApplyRequest)) (*affiliatev1.Participant, error) {
	f.Helper()
	req := &affiliatev1.ApplyRequest{ProgramId: f.Program.String()}
	if change != nil {
		change(req)
	}
	if wrong := f.service.Check(req); len(wrong) > 0 {
		return nil, wrong.Err()
	}
	return f.service.Apply(f.asPartner(partner), req)
}

func (f *fixture) mustApply(name string) *affiliatev1.Participant {
	f.Helper()
	p, err := f.apply(f.NewPartner(name), nil)
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// move calls the merchant's method for the verb. The verb is one of verbs.
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

var verbs = []string{"approve", "reject", "suspend", "reinstate"}

func (f *fixture) eventTypes() []string {
	f.Helper()
	types, _ := f.Events()
	slices.Sort(types)
	return types
}

// checkCounts compares the stored lengths of lists with the number of their rows.
func (f *fixture) checkCounts() {
	f.Helper()
	const different = `
		select count(*) from (
			select program_id, 'participants.' || status as what, count(*) as n from participants group by 1, 2
			union all
			select program_id, 'links', count(*) from links where deleted_at is null group by 1
		) actual full join (
			select program_id, what, sum(n) as n from list_counts group by 1, 2 having sum(n) <> 0
		) stored using (program_id, what)
		where actual.n is distinct from stored.n`
	if n := f.Count(different); n != 0 {
		f.Errorf("%d lists have another length than the stored one", n)
	}
}
