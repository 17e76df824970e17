package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// moveParticipant moves a participant as a user.
func (w *commissionWorld) moveParticipant(id affiliate.ParticipantID, move affiliate.ParticipantMove) error {
	user := affiliate.NewID[affiliate.User](w.now)
	_, err := w.store.MoveParticipant(w.t.Context(), w.scope, w.program, id, move, nil, w.now, affiliate.Actor{User: &user})
	return err
}

// reviewState has the columns of a commission that a suspension changes.
type reviewState struct {
	ReviewReasons []string
	NeedsReview   bool
	Version       int
}

func (w *commissionWorld) review(id affiliate.CommissionID) reviewState {
	w.t.Helper()
	rows, _ := w.owner.Query(w.t.Context(), `select review_reasons, needs_review, version from commissions where id = $1`, id)
	state, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[reviewState])
	if err != nil {
		w.t.Fatal(err)
	}
	return state
}

// Suspending a participant flags its pending commissions until it is reinstated.
// Decided commissions, other review reasons and other participants' commissions do not
// change.
func TestSuspend_FlagsPendingCommissions(t *testing.T) {
	w := newCommissionWorld(t)
	participant, partner := w.participant(affiliate.ParticipantApproved, false)
	other, otherPartner := w.participant(affiliate.ParticipantApproved, false)
	pending := w.commission(participant, partner, nil)
	flagged := w.commission(participant, partner, func(c *affiliate.Commission) { c.NeedsReview, c.ReviewReasons = true, []string{"fx_rate_missing"} })
	approved := w.commission(participant, partner, func(c *affiliate.Commission) { c.Status = affiliate.CommissionApproved })
	others := w.commission(other, otherPartner, nil)

	check := func(when string, want map[affiliate.CommissionID]reviewState) {
		t.Helper()
		for id, state := range want {
			got := w.review(id)
			if !slices.Equal(got.ReviewReasons, state.ReviewReasons) || got.NeedsReview != state.NeedsReview || got.Version != state.Version {
				t.Errorf("%s: %+v, want %+v", when, got, state)
			}
		}
	}
	if err := w.moveParticipant(participant, affiliate.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	suspended := []string{"participant_suspended"}
	check("suspended", map[affiliate.CommissionID]reviewState{
		pending.ID: {suspended, true, 2}, flagged.ID: {[]string{"fx_rate_missing", "participant_suspended"}, true, 2},
		approved.ID: {[]string{}, false, 1}, others.ID: {[]string{}, false, 1},
	})
	if n := w.count(`select count(*) from events where type = 'commission.review_required'`); n != 2 {
		t.Errorf("%d events", n)
	}
	if err := w.moveParticipant(participant, affiliate.ReinstateParticipant); err != nil {
		t.Fatal(err)
	}
	check("reinstated", map[affiliate.CommissionID]reviewState{
		pending.ID: {[]string{}, false, 3}, flagged.ID: {[]string{"fx_rate_missing"}, true, 3},
		approved.ID: {[]string{}, false, 1}, others.ID: {[]string{}, false, 1},
	})
	if n := w.count(`select count(*) from events where type = 'commission.updated'`); n != 2 {
		t.Errorf("%d events", n)
	}
	if n := w.count(`select count(*) from commission_history where commission_id = $1`, pending.ID); n != 3 {
		t.Errorf("%d history entries", n)
	}
	// The audit log has the move of the participant. The commissions have their own
	// history.
	if n := w.count(`select count(*) from audit_log where resource_type = 'commission'`); n != 0 {
		t.Errorf("%d audit records of commissions, want none", n)
	}
}

// copies inserts n copies of a commission, with history and counts. Three copies at a
// time have the same creation time.
func (w *commissionWorld) copies(of affiliate.Commission, n int) {
	w.t.Helper()
	w.exec(`set session_replication_role = replica`)
	w.exec(`
		insert into commissions
		select copy.*
		from commissions c, generate_series(1, $2::integer) n,
			jsonb_populate_record(c, jsonb_build_object('id', gen_random_uuid(), 'conversion_id', gen_random_uuid(), 'decision_id', gen_random_uuid(),
				'external_transaction_id', 'copy-' || n, 'created_at', c.created_at + n / 3 * interval '1 second')) copy
		where c.id = $1`, of.ID, n)
	w.exec(`
		insert into commission_history (workspace_id, commission_id, seq, at, actor, to_status, amount_cents)
		select workspace_id, id, 1, created_at, 'system', status, amount_cents from commissions where external_transaction_id like 'copy-%'`)
	w.exec(`update commission_counts set n = n * ($1 + 1), amount_cents = amount_cents * ($1 + 1)`, n)
	w.exec(`set session_replication_role = origin`)
}

// reviewJobs removes the waiting jobs from the queue and returns them.
func (w *commissionWorld) reviewJobs() []affiliate.ReviewPending {
	w.t.Helper()
	rows, _ := w.owner.Query(w.t.Context(), `delete from river.river_job where kind = $1 returning args`, affiliate.ReviewPending{}.Kind())
	jobs, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ReviewPending])
	if err != nil {
		w.t.Fatal(err)
	}
	return jobs
}

