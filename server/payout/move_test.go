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

func TestMarkPayoutPaid_PaysTheCommissions(t *testing.T) {
	for _, sent := range []bool{false, true} {
		f := newFixture(t)
		anna := f.partner("Anna")
		one, two := f.addCommission(anna, 100), f.addCommission(anna, 200)
		f.addEntry(anna, affiliate.EntryBonus, 50)
		b := f.confirm(f.mustCreateBatch())
		if sent {
			f.send(b)
			f.checkConsistency()
			if n := f.balance(anna); n != 0 {
				t.Errorf("the balance is %d after the payout was sent", n)
			}
		}
		f.clock.Advance(time.Hour)
		paidAt := f.Now().Add(-30 * time.Minute)
		p, err := f.service.MarkPayoutPaid(f.asFinance(), &affiliatev1.MarkPayoutPaidRequest{PayoutId: f.onlyPayout(b).Id, Reference: "T-9", PaidAt: timestamppb.New(paidAt)})
		if err != nil {
			t.Fatal(err)
		}
		if p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_PAID || p.GetReference() != "T-9" || !p.PaidAt.AsTime().Equal(paidAt) || p.AmountCents != 350 || p.AdjustmentCents != 50 {
			t.Errorf("%v", p)
		}
		for _, id := range []affiliate.CommissionID{one, two} {
			if n := f.Count(`select count(*) from commissions where id = $1 and status = 'paid' and payout_id = $2 and paid_at = $3`, id, p.Id, paidAt); n != 1 {
				t.Errorf("a commission is not paid")
			}
		}
		if n := f.Count(`select count(*) from events where type = 'commission.paid'`); n != 2 {
			t.Errorf("%d events of paid commissions", n)
		}
		got, err := f.service.GetPayoutBatch(f.asFinance(), &affiliatev1.GetPayoutBatchRequest{BatchId: b.Id})
		if err != nil || got.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_COMPLETED || !got.CompletedAt.AsTime().Equal(f.Now()) {
			t.Errorf("%v, %v", got, err)
		}
		names, _ := f.Events(p.Id)
		want := []string{"payout.created", "payout.processing", "payout.paid"}
		if !sent {
			want = []string{"payout.created", "payout.paid"}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%v", names)
		}
		if got := f.AuditActions("payout", p.Id); !slices.Equal(got, []string{"payout.mark_paid"}) {
			t.Errorf("%v", got)
		}
		if n := f.balance(anna); n != 0 || len(f.preview().Data) != 0 {
			t.Errorf("the balance is %d, due %v", n, f.preview().Data)
		}
		f.checkConsistency()
	}
}

// A refund during the processing of a payout does not stop the payout. The refunded
// amount becomes a debt, which the next payout subtracts.
func TestPayout_SubtractsTheDebtOfEarlierRefunds(t *testing.T) {
	f := newFixture(t)
	anna := f.partner("Anna")
	f.addCommission(anna, 100)
	rejected, reduced := f.addCommission(anna, 200), f.addCommission(anna, 400)
	b := f.confirm(f.mustCreateBatch())
	f.send(b)
	if err := f.moveCommission(rejected, affiliate.MoveReject, affiliate.CommissionTransition{}); err != nil {
		t.Fatal(err)
	}
	if err := f.refund(reduced, 300); err != nil {
		t.Fatal(err)
	}
	f.checkConsistency()
	if due := f.preview().Data; len(due) != 0 {
		t.Errorf("due while the payout is processing: %v", due)
	}
	f.mustMove(f.onlyPayout(b).Id, "paid")
	f.checkConsistency()
	if n := f.balance(anna); n != -300 {
		t.Errorf("the balance is %d", n)
	}
	due := f.preview().Data
	if len(due) != 1 || due[0].AdjustmentCents != -300 || due[0].ExcludedBecause != affiliatev1.PayoutExclusion_PAYOUT_EXCLUSION_NEGATIVE_BALANCE {
		t.Errorf("%v", due)
	}
	// The refund of a paid commission is a debt too.
	if err := f.refund(reduced, 0); err != nil {
		t.Fatal(err)
	}
	f.addCommission(anna, 1000)
	p := f.onlyPayout(f.confirm(f.mustCreateBatch()))
	if p.AmountCents != 400 || p.AdjustmentCents != -600 || p.CommissionCount != 1 {
		t.Errorf("%v", p)
	}
	f.mustMove(p.Id, "paid")
	if n := f.balance(anna); n != 0 {
		t.Errorf("the balance is %d", n)
	}
	f.checkConsistency()
}

