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
func (f *commissionFixture) moveParticipant(id affiliate.ParticipantID, move affiliate.ParticipantMove) error {
	user := affiliate.NewID[affiliate.User](f.now)
	_, err := f.store.MoveParticipant(f.t.Context(), f.scope, f.program, id, move, nil, f.now, affiliate.Actor{User: &user})
	return err
}

// reviewState has the columns of a commission that a suspension changes.
type reviewState struct {
	ReviewReasons []string
	NeedsReview   bool
	Version       int
}

func (f *commissionFixture) review(id affiliate.CommissionID) reviewState {
	f.t.Helper()
	rows, _ := f.owner.Query(f.t.Context(), `select review_reasons, needs_review, version from commissions where id = $1`, id)
	state, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[reviewState])
	if err != nil {
		f.t.Fatal(err)
	}
	return state
}

// Suspending a participant flags its pending commissions until it is reinstated.
// Decided commissions, other review reasons and other participants' commissions do not
// change.
func TestSuspend_FlagsPendingCommissions(t *testing.T) {
	f := newCommissionFixture(t)
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	other, otherPartner := f.participant(affiliate.ParticipantApproved, false)
	pending := f.commission(participant, partner, nil)
	flagged := f.commission(participant, partner, func(c *affiliate.Commission) { c.NeedsReview, c.ReviewReasons = true, []string{"fx_rate_missing"} })
	approved := f.commission(participant, partner, func(c *affiliate.Commission) { c.Status = affiliate.CommissionApproved })
	others := f.commission(other, otherPartner, nil)

	check := func(when string, want map[affiliate.CommissionID]reviewState) {
		t.Helper()
		for id, state := range want {
			got := f.review(id)
			if !slices.Equal(got.ReviewReasons, state.ReviewReasons) || got.NeedsReview != state.NeedsReview || got.Version != state.Version {
				t.Errorf("%s: %+v, want %+v", when, got, state)
			}
		}
	}
	if err := f.moveParticipant(participant, affiliate.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	suspended := []string{"participant_suspended"}
	check("suspended", map[affiliate.CommissionID]reviewState{
		pending.ID: {suspended, true, 2}, flagged.ID: {[]string{"fx_rate_missing", "participant_suspended"}, true, 2},
		approved.ID: {[]string{}, false, 1}, others.ID: {[]string{}, false, 1},
	})
	if n := f.count(`select count(*) from events where type = 'commission.review_required'`); n != 2 {
		t.Errorf("%d events", n)
	}
	if err := f.moveParticipant(participant, affiliate.ReinstateParticipant); err != nil {
		t.Fatal(err)
	}
	check("reinstated", map[affiliate.CommissionID]reviewState{
		pending.ID: {[]string{}, false, 3}, flagged.ID: {[]string{"fx_rate_missing"}, true, 3},
		approved.ID: {[]string{}, false, 1}, others.ID: {[]string{}, false, 1},
	})
	if n := f.count(`select count(*) from events where type = 'commission.updated'`); n != 2 {
		t.Errorf("%d events", n)
	}
	if n := f.count(`select count(*) from commission_history where commission_id = $1`, pending.ID); n != 3 {
		t.Errorf("%d history entries", n)
	}
	// The audit log has the move of the participant. The commissions have their own
	// history.
	if n := f.count(`select count(*) from audit_log where resource_type = 'commission'`); n != 0 {
		t.Errorf("%d audit records of commissions, want none", n)
	}
}

// copies inserts n copies of a commission, with history and counts. Three copies at a
// time have the same creation time.
func (f *commissionFixture) copies(of affiliate.Commission, n int) {
	f.t.Helper()
	f.exec(`set session_replication_role = replica`)
	f.exec(`
		insert into commissions
		select copy.*
		from commissions c, generate_series(1, $2::integer) n,
			jsonb_populate_record(c, jsonb_build_object('id', gen_random_uuid(), 'conversion_id', gen_random_uuid(), 'decision_id', gen_random_uuid(),
				'external_transaction_id', 'copy-' || n, 'created_at', c.created_at + n / 3 * interval '1 second')) copy
		where c.id = $1`, of.ID, n)
	f.exec(`
		insert into commission_history (workspace_id, commission_id, seq, at, actor, to_status, amount_cents)
		select workspace_id, id, 1, created_at, 'system', status, amount_cents from commissions where external_transaction_id like 'copy-%'`)
	f.exec(`update commission_counts set n = n * ($1 + 1), amount_cents = amount_cents * ($1 + 1)`, n)
	f.exec(`set session_replication_role = origin`)
}

// reviewJobs removes the waiting jobs from the queue and returns them.
func (f *commissionFixture) reviewJobs() []affiliate.ReviewPending {
	f.t.Helper()
	rows, _ := f.owner.Query(f.t.Context(), `delete from river.river_job where kind = $1 returning args`, affiliate.ReviewPending{}.Kind())
	jobs, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.ReviewPending])
	if err != nil {
		f.t.Fatal(err)
	}
	return jobs
}

