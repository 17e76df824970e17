package payout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestPayout_ChangesWithItsCommissionsUntilItIsSent(t *testing.T) {
	f := newFixture(t)
	for name, tc := range map[string]struct {
		change     func(f *fixture, id affiliate.CommissionID) error
		wantAmount int64 // amount of the payout after the change; it was 300
		wantCount  int64 // number of its commissions after the change; it was 3
	}{
		"rejected":                        {(*fixture).reject, 200, 2},
		"refunded":                        {func(f *fixture, id affiliate.CommissionID) error { return f.refund(id) }, 200, 2},
		"flagged":                         {func(f *fixture, id affiliate.CommissionID) error { f.flag(id); return nil }, 200, 2},
		"refunded in part":                {func(f *fixture, id affiliate.CommissionID) error { return f.refundPart(id, 40) }, 240, 3},
		"reduced to 0 by partial refunds": {func(f *fixture, id affiliate.CommissionID) error { return f.refundPart(id, 0) }, 200, 3},
		"disputed": {
			func(f *fixture, id affiliate.CommissionID) error {
				f.Exec(`update commissions set dispute_status = 'open' where id = $1`, id)
				return f.refundPart(id, 60) // any change removes the disputed commission from the payout
			}, 200, 2,
		},
	} {
		for _, status := range []string{"draft", "pending", "processing"} {
			t.Run(name+", "+status, func(t *testing.T) {
				f := f.otherShop()
				p := f.partner(name + status)
				first := f.addCommission(p, 100)
				f.clock.Advance(time.Minute)
				f.addCommission(p, 100)
				f.addCommission(p, 100)
				b := f.mustCreateBatch()
				if status != "draft" {
					f.confirm(b)
				}
				wantAmount, wantCount := tc.wantAmount, tc.wantCount
				if status == "processing" {
					f.mustProcess(b)
					wantAmount, wantCount = 300, 3
				}
				before := f.onlyPayout(b)
				if err := tc.change(f, first); err != nil {
					t.Fatal(err)
				}
				f.checkConsistency()
				got := f.payout(before.Id)
				if got.Status != before.Status {
					t.Errorf("the payout has the status %s, want %s", got.Status, before.Status)
				}
				if got.AmountCents != wantAmount || got.CommissionCount != wantCount || len(got.Commissions) != int(wantCount) {
					t.Errorf("the payout has the amount %d and %d commissions (%d listed), want %d and %d",
						got.AmountCents, got.CommissionCount, len(got.Commissions), wantAmount, wantCount)
				}
				if status == "processing" {
					f.mustMove(got.Id, "paid")
					return
				}
				if start := got.PeriodStart.AsTime(); wantCount == 2 && !start.After(before.PeriodStart.AsTime()) {
					t.Errorf("after the removal of its first commission, the payout has the period start %s, want a later time", start)
				}
				f.wantInPayout(wantCount != 2, first)
			})
		}
	}
}

func TestPayout_IsCanceledWhenNothingRemainsToPay(t *testing.T) {
	f := newFixture(t)
	debtor := f.partner("Debtor")
	first, second := f.addCommission(debtor, 100), f.addCommission(debtor, 50)
	f.addEntry(debtor, ledger.EntryAdjustment, -60)
	withBonus := f.partner("With bonus")
	only := f.addCommission(withBonus, 100)
	f.addEntry(withBonus, ledger.EntryBonus, 30)
	reducedDebtor := f.partner("Reduced debtor")
	reduced := f.addCommission(reducedDebtor, 100)
	f.addEntry(reducedDebtor, ledger.EntryAdjustment, -60)
	b := f.confirm(f.mustCreateBatch())
	f.mustRefund(first)
	f.mustRefund(only)
	f.mustRefundPart(reduced, 40)
	f.checkConsistency()

	want := map[string]*affiliatev1.PayoutDetail{
		// After the refund of the first commission, the amount would be 50 - 60, which is
		// negative, so the payout is canceled. It keeps the amount 100 + 50 - 60, and the
		// next batch can contain its second commission.
		"Debtor":     {Status: affiliatev1.PayoutStatus_PAYOUT_STATUS_CANCELED, AmountCents: 90, CommissionCount: 2},
		"With bonus": {Status: affiliatev1.PayoutStatus_PAYOUT_STATUS_PENDING, AmountCents: 30},
		// The amount would be 40 - 60. The next batch can contain the commission.
		"Reduced debtor": {Status: affiliatev1.PayoutStatus_PAYOUT_STATUS_CANCELED, AmountCents: 40, CommissionCount: 1},
	}
	for _, got := range f.payouts(b) {
		servertest.WantFields(t, got.PartnerName, got, want[got.PartnerName])
		if got.PartnerName != "With bonus" {
			names, objects := f.Events(got.Id)
			if !slices.Contains(names, string(affiliate.EventPayoutCanceled)) || objects[len(objects)-1]["status"] != "canceled" {
				t.Errorf("the canceled payout has the events %q, the last with the status %v, want payout.canceled with canceled", names, objects[len(objects)-1]["status"])
			}
		} else if got.CommissionCount != 0 {
			t.Errorf("the payout of the bonus has %d commissions, want none", got.CommissionCount)
		}
	}
	f.wantInPayout(false, second)
	f.wantInPayout(false, reduced)
	servertest.WantFields(t, "batch", f.getBatch(b.Id), &affiliatev1.PayoutBatch{
		Status:   affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED,
		ByStatus: &affiliatev1.PayoutCounts{Canceled: 2, Pending: 1},
	})
}

// Commissions change while their payouts are created, confirmed, sent, paid and canceled.
// No transaction may fail with an unexpected error, and all invariants must hold.
func TestPayouts_ChangeInParallelWithTheirCommissions(t *testing.T) {
	pgtest.Slow(t)
	f := newFixture(t)
	moves := []string{"process", "paid", "cancel", "failed"}
	calls := newOutcomes(append(moves, "confirm", "create", "refund", "refund in part", "reject")...)
	for round := range 2 * len(moves) {
		f := f.otherShop()
		anna, bert := f.partner("Anna"), f.partner("Bert")
		var ids []affiliate.CommissionID
		for range 5 {
			ids = append(ids, f.addCommission(anna, 100), f.addCommission(bert, 100))
		}
		b := f.mustCreateBatch()
		f.addCommission(f.partner("Cora"), 100) // for the batch that is created in parallel
		payouts := f.payouts(b)
		move := moves[round/2]
		if round%2 == 1 {
			f.confirm(b)
		}
		runParallel(len(ids)+4, func(i int) {
			kind := move
			var err error
			switch {
			case i == 0:
				kind = "confirm"
				_, err = f.service.ConfirmPayoutBatch(f.asFinance(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
			case i == 1:
				kind = "create"
				_, err = f.createBatch()
			case i < 4 && move == "process":
				_, err = f.process(b)
			case i < 4:
				_, err = f.move(payouts[i-2].Id, move)
			case i%3 == 0:
				kind, err = "refund", f.refund(ids[i-4])
			case i%3 == 1:
				kind, err = "reject", f.reject(ids[i-4])
			default:
				kind, err = "refund in part", f.refundPart(ids[i-4], 70)
			}
			calls.record(t, kind, err)
		})
		f.checkConsistency()
	}
	calls.requireComplete(t)
	f.WantCount(0, "deadlocks", `select deadlocks from pg_stat_database where datname = current_database()`)
}
