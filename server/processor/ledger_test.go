package processor_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	payoutservice "github.com/tributary-hq/tributary/server/payout"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// ledgerFixture is a fixture whose programme approves commissions at once. Ada can be paid.
type ledgerFixture struct {
	*fixture

	payouts *payoutservice.Service
	clickID string
}

func newLedgerFixture(t *testing.T, change ...func(*program.Rules)) *ledgerFixture {
	t.Helper()
	atOnce := func(r *program.Rules) { r.HoldDays = 0 }
	f := newFixture(t, pgtest.Row{"currency": "USD"}, pgtest.Rules(append([]func(*program.Rules){atOnce}, change...)...))
	f.connect()
	f.Insert("payout_methods", pgtest.Row{"user_id": f.ada.Partner, "method": payout.Manual, "updated_at": f.clock.Now()})
	service := payoutservice.New(payoutservice.Config{DB: f.DB, Seal: servertest.Seal(t), Now: f.clock.Now})
	return &ledgerFixture{f, service, f.click()}
}

// sell records a sale of 100.00 USD with the name a, so that its charge is ch_a. Ada earns
// 30.00 USD.
func (f *ledgerFixture) sell(name string) {
	f.Helper()
	f.put(
		stripeserver.NewSession("cs_"+name, object{
			"created": f.ago(0), "amount_total": 10_000, "currency": "usd", "payment_intent": "pi_" + name, "client_reference_id": f.clickID,
		}),
		stripeserver.NewCharge("ch_"+name, object{"amount": 10_000, "currency": "usd"}),
	)
	wantOutcome(f.TB, f.apply(f.event("checkout.session.completed", "cs_"+name)), "applied")
}

// refund sets the status of the refund of a sale and applies the event.
func (f *ledgerFixture) refund(name, status string, amount int) {
	f.Helper()
	f.put(stripeserver.NewRefund("re_"+name, object{"amount": amount, "currency": "usd", "status": status}))
	wantOutcome(f.TB, f.apply(f.event("refund.updated", "re_"+name)), "applied")
}

// dispute sets the status of the dispute about a sale and applies the event.
func (f *ledgerFixture) dispute(name, status string) {
	f.Helper()
	f.put(stripeserver.NewDispute("dp_"+name, object{"amount": 10_000, "currency": "usd", "status": status}))
	kind := "charge.dispute.closed"
	if status == "needs_response" {
		kind = "charge.dispute.created"
	}
	wantOutcome(f.TB, f.apply(f.event(kind, "dp_"+name)), "applied")
}

func (f *ledgerFixture) asFinance() context.Context {
	return servertest.AsMember(f.TB, f.Scope, f.Owner, affiliate.RoleFinance)
}

// draft creates a batch of payouts.
func (f *ledgerFixture) draft() (*affiliatev1.PayoutBatch, error) {
	key := affiliate.NewID[payout.BatchID](f.clock.Now()).String()
	return f.payouts.CreatePayoutBatch(metadata.NewIncomingContext(f.asFinance(), metadata.Pairs("idempotency-key", key)), &affiliatev1.CreatePayoutBatchRequest{})
}

// send creates a batch of payouts and processes it, so that the payouts are processing. It
// returns the ids of the batch and of its first payout.
func (f *ledgerFixture) send() (batchID, payoutID string) {
	f.Helper()
	batchID = f.mustDraft().GetId()
	if _, err := f.payouts.ConfirmPayoutBatch(f.asFinance(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: batchID}); err != nil {
		f.Fatal(err)
	}
	if _, err := f.payouts.ProcessPayoutBatch(f.asFinance(), &affiliatev1.ProcessPayoutBatchRequest{BatchId: batchID}); err != nil {
		f.Fatal(err)
	}
	return batchID, f.Texts(`select id::text from payouts where batch_id::text = $1 order by id`, batchID)[0]
}

func (f *ledgerFixture) mustDraft() *affiliatev1.PayoutBatch {
	f.Helper()
	batch, err := f.draft()
	if err != nil {
		f.Fatal(err)
	}
	return batch
}

