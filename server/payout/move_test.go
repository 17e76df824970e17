package payout_test

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestPaidPayoutPaysItsCommissions(t *testing.T) {
	for _, sent := range []bool{false, true} {
		w := newWorld(t)
		m := w.merchant()
		anna := m.partner("Anna")
		one, two := m.commission(anna, 100), m.commission(anna, 200)
		m.entry(anna, affiliate.EntryBonus, 50)
		b := m.confirm(m.mustBatch())
		if sent {
			m.send(b)
			w.sound()
			if n := w.balance(anna); n != 0 {
				t.Errorf("what was sent leaves %d", n)
			}
		}
		w.pass(time.Hour)
		when := w.now().Add(-30 * time.Minute)
		p, err := w.service.MarkPayoutPaid(m.call(), &affiliatev1.MarkPayoutPaidRequest{PayoutId: m.the(b).Id, Reference: "T-9", PaidAt: timestamppb.New(when)})
		if err != nil {
			t.Fatal(err)
		}
		if p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_PAID || p.GetReference() != "T-9" || !p.PaidAt.AsTime().Equal(when) || p.AmountCents != 350 || p.AdjustmentCents != 50 {
			t.Errorf("%v", p)
		}
		for _, id := range []affiliate.CommissionID{one, two} {
			if n := w.Count(`select count(*) from commissions where id = $1 and status = 'paid' and payout_id = $2 and paid_at = $3`, id, p.Id, when); n != 1 {
				t.Errorf("a commission is not paid")
			}
		}
		if n := w.Count(`select count(*) from events where type = 'commission.paid'`); n != 2 {
			t.Errorf("%d commissions are told to be paid", n)
		}
		got, err := w.service.GetPayoutBatch(m.call(), &affiliatev1.GetPayoutBatchRequest{BatchId: b.Id})
		if err != nil || got.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_COMPLETED || !got.CompletedAt.AsTime().Equal(w.now()) {
			t.Errorf("%v, %v", got, err)
		}
		names, _ := w.Events(p.Id)
		want := []string{"payout.created", "payout.processing", "payout.paid"}
		if !sent {
			want = []string{"payout.created", "payout.paid"}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%v", names)
		}
		if got := w.AuditActions("payout", p.Id); !slices.Equal(got, []string{"payout.mark_paid"}) {
			t.Errorf("%v", got)
		}
		if n := w.balance(anna); n != 0 || len(m.preview().Data) != 0 {
			t.Errorf("%d are left, due %v", n, m.preview().Data)
		}
		w.sound()
	}
}

// What is refunded on the way does not stop a payout: it becomes a debt that the
// next one nets.
func TestDebtsAreNettedByTheNextPayout(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	anna := m.partner("Anna")
	m.commission(anna, 100)
	gone, less := m.commission(anna, 200), m.commission(anna, 400)
	b := m.confirm(m.mustBatch())
	m.send(b)
	if err := m.moveCommission(gone, affiliate.MoveReject, affiliate.CommissionTransition{}); err != nil {
		t.Fatal(err)
	}
	if err := m.refund(less, 300); err != nil {
		t.Fatal(err)
	}
	w.sound()
	if due := m.preview().Data; len(due) != 0 {
		t.Errorf("nothing is due while it is on its way: %v", due)
	}
	m.must(m.the(b).Id, "paid")
	w.sound()
	if n := w.balance(anna); n != -300 {
		t.Errorf("the balance is %d", n)
	}
	due := m.preview().Data
	if len(due) != 1 || due[0].AdjustmentCents != -300 || due[0].ExcludedBecause != affiliatev1.PayoutExclusion_PAYOUT_EXCLUSION_NEGATIVE_BALANCE {
		t.Errorf("%v", due)
	}
	// A paid one that is refunded is a debt too.
	if err := m.refund(less, 0); err != nil {
		t.Fatal(err)
	}
	m.commission(anna, 1000)
	p := m.the(m.confirm(m.mustBatch()))
	if p.AmountCents != 400 || p.AdjustmentCents != -600 || p.CommissionCount != 1 {
		t.Errorf("%v", p)
	}
	m.must(p.Id, "paid")
	if n := w.balance(anna); n != 0 {
		t.Errorf("the balance is %d", n)
	}
	w.sound()
}

