package payout_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	payoutservice "github.com/tributary-hq/tributary/server/payout"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
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

// checkStored runs the checks of `core check` and fails if one reports a
// violation.
func (f *fixture) checkStored() {
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

// MarkPayoutPaid must pay all commissions of a payout, even if it needs several statements,
// each for one chunk of payoutservice.PayChunk commissions.
// Commissions that were rejected before the payment must stay rejected, at any position
// in a chunk. The last chunk of this test has only a rejected commission.
func TestMarkPayoutPaid_PaysLargePayoutCompletely(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	const commissions = 3*payoutservice.PayChunk + 1
	f := newFixture(t)
	f.FillWithCommissions(1, commissions, 0)
	f.insertRelatedRows()
	f.NewEndpoint(f.Scope)
	batch := f.confirm(f.mustCreateBatch())
	f.mustProcess(batch)
	rows, _ := f.SQL.Query(t.Context(), `select id from commissions order by id`)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.CommissionID])
	if err != nil {
		t.Fatal(err)
	}
	var rejections []commission.Transition
	for _, i := range []int{0, payoutservice.PayChunk - 1, payoutservice.PayChunk, 2*payoutservice.PayChunk + 500, 3 * payoutservice.PayChunk} {
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
	paidAt := f.Now()
	f.clock.Advance(time.Hour)
	paid, err := f.service.MarkPayoutPaid(f.asFinance(), &affiliatev1.MarkPayoutPaidRequest{
		PayoutId: payoutID.String(), Reference: "transfer", PaidAt: server.Timestamp(paidAt),
	})
	if err != nil || paid.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_PAID || paid.CommissionCount != commissions {
		t.Fatalf("MarkPayoutPaid returned %+v, %v, want a paid payout with %d commissions", paid, err, commissions)
	}
	if batch = f.getBatch(batch.Id); batch.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_COMPLETED || batch.ByStatus.Paid != 1 {
		t.Errorf("the batch is %+v, want a completed batch with one paid payout", batch)
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
	f.checkStored()
}

// The number of commissions in a batch is limited. A batch must contain either all or
// none of the commissions that are due to a participant. The next batch must contain the
// remaining participants.
func TestCreatePayoutBatch_LimitsCommissions(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	const participants, perParticipant = 2, payout.MaxBatchCommissions/2 + 1
	f := newFixture(t)
	f.FillWithCommissions(participants, perParticipant, 0)
	for range participants {
		if batch := f.mustCreateBatch(); batch.ByStatus.Draft != 1 {
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

// The service processes the payouts, commissions and events of a large batch in several
// chunks. No chunk may be missing after the batch was created, confirmed and sent.
func TestPayoutBatch_LargeBatchIsComplete(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	f.FillWithCommissions(600, 18, 0)
	f.NewEndpoint(f.Scope)
	b := f.confirm(f.mustCreateBatch())
	if b.ByStatus.Pending != 600 || b.Totals[0].AmountCents != 600*18*19/2 {
		t.Fatalf("ConfirmPayoutBatch returned %+v, want 600 pending payouts", b)
	}
	f.mustProcess(b)
	for what, sql := range map[string]string{
		"payouts with all commissions": `select count(*) / 18 from commissions c join payout_commissions h on h.commission_id = c.id and h.payout_id = c.payout_id`,
		"ledger entries":               `select count(*) from ledger_entries where type = 'payout'`,
		"balances of 0":                `select count(*) from (select 1 from ledger_balances group by participant_id having sum(balance_cents) = 0) b`,
		"created events":               `select count(*) from events where type = 'payout.created'`,
		"processing events":            `select count(*) from events where type = 'payout.processing'`,
		"payouts with two deliveries":  `select count(*) / 2 from webhook_deliveries d join events e on e.id = d.event_id`,
		"processing payouts":           `select count(*) from payouts where status = 'processing' and commission_count = 18 and version = 3`,
	} {
		if n := f.Count(sql); n != 600 {
			t.Errorf("the number of %s is %d, want 600", what, n)
		}
	}
}
