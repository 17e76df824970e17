package payout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	payoutservice "github.com/tributary-hq/tributary/server/payout"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMarkPayoutPaid_PaysTheCommissions(t *testing.T) {
	for name, tc := range map[string]struct {
		sent       bool // whether the batch is processed before the payment
		wantEvents []string
	}{
		"pending":    {false, []string{"payout.created", "payout.paid"}},
		"processing": {true, []string{"payout.created", "payout.processing", "payout.paid"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			anna := f.partner("Anna")
			commissions := []affiliate.CommissionID{f.addCommission(anna, 100), f.addCommission(anna, 200)}
			f.addEntry(anna, ledger.EntryBonus, 50)
			b := f.confirm(f.mustCreateBatch())
			if tc.sent {
				f.mustProcess(b)
				f.checkConsistency()
				f.wantBalance(anna, 0)
			}
			f.clock.Advance(time.Hour)
			paidAt := f.Now().Add(-30 * time.Minute)
			p, err := f.service.MarkPayoutPaid(f.asFinance(), &affiliatev1.MarkPayoutPaidRequest{
				PayoutId: f.onlyPayout(b).Id, Reference: "T-9", PaidAt: timestamppb.New(paidAt),
			})
			if err != nil {
				t.Fatal(err)
			}
			servertest.WantFields(t, "MarkPayoutPaid", p, &affiliatev1.Payout{
				Status: affiliatev1.PayoutStatus_PAYOUT_STATUS_PAID, Reference: new("T-9"), PaidAt: timestamppb.New(paidAt), AmountCents: 350, AdjustmentCents: 50,
			})
			f.WantCount(2, "paid commissions", `
				select count(*) from commissions where id = any($1) and status = 'paid' and payout_id = $2 and paid_at = $3`, commissions, p.Id, paidAt)
			f.WantCount(2, "events of paid commissions", `select count(*) from events where type = 'commission.paid'`)
			servertest.WantFields(t, "batch", f.getBatch(b.Id), &affiliatev1.PayoutBatch{
				Status: affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_COMPLETED, CompletedAt: timestamppb.New(f.Now()),
			})
			if got, _ := f.Events(p.Id); !slices.Equal(got, tc.wantEvents) {
				t.Errorf("the payout has the events %q, want %q", got, tc.wantEvents)
			}
			if got, want := f.AuditActions("payout", p.Id), []string{"payout.mark_paid"}; !slices.Equal(got, want) {
				t.Errorf("the audit log of the payout has %q, want %q", got, want)
			}
			f.wantBalance(anna, 0)
			if due := f.preview().Data; len(due) != 0 {
				t.Errorf("after the payment PreviewPayouts returned %v, want nothing", due)
			}
			f.checkConsistency()
		})
	}
}

func TestMarkPayoutPaid_LimitsThePaymentDate(t *testing.T) {
	f := newFixture(t)
	f.addCommission(f.partner("Anna"), 100)
	b := f.confirm(f.mustCreateBatch())
	confirmed := f.Now().Truncate(time.Millisecond)
	f.clock.Advance(100 * 24 * time.Hour)
	now := f.Now().Truncate(time.Millisecond)
	closed := now.AddDate(0, 0, -30)
	f.Exec(`update workspaces set books_closed_until = $2 where id = $1`, f.Scope.Workspace, closed)
	id := f.onlyPayout(b).Id
	pay := func(paidAt time.Time) error {
		_, err := f.service.MarkPayoutPaid(f.asFinance(), &affiliatev1.MarkPayoutPaidRequest{PayoutId: id, Reference: "T-1", PaidAt: timestamppb.New(paidAt)})
		return err
	}
	pgtest.RequireRefusal(t, pay(now.Add(time.Millisecond)), affiliate.ReasonValidation, "paid_at")
	pgtest.RequireRefusal(t, pay(now.AddDate(0, 0, -90).Add(-time.Millisecond)), affiliate.ReasonValidation, "paid_at")
	pgtest.RequireRefusal(t, pay(closed.Add(-time.Millisecond)), affiliate.ReasonPeriodClosed)
	f.Exec(`update payouts set initiated_at = $2 where id = $1`, id, closed.AddDate(0, 0, 1))
	pgtest.RequireRefusal(t, pay(closed.AddDate(0, 0, 1).Add(-time.Millisecond)), affiliate.ReasonValidation, "paid_at")
	f.Exec(`update payouts set initiated_at = $2 where id = $1`, id, confirmed)
	f.WantCount(0, "ledger entries of the payout", `select count(*) from ledger_entries where payout_id = $1`, id)
	if err := pay(closed); err != nil {
		t.Fatal(err)
	}
	// The money left the books now, and the entry keeps the date of the payment.
	f.WantCount(1, "ledger entries of the payout", `select count(*) from ledger_entries where payout_id = $1 and created_at = $2 and occurred_at = $3`, id, now, closed)
	f.checkConsistency()
}