func TestRetryPayout_PaysTheCommissionsThatArePayableNow(t *testing.T) {
	f := newFixture(t)
	anna := f.partner("Anna")
	reduced, inSecond, refunded := f.addCommission(anna, 100), f.addCommission(anna, 200), f.addCommission(anna, 400)
	f.addEntry(anna, affiliate.EntryBonus, 30)
	b := f.confirm(f.mustCreateBatch())
	f.send(b)
	p := f.mustMove(f.onlyPayout(b).Id, "failed")
	if p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_FAILED || p.GetFailureReason() != "No such account." {
		t.Errorf("%v", p)
	}
	if n := f.balance(anna); n != 730 {
		t.Errorf("the balance is %d", n)
	}
	if n := f.Count(`select count(*) from commissions where payout_id is null`); n != 3 {
		t.Errorf("%d commissions are in no payout", n)
	}
	f.checkConsistency()
	got, _ := f.service.GetPayoutBatch(f.asFinance(), &affiliatev1.GetPayoutBatchRequest{BatchId: b.Id})
	if got.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_PARTIALLY_FAILED {
		t.Errorf("%v", got)
	}
	// A second batch gets one of the commissions and the bonus. Another commission is
	// refunded, and the third is reduced.
	f.Exec(`update commissions set needs_review = true where id = any($1)`, []affiliate.CommissionID{reduced, refunded})
	second := f.onlyPayout(f.mustCreateBatch())
	if second.AmountCents != 230 {
		t.Fatalf("%v", second)
	}
	f.Exec(`update commissions set needs_review = false`)
	if err := f.refund(refunded, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.refund(reduced, 60); err != nil {
		t.Fatal(err)
	}
	f.setMethod(anna, affiliate.PayoutAccount{Method: affiliate.PayoutManual})
	p = f.mustMove(p.Id, "retry")
	if p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_PENDING || p.AmountCents != 60 || p.AdjustmentCents != 0 || p.CommissionCount != 1 ||
		p.FailureReason != nil || p.Method != affiliatev1.PayoutMethod_PAYOUT_METHOD_MANUAL {
		t.Errorf("%v", p)
	}
	f.checkConsistency()
	if got, _ = f.service.GetPayoutBatch(f.asFinance(), &affiliatev1.GetPayoutBatchRequest{BatchId: b.Id}); got.CompletedAt != nil {
		t.Errorf("%v", got)
	}
	f.mustMove(p.Id, "paid")
	f.mustMove(second.Id, "cancel")
	f.checkConsistency()
	if n := f.Count(`select count(*) from commissions where id = $1 and payout_id is null`, inSecond); n != 1 {
		t.Error("the canceled payout still has its commission")
	}
}

func TestRetryPayout_IsRefusedIfNothingIsPayable(t *testing.T) {
	f := newFixture(t, pgtest.Row{"min_payout_cents": 50})
	anna := f.partner("Anna")
	id := f.addCommission(anna, 100)
	p := f.onlyPayout(f.confirm(f.mustCreateBatch()))
	f.mustMove(p.Id, "failed")
	for name, change := range map[string]func(){
		"suspended": func() { f.Exec(`update participants set status = 'suspended'`) },
		"flagged":   func() { f.Exec(`update commissions set needs_review = true`) },
		"no method": func() { f.Exec(`delete from payout_methods`) },
		"too small": func() {
			if err := f.refund(id, 49); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if name != "too small" {
			f.Exec(`update participants set status = 'approved'`)
			f.Exec(`update commissions set needs_review = false`)
			f.setMethod(anna, affiliate.PayoutAccount{Method: affiliate.PayoutManual})
		}
		change()
		_, err := f.move(p.Id, "retry")
		if status := pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)["status"]; status != "failed" {
			t.Errorf("%s: status %s", name, status)
		}
		f.checkConsistency()
	}
}

func TestMovePayout_FromEveryStatus(t *testing.T) {
	f := newFixture(t)
	setStatus := map[string]func(b *affiliatev1.PayoutBatch, id string){
		"draft":      func(*affiliatev1.PayoutBatch, string) {},
		"pending":    func(b *affiliatev1.PayoutBatch, _ string) { f.confirm(b) },
		"processing": func(b *affiliatev1.PayoutBatch, _ string) { f.confirm(b); f.send(b) },
		"paid":       func(b *affiliatev1.PayoutBatch, id string) { f.confirm(b); f.mustMove(id, "paid") },
		"failed":     func(b *affiliatev1.PayoutBatch, id string) { f.confirm(b); f.mustMove(id, "failed") },
		"canceled":   func(_ *affiliatev1.PayoutBatch, id string) { f.mustMove(id, "cancel") },
	}
	legal := map[string]string{
		"draft": "cancel", "pending": "paid failed cancel", "processing": "paid failed", "paid": "", "failed": "retry cancel", "canceled": "",
	}
	for from, set := range setStatus {
		for _, move := range []string{"paid", "failed", "retry", "cancel"} {
			p := f.partner(from + move)
			f.addCommission(p, 100)
			b := f.mustCreateBatch()
			id := f.onlyPayout(b).Id
			set(b, id)
			_, err := f.move(id, move)
			if slices.Contains(strings.Fields(legal[from]), move) {
				if err != nil {
					t.Errorf("%s of %s: %v", move, from, err)
				}
			} else if status := pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)["status"]; status != from {
				t.Errorf("%s of %s: status %s", move, from, status)
			}
			// The review flag keeps the remaining commissions out of the next batch.
			f.Exec(`update commissions set needs_review = true where status = 'approved' and payout_id is null`)
		}
	}
	f.checkConsistency()
}

