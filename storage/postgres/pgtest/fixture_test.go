package pgtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// Tests of services need this: NewParticipant must insert the same rows as a real
// application.
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
	application := affiliate.Application{Program: program, Partner: jane, Mode: scope.Mode, ReferralCode: "jane"}
	if _, err := f.Store.Apply(t.Context(), application, now, affiliate.Actor{User: &jane}); err != nil {
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
