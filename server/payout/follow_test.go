package payout_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestPayout_ChangesWithItsCommissionsUntilItIsSent(t *testing.T) {
	f := newFixture(t)
	reject := func(id affiliate.CommissionID) error {
		return f.moveCommission(id, affiliate.MoveReject, affiliate.CommissionTransition{})
	}
	flag := func(id affiliate.CommissionID) error {
		return f.moveCommission(id, affiliate.MoveFlag, affiliate.CommissionTransition{ReviewReasons: []string{"r"}})
	}
	refund := func(remaining int64) func(affiliate.CommissionID) error {
		return func(id affiliate.CommissionID) error { return f.refund(id, remaining) }
	}
	disputed := func(id affiliate.CommissionID) error {
		f.Exec(`update commissions set dispute_status = 'open' where id = $1`, id)
		return f.refund(id, 60) // any change removes the disputed commission from the payout
	}
	for name, tc := range map[string]struct {
		change func(affiliate.CommissionID) error
		amount int64 // the payout's amount after the change; before it is 300
		count  int64 // the payout's commissions after the change; before there are 3
	}{
		"rejected": {reject, 200, 2}, "refunded": {refund(0), 200, 2}, "flagged": {flag, 200, 2}, "disputed": {disputed, 200, 2},
		"refunded in part": {refund(40), 240, 3}, "refunded to nothing in parts": {refund(-1), 200, 3},
	} {
		for _, status := range []string{"draft", "pending", "processing"} {
			t.Run(name+", "+status, func(t *testing.T) {
				p := f.partner(name + status)
				first := f.addCommission(p, 100)
				f.clock.Advance(time.Minute)
				f.addCommission(p, 100)
				f.addCommission(p, 100)
				b := f.mustCreateBatch()
				if status != "draft" {
					f.confirm(b)
				}
				if status == "processing" {
					f.send(b)
				}
				before := f.onlyPayout(b)
				if err := tc.change(first); err != nil {
					t.Fatal(err)
				}
				f.checkConsistency()
				got := f.payout(before.Id)
				if got.Status != before.Status {
					t.Errorf("the status is %s", got.Status)
				}
				if status == "processing" {
					if got.AmountCents != 300 || got.CommissionCount != 3 {
						t.Errorf("a payout changed after it was sent: %v", got)
					}
					f.mustMove(got.Id, "paid")
					return
				}
				if got.AmountCents != tc.amount || got.CommissionCount != tc.count || len(got.Commissions) != int(tc.count) {
					t.Errorf("%v", got)
				}
				if tc.count == 2 && !got.PeriodStart.AsTime().After(before.PeriodStart.AsTime()) {
					t.Errorf("the period begins at %s", got.PeriodStart.AsTime())
				}
				if left := f.Count(`select count(*) from commissions where id = $1 and payout_id is null`, first); left != 3-int(tc.count) {
					t.Errorf("%d commissions left the payout", left)
				}
				f.mustMove(got.Id, "cancel")
				f.Exec(`update commissions set needs_review = true where payout_id is null`)
			})
		}
	}
}

func TestPayout_IsCanceledWhenNothingRemainsToPay(t *testing.T) {
	f := newFixture(t)
	debtor := f.partner("Debtor")
	first, second := f.addCommission(debtor, 100), f.addCommission(debtor, 50)
	f.addEntry(debtor, affiliate.EntryAdjustment, -60)
	withBonus := f.partner("With bonus")
	only := f.addCommission(withBonus, 100)
	f.addEntry(withBonus, affiliate.EntryBonus, 30)
	b := f.confirm(f.mustCreateBatch())

	if err := f.refund(first, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.refund(only, 0); err != nil {
		t.Fatal(err)
	}
	f.checkConsistency()
	for _, p := range f.payouts(b) {
		switch p.PartnerName {
		case "Debtor": // 50 - 60 is negative, so the next batch can have the other commission
			if p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_CANCELED || p.AmountCents != 90 || p.CommissionCount != 2 {
				t.Errorf("%v", p)
			}
			names, objects := f.Events(p.Id)
			if !slices.Contains(names, string(affiliate.EventPayoutCanceled)) || objects[len(objects)-1]["status"] != "canceled" {
				t.Errorf("%v %v", names, objects)
			}
		default:
			if p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_PENDING || p.AmountCents != 30 || p.CommissionCount != 0 {
				t.Errorf("%v", p)
			}
		}
	}
	if n := f.Count(`select count(*) from commissions where id = $1 and status = 'approved' and payout_id is null`, second); n != 1 {
		t.Error("the canceled payout still has a commission")
	}
	got, err := f.service.GetPayoutBatch(f.asFinance(), &affiliatev1.GetPayoutBatchRequest{BatchId: b.Id})
	if err != nil || got.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED || got.ByStatus.Canceled != 1 || got.ByStatus.Pending != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// Commissions change while their payouts are created, confirmed, sent, paid and canceled.
// No transaction may fail with an unexpected error, and all invariants must hold.
func TestPayouts_ChangeInParallelWithTheirCommissions(t *testing.T) {
	f := newFixture(t)
	anna, bert := f.partner("Anna"), f.partner("Bert")
	for range 6 {
		var ids []affiliate.CommissionID
		for range 5 {
			ids = append(ids, f.addCommission(anna, 100), f.addCommission(bert, 100))
		}
		b := f.mustCreateBatch()
		payouts := f.payouts(b)
		move := rand.N(4)
		runParallel(len(ids)+4, func(i int) {
			var err error
			switch {
			case i == 0:
				_, err = f.service.ConfirmPayoutBatch(f.asFinance(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
			case i == 1:
				_, err = f.createBatch()
			case i < 4 && move == 0:
				_, err = f.export(b, 0)
			case i < 4:
				_, err = f.move(payouts[i-2].Id, []string{"paid", "cancel", "failed"}[move-1])
			case i%3 == 0:
				err = f.refund(ids[i-4], 0)
			case i%3 == 1:
				err = f.moveCommission(ids[i-4], affiliate.MoveReject, affiliate.CommissionTransition{})
			default:
				err = f.refund(ids[i-4], 70)
			}
			switch reason := pgtest.ReasonOf(t, err); reason {
			case "", affiliate.ReasonPayoutState, affiliate.ReasonCommissionTerminal:
			default:
				t.Errorf("%v", err)
			}
		})
		f.checkConsistency()
		f.Exec(`update commissions set needs_review = true where payout_id is null and status = 'approved'`)
	}
	if n := f.Count(`select count(*) from pg_stat_database where datname = current_database() and deadlocks > 0`); n != 0 {
		t.Error("there was a deadlock")
	}
}
