package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// noon is the time at which most tests create their data.
var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// fixture is a shop with a clock that starts at noon.
type fixture struct {
	*pgtest.Shop
	clock *pgtest.Clock
}

// newFixture creates a shop. The rows in program replace columns of its programme.
func newFixture(t *testing.T, program ...pgtest.Row) *fixture {
	t.Helper()
	clock := pgtest.NewClock(noon)
	return &fixture{pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive, program...), clock}
}

// by returns the actor for a user.
func by(user affiliate.UserID) affiliate.Actor { return affiliate.Actor{User: &user} }

// confirmation returns the confirmation of a payout batch by the owner.
func (f *fixture) confirmation() payout.Confirmation {
	return payout.Confirmation{By: by(f.Owner), User: f.Owner, At: f.Now()}
}

// newDue creates a pending commission that was created an hour ago and that is due for
// approval. The functions in change modify it before it is stored.
func (f *fixture) newDue(p pgtest.Participant, change ...func(*commission.Commission)) commission.Commission {
	f.Helper()
	due := func(c *commission.Commission) {
		now := f.Now()
		c.CreatedAt, c.UpdatedAt, c.AutoApproveAt, c.HoldUntil = now.Add(-time.Hour), now.Add(-time.Hour), &now, &now
	}
	return f.NewCommission(p, append([]func(*commission.Commission){due}, change...)...)
}

// checkPlan checks that a query plan contains all texts in required and no text in
// forbidden. It puts the plan on one line first, so that a text can contain a node and
// its child node.
func checkPlan(t testing.TB, what, plan string, required, forbidden []string) {
	t.Helper()
	flat := inOneLine(plan)
	for _, part := range required {
		if !strings.Contains(flat, part) {
			t.Errorf("%s: the plan does not contain %q\n%s", what, part, plan)
		}
	}
	for _, part := range forbidden {
		if strings.Contains(flat, part) {
			t.Errorf("%s: the plan contains %q\n%s", what, part, plan)
		}
	}
}

// scansOf returns a text for each table. A plan that contains this text scans the whole
// table. The text for an empty name matches a scan of any table.
func scansOf(tables ...string) []string {
	scans := make([]string, len(tables))
	for i, table := range tables {
		scans[i] = "Seq Scan on " + table
	}
	return scans
}

// inOneLine returns a query plan on one line.
func inOneLine(plan string) string { return strings.Join(strings.Fields(plan), " ") }

// awaitLock waits until a transaction of the database waits for a lock.
func awaitLock(f *pgtest.Fixture) {
	f.Helper()
	pgtest.Eventually(f, "a transaction waits for a lock", func() bool {
		return f.CountLockWaits() > 0
	})
}

// joinMany adds n new partners as approved participants to the programme of a shop. Their
// names are Jane 1, Jane 2 and so on. They have no links, and no rows in
// participant_totals.
func joinMany(s *pgtest.Shop, n int) {
	s.Helper()
	s.ExecWithoutForeignKeys(`
		with people as (
			insert into users (id, kind, email, password_hash, name, created_at)
			select gen_random_uuid(), 'partner', 'jane-' || gen_random_uuid() || '@example.com', '', 'Jane ' || n, $4 from generate_series(1, $5::integer) n
			returning id, name, email
		)
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
			application_answers, applied_at, created_at, updated_at)
		select $1, gen_random_uuid(), $2, $3, id, name, email, 'approved', id::text, '{}', $4, $4, $4 from people`,
		s.Scope.Workspace, s.Program, s.Scope.Mode, s.Now(), n)
}

// copyProgram inserts n copies of a shop's programme with the names Copy 1, Copy 2 and so
// on. Each copy is one second newer than the copy before it.
func copyProgram(s *pgtest.Shop, n int) {
	s.Helper()
	s.Exec(`
		insert into programs
		select copy.*
		from programs p, generate_series(1, $2::integer) n, jsonb_populate_record(p, jsonb_build_object('id', gen_random_uuid(),
			'name', 'Copy ' || n, 'slug', 'copy-' || n, 'created_at', p.created_at + n * interval '1 second')) copy
		where p.id = $1`, s.Program, n)
}

// anyParticipant returns one of the participants in the programme of a shop.
func anyParticipant(s *pgtest.Shop) pgtest.Participant {
	s.Helper()
	p := pgtest.Participant{Scope: s.Scope, Program: s.Program}
	err := s.SQL.QueryRow(s.Context(), `select id, partner_id, referral_code from participants where program_id = $1 limit 1`, s.Program).Scan(&p.ID, &p.Partner, &p.Code)
	if err != nil {
		s.Fatal(err)
	}
	return p
}
