package participant_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/participant"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// moveParticipant makes a move of a participant. The actor is the owner.
func (f *fixture) moveParticipant(id affiliate.ParticipantID, move participant.Move) error {
	_, err := participants.Move(f.Context(), f.DB, f.Scope, f.Program, id, move, nil, f.Now(), pgtest.By(f.Owner))
	return err
}

// reviewState contains the columns of a commission that a suspension of the participant
// changes.
type reviewState struct {
	ReviewReasons []string
	NeedsReview   bool
	Version       int
}

func (f *fixture) review(id affiliate.CommissionID) reviewState {
	f.Helper()
	rows, _ := f.SQL.Query(f.Context(), `select review_reasons, needs_review, version from commissions where id = $1`, id)
	state, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[reviewState])
	if err != nil {
		f.Fatal(err)
	}
	return state
}

// While a participant is suspended, its pending commissions must be flagged for review.
// The suspension must not change other commissions and other review reasons.
func TestSuspend_FlagsPendingCommissions(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Paula")
	other := f.Join("Paula")
	pending := f.NewDue(p)
	flagged := f.NewDue(p, func(c *commission.Commission) { c.NeedsReview, c.ReviewReasons = true, []string{"fx_rate_missing"} })
	approved := f.NewDue(p, func(c *commission.Commission) { c.Status = commission.Approved })
	unrelated := f.NewDue(other)

	check := func(when string, want map[affiliate.CommissionID]reviewState) {
		t.Helper()
		for id, state := range want {
			got := f.review(id)
			if !slices.Equal(got.ReviewReasons, state.ReviewReasons) || got.NeedsReview != state.NeedsReview || got.Version != state.Version {
				t.Errorf("after the participant was %s, commission %s has %+v, want %+v", when, id, got, state)
			}
		}
	}
	if err := f.moveParticipant(p.ID, participant.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	suspended := []string{"participant_suspended"}
	check("suspended", map[affiliate.CommissionID]reviewState{
		pending.ID: {suspended, true, 2}, flagged.ID: {[]string{"fx_rate_missing", "participant_suspended"}, true, 2},
		approved.ID: {[]string{}, false, 1}, unrelated.ID: {[]string{}, false, 1},
	})
	if n := f.Count(`select count(*) from events where type = 'commission.review_required' and convert_from(body, 'utf8')::jsonb #>> '{data,object,version}' = '2'`); n != 2 {
		t.Errorf("%d events commission.review_required of version 2 were created, want 2", n)
	}
	if err := f.moveParticipant(p.ID, participant.ReinstateParticipant); err != nil {
		t.Fatal(err)
	}
	check("reinstated", map[affiliate.CommissionID]reviewState{
		pending.ID: {[]string{}, false, 3}, flagged.ID: {[]string{"fx_rate_missing"}, true, 3},
		approved.ID: {[]string{}, false, 1}, unrelated.ID: {[]string{}, false, 1},
	})
	if n := f.Count(`select count(*) from events where type = 'commission.updated'`); n != 2 {
		t.Errorf("%d events commission.updated were created, want 2", n)
	}
	if n := f.Count(`select count(*) from commission_history where commission_id = $1`, pending.ID); n != 3 {
		t.Errorf("the commission has %d history entries, want 3", n)
	}
	// The audit log must contain only the moves of the participant, because commissions
	// have their own history.
	if n := f.Count(`select count(*) from audit_log where resource_type = 'commission'`); n != 0 {
		t.Errorf("the audit log has %d entries of commissions, want 0", n)
	}
}

// insertCopies inserts n copies of a commission with their history and counts. Up to
// three copies have the same creation time.
func (f *fixture) insertCopies(original commission.Commission, n int) {
	f.Helper()
	f.ExecWithoutForeignKeys(`
		insert into commissions
		select copy.*
		from commissions c, generate_series(1, $2::integer) n,
			jsonb_populate_record(c, jsonb_build_object('id', gen_random_uuid(), 'conversion_id', gen_random_uuid(), 'decision_id', gen_random_uuid(),
				'external_transaction_id', 'copy-' || n, 'created_at', c.created_at + n / 3 * interval '1 second')) copy
		where c.id = $1`, original.ID, n)
	f.Exec(`
		insert into commission_history (workspace_id, commission_id, seq, at, actor, to_status, amount_cents)
		select workspace_id, id, 1, created_at, 'system', status, amount_cents from commissions where external_transaction_id like 'copy-%'`)
	f.Exec(`update commission_counts set n = n * ($1 + 1), amount_cents = amount_cents * ($1 + 1)`, n)
}

// reviewJobs removes the waiting jobs that flag or unflag commissions from the queue and
// returns them.
func (f *fixture) reviewJobs() []commission.ReviewPending {
	f.Helper()
	rows, _ := f.SQL.Query(f.Context(), `delete from river.river_job where kind = $1 returning args`, commission.ReviewPending{}.Kind())
	jobs, err := pgx.CollectRows(rows, pgx.RowTo[commission.ReviewPending])
	if err != nil {
		f.Fatal(err)
	}
	return jobs
}

// work runs jobs.
func (f *fixture) work(jobs ...commission.ReviewPending) {
	f.Helper()
	for _, job := range jobs {
		if err := participants.ReviewPending(f.Context(), f.DB, job, f.Now()); err != nil {
			f.Fatal(err)
		}
	}
}

// checkReview checks the number of flagged commissions and the numbers of events. It also
// checks that deliveries, history and counts match the commissions.
func (f *fixture) checkReview(when string, flagged, requiredEvents, updatedEvents int) {
	f.Helper()
	for what, c := range map[string]struct {
		sql  string
		want int
	}{
		"flagged commissions":     {`select count(*) from commissions where review_reasons = '{participant_suspended}' and needs_review`, flagged},
		"inconsistent flags":      {`select count(*) from commissions where review_reasons <> '{}' and not needs_review or review_reasons = '{}' and needs_review`, 0},
		"events of flags":         {`select count(*) from events where type = 'commission.review_required'`, requiredEvents},
		"events of removed flags": {`select count(*) from events where type = 'commission.updated'`, updatedEvents},
		"deliveries":              {`select count(*) from webhook_deliveries d join events e on e.id = d.event_id and e.type = d.event_type`, f.Count(`select count(*) from events`)},
		"inconsistent histories": {`select count(*) from commissions c
			where version <> (select count(*) from commission_history h where h.commission_id = c.id)`, 0},
		"approved commissions": {`select count(*) from commissions where status <> 'pending'`, 0},
	} {
		if n := f.Count(c.sql); n != c.want {
			f.Errorf("%s: the number of %s is %d, want %d", when, what, n, c.want)
		}
	}
	f.CheckTotals()
}

// A suspension must flag one chunk of commissions (ReviewChunk) at once and
// enqueue a job. Each job must flag one more chunk and enqueue the next job if
// commissions remain. Commissions that are not flagged yet must not be approved
// automatically.
func TestSuspend_FlagsManyCommissionsInChunks(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	const n = 1200
	f := newFixture(t)
	f.NewEndpoint(f.Scope)
	p := f.Join("Paula")
	oldest := f.NewDue(p)
	f.insertCopies(oldest, n-1)

	if err := f.moveParticipant(p.ID, participant.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	f.checkReview("suspended", participants.ReviewChunk, participants.ReviewChunk, 0)
	if sweep, err := commissionservice.ApproveDue(t.Context(), f.DB, f.Now().AddDate(0, 1, 0), n); err != nil || sweep != (commission.ApprovalCounts{}) {
		t.Errorf("during the suspension, ApproveDue returned %+v, %v, want no approvals", sweep, err)
	}
	first := f.reviewJobs()
	if len(first) != 1 {
		t.Fatalf("the suspension enqueued %d jobs, want 1", len(first))
	}
	f.work(first...)
	f.checkReview("after one job", 2*participants.ReviewChunk, 2*participants.ReviewChunk, 0)
	all := slices.Clone(first)
	for jobs := f.reviewJobs(); len(jobs) > 0; jobs = f.reviewJobs() {
		all = append(all, jobs...)
		f.work(jobs...)
	}
	f.checkReview("after all jobs", n, n, 0)
	if len(all) != 2 {
		t.Errorf("%d jobs were necessary, want 2", len(all))
	}
	// A member removes a flag. If a job runs again after that, it must not flag this
	// commission again.
	if err := f.clearReview(oldest, nil); err != nil {
		t.Fatal(err)
	}
	fromStart := first[0]
	fromStart.After, fromStart.AfterID = time.Time{}, affiliate.CommissionID{}
	f.work(append(all, fromStart)...)
	f.checkReview("after all jobs have run again", n-1, n, 1)
	if got := f.review(oldest.ID); got.NeedsReview || got.Version != 3 {
		t.Errorf("the commission whose flag a member removed has %+v, want version 3 without a flag", got)
	}
	if jobs := f.reviewJobs(); len(jobs) != 0 {
		t.Errorf("jobs that had nothing to do enqueued the jobs %+v, want none", jobs)
	}
	if actors := f.Count(`select count(distinct actor) from commission_history where seq = 2 and reason = 'The partner was suspended.'`); actors != 1 {
		t.Errorf("%d actors have flagged commissions, want 1", actors)
	}

	if err := f.moveParticipant(p.ID, participant.ReinstateParticipant); err != nil {
		t.Fatal(err)
	}
	f.checkReview("reinstated", n-1-participants.ReviewChunk, n, 1+participants.ReviewChunk)
	for jobs := f.reviewJobs(); len(jobs) > 0; jobs = f.reviewJobs() {
		f.work(jobs...)
		f.work(jobs...)
	}
	f.checkReview("reinstated, after all jobs", 0, n, n)
	f.work(all...)
	f.checkReview("after late jobs of the ended suspension", 0, n, n)
}

// If a participant is reinstated before the jobs of its suspension have run, none of its
// commissions may be flagged in the end.
func TestReinstate_BeforeTheJobsOfTheSuspension(t *testing.T) {
	t.Parallel()
	const n, chunk = 1200, participants.ReviewChunk
	f := newFixture(t)
	f.NewEndpoint(f.Scope)
	p := f.Join("Paula")
	f.insertCopies(f.NewDue(p), n-1)
	for _, move := range []participant.Move{participant.SuspendParticipant, participant.ReinstateParticipant} {
		if err := f.moveParticipant(p.ID, move); err != nil {
			t.Fatal(err)
		}
	}
	f.checkReview("reinstated", 0, chunk, chunk)
	f.work(f.reviewJobs()...)
	f.checkReview("after the jobs of both moves", 0, chunk, chunk)
	if jobs := f.reviewJobs(); len(jobs) != 0 {
		t.Errorf("jobs that had nothing to do enqueued the jobs %+v, want none", jobs)
	}
}

// A member may write a note with the same text as the history entry of a suspension. The
// jobs of the suspension must still flag the commission.
func TestSuspend_FlagsCommissionWithTheSameNote(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.Join("Paula")
	f.insertCopies(f.NewDue(p), participants.ReviewChunk)
	f.Exec(`update commissions set created_at = created_at - interval '1 day'`)
	newest := f.NewDue(p, func(c *commission.Commission) { c.NeedsReview, c.ReviewReasons = true, []string{"fx_rate_missing"} })
	if err := f.moveParticipant(p.ID, participant.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	note := "The partner was suspended."
	if err := f.clearReview(newest, &note); err != nil {
		t.Fatal(err)
	}
	for jobs := f.reviewJobs(); len(jobs) > 0; jobs = f.reviewJobs() {
		f.work(jobs...)
	}
	if got := f.review(newest.ID); !slices.Equal(got.ReviewReasons, []string{participant.ReviewParticipantSuspended}) {
		t.Errorf("the commission has %+v, want the review reason %s", got, participant.ReviewParticipantSuspended)
	}
}

// A job of an earlier suspension must do nothing during the next suspension.
func TestSuspend_JobsOfAnEarlierSuspensionDoNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.Join("Paula")
	f.insertCopies(f.NewDue(p), 2*participants.ReviewChunk)
	for _, move := range []participant.Move{participant.SuspendParticipant, participant.ReinstateParticipant} {
		if err := f.moveParticipant(p.ID, move); err != nil {
			t.Fatal(err)
		}
	}
	earlierJobs := f.reviewJobs()
	f.Clock.Advance(time.Second)
	if err := f.moveParticipant(p.ID, participant.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	flagged := f.Count(`select count(*) from commissions where needs_review`)
	f.work(earlierJobs...)
	if n := f.Count(`select count(*) from commissions where needs_review`); len(earlierJobs) == 0 || n != flagged {
		t.Errorf("%d jobs of the earlier suspension flagged %d more commissions, want at least one job and 0", len(earlierJobs), n-flagged)
	}
}

// If a participant has less than one chunk of commissions, a suspension must flag all of
// them at once and enqueue no job.
func TestSuspend_FewCommissionsNeedNoJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.NewEndpoint(f.Scope)
	p := f.Join("Paula")
	f.insertCopies(f.NewDue(p), participants.ReviewChunk-2)
	if err := f.moveParticipant(p.ID, participant.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	f.checkReview("suspended", participants.ReviewChunk-1, participants.ReviewChunk-1, 0)
	if jobs := f.reviewJobs(); len(jobs) != 0 {
		t.Errorf("the suspension enqueued the jobs %+v, want none", jobs)
	}
}

// Members approve commissions while the participant is being suspended. Each commission
// may be approved before or after it is flagged, but no change may be lost.
func TestSuspend_ConcurrentApprovalsAreNotLost(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Paula")
	var all []commission.Commission
	for range 30 {
		all = append(all, f.NewDue(p, func(c *commission.Commission) { c.HoldUntil = nil }))
	}
	done := make(chan error, len(all)+1)
	go func() { done <- f.moveParticipant(p.ID, participant.SuspendParticipant) }()
	for _, c := range slices.Backward(all) {
		go func() {
			_, err := commissionservice.Move(t.Context(), f.DB, commission.Transition{
				Scope: f.Scope, Program: f.Program, Commission: c.ID, Move: commission.MoveApprove, Actor: pgtest.By(f.Owner), At: f.Now(),
			})
			done <- err
		}()
	}
	for range len(all) + 1 {
		if err := <-done; err != nil {
			t.Errorf("the suspension or an approval failed: %v", err)
		}
	}
	// An approval by a member removes the flag.
	if n := f.Count(`select count(*) from commissions where status = 'approved' and not needs_review`); n != len(all) {
		t.Errorf("%d commissions are approved without a flag, want %d", n, len(all))
	}
	if n := f.Count(`
		select count(*) from commissions c
		left join (select commission_id, count(*) from commission_history group by 1) h on h.commission_id = c.id
		where c.version is distinct from h.count`); n != 0 {
		t.Errorf("%d commissions have a history that does not match their version, want 0", n)
	}
}

// clearReview removes the flag of a commission, as the owner.
func (f *fixture) clearReview(c commission.Commission, reason *string) error {
	return pgtest.MoveTogether(f.Context(), f.DB, commission.Transition{
		Scope: c.Scope, Program: c.Program, Commission: c.ID, Move: commission.MoveClearReview, Reason: reason, Actor: pgtest.By(f.Owner), At: f.Now(),
	})
}