// If the request names no date, the payment has exactly the time of the move, so that the
// ledger entry has no other date. Here the clock advances with each reading.
func TestMarkPayoutPaid_WithoutDateIsTheTimeOfTheMove(t *testing.T) {
	f := newFixture(t)
	f.addCommission(f.partner("Anna"), 100)
	b := f.confirm(f.mustCreateBatch())
	f.service = payoutservice.New(payoutservice.Config{DB: f.DB, Seal: f.keys, Now: func() time.Time {
		f.clock.Advance(time.Millisecond)
		return f.Now()
	}})
	p := f.mustMove(f.onlyPayout(b).Id, "paid")
	f.WantCount(1, "ledger entries of the payout", `
		select count(*) from ledger_entries where payout_id = $1 and created_at = $2 and occurred_at is null`, p.Id, p.PaidAt.AsTime())
}

// If the books are closed while a payout is marked as paid, and the request names no date,
// the payment is dated into the open period.
func TestMarkPayoutPaid_WithoutDateIsInTheOpenPeriod(t *testing.T) {
	f := newFixture(t)
	f.addCommission(f.partner("Anna"), 100)
	b := f.confirm(f.mustCreateBatch())
	closed := f.Now().Add(time.Second).Truncate(time.Millisecond)
	f.Exec(`update workspaces set books_closed_until = $2 where id = $1`, f.Scope.Workspace, closed)
	p := f.mustMove(f.onlyPayout(b).Id, "paid")
	if !p.PaidAt.AsTime().Equal(closed) {
		t.Errorf("the payout was paid at %v, want %v", p.PaidAt.AsTime(), closed)
	}
	f.WantCount(1, "commissions paid in the open period", `select count(*) from commissions where paid_at = $1`, closed)
	f.WantCount(0, "entries of payouts in the closed period", `select count(*) from ledger_entries where payout_id is not null and created_at < $1`, closed)
	f.checkConsistency()
}

// A refund during the processing of a payout does not stop the payout. The refunded
// amount becomes a debt, which the next payout subtracts.
func TestPayout_SubtractsTheDebtOfEarlierRefunds(t *testing.T) {
	f := newFixture(t)
	anna := f.partner("Anna")
	f.addCommission(anna, 100)
	rejected, reduced := f.addCommission(anna, 200), f.addCommission(anna, 400)
	b := f.confirm(f.mustCreateBatch())
	f.mustProcess(b)
	if err := f.reject(rejected); err != nil {
		t.Fatal(err)
	}
	f.mustRefundPart(reduced, 300)
	f.checkConsistency()
	if due := f.preview().Data; len(due) != 0 {
		t.Errorf("while the payout is processing PreviewPayouts returned %v, want nothing", due)
	}
	f.mustMove(f.onlyPayout(b).Id, "paid")
	f.checkConsistency()
	f.wantBalance(anna, -300)
	due := f.preview().Data
	if len(due) != 1 {
		t.Fatalf("PreviewPayouts returned %v, want one payout", due)
	}
	servertest.WantFields(t, "PreviewPayouts", due[0], &affiliatev1.PayoutPreviewLine{
		AdjustmentCents: -300, ExcludedBecause: affiliatev1.PayoutExclusion_PAYOUT_EXCLUSION_NEGATIVE_BALANCE,
	})
	f.mustRefund(reduced) // the refund of a paid commission is a debt too
	f.addCommission(anna, 1000)
	p := f.onlyPayout(f.confirm(f.mustCreateBatch()))
	servertest.WantFields(t, "payout", p, &affiliatev1.PayoutDetail{AmountCents: 400, AdjustmentCents: -600, CommissionCount: 1})
	f.mustMove(p.Id, "paid")
	f.wantBalance(anna, 0)
	f.checkConsistency()
}