func (w *commissionWorld) work(jobs ...affiliate.ReviewPending) {
	w.t.Helper()
	for _, job := range jobs {
		if err := w.store.ReviewPending(w.t.Context(), job, w.now); err != nil {
			w.t.Fatal(err)
		}
	}
}

// checkReview compares the number of flagged commissions with flagged, and the events,
// deliveries and history with the commissions.
func (w *commissionWorld) checkReview(when string, flagged, requiredEvents, updatedEvents int) {
	w.t.Helper()
	for what, c := range map[string]struct {
		sql  string
		want int
	}{
		"flagged":                 {`select count(*) from commissions where review_reasons = '{participant_suspended}' and needs_review`, flagged},
		"inconsistent flags":      {`select count(*) from commissions where review_reasons <> '{}' and not needs_review or review_reasons = '{}' and needs_review`, 0},
		"events of flags":         {`select count(*) from events where type = 'commission.review_required'`, requiredEvents},
		"events of removed flags": {`select count(*) from events where type = 'commission.updated'`, updatedEvents},
		"deliveries":              {`select count(*) from webhook_deliveries d join events e on e.id = d.event_id and e.type = d.event_type`, w.count(`select count(*) from events`)},
		"inconsistent history": {`select count(*) from commissions c
			where version <> (select count(*) from commission_history h where h.commission_id = c.id)`, 0},
		"approved": {`select count(*) from commissions where status <> 'pending'`, 0},
	} {
		if n := w.count(c.sql); n != c.want {
			w.t.Errorf("%s: %s: %d, want %d", when, what, n, c.want)
		}
	}
	w.checkTotals()
}

// A suspension flags one chunk of commissions, and each job flags one more. Commissions
// that are not flagged yet are not approved automatically.
func TestSuspend_FlagsManyCommissionsInChunks(t *testing.T) {
	t.Parallel()
	const n = 1200
	w := newCommissionWorld(t)
	w.subscribeToEverything()
	participant, partner := w.participant(affiliate.ParticipantApproved, false)
	oldest := w.commission(participant, partner, nil)
	w.copies(oldest, n-1)

	if err := w.moveParticipant(participant, affiliate.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	w.checkReview("suspended", postgres.ReviewChunk, postgres.ReviewChunk, 0)
	if sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(w.store), w.now.AddDate(0, 1, 0), n); err != nil || sweep != (affiliate.CommissionSweep{}) {
		t.Errorf("approved during the suspension: %+v, %v", sweep, err)
	}
	first := w.reviewJobs()
	if len(first) != 1 {
		t.Fatalf("%d jobs", len(first))
	}
	w.work(first...)
	w.checkReview("one job", 2*postgres.ReviewChunk, 2*postgres.ReviewChunk, 0)
	all := slices.Clone(first)
	for jobs := w.reviewJobs(); len(jobs) > 0; jobs = w.reviewJobs() {
		all = append(all, jobs...)
		w.work(jobs...)
	}
	w.checkReview("all jobs", n, n, 0)
	if len(all) != 2 {
		t.Errorf("%d jobs for the rest", len(all))
	}
	// If a job is repeated, it does not flag a commission again whose flag a member has
	// removed.
	if err := w.move(oldest, affiliate.CommissionTransition{Move: affiliate.MoveClearReview}); err != nil {
		t.Fatal(err)
	}
	fromStart := first[0]
	fromStart.After, fromStart.AfterID = time.Time{}, affiliate.CommissionID{}
	w.work(append(all, fromStart)...)
	w.checkReview("all jobs again", n-1, n, 1)
	if got := w.review(oldest.ID); got.NeedsReview || got.Version != 3 {
		t.Errorf("commission whose flag a member removed: %+v", got)
	}
	if jobs := w.reviewJobs(); len(jobs) != 0 {
		t.Errorf("jobs that had nothing to do enqueued others: %+v", jobs)
	}
	if by := w.count(`select count(distinct actor) from commission_history where seq = 2 and reason = 'The partner was suspended.'`); by != 1 {
		t.Errorf("%d actors have flagged commissions, want 1", by)
	}

	if err := w.moveParticipant(participant, affiliate.ReinstateParticipant); err != nil {
		t.Fatal(err)
	}
	w.checkReview("reinstated", n-1-postgres.ReviewChunk, n, 1+postgres.ReviewChunk)
	for jobs := w.reviewJobs(); len(jobs) > 0; jobs = w.reviewJobs() {
		w.work(jobs...)
		w.work(jobs...)
	}
	w.checkReview("reinstated, after all jobs", 0, n, n)
	w.work(all...)
	w.checkReview("after late jobs of the ended suspension", 0, n, n)
}