func TestFailedPayoutIsTriedAgainWithWhatIsLeft(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	anna := m.partner("Anna")
	stays, moves, goes := m.commission(anna, 100), m.commission(anna, 200), m.commission(anna, 400)
	m.entry(anna, affiliate.EntryBonus, 30)
	b := m.confirm(m.mustBatch())
	m.send(b)
	p := m.must(m.the(b).Id, "failed")
	if p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_FAILED || p.GetFailureReason() != "No such account." {
		t.Errorf("%v", p)
	}
	if n := w.balance(anna); n != 730 {
		t.Errorf("the balance is %d", n)
	}
	if n := w.Count(`select count(*) from commissions where payout_id is null`); n != 3 {
		t.Errorf("%d are free", n)
	}
	w.sound()
	got, _ := w.service.GetPayoutBatch(m.call(), &affiliatev1.GetPayoutBatchRequest{BatchId: b.Id})
	if got.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_PARTIALLY_FAILED {
		t.Errorf("%v", got)
	}
	// Another batch takes one of them, and the bonus; another is refunded.
	w.Exec(`update commissions set needs_review = true where id = any($1)`, []affiliate.CommissionID{stays, goes})
	second := m.the(m.mustBatch())
	if second.AmountCents != 230 {
		t.Fatalf("%v", second)
	}
	w.Exec(`update commissions set needs_review = false`)
	if err := m.refund(goes, 0); err != nil {
		t.Fatal(err)
	}
	if err := m.refund(stays, 60); err != nil {
		t.Fatal(err)
	}
	m.method(anna, affiliate.PayoutAccount{Method: affiliate.PayoutManual})
	p = m.must(p.Id, "retry")
	if p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_PENDING || p.AmountCents != 60 || p.AdjustmentCents != 0 || p.CommissionCount != 1 ||
		p.FailureReason != nil || p.Method != affiliatev1.PayoutMethod_PAYOUT_METHOD_MANUAL {
		t.Errorf("%v", p)
	}
	w.sound()
	if got, _ = w.service.GetPayoutBatch(m.call(), &affiliatev1.GetPayoutBatchRequest{BatchId: b.Id}); got.CompletedAt != nil {
		t.Errorf("%v", got)
	}
	m.must(p.Id, "paid")
	m.must(second.Id, "cancel")
	w.sound()
	if n := w.Count(`select count(*) from commissions where id = $1 and payout_id is null`, moves); n != 1 {
		t.Error("the canceled payout keeps its commission")
	}
}

func TestRetryWithNothingLeftIsRefused(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(pgtest.Row{"min_payout_cents": 50})
	anna := m.partner("Anna")
	id := m.commission(anna, 100)
	p := m.the(m.confirm(m.mustBatch()))
	m.must(p.Id, "failed")
	for what, spoil := range map[string]func(){
		"suspended": func() { w.Exec(`update participants set status = 'suspended'`) },
		"flagged":   func() { w.Exec(`update commissions set needs_review = true`) },
		"no method": func() { w.Exec(`delete from payout_methods`) },
		"too small": func() {
			if err := m.refund(id, 49); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if what != "too small" {
			w.Exec(`update participants set status = 'approved'`)
			w.Exec(`update commissions set needs_review = false`)
			m.method(anna, affiliate.PayoutAccount{Method: affiliate.PayoutManual})
		}
		spoil()
		_, err := m.do(p.Id, "retry")
		if status := pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)["status"]; status != "failed" {
			t.Errorf("%s: status %s", what, status)
		}
		w.sound()
	}
}