func TestRetryPayout_PaysTheCommissionsThatArePayableNow(t *testing.T) {
	f := newFixture(t)
	anna := f.partner("Anna")
	reduced, inSecondBatch, refunded := f.addCommission(anna, 100), f.addCommission(anna, 200), f.addCommission(anna, 400)
	f.addEntry(anna, ledger.EntryBonus, 30)
	b := f.confirm(f.mustCreateBatch())
	f.mustProcess(b)
	p := f.mustMove(f.onlyPayout(b).Id, "failed")
	servertest.WantFields(t, "MarkPayoutFailed", p, &affiliatev1.Payout{
		Status: affiliatev1.PayoutStatus_PAYOUT_STATUS_FAILED, FailureReason: new("No such account."),
	})
	f.wantBalance(anna, 730)
	for _, id := range []affiliate.CommissionID{reduced, inSecondBatch, refunded} {
		f.wantInPayout(false, id)
	}
	f.checkConsistency()
	if got, want := f.getBatch(b.Id).Status, affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_PARTIALLY_FAILED; got != want {
		t.Errorf("the batch of the failed payout has the status %v, want %v", got, want)
	}
	// A second batch takes the bonus and the commission inSecondBatch. It does not take
	// the other two commissions, because they are flagged while the batch is created.
	// After that, one of the two is refunded and the other is reduced.
	for _, id := range []affiliate.CommissionID{reduced, refunded} {
		f.flag(id)
	}
	second := f.onlyPayout(f.mustCreateBatch())
	if second.AmountCents != 230 {
		t.Fatalf("the second payout has the amount %d, want 230", second.AmountCents)
	}
	for _, id := range []affiliate.CommissionID{reduced, refunded} {
		f.clearReview(id)
	}
	f.mustRefund(refunded)
	f.mustRefundPart(reduced, 60)
	f.setMethod(anna, payout.Account{Method: payout.Manual})
	p = f.mustMove(p.Id, "retry")
	servertest.WantFields(t, "RetryPayout", p, &affiliatev1.Payout{
		Status: affiliatev1.PayoutStatus_PAYOUT_STATUS_PENDING, AmountCents: 60, CommissionCount: 1, Method: affiliatev1.PayoutMethod_PAYOUT_METHOD_PAYPAL,
	})
	if p.AdjustmentCents != 0 || p.FailureReason != nil {
		t.Errorf("RetryPayout returned the adjustment %d and the failure reason %q, want none", p.AdjustmentCents, p.GetFailureReason())
	}
	f.checkConsistency()
	if got := f.getBatch(b.Id).CompletedAt; got != nil {
		t.Errorf("the batch with the retried payout has completed_at = %v, want none", got)
	}
	f.mustMove(p.Id, "paid")
	f.mustMove(second.Id, "cancel")
	f.checkConsistency()
	f.wantInPayout(false, inSecondBatch)
}