// If a participant is reinstated before the jobs of its suspension have run, its
// commissions end up unflagged.
func TestReinstate_BeforeTheJobsOfTheSuspension(t *testing.T) {
	t.Parallel()
	const n, chunk = 1200, postgres.ReviewChunk
	w := newCommissionWorld(t)
	w.subscribeToEverything()
	participant, partner := w.participant(affiliate.ParticipantApproved, false)
	w.copies(w.commission(participant, partner, nil), n-1)
	for _, move := range []affiliate.ParticipantMove{affiliate.SuspendParticipant, affiliate.ReinstateParticipant} {
		if err := w.moveParticipant(participant, move); err != nil {
			t.Fatal(err)
		}
	}
	w.checkReview("reinstated", 0, chunk, chunk)
	w.work(w.reviewJobs()...)
	w.checkReview("after the jobs of both moves", 0, chunk, chunk)
	if jobs := w.reviewJobs(); len(jobs) != 0 {
		t.Errorf("jobs that had nothing to do enqueued others: %+v", jobs)
	}
}

// A member's note may have the same text as the note of the suspension in the history.
// The commission must be flagged all the same.
func TestSuspend_FlagsCommissionWithTheSameNote(t *testing.T) {
	t.Parallel()
	w := newCommissionWorld(t)
	participant, partner := w.participant(affiliate.ParticipantApproved, false)
	w.copies(w.commission(participant, partner, nil), postgres.ReviewChunk)
	w.exec(`update commissions set created_at = created_at - interval '1 day'`)
	newest := w.commission(participant, partner, func(c *affiliate.Commission) { c.NeedsReview, c.ReviewReasons = true, []string{"fx_rate_missing"} })
	if err := w.moveParticipant(participant, affiliate.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	note := "The partner was suspended."
	if err := w.move(newest, affiliate.CommissionTransition{Move: affiliate.MoveClearReview, Reason: &note}); err != nil {
		t.Fatal(err)
	}
	for jobs := w.reviewJobs(); len(jobs) > 0; jobs = w.reviewJobs() {
		w.work(jobs...)
	}
	if got := w.review(newest.ID); !slices.Equal(got.ReviewReasons, []string{affiliate.ReviewParticipantSuspended}) {
		t.Errorf("%+v", got)
	}
}

// A job of an earlier suspension does nothing in the next suspension.
func TestSuspend_JobsOfAnEarlierSuspensionDoNothing(t *testing.T) {
	t.Parallel()
	w := newCommissionWorld(t)
	participant, partner := w.participant(affiliate.ParticipantApproved, false)
	w.copies(w.commission(participant, partner, nil), 2*postgres.ReviewChunk)
	for _, move := range []affiliate.ParticipantMove{affiliate.SuspendParticipant, affiliate.ReinstateParticipant} {
		if err := w.moveParticipant(participant, move); err != nil {
			t.Fatal(err)
		}
	}
	before := w.reviewJobs()
	w.now = w.now.Add(time.Second)
	if err := w.moveParticipant(participant, affiliate.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	flagged := w.count(`select count(*) from commissions where needs_review`)
	w.work(before...)
	if n := w.count(`select count(*) from commissions where needs_review`); len(before) == 0 || n != flagged {
		t.Errorf("%d jobs of the earlier suspension have flagged %d more commissions", len(before), n-flagged)
	}
}

// A suspension with few commissions flags all of them at once and enqueues no job.
func TestSuspend_FewCommissionsNeedNoJob(t *testing.T) {
	t.Parallel()
	w := newCommissionWorld(t)
	w.subscribeToEverything()
	participant, partner := w.participant(affiliate.ParticipantApproved, false)
	w.copies(w.commission(participant, partner, nil), postgres.ReviewChunk-2)
	if err := w.moveParticipant(participant, affiliate.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	w.checkReview("suspended", postgres.ReviewChunk-1, postgres.ReviewChunk-1, 0)
	if jobs := w.reviewJobs(); len(jobs) != 0 {
		t.Errorf("jobs: %+v", jobs)
	}
}

// Approvals run at the same time as a suspension. Each commission is approved before it
// is flagged, or flagged and then approved. No change is lost.
func TestSuspend_RacingApprovals(t *testing.T) {
	w := newCommissionWorld(t)
	participant, partner := w.participant(affiliate.ParticipantApproved, false)
	user := affiliate.NewID[affiliate.User](w.now)
	var all []affiliate.Commission
	for range 30 {
		all = append(all, w.commission(participant, partner, func(c *affiliate.Commission) { c.HoldUntil = nil }))
	}
	done := make(chan error, len(all)+1)
	go func() { done <- w.moveParticipant(participant, affiliate.SuspendParticipant) }()
	for _, c := range slices.Backward(all) {
		go func() {
			_, err := commissionservice.Move(t.Context(), stores.Commission(w.store), affiliate.CommissionTransition{
				Scope: w.scope, Program: w.program, Commission: c.ID, Move: affiliate.MoveApprove, Actor: affiliate.Actor{User: &user}, At: w.now,
			})
			done <- err
		}()
	}
	for range len(all) + 1 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	// An approval after the suspension removes the flag, because a member made it.
	if n := w.count(`select count(*) from commissions where status = 'approved' and not needs_review`); n != len(all) {
		t.Errorf("%d approved", n)
	}
	if n := w.count(`select count(*) from commissions c where version <> (select count(*) from commission_history h where h.commission_id = c.id)`); n != 0 {
		t.Errorf("%d commissions have a history that does not match their version", n)
	}
}