func TestEveryMoveFromEveryStatus(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	reach := map[string]func(b *affiliatev1.PayoutBatch, id string){
		"draft":      func(*affiliatev1.PayoutBatch, string) {},
		"pending":    func(b *affiliatev1.PayoutBatch, _ string) { m.confirm(b) },
		"processing": func(b *affiliatev1.PayoutBatch, _ string) { m.confirm(b); m.send(b) },
		"paid":       func(b *affiliatev1.PayoutBatch, id string) { m.confirm(b); m.must(id, "paid") },
		"failed":     func(b *affiliatev1.PayoutBatch, id string) { m.confirm(b); m.must(id, "failed") },
		"canceled":   func(_ *affiliatev1.PayoutBatch, id string) { m.must(id, "cancel") },
	}
	legal := map[string]string{
		"draft": "cancel", "pending": "paid failed cancel", "processing": "paid failed", "paid": "", "failed": "retry cancel", "canceled": "",
	}
	for from, to := range reach {
		for _, move := range []string{"paid", "failed", "retry", "cancel"} {
			p := m.partner(from + move)
			m.commission(p, 100)
			b := m.mustBatch()
			id := m.the(b).Id
			to(b, id)
			_, err := m.do(id, move)
			if slices.Contains(strings.Fields(legal[from]), move) {
				if err != nil {
					t.Errorf("%s of %s: %v", move, from, err)
				}
			} else if status := pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)["status"]; status != from {
				t.Errorf("%s of %s: status %s", move, from, status)
			}
			// Whoever is left is left alone by the next batch.
			w.Exec(`update commissions set needs_review = true where status = 'approved' and payout_id is null`)
		}
	}
	w.sound()
}

func TestExportsSayWhereTheMoneyGoes(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(pgtest.Row{"name": "=Prog"})
	anna, bank, wise, yen := m.partner("Anna"), m.partner("Bank"), m.partner("Wise"), m.partner("Yuko")
	m.method(bank, affiliate.PayoutAccount{Method: affiliate.PayoutBankTransfer, Account: "DE89370400440532013000", Holder: "Bank, B."})
	m.method(wise, affiliate.PayoutAccount{Method: affiliate.PayoutWise, Account: "w@example.com"})
	m.commission(anna, 5)
	m.commission(bank, 123456)
	m.commission(wise, 300)
	m.commission(yen, 700, pgtest.Row{"currency": "JPY"})
	b := m.mustBatch()
	_, err := m.export(b, 0)
	if status := pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)["status"]; status != "draft" {
		t.Errorf("status %s", status)
	}
	m.confirm(b)
	export := func(format affiliatev1.PayoutExportFormat, columns ...int) []string {
		t.Helper()
		d, err := m.export(b, format)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.header.Get("content-disposition"); !slices.Equal(got, []string{`attachment; filename="payouts-live-2026-03-10.csv"`}) {
			t.Errorf("%v", got)
		}
		rows, err := csv.NewReader(&d.body).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var picked []string
		for _, row := range rows {
			var cells []string
			for _, i := range columns {
				cells = append(cells, row[i])
			}
			picked = append(picked, strings.Join(cells, "|"))
		}
		return picked
	}
	check := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	check("paypal", export(affiliatev1.PayoutExportFormat_PAYOUT_EXPORT_FORMAT_PAYPAL, 0, 1, 2, 4, 5),
		"Recipient|Amount|Currency|Note|Recipient wallet", "Anna@example.com|0.05|EUR|'=Prog|PAYPAL", "Yuko@example.com|700|JPY|'=Prog|PAYPAL")
	if n := w.Count(`select count(*) from payouts where status = 'pending'`); n != 2 {
		t.Errorf("%d are pending: only what is in the file is on its way", n)
	}
	check("wise", export(affiliatev1.PayoutExportFormat_PAYOUT_EXPORT_FORMAT_WISE, 0, 1, 3, 6),
		"name|recipientEmail|amount|targetCurrency", "Wise|w@example.com|3.00|EUR")
	for range 2 { // a second time with the same content
		check("generic", export(0, 1, 3, 4, 5, 6, 7, 8, 9),
			"programName|partnerName|amountCents|amount|currency|method|account|accountHolder",
			"'=Prog|Anna|5|0.05|EUR|paypal|Anna@example.com|", "'=Prog|Bank|123456|1234.56|EUR|bank_transfer|DE89370400440532013000|Bank, B.",
			"'=Prog|Wise|300|3.00|EUR|wise|w@example.com|", "'=Prog|Yuko|700|700|JPY|paypal|Yuko@example.com|")
	}
	w.sound()
	if n := w.Count(`select count(*) from events where type = 'payout.processing'`); n != 4 {
		t.Errorf("%d events", n)
	}
	if got := slices.Sorted(slices.Values(w.AuditActions("payout_batch", b.Id))); !slices.Equal(got, []string{
		"payout_batch.confirm", "payout_batch.create", "payout_batch.export", "payout_batch.export", "payout_batch.export", "payout_batch.export",
	}) {
		t.Errorf("%v", got)
	}
	if n := w.Count(`select count(*) from audit_log where after::text like '%example.com%' or after::text like '%DE89%'`); n != 0 {
		t.Error("the audit log holds accounts")
	}
	for _, p := range m.payouts(b) {
		m.must(p.Id, "paid")
	}
	_, err = m.export(b, 0)
	pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)
}

