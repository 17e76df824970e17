package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// A suspended partner's commissions that wait are for a person to decide; what
// is decided, and what is others', stays.
func TestSuspendingFlagsWhatIsPending(t *testing.T) {
	w := newCommissionWorld(t)
	participant, partner := w.participant(affiliate.ParticipantApproved, false)
	other, otherPartner := w.participant(affiliate.ParticipantApproved, false)
	status := func(s affiliate.CommissionStatus) func(*affiliate.Commission) {
		return func(c *affiliate.Commission) { c.Status = s }
	}
	pending := w.commission(participant, partner, nil)
	flagged := w.commission(participant, partner, func(c *affiliate.Commission) { c.NeedsReview, c.ReviewReasons = true, []string{"fx_rate_missing"} })
	approved := w.commission(participant, partner, status(affiliate.CommissionApproved))
	others := w.commission(other, otherPartner, nil)

	user := affiliate.NewID[affiliate.User](w.now)
	for range 2 {
		for _, move := range []affiliate.ParticipantMove{affiliate.SuspendParticipant, affiliate.ReinstateParticipant} {
			if _, err := w.store.MoveParticipant(t.Context(), w.scope, w.program, participant, move, nil, w.now, affiliate.Actor{User: &user}); err != nil {
				t.Fatal(err)
			}
		}
	}
	type state struct {
		NeedsReview   bool
		ReviewReasons []string
		Version       int
	}
	for name, tc := range map[string]struct {
		id      affiliate.CommissionID
		reasons int
		version int
	}{
		"pending": {pending.ID, 1, 2}, "flagged before": {flagged.ID, 2, 2}, "approved": {approved.ID, 0, 1}, "another's": {others.ID, 0, 1},
	} {
		rows, _ := w.owner.Query(t.Context(), `select needs_review, review_reasons, version from commissions where id = $1`, tc.id)
		got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[state])
		if err != nil || got.NeedsReview != (tc.reasons > 0) || len(got.ReviewReasons) != tc.reasons || got.Version != tc.version {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// Of one instant, the later application waits for the earlier one's fate: when
// that is undone, the later one goes through.
func TestApplicationOutlivesAnUndoneOne(t *testing.T) {
	w := newProgramWorld(t)
	p := w.program(affiliate.ProgramActive)
	partner := affiliate.NewID[affiliate.User](w.now)
	w.exec(`insert into users (id, kind, email, password_hash, name, created_at) values ($1, 'partner', 'jane@example.com', '', 'Jane', $2)`, partner, w.now)

	earlier, err := w.owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := earlier.Exec(t.Context(), `
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code, application_answers, applied_at, created_at, updated_at)
		values ($1, gen_random_uuid(), $2, 'live', $3, 'Jane', 'jane@example.com', 'pending', 'jane', '{}', $4, $4, $4)`, w.scope.Workspace, p.ID, partner, w.now); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := w.store.Apply(t.Context(), affiliate.Application{Program: p.ID, Partner: partner, Mode: w.scope.Mode}, w.now, affiliate.Actor{User: &partner})
		result <- err
	}()
	if err := earlier.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
}