func TestRetryPayout_IsRefusedIfNothingIsPayable(t *testing.T) {
	f := newFixture(t)
	for name, change := range map[string]func(f *fixture, p pgtest.Participant, id affiliate.CommissionID){
		"participant suspended": func(f *fixture, p pgtest.Participant, _ affiliate.CommissionID) {
			f.Exec(`update participants set status = 'suspended' where id = $1`, p.ID)
		},
		"commission flagged":       func(f *fixture, _ pgtest.Participant, id affiliate.CommissionID) { f.flag(id) },
		"below the minimum payout": func(f *fixture, _ pgtest.Participant, id affiliate.CommissionID) { f.mustRefundPart(id, 49) },
	} {
		t.Run(name, func(t *testing.T) {
			f := f.otherShop(pgtest.Row{"min_payout_cents": 50})
			anna := f.partner("Anna")
			id := f.addCommission(anna, 100)
			p := f.onlyPayout(f.confirm(f.mustCreateBatch()))
			f.mustMove(p.Id, "failed")
			change(f, anna, id)
			_, err := f.move(p.Id, "retry")
			requireStateRefusal(t, err, "failed")
			f.checkConsistency()
		})
	}
}

func TestMovePayout_FromEveryStatus(t *testing.T) {
	f := newFixture(t)
	for from, tc := range map[string]struct {
		bringToStatus func(f *fixture, b *affiliatev1.PayoutBatch, id string) // changes a draft payout to the status
		allowedMoves  string
	}{
		"draft":      {func(*fixture, *affiliatev1.PayoutBatch, string) {}, "cancel"},
		"pending":    {func(f *fixture, b *affiliatev1.PayoutBatch, _ string) { f.confirm(b) }, "paid failed cancel"},
		"processing": {func(f *fixture, b *affiliatev1.PayoutBatch, _ string) { f.confirm(b); f.mustProcess(b) }, "paid failed"},
		"paid":       {func(f *fixture, b *affiliatev1.PayoutBatch, id string) { f.confirm(b); f.mustMove(id, "paid") }, ""},
		"failed":     {func(f *fixture, b *affiliatev1.PayoutBatch, id string) { f.confirm(b); f.mustMove(id, "failed") }, "retry cancel"},
		"canceled":   {func(f *fixture, _ *affiliatev1.PayoutBatch, id string) { f.mustMove(id, "cancel") }, ""},
	} {
		for _, move := range moves {
			t.Run(move+" of "+from, func(t *testing.T) {
				f := f.otherShop()
				f.addCommission(f.partner("Anna"), 100)
				b := f.mustCreateBatch()
				id := f.onlyPayout(b).Id
				tc.bringToStatus(f, b, id)
				_, err := f.move(id, move)
				if !slices.Contains(strings.Fields(tc.allowedMoves), move) {
					requireStateRefusal(t, err, from)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
	}
	f.checkConsistency()
}

// A payout is paid while its commissions are refunded and rejected. In whatever order the
// calls run, the balance must be the sum of the commissions minus the amount that was
// sent.
func TestMarkPayoutPaid_InParallelWithRefundsAndRejections(t *testing.T) {
	f := newFixture(t)
	calls := newOutcomes("paid", "refund", "reject")
	for round := range 6 {
		anna := f.partner("Anna")
		ids := make([]affiliate.CommissionID, 6)
		for i := range ids {
			ids[i] = f.addCommission(anna, 100)
		}
		b := f.confirm(f.mustCreateBatch())
		sentBefore := round%2 == 0
		if sentBefore {
			f.mustProcess(b)
		}
		id := f.onlyPayout(b).Id
		runParallel(1+2*len(ids), func(i int) {
			switch {
			case i == 0:
				_, err := f.move(id, "paid")
				calls.record(t, "paid", err)
			case i%4 == 0:
				calls.record(t, "refund", f.refund(ids[(i-1)/2]))
			case i%4 == 2:
				calls.record(t, "refund", f.refundPart(ids[(i-1)/2], 40))
			default:
				calls.record(t, "reject", f.reject(ids[(i-1)/2]))
			}
		})
		f.checkConsistency()
		p := f.payout(id)
		sent := int(p.AmountCents)
		canceled := p.Status == affiliatev1.PayoutStatus_PAYOUT_STATUS_CANCELED
		switch {
		case canceled && !sentBefore: // all commissions were refunded or rejected before the payment
			sent = 0
		case p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_PAID, sentBefore && sent != 600:
			t.Errorf("the payout (sent before the parallel calls: %t) has the status %v and the amount %d, want PAID, and 600 if it was sent before", sentBefore, p.Status, sent)
		}
		commissionCents := f.Count(`select coalesce(sum(amount_cents), 0)::bigint from commissions where participant_id = $1 and status in ('approved', 'paid')`, anna.ID)
		f.wantBalance(anna, commissionCents-sent)
	}
	calls.requireComplete(t)
}

// maxRounds is the largest number of rounds in which a test with parallel calls waits for
// a successful call of each kind.
const maxRounds = 60

func TestConfirmPayoutBatch_InParallelWithCancelIsCanceled(t *testing.T) {
	f := newFixture(t)
	calls := newOutcomes("confirm", "cancel the batch", "cancel the payout")
	for round := 0; round < 6 || !calls.complete() && round < maxRounds; round++ {
		f := f.otherShop()
		f.addCommission(f.partner("Anna"), 100)
		b := f.mustCreateBatch()
		id := f.onlyPayout(b).Id
		var canceled [2]bool
		runParallel(3, func(i int) {
			switch i {
			case 0:
				_, err := f.service.ConfirmPayoutBatch(f.asFinance(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
				calls.record(t, "confirm", err)
			case 1:
				_, err := f.service.CancelPayoutBatch(f.asFinance(), &affiliatev1.CancelPayoutBatchRequest{BatchId: b.Id})
				canceled[0] = calls.record(t, "cancel the batch", err)
			default:
				_, err := f.move(id, "cancel")
				canceled[1] = calls.record(t, "cancel the payout", err)
			}
		})
		if canceled[0] == canceled[1] {
			t.Errorf("CancelPayoutBatch succeeded: %t, CancelPayout succeeded: %t, want exactly one", canceled[0], canceled[1])
		}
		if got, want := f.payout(id).Status, affiliatev1.PayoutStatus_PAYOUT_STATUS_CANCELED; got != want {
			t.Errorf("the payout has the status %v, want %v", got, want)
		}
		f.checkConsistency()
	}
	calls.requireComplete(t)
}

// A payout is processed, marked as paid and marked as failed in parallel. After that,
// RetryPayout runs in parallel with the creation of another batch from the same
// commissions. In each round one of the two calls begins later, so that each of them
// succeeds in some rounds.
func TestMovePayout_InParallel(t *testing.T) {
	f := newFixture(t)
	calls := newOutcomes("process", "paid", "failed", "retry", "create")
	for round := 0; round < 6 || !calls.complete() && round < maxRounds; round++ {
		f := f.otherShop()
		anna := f.partner("Anna")
		f.addCommission(anna, 100)
		f.addEntry(anna, ledger.EntryBonus, 10)
		b := f.confirm(f.mustCreateBatch())
		id := f.onlyPayout(b).Id
		succeeded := make([]bool, 4)
		runParallel(len(succeeded), func(i int) {
			switch i {
			case 0:
				_, err := f.process(b)
				calls.record(t, "process", err)
			case 1:
				_, err := f.move(id, "paid")
				succeeded[i] = calls.record(t, "paid", err)
			default:
				_, err := f.move(id, "failed")
				succeeded[i] = calls.record(t, "failed", err)
			}
		})
		if n := len(slices.DeleteFunc(succeeded, func(ok bool) bool { return !ok })); n != 1 {
			t.Errorf("%d of the paid and failed calls succeeded, want 1", n)
		}
		f.checkConsistency()
		runParallel(2, func(i int) {
			if i == round%2 {
				time.Sleep(time.Duration(round) * time.Millisecond)
			}
			if i == 0 {
				_, err := f.move(id, "retry")
				calls.record(t, "retry", err)
			} else {
				_, err := f.createBatch()
				calls.record(t, "create", err)
			}
		})
		f.checkConsistency()
	}
	calls.requireComplete(t)
}
