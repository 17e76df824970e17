package commission_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/server/servertest"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

// fixture is a shop with the service under test. Its programme has the name Alpha.
type fixture struct {
	*pgtest.Shop
	service *commissionservice.Service
	clock   *pgtest.Clock
}

func newFixture(t *testing.T, mode affiliate.Mode) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(mode, pgtest.Row{"name": "Alpha"})
	return &fixture{shop, commissionservice.New(shop.DB, clock.Now), clock}
}

// in returns a fixture whose methods work in another shop.
func (f *fixture) in(shop *pgtest.Shop) *fixture {
	return &fixture{shop, f.service, f.clock}
}

// as returns the context of a call by a member with this role.
func (f *fixture) as(role affiliate.Role) context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, role)
}

func (f *fixture) asOwner() context.Context { return f.as(affiliate.RoleOwner) }

// joinWithEmail creates a partner with the email address and a participant for this
// partner.
func (f *fixture) joinWithEmail(name, email string) pgtest.Participant {
	f.Helper()
	return f.NewParticipant(f.Scope, f.Program, f.NewPartner(name, pgtest.Row{"email": email}))
}

// requests holds the requests of the shop's owner about one commission.
type requests struct {
	*fixture
	program, id string
}

// on returns the requests about a commission.
func (f *fixture) on(c commission.Commission) requests {
	return requests{f, c.Program.String(), c.ID.String()}
}

func (r requests) get() (*affiliatev1.Commission, error) {
	return r.service.GetCommission(r.asOwner(), &affiliatev1.GetCommissionRequest{ProgramId: r.program, CommissionId: r.id})
}

func (r requests) approve() (*affiliatev1.Commission, error) {
	return r.service.ApproveCommission(r.asOwner(), &affiliatev1.ApproveCommissionRequest{ProgramId: r.program, CommissionId: r.id})
}

func (r requests) approveEarly() (*affiliatev1.Commission, error) {
	return r.service.ApproveCommissionEarly(r.asOwner(), &affiliatev1.ApproveCommissionEarlyRequest{
		ProgramId: r.program, CommissionId: r.id, Reason: "an old partner",
	})
}

func (r requests) reject() (*affiliatev1.Commission, error) {
	return r.service.RejectCommission(r.asOwner(), &affiliatev1.RejectCommissionRequest{ProgramId: r.program, CommissionId: r.id})
}

// clearReview sends a request without note if note is nil.
func (r requests) clearReview(note *string) (*affiliatev1.Commission, error) {
	return r.service.ClearCommissionReview(r.asOwner(), &affiliatev1.ClearCommissionReviewRequest{
		ProgramId: r.program, CommissionId: r.id, Note: note,
	})
}

// list returns a page of the list. It ends the test if the call fails.
func (f *fixture) list(req *affiliatev1.ListCommissionsRequest) *affiliatev1.ListCommissionsResponse {
	f.Helper()
	page, err := f.service.ListCommissions(f.asOwner(), req)
	if err != nil {
		f.Fatalf("ListCommissions with %v: %v", req, err)
	}
	return page
}

// sweep approves the commissions that are due.
func (f *fixture) sweep() error {
	return commissionservice.NewSweepWorker(f.DB, slog.New(slog.DiscardHandler), f.clock.Now).Work(f.Context(), nil)
}

// statuses returns the statuses that a commission had, in their order, separated by
// spaces. It also checks that each entry of the history begins with the status of the
// previous entry, and that each entry except the creation has one event.
func (f *fixture) statuses(c commission.Commission) string {
	f.Helper()
	detail, err := commissions.Get(f.Context(), f.DB, c.Scope, c.Program, c.ID)
	if err != nil {
		f.Fatal(err)
	}
	var statuses []string
	for i, entry := range detail.History {
		switch {
		case i == 0 && entry.From != nil:
			f.Errorf("the history starts with a move from %s, want the creation", *entry.From)
		case i > 0 && (entry.From == nil || string(*entry.From) != statuses[i-1]):
			f.Errorf("entry %d of the history is %+v, want a move from %s", i, entry, statuses[i-1])
		}
		statuses = append(statuses, string(entry.To))
	}
	last := len(statuses)
	if n := f.Count(`select max(seq) from commission_history where commission_id = $1`, c.ID); n != last {
		f.Errorf("the last of %d history entries has the number %d", last, n)
	}
	if string(detail.Status) != statuses[last-1] || detail.Version != last {
		f.Errorf("the commission is %s with version %d, want %s with version %d", detail.Status, detail.Version, statuses[last-1], last)
	}
	events := map[any]int{} // by version
	_, objects := f.Events(c.ID.String())
	for _, object := range objects {
		events[object["version"]]++
	}
	for version := 2; version <= last; version++ {
		if n := events[float64(version)]; n != 1 {
			f.Errorf("version %d of the commission has %d events, want 1", version, n)
		}
	}
	return strings.Join(statuses, " ")
}

// requireStatuses checks the statuses that a commission had.
func (f *fixture) requireStatuses(c commission.Commission, want string) {
	f.Helper()
	if got := f.statuses(c); got != want {
		f.Errorf("the commission had the statuses %q, want %q", got, want)
	}
}
