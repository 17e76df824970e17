package payout_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/payout"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// insertRelatedRows inserts the rows that belong to the commissions and that the
// consistency checks compare: conversions, decisions, histories, counts and totals.
func (f *fixture) insertRelatedRows() {
	f.Helper()
	for _, sql := range []string{
		`insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency, tax_cents, shipping_cents,
			fee_cents, discount_cents, occurred_at, created_at, source, status, attributed, reason_code, decision_id, program_id, participant_id,
			product_ids, is_recurring, fraud_score, fraud_signals, version)
		select workspace_id, conversion_id, mode, id::text, 'purchase', sale_amount_cents, sale_currency, 0, 0, 0, 0, created_at, created_at, 'api',
			'recorded', true, 'ATTRIBUTED_CLICK', decision_id, program_id, participant_id, '{}', false, 0, '[]', 1
		from commissions`,
		`insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, method, reason_code, explanation, engine_version,
			program_id, participant_id, trace, decided_at)
		select workspace_id, decision_id, conversion_id, mode, true, 'click', 'ATTRIBUTED_CLICK', 'x', '1', program_id, participant_id, '{}', created_at
		from commissions`,
		`insert into commission_history (workspace_id, commission_id, seq, at, actor, to_status, amount_cents)
		select workspace_id, id, version, created_at, 'system', status, amount_cents from commissions`,
		`insert into commission_counts (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot, n, amount_cents)
		select workspace_id, mode, grain, starts, program_id, status, needs_review, currency, 0, count(*), sum(amount_cents)
		from commissions c
		cross join lateral (values
			('ever', date '0001-01-01'),
			('month', date_trunc('month', c.created_at at time zone 'UTC')::date),
			('day', (c.created_at at time zone 'UTC')::date)) as g (grain, starts)
		group by 1, 2, 3, 4, 5, 6, 7, 8`,
		`insert into participant_totals (workspace_id, participant_id, program_id, conversions, commission_cents)
		select workspace_id, participant_id, program_id, count(*), sum(amount_cents) from commissions group by 1, 2, 3`,
		`insert into list_counts (workspace_id, program_id, what, slot, n)
		select workspace_id, program_id, 'participants.approved', 0, count(*) from participants group by 1, 2`,
	} {
		f.Exec(sql)
	}
}

// checkConsistency runs the checks of `core check` and fails if one reports a
// violation.
func (f *fixture) checkConsistency() {
	f.Helper()
	results, err := checks.Run(f.Context(), f.DB, time.Now)
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range results {
		if r.Violated > 0 {
			f.Errorf("check %s reports %d violations in %d items: %v", r.Name, r.Violated, r.Compared, r.Violations)
		}
	}
}