func (f *commissionFixture) work(jobs ...affiliate.ReviewPending) {
	f.t.Helper()
	for _, job := range jobs {
		if err := f.store.ReviewPending(f.t.Context(), job, f.now); err != nil {
			f.t.Fatal(err)
		}
	}
}

// checkReview compares the number of flagged commissions with flagged, and the events,
// deliveries and history with the commissions.
func (f *commissionFixture) checkReview(when string, flagged, requiredEvents, updatedEvents int) {
	f.t.Helper()
	for what, c := range map[string]struct {
		sql  string
		want int
	}{
		"flagged":                 {`select count(*) from commissions where review_reasons = '{participant_suspended}' and needs_review`, flagged},
		"inconsistent flags":      {`select count(*) from commissions where review_reasons <> '{}' and not needs_review or review_reasons = '{}' and needs_review`, 0},
		"events of flags":         {`select count(*) from events where type = 'commission.review_required'`, requiredEvents},
		"events of removed flags": {`select count(*) from events where type = 'commission.updated'`, updatedEvents},
		"deliveries":              {`select count(*) from webhook_deliveries d join events e on e.id = d.event_id and e.type = d.event_type`, f.count(`select count(*) from events`)},
		"inconsistent history": {`select count(*) from commissions c
			where version <> (select count(*) from commission_history h where h.commission_id = c.id)`, 0},
		"approved": {`select count(*) from commissions where status <> 'pending'`, 0},
	} {
		if n := f.count(c.sql); n != c.want {
			f.t.Errorf("%s: %s: %d, want %d", when, what, n, c.want)
		}
	}
	f.checkTotals()
}

// A suspension flags one chunk of commissions, and each job flags one more. Commissions
// that are not flagged yet are not approved automatically.
func TestSuspend_FlagsManyCommissionsInChunks(t *testing.T) {
	t.Parallel()
	const n = 1200
	f := newCommissionFixture(t)
	f.subscribeToEverything()
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	oldest := f.commission(participant, partner, nil)
	f.copies(oldest, n-1)

	if err := f.moveParticipant(participant, affiliate.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	f.checkReview("suspended", postgres.ReviewChunk, postgres.ReviewChunk, 0)
	if sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(f.store), f.now.AddDate(0, 1, 0), n); err != nil || sweep != (affiliate.CommissionSweep{}) {
		t.Errorf("approved during the suspension: %+v, %v", sweep, err)
	}
	first := f.reviewJobs()
	if len(first) != 1 {
		t.Fatalf("%d jobs", len(first))
	}
	f.work(first...)
	f.checkReview("one job", 2*postgres.ReviewChunk, 2*postgres.ReviewChunk, 0)
	all := slices.Clone(first)
	for jobs := f.reviewJobs(); len(jobs) > 0; jobs = f.reviewJobs() {
		all = append(all, jobs...)
		f.work(jobs...)
	}
	f.checkReview("all jobs", n, n, 0)
	if len(all) != 2 {
		t.Errorf("%d jobs for the rest", len(all))
	}
	// If a job is repeated, it does not flag a commission again whose flag a member has
	// removed.
	if err := f.move(oldest, affiliate.CommissionTransition{Move: affiliate.MoveClearReview}); err != nil {
		t.Fatal(err)
	}
	fromStart := first[0]
	fromStart.After, fromStart.AfterID = time.Time{}, affiliate.CommissionID{}
	f.work(append(all, fromStart)...)
	f.checkReview("all jobs again", n-1, n, 1)
	if got := f.review(oldest.ID); got.NeedsReview || got.Version != 3 {
		t.Errorf("commission whose flag a member removed: %+v", got)
	}
	if jobs := f.reviewJobs(); len(jobs) != 0 {
		t.Errorf("jobs that had nothing to do enqueued others: %+v", jobs)
	}
	if by := f.count(`select count(distinct actor) from commission_history where seq = 2 and reason = 'The partner was suspended.'`); by != 1 {
		t.Errorf("%d actors have flagged commissions, want 1", by)
	}

	if err := f.moveParticipant(participant, affiliate.ReinstateParticipant); err != nil {
		t.Fatal(err)
	}
	f.checkReview("reinstated", n-1-postgres.ReviewChunk, n, 1+postgres.ReviewChunk)
	for jobs := f.reviewJobs(); len(jobs) > 0; jobs = f.reviewJobs() {
		f.work(jobs...)
		f.work(jobs...)
	}
	f.checkReview("reinstated, after all jobs", 0, n, n)
	f.work(all...)
	f.checkReview("after late jobs of the ended suspension", 0, n, n)
}