// Whichever wins, the ledger holds what was sent and what is owed.
func TestPayingRacesWithRefundsAndRejections(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	for round := range 6 {
		anna := m.partner("Anna")
		ids := make([]affiliate.CommissionID, 6)
		for i := range ids {
			ids[i] = m.commission(anna, 100)
		}
		b := m.confirm(m.mustBatch())
		if round%2 == 0 {
			m.send(b)
		}
		id := m.the(b).Id
		race(1+2*len(ids), func(i int) {
			var err error
			switch {
			case i == 0:
				_, err = m.do(id, "paid")
			case i%2 == 0:
				err = m.refund(ids[(i-1)/2], int64(i%4)*20)
			default:
				err = m.moveCommission(ids[(i-1)/2], affiliate.MoveReject, affiliate.CommissionTransition{})
			}
			if reason := pgtest.ReasonOf(t, err); reason != "" && reason != affiliate.ReasonCommissionTerminal && reason != affiliate.ReasonPayoutState {
				t.Errorf("%v", err)
			}
		})
		w.sound()
		p := m.payout(id)
		sent := int(p.AmountCents)
		if p.Status == affiliatev1.PayoutStatus_PAYOUT_STATUS_CANCELED && round%2 == 1 { // nothing was left of it
			sent = 0
		} else if p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_PAID || round%2 == 0 && sent != 600 {
			t.Errorf("%v", p)
		}
		owed := w.Count(`select coalesce(sum(amount_cents), 0)::bigint from commissions where participant_id = $1 and status in ('approved', 'paid')`, anna.ID)
		if n := w.balance(anna); n != owed-sent {
			t.Errorf("the balance is %d, owed %d after %d were paid", n, owed, sent)
		}
	}
}

func TestConfirmingRacesWithCanceling(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	for range 6 {
		m.commission(m.partner("Anna"), 100)
		b := m.mustBatch()
		id := m.the(b).Id
		race(3, func(i int) {
			var err error
			switch i {
			case 0:
				_, err = w.service.ConfirmPayoutBatch(m.call(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
			case 1:
				_, err = w.service.CancelPayoutBatch(m.call(), &affiliatev1.CancelPayoutBatchRequest{BatchId: b.Id})
			default:
				_, err = m.do(id, "cancel")
			}
			if reason := pgtest.ReasonOf(t, err); reason != "" && reason != affiliate.ReasonPayoutState {
				t.Errorf("%v", err)
			}
		})
		if p := m.payout(id); p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_CANCELED {
			t.Errorf("%v: a cancellation cannot lose", p)
		}
		w.sound()
		w.Exec(`update commissions set needs_review = true`)
	}
}

// A payout is sent, paid and given back at the same time, and tried again while
// another batch asks for the same commissions.
func TestMovesOfOnePayoutRace(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	for range 6 {
		anna := m.partner("Anna")
		m.commission(anna, 100)
		m.entry(anna, affiliate.EntryBonus, 10)
		b := m.confirm(m.mustBatch())
		id := m.the(b).Id
		won := make([]bool, 4)
		race(4, func(i int) {
			var err error
			switch i {
			case 0:
				_, err = m.export(b, 0)
			case 1:
				_, err = m.do(id, "paid")
			default:
				_, err = m.do(id, "failed")
			}
			won[i] = pgtest.ReasonOf(t, err) == ""
		})
		if n := len(slices.DeleteFunc(won[1:], func(ok bool) bool { return !ok })); n != 1 {
			t.Errorf("%d of three ends", n)
		}
		w.sound()
		race(2, func(i int) {
			var err error
			if i == 0 {
				_, err = m.do(id, "retry")
			} else {
				_, err = m.batch()
			}
			if reason := pgtest.ReasonOf(t, err); reason != "" && reason != affiliate.ReasonPayoutState {
				t.Errorf("%v", err)
			}
		})
		w.sound()
		w.Exec(`update commissions set needs_review = true where payout_id is null`)
	}
}