// Move must pay all commissions of a payout, even if it needs several statements,
// each for one chunk of postgres.PayChunk commissions.
// Commissions that were rejected before the payment must stay rejected, at any position
// in a chunk. The last chunk of this test has only a rejected commission.
func TestMovePayout_PaysLargePayoutCompletely(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	const commissions = 3*payouts.PayChunk + 1
	f := newFixture(t)
	fillWithCommissions(f.Shop, 1, commissions, 0)
	f.insertRelatedRows()
	f.NewEndpoint(f.Scope)
	batch := f.batch()
	if _, err := payouts.ConfirmBatch(t.Context(), f.DB, f.Scope, batch.ID, f.Confirmation()); err != nil {
		t.Fatal(err)
	}
	if _, err := payouts.ProcessBatch(t.Context(), f.DB, f.Scope, batch.ID, f.Now(), pgtest.By(f.Owner)); err != nil {
		t.Fatal(err)
	}
	rows, _ := f.SQL.Query(t.Context(), `select id from commissions order by id`)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.CommissionID])
	if err != nil {
		t.Fatal(err)
	}
	var rejections []commission.Transition
	for _, i := range []int{0, payouts.PayChunk - 1, payouts.PayChunk, 2*payouts.PayChunk + 500, 3 * payouts.PayChunk} {
		rejections = append(rejections, commission.Transition{
			Scope: f.Scope, Program: f.Program, Commission: ids[i], Move: commission.MoveReject, Actor: affiliate.System, At: f.Now(),
		})
	}
	if err := pgtest.MoveTogether(t.Context(), f.DB, rejections...); err != nil {
		t.Fatal(err)
	}
	var payoutID affiliate.PayoutID
	if err := f.SQL.QueryRow(t.Context(), `select id from payouts`).Scan(&payoutID); err != nil {
		t.Fatal(err)
	}
	reference, paidAt := "transfer", f.Now()
	paid, err := payouts.Move(t.Context(), f.DB, f.Scope, payoutID, payout.Transition{
		Move: payout.MoveMarkPaid, Actor: pgtest.By(f.Owner), At: paidAt.Add(time.Hour), PaidAt: paidAt, Reference: &reference,
	})
	if err != nil || paid.Status != payout.Paid || paid.CommissionCount != commissions {
		t.Fatalf("MovePayout returned %+v, %v, want a paid payout with %d commissions", paid, err, commissions)
	}
	if batch, err = payouts.GetBatch(t.Context(), f.DB, f.Scope, batch.ID); err != nil || batch.Status != payout.BatchCompleted || batch.Counts[payout.Paid] != 1 {
		t.Errorf("the batch is %+v, %v, want a completed batch with one paid payout", batch, err)
	}

	want := commissions - len(rejections)
	const distinctEvents = `select count(distinct convert_from(body, 'UTF8')::jsonb #>> '{data,object,id}') from events where type = 'commission.paid'`
	for what, n := range map[string]int{
		"paid commissions":          f.Count(`select count(*) from commissions where status = 'paid' and version = 2 and paid_at = $1 and payout_id = $2`, paidAt, payoutID),
		"history entries":           f.Count(`select count(*) from commission_history where from_status = 'approved' and to_status = 'paid' and seq = 2 and actor = 'system'`),
		"events":                    f.Count(`select count(*) from events where type = 'commission.paid'`),
		"commissions with an event": f.Count(distinctEvents),
		"deliveries":                f.Count(`select count(distinct event_id) from webhook_deliveries where event_type = 'commission.paid'`),
	} {
		if n != want {
			t.Errorf("the number of %s is %d, want %d", what, n, want)
		}
	}
	for _, rejected := range rejections {
		if f.Count(`select count(*) from commissions where id = $1 and status = 'rejected' and version = 2 and paid_at is null`, rejected.Commission) != 1 {
			t.Errorf("commission %s is no longer rejected", rejected.Commission)
		}
	}
	debt := f.Count(`select -sum(amount_cents) from commissions where status = 'rejected'`)
	if balance := f.Count(`select sum(balance_cents) from ledger_balances`); balance != debt {
		t.Errorf("the balance is %d, want %d", balance, debt)
	}
	f.checkConsistency()
}

// The number of commissions in a batch is limited. A batch must contain either all or
// none of the commissions that are due to a participant. The next batch must contain the
// remaining participants.
func TestInsertPayoutBatch_LimitsCommissions(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	const participants, perParticipant = 2, payout.MaxBatchCommissions/2 + 1
	f := newFixture(t)
	fillWithCommissions(f.Shop, participants, perParticipant, 0)
	for range participants {
		if batch := f.batch(); batch.Counts[payout.Draft] != 1 {
			t.Errorf("the batch is %+v, want one payout", batch)
		}
	}
	if n := f.Count(`select count(*) from payouts where commission_count = $1`, perParticipant); n != participants {
		t.Errorf("%d payouts contain all commissions of their participant, want %d", n, participants)
	}
	if n := f.Count(`select count(*) from commissions where payout_id is null`); n != 0 {
		t.Errorf("%d commissions are in no payout, want 0", n)
	}
}

// A transaction can make several moves of one commission. The row must have the state
// after the last move, and the history must have an entry for each move.
func TestMoveTogether_StoresSeveralMovesOfOneCommission(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Jane")
	all := make([]commission.Commission, 40)
	for i := range all {
		all[i] = f.NewCommission(p, func(c *commission.Commission) { c.Status = commission.Approved })
	}
	var moves []commission.Transition
	for _, move := range []commission.Transition{
		{Move: commission.MoveFlag, ReviewReasons: []string{"one", "two"}},
		{Move: commission.MoveClearReview, ReviewReasons: []string{"one"}},
		{Move: commission.MoveReject},
	} {
		for _, c := range all {
			move.Scope, move.Program, move.Commission, move.Actor, move.At = c.Scope, c.Program, c.ID, affiliate.System, f.Now()
			moves = append(moves, move)
		}
	}
	if err := pgtest.MoveTogether(t.Context(), f.DB, moves...); err != nil {
		t.Fatal(err)
	}
	if n := f.Count(`select count(*) from commissions where status = 'rejected' and version = 4 and review_reasons = '{two}'`); n != len(all) {
		t.Errorf("%d commissions are rejected in version 4, want %d", n, len(all))
	}
	if n := f.Count(`select count(*) from commission_history`); n != 4*len(all) {
		t.Errorf("the commissions have %d history entries, want %d", n, 4*len(all))
	}
	f.checkConsistency()
}
