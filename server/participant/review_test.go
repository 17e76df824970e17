package participant_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

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
	f.mustMove("suspend", p.ID.String())
	suspended := []string{"participant_suspended"}
	check("suspended", map[affiliate.CommissionID]reviewState{
		pending.ID: {suspended, true, 2}, flagged.ID: {[]string{"fx_rate_missing", "participant_suspended"}, true, 2},
		approved.ID: {[]string{}, false, 1}, unrelated.ID: {[]string{}, false, 1},
	})
	if n := f.Count(`select count(*) from events where type = 'commission.review_required' and convert_from(body, 'utf8')::jsonb #>> '{data,object,version}' = '2'`); n != 2 {
		t.Errorf("%d events commission.review_required of version 2 were created, want 2", n)
	}
	f.mustMove("reinstate", p.ID.String())
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
	worker := participant.NewReviewWorker(f.DB, f.Now)
	for _, job := range jobs {
		if err := worker.Work(f.Context(), &river.Job[commission.ReviewPending]{Args: job}); err != nil {
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

	f.mustMove("suspend", p.ID.String())
	f.checkReview("suspended", participant.ReviewChunk, participant.ReviewChunk, 0)
	if sweep, err := commissionservice.ApproveDue(t.Context(), f.DB, f.Now().AddDate(0, 1, 0), n); err != nil || sweep != (commission.ApprovalCounts{}) {
		t.Errorf("during the suspension, ApproveDue returned %+v, %v, want no approvals", sweep, err)
	}
	first := f.reviewJobs()
	if len(first) != 1 {
		t.Fatalf("the suspension enqueued %d jobs, want 1", len(first))
	}
	f.work(first...)
	f.checkReview("after one job", 2*participant.ReviewChunk, 2*participant.ReviewChunk, 0)
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

	f.mustMove("reinstate", p.ID.String())
	f.checkReview("reinstated", n-1-participant.ReviewChunk, n, 1+participant.ReviewChunk)
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
	const n, chunk = 1200, participant.ReviewChunk
	f := newFixture(t)
	f.NewEndpoint(f.Scope)
	p := f.Join("Paula")
	f.insertCopies(f.NewDue(p), n-1)
	f.mustMove("suspend", p.ID.String())
	f.mustMove("reinstate", p.ID.String())
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
	f.insertCopies(f.NewDue(p), participant.ReviewChunk)
	f.Exec(`update commissions set created_at = created_at - interval '1 day'`)
	newest := f.NewDue(p, func(c *commission.Commission) { c.NeedsReview, c.ReviewReasons = true, []string{"fx_rate_missing"} })
	f.mustMove("suspend", p.ID.String())
	note := "The partner was suspended."
	if err := f.clearReview(newest, &note); err != nil {
		t.Fatal(err)
	}
	for jobs := f.reviewJobs(); len(jobs) > 0; jobs = f.reviewJobs() {
		f.work(jobs...)
	}
	if got := f.review(newest.ID); !slices.Equal(got.ReviewReasons, []string{"participant_suspended"}) {
		t.Errorf("the commission has %+v, want the review reason participant_suspended", got)
	}
}

// A job of an earlier suspension must do nothing during the next suspension.
func TestSuspend_JobsOfAnEarlierSuspensionDoNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.Join("Paula")
	f.insertCopies(f.NewDue(p), 2*participant.ReviewChunk)
	f.mustMove("suspend", p.ID.String())
	f.mustMove("reinstate", p.ID.String())
	earlierJobs := f.reviewJobs()
	f.clock.Advance(time.Second)
	f.mustMove("suspend", p.ID.String())
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
	f.insertCopies(f.NewDue(p), participant.ReviewChunk-2)
	f.mustMove("suspend", p.ID.String())
	f.checkReview("suspended", participant.ReviewChunk-1, participant.ReviewChunk-1, 0)
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
	go func() {
		_, err := f.move(f.asOwner(), "suspend", f.Program.String(), p.ID.String(), nil)
		done <- err
	}()
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