// pay pays all that is due.
func (f *ledgerFixture) pay() {
	f.Helper()
	batch := f.mustDraft()
	if _, err := f.payouts.ConfirmPayoutBatch(f.asFinance(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: batch.GetId()}); err != nil {
		f.Fatal(err)
	}
	for _, id := range f.Texts(`select id::text from payouts where batch_id::text = $1`, batch.GetId()) {
		f.markPaid(id)
	}
}

func (f *ledgerFixture) markPaid(payout string) {
	f.Helper()
	if _, err := f.payouts.MarkPayoutPaid(f.asFinance(), &affiliatev1.MarkPayoutPaidRequest{PayoutId: payout, Reference: "T-1"}); err != nil {
		f.Fatal(err)
	}
}

// wantMoney checks the commissions, the payouts, and Ada's balance. The account checks must
// find no violation.
func (f *ledgerFixture) wantMoney(when string, want ...string) {
	f.Helper()
	got := f.Texts(`
		select line from (
			select 1 as part, created_at, format('%s: %s %s, dispute %s%s', external_transaction_id, status, amount_cents, dispute_status,
				case when payout_id is not null then ', in a payout' else '' end) as line
			from commissions
			union all
			select 2, created_at, format('payout: %s %s', status, amount_cents) from payouts
			union all
			select 3, null, format('balance: %s', coalesce(sum(amount_cents), 0)) from ledger_entries
		) as lines
		order by part, created_at, line`)
	if !slices.Equal(got, want) {
		f.Errorf("%s:\n%q\nwant\n%q", when, got, want)
	}
	f.wantNoViolations()
}

// wantEntries checks the types and amounts of the entries of the ledger.
func (f *ledgerFixture) wantEntries(want ...string) {
	f.Helper()
	if got := f.Texts(`select format('%s %s', type, amount_cents) from ledger_entries order by created_at, id`); !slices.Equal(got, want) {
		f.Errorf("the ledger has the entries %q, want %q", got, want)
	}
}

func TestLedger_DisputeLeavesDraftPayout(t *testing.T) {
	f := newLedgerFixture(t)
	f.sell("a")
	f.sell("b")
	f.mustDraft()
	f.wantMoney("drafted", "pi_a: approved 3000, dispute none, in a payout", "pi_b: approved 3000, dispute none, in a payout", "payout: draft 6000", "balance: 6000")
	f.dispute("a", "needs_response")
	f.wantMoney("disputed", "pi_a: approved 3000, dispute open", "pi_b: approved 3000, dispute none, in a payout", "payout: draft 3000", "balance: 6000")
	f.dispute("b", "needs_response")
	f.wantMoney("both disputed", "pi_a: approved 3000, dispute open", "pi_b: approved 3000, dispute open", "payout: canceled 3000", "balance: 6000")
	_, err := f.draft()
	pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)

	f.dispute("a", "won")
	f.dispute("b", "lost")
	f.wantMoney("decided", "pi_a: approved 3000, dispute won", "pi_b: refunded 0, dispute lost", "payout: canceled 3000", "balance: 3000")
	f.wantEntries("commission_approved 3000", "commission_approved 3000", "commission_reversed -3000")
	f.mustDraft()
	f.wantMoney("drafted again", "pi_a: approved 3000, dispute won, in a payout", "pi_b: refunded 0, dispute lost", "payout: canceled 3000", "payout: draft 3000", "balance: 3000")
	f.refund("a", "succeeded", 5_000)
	f.wantMoney("refunded in part", "pi_a: approved 1500, dispute won, in a payout", "pi_b: refunded 0, dispute lost", "payout: canceled 3000", "payout: draft 1500", "balance: 1500")
}

