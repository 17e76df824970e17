package postgres_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// moveParticipant is a person's move of a participant.
func (w *commissionWorld) moveParticipant(id affiliate.ParticipantID, move affiliate.ParticipantMove) error {
	user := affiliate.NewID[affiliate.User](w.now)
	_, err := w.store.MoveParticipant(w.t.Context(), w.scope, w.program, id, move, nil, w.now, affiliate.Actor{User: &user})
	return err
}

// reviewState is what a suspension changes of a commission.
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

// A suspended partner's commissions that wait are for a person to decide until
// the partner is reinstated; what is decided, what others have said about them,
// and what is others', stays.
func TestSuspendingFlagsWhatIsPending(t *testing.T) {
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
		t.Errorf("%d lines of history", n)
	}
	// The audit log tells of the participant; its commissions have their history.
	if n := w.count(`select count(*) from audit_log where resource_type = 'commission'`); n != 0 {
		t.Errorf("%d lines of the audit log", n)
	}
}

// More commissions than one statement takes are flagged in one transaction, and
// what they are counted as moves along.
func TestSuspendingFlagsAnyNumber(t *testing.T) {
	w := newCommissionWorld(t)
	participant, partner := w.participant(affiliate.ParticipantApproved, false)
	first := w.commission(participant, partner, nil)
	n := 2*postgres.ReviewChunk + 1
	w.exec(`set session_replication_role = replica`)
	w.exec(`
		insert into commissions
		select (jsonb_populate_record(c, jsonb_build_object('id', gen_random_uuid(), 'conversion_id', gen_random_uuid(),
			'decision_id', gen_random_uuid(), 'external_transaction_id', 'copy-' || n))).*
		from commissions c, generate_series(2, $2::integer) n where c.id = $1`, first.ID, n)
	w.exec(`set session_replication_role = origin`)

	flagged := func() int {
		return w.count(`select count(*) from commissions where review_reasons = '{participant_suspended}' and needs_review`)
	}
	counted := func() int {
		return w.count(`select coalesce(sum(n), 0) from commission_counts where grain = 'ever' and needs_review`)
	}
	if err := w.moveParticipant(participant, affiliate.SuspendParticipant); err != nil {
		t.Fatal(err)
	}
	if flagged() != n || counted() != n || w.count(`select count(*) from events where type = 'commission.review_required'`) != n {
		t.Errorf("%d flagged, %d counted", flagged(), counted())
	}
	// No job is told of more events than one statement takes.
	if most := w.count(`select max(jsonb_array_length(args -> 'events')) from river.river_job where kind = 'dispatch_events'`); most > postgres.ReviewChunk {
		t.Errorf("a job of %d events", most)
	}
	if err := w.moveParticipant(participant, affiliate.ReinstateParticipant); err != nil {
		t.Fatal(err)
	}
	if flagged() != 0 || counted() != 0 {
		t.Errorf("%d still flagged, %d counted", flagged(), counted())
	}
}

// Approvals race a suspension: each commission is approved before it or flagged
// by it, and none is both or lost.
func TestSuspendingRacesApprovals(t *testing.T) {
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
			_, err := w.store.MoveCommission(t.Context(), affiliate.CommissionTransition{
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
	// An approval that comes behind the suspension clears the flag: a person did it.
	if n := w.count(`select count(*) from commissions where status = 'approved' and not needs_review`); n != len(all) {
		t.Errorf("%d approved", n)
	}
	if n := w.count(`select count(*) from commissions c where version <> (select count(*) from commission_history h where h.commission_id = c.id)`); n != 0 {
		t.Errorf("%d commissions with another history", n)
	}
}

func TestPendingCommissionsAreFoundByIndex(t *testing.T) {
	w := newLargeCommissionWorld(t)
	var participant affiliate.ParticipantID
	var partner affiliate.UserID
	if err := w.owner.QueryRow(t.Context(), `select id, partner_id from participants where workspace_id = $1 and mode = $2 limit 1`,
		w.scope.Workspace, w.scope.Mode).Scan(&participant, &partner); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		w.exec(`set plan_cache_mode = ` + mode)
		plan := w.plan(postgres.SelectPendingOfSQL, w.scope.Workspace, w.scope.Mode, participant, affiliate.ReviewParticipantSuspended, false, partner)
		if !strings.Contains(plan, "commissions_by_partner_status") || strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s:\n%s", mode, plan)
		}
	}
}