// If a participant is reinstated before the jobs of its suspension have run, its
// commissions end up unflagged.
func TestReinstate_BeforeTheJobsOfTheSuspension(t *testing.T) {
	t.Parallel()
	const n, chunk = 1200, postgres.ReviewChunk
	f := newCommissionFixture(t)
	f.subscribeToEverything()
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	f.copies(f.commission(participant, partner, nil), n-1)
	for _, move := range []affiliate.ParticipantMove{affiliate.SuspendParticipant, affiliate.ReinstateParticipant} {
		if err := f.moveParticipant(participant, move); err != nil {
			t.Fatal(err)
		}
	}
	f.checkReview("reinstated", 0, chunk, chunk)
	f.work(f.reviewJobs()...)
	f.checkReview("after the jobs of both moves", 0, chunk, chunk)
	if jobs := f.reviewJobs(); len(jobs) != 0 {
		t.Errorf("jobs that had nothing to do enqueued others: %+v", jobs)
	}
}

// A member's note may have the same text as the note of the suspension in the history.
// The commission must be flagged all the same.
func TestSuspend_FlagsCommissionWithTheSameNote(t *testing.T) {
	t.Parallel()
	f := newCommissionFixture(t)
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	f.copies(f.commission(participant, partner, nil), postgres.ReviewChunk)
	f.exec(`update commissions set created_at = created_at - interval '1 day'`)
	newest := f.commission(participant, partner, func(c *affiliate.Commission) { c.NeedsReview, c.ReviewReasons = true, []string{"fx_rate_missing"} })
	if err := f.moveParticipant(participant, affiliate.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	note := "The partner was suspended."
	if err := f.move(newest, affiliate.CommissionTransition{Move: affiliate.MoveClearReview, Reason: &note}); err != nil {
		t.Fatal(err)
	}
	for jobs := f.reviewJobs(); len(jobs) > 0; jobs = f.reviewJobs() {
		f.work(jobs...)
	}
	if got := f.review(newest.ID); !slices.Equal(got.ReviewReasons, []string{affiliate.ReviewParticipantSuspended}) {
		t.Errorf("%+v", got)
	}
}

// A job of an earlier suspension does nothing in the next suspension.
func TestSuspend_JobsOfAnEarlierSuspensionDoNothing(t *testing.T) {
	t.Parallel()
	f := newCommissionFixture(t)
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	f.copies(f.commission(participant, partner, nil), 2*postgres.ReviewChunk)
	for _, move := range []affiliate.ParticipantMove{affiliate.SuspendParticipant, affiliate.ReinstateParticipant} {
		if err := f.moveParticipant(participant, move); err != nil {
			t.Fatal(err)
		}
	}
	before := f.reviewJobs()
	f.now = f.now.Add(time.Second)
	if err := f.moveParticipant(participant, affiliate.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	flagged := f.count(`select count(*) from commissions where needs_review`)
	f.work(before...)
	if n := f.count(`select count(*) from commissions where needs_review`); len(before) == 0 || n != flagged {
		t.Errorf("%d jobs of the earlier suspension have flagged %d more commissions", len(before), n-flagged)
	}
}

// A suspension with few commissions flags all of them at once and enqueues no job.
func TestSuspend_FewCommissionsNeedNoJob(t *testing.T) {
	t.Parallel()
	f := newCommissionFixture(t)
	f.subscribeToEverything()
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	f.copies(f.commission(participant, partner, nil), postgres.ReviewChunk-2)
	if err := f.moveParticipant(participant, affiliate.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	f.checkReview("suspended", postgres.ReviewChunk-1, postgres.ReviewChunk-1, 0)
	if jobs := f.reviewJobs(); len(jobs) != 0 {
		t.Errorf("jobs: %+v", jobs)
	}
}

// Approvals run at the same time as a suspension. Each commission is approved before it
// is flagged, or flagged and then approved. No change is lost.
func TestSuspend_RacingApprovals(t *testing.T) {
	f := newCommissionFixture(t)
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	user := affiliate.NewID[affiliate.User](f.now)
	var all []affiliate.Commission
	for range 30 {
		all = append(all, f.commission(participant, partner, func(c *affiliate.Commission) { c.HoldUntil = nil }))
	}
	done := make(chan error, len(all)+1)
	go func() { done <- f.moveParticipant(participant, affiliate.SuspendParticipant) }()
	for _, c := range slices.Backward(all) {
		go func() {
			_, err := commissionservice.Move(t.Context(), stores.Commission(f.store), affiliate.CommissionTransition{
				Scope: f.scope, Program: f.program, Commission: c.ID, Move: affiliate.MoveApprove, Actor: affiliate.Actor{User: &user}, At: f.now,
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
	if n := f.count(`select count(*) from commissions where status = 'approved' and not needs_review`); n != len(all) {
		t.Errorf("%d approved", n)
	}
	if n := f.count(`select count(*) from commissions c where version <> (select count(*) from commission_history h where h.commission_id = c.id)`); n != 0 {
		t.Errorf("%d commissions have a history that does not match their version", n)
	}
}