func TestLedger_RefundOfPaidCommissionIsClawedBack(t *testing.T) {
	f := newLedgerFixture(t)
	f.sell("a")
	f.pay()
	f.wantMoney("paid", "pi_a: paid 3000, dispute none, in a payout", "payout: paid 3000", "balance: 0")
	f.refund("a", "succeeded", 2_500)
	f.wantMoney("refunded in part", "pi_a: paid 2250, dispute none, in a payout", "payout: paid 3000", "balance: -750")
	f.refund("a", "succeeded", 10_000)
	f.wantMoney("refunded", "pi_a: refunded 0, dispute none, in a payout", "payout: paid 3000", "balance: -3000")
	f.wantEntries("commission_approved 3000", "payout -3000", "clawback -750", "clawback -2250")
	f.refund("a", "failed", 10_000)
	f.wantMoney("the refund has failed", "pi_a: paid 3000, dispute none, in a payout", "payout: paid 3000", "balance: 0")
}

// A refund and a lost dispute of one charge are about the same money.
func TestLedger_RefundAndLostDisputeReverseOnce(t *testing.T) {
	f := newLedgerFixture(t)
	f.sell("a")
	f.sell("b")
	f.pay()
	f.dispute("a", "needs_response")
	f.wantMoney("disputed", "pi_a: paid 3000, dispute open, in a payout", "pi_b: paid 3000, dispute none, in a payout", "payout: paid 6000", "balance: 0")
	f.refund("a", "succeeded", 10_000)
	f.dispute("a", "lost")
	f.dispute("b", "needs_response")
	f.dispute("b", "lost")
	f.refund("b", "succeeded", 4_000)
	f.wantMoney("reversed", "pi_a: refunded 0, dispute lost, in a payout", "pi_b: refunded 0, dispute lost, in a payout", "payout: paid 6000", "balance: -6000")
	f.wantEntries("commission_approved 3000", "commission_approved 3000", "payout -6000", "clawback -3000", "clawback -3000")
}

// The refund is applied while the payout is already sent. When the refund fails after the
// payment, the commission is paid and the balance is as before.
func TestLedger_RefundFailsAfterPayout(t *testing.T) {
	f := newLedgerFixture(t)
	f.sell("a")
	_, payoutID := f.send()
	f.refund("a", "pending", 10_000)
	f.wantMoney("refunded", "pi_a: refunded 0, dispute none, in a payout", "payout: processing 3000", "balance: -3000")
	f.markPaid(payoutID)
	f.wantMoney("paid", "pi_a: refunded 0, dispute none, in a payout", "payout: paid 3000", "balance: -3000")
	f.refund("a", "failed", 10_000)
	f.wantMoney("the refund has failed", "pi_a: paid 3000, dispute none, in a payout", "payout: paid 3000", "balance: 0")
}

// The payout whose commission was refunded is not paid. When the refund fails, another payout
// can contain the commission.
func TestLedger_RefundFailsAfterFailedPayout(t *testing.T) {
	for name, next := range map[string]func(f *ledgerFixture, payout string) error{
		"failed": func(*ledgerFixture, string) error { return nil },
		"canceled": func(f *ledgerFixture, payout string) error {
			_, err := f.payouts.CancelPayout(f.asFinance(), &affiliatev1.CancelPayoutRequest{PayoutId: payout})
			return err
		},
		"retried": func(f *ledgerFixture, payout string) error {
			_, err := f.payouts.RetryPayout(f.asFinance(), &affiliatev1.RetryPayoutRequest{PayoutId: payout})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newLedgerFixture(t)
			f.sell("a")
			f.sell("b")
			_, payout := f.send()
			f.refund("a", "pending", 10_000)
			request := &affiliatev1.MarkPayoutFailedRequest{PayoutId: payout, Reason: "account closed"}
			if _, err := f.payouts.MarkPayoutFailed(f.asFinance(), request); err != nil {
				t.Fatal(err)
			}
			if err := next(f, payout); err != nil {
				t.Fatal(err)
			}
			f.wantNoViolations()
			f.refund("a", "failed", 10_000)
			f.pay()
			if name == "retried" {
				f.markPaid(payout)
			}
			if got := f.Texts(`select format('%s %s', status, amount_cents) from commissions order by created_at`); !slices.Equal(got, []string{"paid 3000", "paid 3000"}) {
				t.Errorf("the commissions are %q, want both paid", got)
			}
			paid := f.Texts(`select sum(amount_cents)::text from payouts where status = 'paid'`)
			if balance := f.Texts(`select sum(amount_cents)::text from ledger_entries`); paid[0] != "6000" || balance[0] != "0" {
				t.Errorf("%s was paid and the balance is %s, want 6000 and 0", paid[0], balance[0])
			}
			f.wantNoViolations()
		})
	}
}

