package payout_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Each payout of a bulk request succeeds or fails separately, with its own reference.
func TestBulkMarkPayouts(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"Anna", "Bert", "Cleo", "Dora"} {
		f.addCommission(f.partner(name), 100)
	}
	b := f.confirm(f.mustCreateBatch())
	f.clock.Advance(time.Hour)
	list := f.payouts(b)
	one, two, three, four := list[0].Id, list[1].Id, list[2].Id, list[3].Id
	other := f.otherShop()
	other.addCommission(other.partner("Emil"), 100)
	foreign := other.onlyPayout(other.confirm(other.mustCreateBatch())).Id

	paid, err := f.service.BulkMarkPayoutsPaid(f.asFinance(), &affiliatev1.BulkMarkPayoutsPaidRequest{Payouts: []*affiliatev1.PaidPayout{
		{PayoutId: one, Reference: "T-1"},
		{PayoutId: foreign, Reference: "T-2"},
		{PayoutId: strings.ToUpper(two), Reference: "T-3"},
		{PayoutId: three, Reference: "T-4", PaidAt: timestamppb.New(f.Now().Add(time.Hour))},
	}})
	wantResults(t, paid, err, "paid", "NOT_FOUND", "paid", "VALIDATION_ERROR")
	if got, want := paid.GetResults()[3].GetMessage(), "paidAt must not be in the future."; got != want {
		t.Errorf("the message of the last result is %q, want %q", got, want)
	}
	if got := f.payout(two); got.GetReference() != "T-3" || f.payout(one).GetReference() != "T-1" {
		t.Errorf("the second payout is %v, want the reference T-3", got)
	}
	failed, err := f.service.BulkMarkPayoutsFailed(f.asFinance(), &affiliatev1.BulkMarkPayoutsFailedRequest{Payouts: []*affiliatev1.FailedPayout{
		{PayoutId: one, Reason: "late"}, {PayoutId: three, Reason: "closed account"}, {PayoutId: four, Reason: "no account"},
	}})
	wantResults(t, failed, err, "PAYOUT_STATE_INVALID", "failed", "failed")
	if got := f.payout(four); got.GetFailureReason() != "no account" {
		t.Errorf("the last payout is %v, want its own reason", got)
	}
	_, err = f.service.BulkMarkPayoutsFailed(f.asFinance(), &affiliatev1.BulkMarkPayoutsFailedRequest{Payouts: []*affiliatev1.FailedPayout{{PayoutId: foreign, Reason: "x"}}})
	if err == nil || err.Error() != string(affiliate.ReasonBulkAllFailed) {
		t.Errorf("BulkMarkPayoutsFailed of a foreign payout returned %v, want BULK_ALL_FAILED", err)
	}
	f.WantCount(4, "audited moves", `select count(*) from audit_log where action in ('payout.mark_paid', 'payout.mark_failed')`)
	f.checkConsistency()
}

// wantResults checks the status of each successful result, and the code of each failed one.
func wantResults(t *testing.T, got *affiliatev1.BulkPayoutsResponse, err error, want ...string) {
	t.Helper()
	if err != nil || len(got.GetResults()) != len(want) || int(got.GetSummary().GetTotal()) != len(want) {
		t.Fatalf("the bulk request returned %v, error %v, want %q", got, err, want)
	}
	for i, r := range got.GetResults() {
		text := r.GetCode()
		if r.GetSuccess() {
			text = strings.ToLower(strings.TrimPrefix(r.GetStatus().String(), "PAYOUT_STATUS_"))
		}
		if text != want[i] || r.GetSuccess() != (r.GetStatusCode() == http.StatusOK) {
			t.Errorf("the result %d is %v, want %s", i, r, want[i])
		}
	}
}

func TestBulkMarkPayouts_RejectsRepeatedPayouts(t *testing.T) {
	f := newFixture(t)
	const id = "01936f2e-7c1a-7a3b-9d4e-5f60718293aa"
	found := f.service.Check(&affiliatev1.BulkMarkPayoutsPaidRequest{Payouts: []*affiliatev1.PaidPayout{
		{PayoutId: id, Reference: "a"}, {PayoutId: strings.ToUpper(id), Reference: "b", PaidAt: &timestamppb.Timestamp{Nanos: -1}},
	}})
	if len(found) != 2 || found[0].Field != "payouts[1].payout_id" || found[1].Field != "payouts[1].paid_at" {
		t.Errorf("Check returned %v, want violations of the id and of the time", found)
	}
}