func TestExportPayoutBatch(t *testing.T) {
	f := newFixture(t, pgtest.Row{"name": "=Prog"})
	anna, bank, wise, yen := f.partner("Anna"), f.partner("Bank"), f.partner("Wise"), f.partner("Yuko")
	f.setMethod(bank, affiliate.PayoutAccount{Method: affiliate.PayoutBankTransfer, Account: "DE89370400440532013000", Holder: "Bank, B."})
	f.setMethod(wise, affiliate.PayoutAccount{Method: affiliate.PayoutWise, Account: "w@example.com"})
	f.addCommission(anna, 5)
	f.addCommission(bank, 123456)
	f.addCommission(wise, 300)
	f.addCommission(yen, 700, inCurrency("JPY"))
	b := f.mustCreateBatch()
	_, err := f.export(b, 0)
	if status := pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)["status"]; status != "draft" {
		t.Errorf("status %s", status)
	}
	f.confirm(b)
	export := func(format affiliatev1.PayoutExportFormat, columns ...int) []string {
		t.Helper()
		d, err := f.export(b, format)
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
		var lines []string
		for _, row := range rows {
			var cells []string
			for _, i := range columns {
				cells = append(cells, row[i])
			}
			lines = append(lines, strings.Join(cells, "|"))
		}
		return lines
	}
	check := func(format string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", format, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	check("paypal", export(affiliatev1.PayoutExportFormat_PAYOUT_EXPORT_FORMAT_PAYPAL, 0, 1, 2, 4, 5),
		"Recipient|Amount|Currency|Note|Recipient wallet", "Anna@example.com|0.05|EUR|'=Prog|PAYPAL", "Yuko@example.com|700|JPY|'=Prog|PAYPAL")
	if n := f.Count(`select count(*) from payouts where status = 'pending'`); n != 2 {
		t.Errorf("%d payouts are pending, want the 2 that are not in PayPal's file", n)
	}
	check("wise", export(affiliatev1.PayoutExportFormat_PAYOUT_EXPORT_FORMAT_WISE, 0, 1, 3, 6),
		"name|recipientEmail|amount|targetCurrency", "Wise|w@example.com|3.00|EUR")
	for range 2 { // the second export has the same content
		check("generic", export(0, 1, 3, 4, 5, 6, 7, 8, 9),
			"programName|partnerName|amountCents|amount|currency|method|account|accountHolder",
			"'=Prog|Anna|5|0.05|EUR|paypal|Anna@example.com|", "'=Prog|Bank|123456|1234.56|EUR|bank_transfer|DE89370400440532013000|Bank, B.",
			"'=Prog|Wise|300|3.00|EUR|wise|w@example.com|", "'=Prog|Yuko|700|700|JPY|paypal|Yuko@example.com|")
	}
	f.checkConsistency()
	if n := f.Count(`select count(*) from events where type = 'payout.processing'`); n != 4 {
		t.Errorf("%d events", n)
	}
	if got := slices.Sorted(slices.Values(f.AuditActions("payout_batch", b.Id))); !slices.Equal(got, []string{
		"payout_batch.confirm", "payout_batch.create", "payout_batch.export", "payout_batch.export", "payout_batch.export", "payout_batch.export",
	}) {
		t.Errorf("%v", got)
	}
	if n := f.Count(`select count(*) from audit_log where after::text like '%example.com%' or after::text like '%DE89%'`); n != 0 {
		t.Error("the audit log contains payout accounts")
	}
	for _, p := range f.payouts(b) {
		f.mustMove(p.Id, "paid")
	}
	_, err = f.export(b, 0)
	pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)
}