func TestLedger_RejectedCommissionEarnsNothing(t *testing.T) {
	f := newLedgerFixture(t, func(r *program.Rules) { r.HoldDays = 30 })
	f.sell("a")
	id, _ := affiliate.ParseID[affiliate.CommissionID](f.Texts(`select id::text from commissions`)[0])
	f.MoveCommission(commission.Commission{Scope: f.Scope, Program: f.Program, ID: id}, commission.Transition{Move: commission.MoveReject})
	for _, step := range []func(){
		func() { f.refund("a", "succeeded", 5_000) },
		func() { f.dispute("a", "needs_response") },
		func() { f.dispute("a", "lost") },
		func() { f.refund("a", "failed", 5_000) },
		func() { f.dispute("a", "won") },
	} {
		step()
		if got := f.Texts(`select format('%s %s', status, needs_review) from commissions`); !slices.Equal(got, []string{"rejected f"}) {
			t.Errorf("the commission is %q, want rejected and without a review", got)
		}
		f.wantEntries()
		f.wantNoViolations()
	}
	if got := f.Texts(`select format('%s %s', status, refunded_amount_cents) from conversions`); !slices.Equal(got, []string{"recorded 0"}) {
		t.Errorf("the conversion is %q, want recorded 0", got)
	}
}

// Stripe reports a sale and its refund after their period was closed. The entries are dated
// when the reports arrive, and keep Stripe's own times.
func TestLedger_LateEventsAreInTheOpenPeriod(t *testing.T) {
	f := newLedgerFixture(t)
	sold := f.clock.Now().Truncate(time.Second).UTC()
	f.put(
		stripeserver.NewSession("cs_a", object{
			"created": f.ago(0), "amount_total": 10_000, "currency": "usd", "payment_intent": "pi_a", "client_reference_id": f.clickID,
		}),
		stripeserver.NewCharge("ch_a", object{"amount": 10_000, "currency": "usd"}),
	)
	sale := f.event("checkout.session.completed", "cs_a")
	f.put(stripeserver.NewRefund("re_a", object{"amount": 5_000, "currency": "usd", "status": "succeeded"}))
	refund, refunded := f.event("refund.updated", "re_a"), sold.Add(time.Hour)
	f.clock.Advance(24 * time.Hour)
	closed := f.clock.Now().Add(-time.Minute)
	f.Exec(`update workspaces set books_closed_until = $2 where id = $1`, f.Scope.Workspace, closed)
	wantOutcome(t, f.apply(sale), "applied")
	f.clock.Advance(time.Minute)
	if _, err := f.deliver(refund); err != nil {
		t.Fatal(err)
	}
	f.Exec(`update processor_events set happened_at = $1 where type = 'refund.updated'`, refunded)
	wantOutcome(t, f.run(refund), "applied")
	want := []string{
		"commission_approved 3000 in the open period, occurred " + affiliate.FormatTime(sold),
		"commission_reversed -1500 in the open period, occurred " + affiliate.FormatTime(refunded),
	}
	got := f.Texts(`
		select format('%s %s in the %s period, occurred %s', type, amount_cents, case when created_at < $1 then 'closed' else 'open' end,
			to_char(occurred_at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
		from ledger_entries order by created_at`, closed)
	if !slices.Equal(got, want) {
		t.Errorf("the ledger has\n%q\nwant\n%q", got, want)
	}
}
