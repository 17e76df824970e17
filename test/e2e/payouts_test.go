package e2e_test

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"
)

const batchesPath = "/api/v1/payouts/batches"

func (w world) batch(t testing.TB, body object) response {
	t.Helper()
	return w.merchant.with("Idempotency-Key", uniqueName("batch")).post(t, batchesPath, body)
}

func (w world) balance(t *testing.T) int64 {
	t.Helper()
	got := w.merchant.get(t, w.participantPath()+"/ledger").want(http.StatusOK)
	if got.length("balances") == 0 {
		return 0
	}
	return got.number("balances.0.balanceCents")
}

// TestPayouts tests the way from an owed balance to a payment, and back.
func TestPayouts(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "live", rules(object{"holdPeriodDays": 0}))
	click := w.click(t)
	first := w.sell(t, click, nil)
	id := first.text("commission.id")
	line := func(field string, value any) object { return object{"total": 1, "data.0." + field: value} }
	preview := func(t *testing.T) response {
		t.Helper()
		return w.merchant.post(t, "/api/v1/payouts/preview", object{}).want(http.StatusOK)
	}

	preview(t).wantFields(line("excludedBecause", "no_payout_method"))
	w.batch(t, object{}).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
	w.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com"}).want(http.StatusOK)
	w.merchant.patch(t, w.programPath(), object{"minPayoutCents": 2001}).want(http.StatusOK)
	preview(t).wantFields(line("excludedBecause", "below_minimum"))
	w.merchant.patch(t, w.programPath(), object{"minPayoutCents": 2000, "payoutTermDays": 1}).want(http.StatusOK)
	preview(t).wantFields(object{"total": 0, "data": []any{}, "totals": []any{}})
	w.merchant.patch(t, w.programPath(), object{"payoutTermDays": 0}).want(http.StatusOK)
	preview(t).wantFields(object{
		"total": 1, "totals": []any{object{"currency": "USD", "payoutCount": 1, "amountCents": 2000}}, "data.0.excludedBecause": nil, "data.0.method": "paypal",
		"data.0.participantId": w.participant, "data.0.commissionCount": 1, "data.0.commissionCents": 2000, "data.0.adjustmentCents": 0, "data.0.amountCents": 2000,
	})

	t.Run("idempotency keys are checked", func(t *testing.T) {
		for _, key := range []string{"", "has space", strings.Repeat("x", 81), "ü"} {
			w.merchant.with("Idempotency-Key", key).post(t, batchesPath, object{}).wantError(http.StatusBadRequest, "IDEMPOTENCY_KEY_REQUIRED")
		}
		w.batch(t, object{"cutoff": "tomorrow"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "cutoff")
		w.batch(t, object{"programIds": []string{"x"}}).wantOutcome(invalid)
	})

	keyed := w.merchant.with("Idempotency-Key", "october")
	batch := keyed.post(t, batchesPath, object{}).want(http.StatusCreated).wantFields(object{
		"status": "draft", "payoutCount": 1, "totals": []any{object{"currency": "USD", "payoutCount": 1, "amountCents": 2000}}, "byStatus.draft": 1, "createdBy": w.merchant.id,
	})
	path := batchesPath + "/" + batch.text("id")
	payout := "/api/v1/payouts/" + w.merchant.get(t, "/api/v1/payouts?batchId="+batch.text("id")).want(http.StatusOK).text("data.0.id")
	t.Run("the same key returns the same response", func(t *testing.T) {
		again := keyed.post(t, batchesPath, object{}).want(http.StatusCreated)
		if again.body != batch.body || again.header.Get("Idempotent-Replayed") != "true" || batch.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s\n%s %v", batch.body, again.body, again.header)
		}
		keyed.post(t, batchesPath, object{"programIds": []string{w.program}}).wantError(http.StatusConflict, "IDEMPOTENCY_KEY_REUSED")
	})
	t.Run("a commission is in at most one open payout", func(t *testing.T) {
		preview(t).wantFields(object{"total": 0})
		w.batch(t, object{}).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		w.merchant.get(t, w.commissionPath(id)).wantFields(object{"status": "approved", "payoutId": strings.TrimPrefix(payout, "/api/v1/payouts/")})
	})
	t.Run("a draft cannot be sent", func(t *testing.T) {
		w.merchant.get(t, path+"/export").wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		w.merchant.patch(t, payout+"/mark-paid", object{"reference": "x"}).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		w.partner.get(t, "/api/v1/partner/payouts").want(http.StatusOK).wantFields(object{"total": 0})
	})
	t.Run("confirmed, exported, failed, retried, paid", func(t *testing.T) {
		w.merchant.post(t, path+"/confirm", nil).want(http.StatusOK).wantFields(object{"status": "confirmed", "confirmedBy": w.merchant.id, "byStatus.pending": 1})
		w.merchant.post(t, path+"/confirm", nil).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		if cents := w.balance(t); cents != 2000 {
			t.Errorf("balance before the export: %d", cents)
		}
		for _, format := range []string{"", "?format=generic", "?format=paypal", "?format=wise"} {
			got := w.merchant.get(t, path+"/export"+format).want(http.StatusOK)
			rows, err := csv.NewReader(strings.NewReader(got.body)).ReadAll()
			if err != nil || len(rows) < 1 || format != "?format=wise" && (len(rows) != 2 || !strings.Contains(got.body, "pia@example.com") || !strings.Contains(got.body, "20.00")) {
				t.Errorf("%s: %v %s", format, err, got.body)
			}
		}
		w.merchant.get(t, path+"/export?format=excel").wantOutcome(invalid)
		w.merchant.get(t, payout).want(http.StatusOK).wantFields(object{"status": "processing", "commissions.0.commissionId": id, "commissions.0.amountCents": 2000, "accountHint": "p***@example.com"})
		if cents := w.balance(t); cents != 0 {
			t.Errorf("balance after the export: %d", cents)
		}
		w.merchant.patch(t, payout+"/mark-failed", object{"reason": "Account closed"}).want(http.StatusOK).wantFields(object{"status": "failed", "failureReason": "Account closed"})
		w.merchant.get(t, w.commissionPath(id)).wantFields(object{"status": "approved", "payoutId": nil})
		w.merchant.get(t, path).wantFields(object{"status": "partially_failed"})
		if cents := w.balance(t); cents != 2000 {
			t.Errorf("balance after the payout failed: %d", cents)
		}
		w.merchant.patch(t, payout+"/retry", nil).want(http.StatusOK).wantFields(object{"status": "pending", "amountCents": 2000})
		w.merchant.patch(t, payout+"/mark-paid", object{"reference": "tx-1"}).want(http.StatusOK).wantFields(object{"status": "paid", "reference": "tx-1"}).instant("paidAt")
		w.merchant.get(t, w.commissionPath(id)).wantFields(object{"status": "paid", "history.1.to": "paid"}).instant("paidAt")
		w.merchant.get(t, path).wantFields(object{"status": "completed", "byStatus.paid": 1})
		w.partner.get(t, "/api/v1/partner/payouts").want(http.StatusOK).wantFields(object{"total": 1, "data.0.status": "paid", "data.0.amountCents": 2000, "data.0.reference": "tx-1"})
		w.partner.get(t, "/api/v1/partner/balances").want(http.StatusOK).wantFields(object{"balances.0.balanceCents": 0, "balances.0.paidCents": 2000})
		for _, move := range []string{"/retry", "/cancel"} {
			w.merchant.patch(t, payout+move, nil).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		}
	})
	t.Run("a refund after the payment reduces the next payout", func(t *testing.T) {
		w.refund(t, first.text("external_transaction_id"), nil).want(http.StatusCreated).wantFields(object{"commission.status": "refunded"})
		w.merchant.get(t, w.commissionPath(id)).wantFields(object{"status": "refunded", "payoutId": strings.TrimPrefix(payout, "/api/v1/payouts/")}).instant("paidAt")
		w.merchant.get(t, w.participantPath()+"/ledger").wantFields(object{"data.0.type": "clawback", "data.0.amountCents": -2000, "balances.0.balanceCents": -2000})
		w.sell(t, click, nil)
		w.merchant.patch(t, w.programPath(), object{"minPayoutCents": 0}).want(http.StatusOK)
		preview(t).wantFields(line("excludedBecause", "below_minimum"))
		w.merchant.post(t, w.participantPath()+"/ledger", object{"type": "bonus", "amountCents": 500, "reason": "For the trouble"}).want(http.StatusCreated).
			wantFields(object{"type": "bonus", "amountCents": 500, "currency": "USD", "createdBy": w.merchant.id, "commissionId": nil})
		preview(t).wantFields(object{"data.0.commissionCents": 2000, "data.0.adjustmentCents": -1500, "data.0.amountCents": 500})
		made := w.batch(t, object{"programIds": []string{w.program}}).want(http.StatusCreated).wantFields(object{"totals.0.amountCents": 500})
		w.merchant.post(t, batchesPath+"/"+made.text("id")+"/confirm", nil).want(http.StatusOK)
		next := w.merchant.get(t, "/api/v1/payouts?status=pending").want(http.StatusOK).wantFields(object{"total": 1, "data.0.adjustmentCents": -1500})
		w.merchant.patch(t, "/api/v1/payouts/"+next.text("data.0.id")+"/mark-paid", object{"reference": "tx-2"}).want(http.StatusOK)
		if cents := w.balance(t); cents != 0 {
			t.Errorf("balance %d", cents)
		}
		w.partner.get(t, "/api/v1/partner/ledger?type=bonus").want(http.StatusOK).wantFields(object{"total": 1, "data.0.reason": "For the trouble"})
	})
	t.Run("manual ledger entries", func(t *testing.T) {
		entry := func(body object) response { return w.merchant.post(t, w.participantPath()+"/ledger", body) }
		entry(object{"type": "adjustment", "amountCents": -70, "currency": "eur", "reason": "Fee"}).want(http.StatusCreated).wantFields(object{"amountCents": -70, "currency": "EUR"})
		entry(object{"type": "bonus", "amountCents": -1, "reason": "x"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amountCents")
		entry(object{"type": "adjustment", "amountCents": 0, "reason": "x"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amountCents")
		entry(object{"type": "payout", "amountCents": 5, "reason": "x"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "type")
		entry(object{"type": "bonus", "amountCents": 5, "currency": "XXX", "reason": " "}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "currency", "reason")
	})
	t.Run("canceled", func(t *testing.T) {
		w.sell(t, click, nil)
		made := w.batch(t, object{}).want(http.StatusCreated).text("id")
		w.merchant.post(t, batchesPath+"/"+made+"/cancel", nil).want(http.StatusOK).wantFields(object{"status": "canceled", "byStatus.canceled": 1})
		w.merchant.post(t, batchesPath+"/"+made+"/cancel", nil).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		w.merchant.get(t, batchesPath+"?status=canceled").want(http.StatusOK).wantFields(object{"total": 1, "data.0.id": made})
		preview(t).wantFields(object{"data.0.amountCents": 2000, "data.1.excludedBecause": "negative_balance", "data.1.currency": "EUR"})
	})
	t.Run("one of many concurrent batches gets the payouts", func(t *testing.T) {
		responses := concurrently(8, func(int) response { return w.batch(t, object{}) })
		if got := countStatuses(responses); got["201"] != 1 || got["409 PAYOUT_STATE_INVALID"] != 7 {
			t.Errorf("%v", got)
		}
	})
	t.Run("a payout that is no longer payable is not sent", func(t *testing.T) {
		own := sys.worldOf(t, w.merchant, sys.partner(t).in("live"), rules(object{"holdPeriodDays": 0}))
		own.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "wise", "account": "pia@example.com"}).want(http.StatusOK)
		commission := own.sell(t, own.click(t), nil).text("commission.id")
		confirmed := func() (path, payout string) {
			made := own.batch(t, object{"programIds": []string{own.program}}).want(http.StatusCreated).text("id")
			own.merchant.post(t, batchesPath+"/"+made+"/confirm", nil).want(http.StatusOK)
			return batchesPath + "/" + made, "/api/v1/payouts/" + own.merchant.get(t, "/api/v1/payouts?batchId="+made).text("data.0.id")
		}
		path, payout := confirmed()
		own.merchant.patch(t, own.participantPath()+"/suspend", nil).want(http.StatusOK)
		if got := own.merchant.get(t, path+"/export").want(http.StatusOK); strings.Contains(got.body, "pia@example.com") {
			t.Errorf("the export contains a suspended partner: %s", got.body)
		}
		own.merchant.get(t, payout).want(http.StatusOK).wantFields(object{"status": "canceled"})
		own.merchant.patch(t, own.participantPath()+"/reinstate", nil).want(http.StatusOK)
		_, payout = confirmed()
		own.merchant.patch(t, payout+"/mark-failed", object{"reason": "Closed"}).want(http.StatusOK)
		own.merchant.patch(t, own.commissionPath(commission)+"/reject", nil).want(http.StatusOK)
		own.merchant.post(t, own.participantPath()+"/ledger", object{"type": "bonus", "amountCents": 700, "reason": "Sorry"}).want(http.StatusCreated)
		own.merchant.patch(t, payout+"/retry", nil).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
	})
	sys.wantPermissionDenied(t, "set role tributary_app; update ledger_entries set amount_cents = 0")
	sys.wantPermissionDenied(t, "set role tributary_app; delete from ledger_entries")
}

// TestPayouts_FollowTheirCommissions checks that a payout that was not sent is reduced
// when its commissions are reduced.
func TestPayouts_FollowTheirCommissions(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", rules(object{"holdPeriodDays": 0}))
	w.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com"}).want(http.StatusOK)
	click := w.click(t)
	other := sys.partner(t).in("test")
	place := other.post(t, w.applyPath(), object{"referralCode": uniqueName("ria")}).want(http.StatusCreated).text("id")
	w.merchant.patch(t, w.programPath()+"/partners/"+place+"/approve", nil).want(http.StatusOK)

	for _, status := range []string{"draft", "pending"} {
		t.Run(status, func(t *testing.T) {
			sales := make([]response, 5)
			for i := range sales {
				fields := object{}
				if i == 4 { // so that its fraud event is the newest
					fields["customer_email"] = strings.Replace(w.partner.email, "@", "+shop@", 1)
				}
				sales[i] = w.sell(t, click, fields)
			}
			batch := w.batch(t, object{}).want(http.StatusCreated).text("id")
			if status == "pending" {
				w.merchant.post(t, batchesPath+"/"+batch+"/confirm", nil).want(http.StatusOK)
			}
			payout := "/api/v1/payouts/" + w.merchant.get(t, "/api/v1/payouts?batchId="+batch).want(http.StatusOK).text("data.0.id")
			wantPayout := func(status string, amount, commissions int64) {
				t.Helper()
				w.merchant.get(t, payout).want(http.StatusOK).wantFields(object{"status": status, "amountCents": amount, "commissionCount": commissions})
			}
			wantPayout(status, 10_000, 5)

			w.merchant.patch(t, w.commissionPath(sales[0].text("commission.id"))+"/reject", nil).want(http.StatusOK).wantFields(object{"payoutId": nil})
			wantPayout(status, 8_000, 4)
			external := sales[1].text("external_transaction_id")
			w.refund(t, external, object{"amount_cents": 5000}).want(http.StatusCreated).wantFields(object{"commission.amount_cents": 1000})
			wantPayout(status, 7_000, 4)
			w.refund(t, external, nil).want(http.StatusCreated).wantFields(object{"commission.status": "refunded"})
			wantPayout(status, 6_000, 3)
			w.merchant.post(t, "/api/v1/conversions/"+sales[2].text("id")+"/reattribute", object{"participant_id": place, "reason": "Ria's"}).want(http.StatusOK)
			wantPayout(status, 4_000, 2)
			event := w.merchant.get(t, "/api/v1/fraud/events?status=open").want(http.StatusOK).text("data.0.id")
			w.merchant.post(t, "/api/v1/fraud/events/"+event+"/resolve", object{"outcome": "confirmed"}).want(http.StatusOK)
			wantPayout(status, 2_000, 1)
			w.merchant.patch(t, w.programPath()+"/commissions/bulk-reject", object{"commissionIds": []string{sales[3].text("commission.id")}}).want(http.StatusOK)
			wantPayout("canceled", 2_000, 1)
			w.merchant.get(t, batchesPath+"/"+batch).want(http.StatusOK).wantFields(object{"status": "canceled", "totals": []any{}})
			if cents := w.balance(t); cents != 0 {
				t.Errorf("the balance is %d", cents)
			}
		})
	}
}
