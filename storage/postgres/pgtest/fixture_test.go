package pgtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/server/servertest"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// NewParticipant must insert the same rows as the service when a partner applies to a
// programme. Otherwise, tests of services would start from a state
// that the service cannot reach.
func TestNewParticipant_InsertsSameRowsAsApplication(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	f := pgtest.Open(t, func() time.Time { return now })
	scope := affiliate.Scope{Workspace: f.NewWorkspace(), Mode: affiliate.ModeLive}
	program := f.NewProgram(scope, pgtest.Row{"auto_approve_partners": true})
	rows := func() []string {
		return f.Texts(`
			select 'participants ' || count(*) from participants where status = 'approved' union all
			select 'totals ' || count(*) from participant_totals where program_id = $1 union all
			select 'links ' || count(*) from links where is_default union all
			select 'link totals ' || count(*) from link_totals union all
			select 'codes ' || count(*) from referral_codes c join links l on l.id = c.link_id and l.code = c.code and l.participant_id = c.participant_id union all
			select what || ' ' || sum(n) from list_counts where program_id = $1 group by what order by 1`, program)
	}
	jane := f.NewPartner("Jane")
	service := participant.New(participant.Config{DB: f.DB, Now: f.Now})
	application := &affiliatev1.ApplyRequest{ProgramId: program.String(), ReferralCode: new("jane")}
	if _, err := service.Apply(servertest.AsPartner(t, jane, scope.Mode), application); err != nil {
		t.Fatal(err)
	}
	want := []string{"codes 1", "link totals 1", "links 1", "links 1", "participants 1", "participants.approved 1", "totals 1"}
	if got := rows(); !slices.Equal(got, want) {
		t.Fatalf("an application inserts %q, want %q", got, want)
	}
	f.NewParticipant(scope, program, f.NewPartner("John"))
	want = []string{"codes 2", "link totals 2", "links 2", "links 2", "participants 2", "participants.approved 2", "totals 2"}
	if got := rows(); !slices.Equal(got, want) {
		t.Errorf("an application and NewParticipant insert %q, want %q", got, want)
	}
}

// CheckAccounts compares totals, counts and the ledger with the rows from which they are
// computed. It must find no violations in the data of the fixture. Otherwise, tests of
// services would start from a state that the service cannot reach.
func TestFixture_CreatesConsistentData(t *testing.T) {
	shop := pgtest.Open(t, time.Now).NewShop(affiliate.ModeLive)
	pat := shop.Join("Pat")
	click := shop.NewClick(pat)
	shop.NewConversion(shop.Scope)
	for _, status := range []commission.Status{commission.Pending, commission.Approved} {
		shop.NewCommission(pat, func(c *commission.Commission) { c.Status, c.Click = status, &click.ID })
	}
	shop.NewPromoCode(pat, "SAVE")
	shop.NewLink(pat, "second")
	results, err := checks.Run(t.Context(), shop.DB, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Violated != 0 {
			t.Errorf("check %s finds %d violations, want none: %v", r.Name, r.Violated, r.Violations)
		}
	}
}

func TestClock(t *testing.T) {
	start := time.Date(2026, 5, 6, 7, 8, 9, 10, time.UTC)
	clock := pgtest.NewClock(start)
	clock.Advance(time.Hour)
	if got, want := clock.Now(), start.Add(time.Hour); !got.Equal(want) {
		t.Errorf("after Advance(1h) the clock shows %v, want %v", got, want)
	}
	clock.Set(start)
	if got := clock.Now(); !got.Equal(start) {
		t.Errorf("after Set(%v) the clock shows %v", start, got)
	}
	running := pgtest.NewRunningClock()
	running.Set(start)
	if first, second := running.Now(), running.Now(); first.Before(start) || !second.After(first) {
		t.Errorf("a running clock that was set to %v shows %v, then %v", start, first, second)
	}
}