// A payout is paid while its commissions are refunded and rejected. In every order the
// ledger has the commissions' amounts and the amount that was sent.
func TestMarkPayoutPaid_InParallelWithRefundsAndRejections(t *testing.T) {
	f := newFixture(t)
	for round := range 6 {
		anna := f.partner("Anna")
		ids := make([]affiliate.CommissionID, 6)
		for i := range ids {
			ids[i] = f.addCommission(anna, 100)
		}
		b := f.confirm(f.mustCreateBatch())
		if round%2 == 0 {
			f.send(b)
		}
		id := f.onlyPayout(b).Id
		runParallel(1+2*len(ids), func(i int) {
			var err error
			switch {
			case i == 0:
				_, err = f.move(id, "paid")
			case i%2 == 0:
				err = f.refund(ids[(i-1)/2], int64(i%4)*20)
			default:
				err = f.moveCommission(ids[(i-1)/2], affiliate.MoveReject, affiliate.CommissionTransition{})
			}
			if reason := pgtest.ReasonOf(t, err); reason != "" && reason != affiliate.ReasonCommissionTerminal && reason != affiliate.ReasonPayoutState {
				t.Errorf("%v", err)
			}
		})
		f.checkConsistency()
		p := f.payout(id)
		sent := int(p.AmountCents)
		if p.Status == affiliatev1.PayoutStatus_PAYOUT_STATUS_CANCELED && round%2 == 1 { // all commissions were refunded or rejected before
			sent = 0
		} else if p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_PAID || round%2 == 0 && sent != 600 {
			t.Errorf("%v", p)
		}
		earned := f.Count(`select coalesce(sum(amount_cents), 0)::bigint from commissions where participant_id = $1 and status in ('approved', 'paid')`, anna.ID)
		if n := f.balance(anna); n != earned-sent {
			t.Errorf("the balance is %d, earned %d, sent %d", n, earned, sent)
		}
	}
}

func TestConfirmPayoutBatch_InParallelWithCancelIsCanceled(t *testing.T) {
	f := newFixture(t)
	for range 6 {
		f.addCommission(f.partner("Anna"), 100)
		b := f.mustCreateBatch()
		id := f.onlyPayout(b).Id
		runParallel(3, func(i int) {
			var err error
			switch i {
			case 0:
				_, err = f.service.ConfirmPayoutBatch(f.asFinance(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
			case 1:
				_, err = f.service.CancelPayoutBatch(f.asFinance(), &affiliatev1.CancelPayoutBatchRequest{BatchId: b.Id})
			default:
				_, err = f.move(id, "cancel")
			}
			if reason := pgtest.ReasonOf(t, err); reason != "" && reason != affiliate.ReasonPayoutState {
				t.Errorf("%v", err)
			}
		})
		if p := f.payout(id); p.Status != affiliatev1.PayoutStatus_PAYOUT_STATUS_CANCELED {
			t.Errorf("%v is not canceled", p)
		}
		f.checkConsistency()
		f.Exec(`update commissions set needs_review = true`)
	}
}

// A payout is sent, paid and failed in parallel. After that it is retried while another
// batch is created from the same commissions.
func TestMovePayout_InParallel(t *testing.T) {
	f := newFixture(t)
	for range 6 {
		anna := f.partner("Anna")
		f.addCommission(anna, 100)
		f.addEntry(anna, affiliate.EntryBonus, 10)
		b := f.confirm(f.mustCreateBatch())
		id := f.onlyPayout(b).Id
		succeeded := make([]bool, 4)
		runParallel(4, func(i int) {
			var err error
			switch i {
			case 0:
				_, err = f.export(b, 0)
			case 1:
				_, err = f.move(id, "paid")
			default:
				_, err = f.move(id, "failed")
			}
			succeeded[i] = pgtest.ReasonOf(t, err) == ""
		})
		if n := len(slices.DeleteFunc(succeeded[1:], func(ok bool) bool { return !ok })); n != 1 {
			t.Errorf("%d of the paid and failed calls succeeded, want 1", n)
		}
		f.checkConsistency()
		runParallel(2, func(i int) {
			var err error
			if i == 0 {
				_, err = f.move(id, "retry")
			} else {
				_, err = f.createBatch()
			}
			if reason := pgtest.ReasonOf(t, err); reason != "" && reason != affiliate.ReasonPayoutState {
				t.Errorf("%v", err)
			}
		})
		f.checkConsistency()
		f.Exec(`update commissions set needs_review = true where payout_id is null`)
	}
}
