package participant_test

import (
	"testing"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// The call that suspends a participant flags only some of its commissions for review,
// because one call flags a limited number. The job must flag all others.
func TestReviewWorker_FlagsTheRemainingCommissions(t *testing.T) {
	const n = 1200
	f := newFixture(t)
	jane := f.Join("Jane").ID.String()
	// The commissions refer to conversions and decisions that do not exist, so the test
	// disables the check of foreign keys.
	f.Exec(`set session_replication_role = replica`)
	f.Exec(`
		insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id,
			external_transaction_id, status, commission_type, event_type, rate_bps, amount_cents, original_amount_cents,
			currency, base_amount_cents, sale_amount_cents, sale_currency, needs_review, review_reasons, dispute_status,
			rule_snapshot, version, created_at, updated_at)
		select t.workspace_id, gen_random_uuid(), t.mode, t.program_id, t.id, t.partner_id, gen_random_uuid(), gen_random_uuid(),
			n::text, 'pending', 'percentage', 'purchase', 2000, 1, 1, 'EUR', 1, 1, 'EUR', false, '{}', 'none', '{}', 1,
			$1::timestamptz + n * interval '1 second', $1
		from participants t, generate_series(1, $2::integer) n`, f.Now(), n)
	f.Exec(`set session_replication_role = origin`)
	f.mustMove("suspend", jane)
	flagged := func() int {
		return f.Count(`select count(*) from commissions where review_reasons = '{participant_suspended}' and needs_review and version = 2`)
	}
	if got := flagged(); got == 0 || got == n {
		t.Errorf("the call flagged %d of %d commissions, want some but not all", got, n)
	}

	workers := river.NewWorkers()
	river.AddWorker(workers, participant.NewReviewWorker(f.DB, f.Now))
	f.StartWorkers(&river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
		Workers: workers,
	})
	pgtest.Eventually(t, "the job flags all commissions", func() bool { return flagged() == n })
	if actors := f.Texts(`select distinct actor from commission_history`); len(actors) != 1 || actors[0] != f.Owner.String() {
		t.Errorf("the history has the actors %v, want only %s, who suspended the participant", actors, f.Owner)
	}
}
