package e2e_test

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"
	"time"
)

const batchesPath = "/api/v1/payouts/batches"

func (f fixture) createBatch(t testing.TB, body object) response {
	t.Helper()
	return f.merchant.withHeader("Idempotency-Key", uniqueName("batch")).post(t, batchesPath, body)
}

func (f fixture) balance(t *testing.T) int64 {
	t.Helper()
	got := f.merchant.get(t, f.participantPath()+"/ledger").wantStatus(http.StatusOK)
	if got.length("balances") == 0 {
		return 0
	}
	return got.number("balances.0.balanceCents")
}

// testPayouts tests the payout of a balance: preview, batch, export, failure, retry and
// payment. It also tests a refund after the payment.
func testPayouts(t *testing.T, sys *system) {
	f := sys.newFixture(t, "live", rules(object{"holdPeriodDays": 0}))
	click := f.click(t)
	first := f.reportSale(t, click, nil)
	id := first.text("commission.id")
	firstLine := func(field string, value any) object { return object{"total": 1, "data.0." + field: value} }
	preview := func(t *testing.T) response {
		t.Helper()
		return f.merchant.post(t, "/api/v1/payouts/preview", object{}).wantStatus(http.StatusOK)
	}

	preview(t).wantFields(firstLine("excludedBecause", "no_payout_method"))
	f.createBatch(t, object{}).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID").wantFields(object{"context": object{"reason": "no_payout_method"}})
	set := f.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com", "password": password}).wantStatus(http.StatusOK)
	if hold := set.instant("heldUntil").Sub(set.instant("updatedAt")); hold != 72*time.Hour {
		t.Errorf("the first payout method of a partner with a balance is held for %v, want 72 hours", hold)
	}
	preview(t).wantFields(firstLine("excludedBecause", "payout_account_changed"))
	sys.exec(t, `update payout_methods set held_until = null where user_id = $1`, f.partner.id)
	f.merchant.patch(t, f.programPath(), object{"minPayoutCents": 2001}).wantStatus(http.StatusOK)
	preview(t).wantFields(firstLine("excludedBecause", "below_minimum"))
	f.merchant.patch(t, f.programPath(), object{"minPayoutCents": 2000, "payoutTermDays": 1}).wantStatus(http.StatusOK)
	preview(t).wantFields(object{"total": 0, "data": []any{}, "totals": []any{}})
	f.merchant.patch(t, f.programPath(), object{"payoutTermDays": 0}).wantStatus(http.StatusOK)
	preview(t).wantFields(object{
		"total": 1, "totals": []any{object{"currency": "USD", "payoutCount": 1, "amountCents": 2000}}, "data.0.excludedBecause": nil, "data.0.method": "paypal",
		"data.0.participantId": f.participant, "data.0.commissionCount": 1, "data.0.commissionCents": 2000, "data.0.adjustmentCents": 0, "data.0.amountCents": 2000,
	})

	t.Run("a batch needs a valid idempotency key", func(t *testing.T) {
		for _, key := range []string{"", "has space", strings.Repeat("x", 81), "ü"} {
			f.merchant.withHeader("Idempotency-Key", key).post(t, batchesPath, object{}).wantError(http.StatusBadRequest, "IDEMPOTENCY_KEY_REQUIRED")
		}
		f.createBatch(t, object{"cutoff": "tomorrow"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "cutoff")
		f.createBatch(t, object{"programIds": []string{"x"}}).wantOutcome(invalid)
	})

	keyed := f.merchant.withHeader("Idempotency-Key", "october")
	batch := keyed.post(t, batchesPath, object{}).wantStatus(http.StatusCreated).wantFields(object{
		"status": "draft", "payoutCount": 1, "totals": []any{object{"currency": "USD", "payoutCount": 1, "amountCents": 2000}}, "byStatus.draft": 1, "createdBy": f.merchant.id,
	})
	path := batchesPath + "/" + batch.text("id")
	payout := "/api/v1/payouts/" + f.merchant.get(t, "/api/v1/payouts?batchId="+batch.text("id")).wantStatus(http.StatusOK).text("data.0.id")
	t.Run("the same key returns the same response", func(t *testing.T) {
		again := keyed.post(t, batchesPath, object{}).wantStatus(http.StatusCreated)
		if again.body != batch.body || again.header.Get("Idempotent-Replayed") != "true" || batch.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("the repeated request got another response, or Idempotent-Replayed is wrong:\nfirst    %s %v\nrepeated %s %v", batch.body, batch.header, again.body, again.header)
		}
		keyed.post(t, batchesPath, object{"programIds": []string{f.program}}).wantError(http.StatusConflict, "IDEMPOTENCY_KEY_REUSED")
	})
	t.Run("a commission is in at most one open payout", func(t *testing.T) {
		preview(t).wantFields(object{"total": 0})
		f.createBatch(t, object{}).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID").wantNoContext()
		f.merchant.get(t, f.commissionPath(id)).wantFields(object{"status": "approved", "payoutId": strings.TrimPrefix(payout, "/api/v1/payouts/")})
	})
	t.Run("a batch must be confirmed before it is exported", func(t *testing.T) {
		f.merchant.get(t, path+"/export").wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		f.merchant.post(t, path+"/process", nil).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		f.merchant.patch(t, payout+"/mark-paid", object{"reference": "x"}).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		f.partner.get(t, "/api/v1/partner/payouts").wantStatus(http.StatusOK).wantFields(object{"total": 0})
	})
	t.Run("a payout is confirmed, processed, exported, failed, retried and paid", func(t *testing.T) {
		f.merchant.post(t, path+"/confirm", nil).wantStatus(http.StatusOK).wantFields(object{"status": "confirmed", "confirmedBy": f.merchant.id, "byStatus.pending": 1})
		f.merchant.post(t, path+"/confirm", nil).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		if cents := f.balance(t); cents != 2000 {
			t.Errorf("the balance before the processing is %d, want 2000", cents)
		}
		f.merchant.get(t, payout).wantStatus(http.StatusOK).wantFields(object{"status": "pending", "accountHint": "p***@example.com"})
		f.merchant.get(t, path+"/export").wantStatus(http.StatusOK)
		f.merchant.get(t, payout).wantStatus(http.StatusOK).wantFields(object{"status": "pending"})
		f.merchant.post(t, path+"/process", nil).wantStatus(http.StatusOK).wantFields(object{"status": "processing", "byStatus.processing": 1})
		for _, format := range []string{"", "?format=generic", "?format=paypal", "?format=wise"} {
			got := f.merchant.get(t, path+"/export"+format).wantStatus(http.StatusOK)
			rows, err := csv.NewReader(strings.NewReader(got.body)).ReadAll()
			if err != nil || len(rows) < 1 || format != "?format=wise" && (len(rows) != 2 || !strings.Contains(got.body, "pia@example.com") || !strings.Contains(got.body, "20.00")) {
				t.Errorf("the export with the query %q is wrong (error %v):\n%s", format, err, got.body)
			}
			if parts := got.header.Get("Export-Parts"); parts != "1" {
				t.Errorf("the export with the query %q has the header Export-Parts %q, want 1", format, parts)
			}
		}
		f.merchant.get(t, path+"/export?format=excel").wantOutcome(invalid)
		f.merchant.get(t, path+"/export?currency=XXY").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "currency")
		f.merchant.get(t, path+"/export?format=paypal&part=2").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "part")
		f.merchant.get(t, payout).wantStatus(http.StatusOK).wantFields(object{"status": "processing", "commissions.0.commissionId": id, "commissions.0.amountCents": 2000, "accountHint": "p***@example.com"})
		if cents := f.balance(t); cents != 0 {
			t.Errorf("the balance after the processing is %d, want 0", cents)
		}
		f.merchant.patch(t, payout+"/mark-failed", object{"reason": "Account closed"}).wantStatus(http.StatusOK).wantFields(object{"status": "failed", "failureReason": "Account closed"})
		f.merchant.get(t, f.commissionPath(id)).wantFields(object{"status": "approved", "payoutId": nil})
		f.merchant.get(t, path).wantFields(object{"status": "partially_failed"})
		if cents := f.balance(t); cents != 2000 {
			t.Errorf("the balance after the failed payout is %d, want 2000", cents)
		}
		f.merchant.patch(t, payout+"/retry", nil).wantStatus(http.StatusOK).wantFields(object{"status": "pending", "amountCents": 2000})
		f.merchant.patch(t, payout+"/mark-paid", object{"reference": "tx-1"}).wantStatus(http.StatusOK).wantFields(object{"status": "paid", "reference": "tx-1"}).instant("paidAt")
		f.merchant.get(t, f.commissionPath(id)).wantFields(object{"status": "paid", "history.1.to": "paid"}).instant("paidAt")
		f.merchant.get(t, path).wantFields(object{"status": "completed", "byStatus.paid": 1})
		f.partner.get(t, "/api/v1/partner/payouts").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.status": "paid", "data.0.amountCents": 2000, "data.0.reference": "tx-1"})
		f.partner.get(t, "/api/v1/partner/balances").wantStatus(http.StatusOK).wantFields(object{"balances.0.balanceCents": 0, "balances.0.paidCents": 2000})
		for _, action := range []string{"/retry", "/cancel"} {
			f.merchant.patch(t, payout+action, nil).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		}
	})
	t.Run("a refund after the payment reduces the next payout", func(t *testing.T) {
		f.refund(t, first.text("external_transaction_id"), nil).wantStatus(http.StatusCreated).wantFields(object{"commission.status": "refunded"})
		f.merchant.get(t, f.commissionPath(id)).wantFields(object{"status": "refunded", "payoutId": strings.TrimPrefix(payout, "/api/v1/payouts/")}).instant("paidAt")
		f.merchant.get(t, f.participantPath()+"/ledger").wantFields(object{"data.0.type": "clawback", "data.0.amountCents": -2000, "balances.0.balanceCents": -2000})
		f.reportSale(t, click, nil)
		f.merchant.patch(t, f.programPath(), object{"minPayoutCents": 0}).wantStatus(http.StatusOK)
		preview(t).wantFields(firstLine("excludedBecause", "below_minimum"))
		f.merchant.post(t, f.participantPath()+"/ledger", object{"type": "bonus", "amountCents": 500, "reason": "For the trouble"}).wantStatus(http.StatusCreated).
			wantFields(object{"type": "bonus", "amountCents": 500, "currency": "USD", "createdBy": f.merchant.id, "commissionId": nil})
		preview(t).wantFields(object{"data.0.commissionCents": 2000, "data.0.adjustmentCents": -1500, "data.0.amountCents": 500})
		created := f.createBatch(t, object{"programIds": []string{f.program}}).wantStatus(http.StatusCreated).wantFields(object{"totals.0.amountCents": 500})
		f.merchant.post(t, batchesPath+"/"+created.text("id")+"/confirm", nil).wantStatus(http.StatusOK)
		next := f.merchant.get(t, "/api/v1/payouts?status=pending").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.adjustmentCents": -1500})
		f.merchant.patch(t, "/api/v1/payouts/"+next.text("data.0.id")+"/mark-paid", object{"reference": "tx-2"}).wantStatus(http.StatusOK)
		if cents := f.balance(t); cents != 0 {
			t.Errorf("the balance after the second payment is %d, want 0", cents)
		}
		f.partner.get(t, "/api/v1/partner/ledger?type=bonus").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.reason": "For the trouble"})
	})
	t.Run("manual ledger entries", func(t *testing.T) {
		entry := func(body object) response { return f.merchant.post(t, f.participantPath()+"/ledger", body) }
		entry(object{"type": "adjustment", "amountCents": -70, "currency": "eur", "reason": "Fee"}).wantStatus(http.StatusCreated).wantFields(object{"amountCents": -70, "currency": "EUR"})
		entry(object{"type": "bonus", "amountCents": -1, "reason": "x"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amountCents")
		entry(object{"type": "adjustment", "amountCents": 0, "reason": "x"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amountCents")
		entry(object{"type": "payout", "amountCents": 5, "reason": "x"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "type")
		entry(object{"type": "bonus", "amountCents": 5, "currency": "XXX", "reason": " "}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "currency", "reason")
	})
	t.Run("a large batch needs two members", func(t *testing.T) {
		approval := func(cents any) response {
			return f.merchant.patch(t, "/api/v1/workspace", object{"payoutApproval": object{"secondPersonAboveCents": cents}})
		}
		approval(-1).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "payoutApproval.secondPersonAboveCents")
		approval(1999).wantStatus(http.StatusOK).wantFields(object{"payoutApproval.secondPersonAboveCents": 1999})
		f.reportSale(t, click, nil)
		created := f.createBatch(t, object{}).wantStatus(http.StatusCreated).wantFields(object{"firstConfirmedBy": nil, "confirmedByName": nil}).text("id")
		confirm := batchesPath + "/" + created + "/confirm"
		f.merchant.post(t, confirm, nil).wantStatus(http.StatusOK).wantFields(object{"status": "awaiting_approval", "firstConfirmedBy": f.merchant.id, "confirmedBy": nil})
		f.merchant.post(t, confirm, nil).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		f.merchant.get(t, batchesPath+"?status=awaiting_approval").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.id": created})
		finance := f.merchant.addMember(t, "finance").inMode("live")
		finance.post(t, confirm, nil).wantStatus(http.StatusOK).wantFields(object{"status": "confirmed", "firstConfirmedBy": f.merchant.id, "confirmedBy": finance.id})
		f.merchant.post(t, batchesPath+"/"+created+"/cancel", nil).wantStatus(http.StatusOK)
		f.merchant.patch(t, "/api/v1/workspace", object{"payoutApproval": nil}).wantStatus(http.StatusOK).wantFields(object{"payoutApproval.secondPersonAboveCents": nil})
	})
	t.Run("after a batch was canceled, its balances are payable again", func(t *testing.T) {
		created := f.createBatch(t, object{}).wantStatus(http.StatusCreated).text("id")
		f.merchant.post(t, batchesPath+"/"+created+"/cancel", nil).wantStatus(http.StatusOK).wantFields(object{"status": "canceled", "byStatus.canceled": 1})
		f.merchant.post(t, batchesPath+"/"+created+"/cancel", nil).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		f.merchant.get(t, batchesPath+"?status=canceled").wantStatus(http.StatusOK).wantFields(object{"total": 2, "data.0.id": created})
		preview(t).wantFields(object{"data.0.amountCents": 2000, "data.1.excludedBecause": "negative_balance", "data.1.currency": "EUR"})
	})
	t.Run("only one of many concurrent requests creates a batch", func(t *testing.T) {
		responses := concurrently(8, func(int) response { return f.createBatch(t, object{}) })
		if got := countStatuses(responses); got["201"] != 1 || got["409 PAYOUT_STATE_INVALID"] != 7 {
			t.Errorf("eight concurrent requests got %v, want one 201 and seven PAYOUT_STATE_INVALID", got)
		}
	})
	t.Run("a payout that is no longer payable is not sent", func(t *testing.T) {
		own := sys.newFixtureFor(t, f.merchant, sys.newPartner(t).inMode("live"), rules(object{"holdPeriodDays": 0}))
		own.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "wise", "account": "pia@example.com", "password": password}).wantStatus(http.StatusOK)
		commission := own.reportSale(t, own.click(t), nil).text("commission.id")
		createConfirmed := func() (path, payout string) {
			created := own.createBatch(t, object{"programIds": []string{own.program}}).wantStatus(http.StatusCreated).text("id")
			own.merchant.post(t, batchesPath+"/"+created+"/confirm", nil).wantStatus(http.StatusOK)
			return batchesPath + "/" + created, "/api/v1/payouts/" + own.merchant.get(t, "/api/v1/payouts?batchId="+created).text("data.0.id")
		}
		path, payout := createConfirmed()
		own.merchant.patch(t, own.participantPath()+"/suspend", nil).wantStatus(http.StatusOK)
		own.merchant.post(t, path+"/process", nil).wantStatus(http.StatusOK).wantFields(object{"status": "canceled"})
		own.merchant.get(t, path+"/export").wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
		own.merchant.get(t, payout).wantStatus(http.StatusOK).wantFields(object{"status": "canceled"})
		own.merchant.patch(t, own.participantPath()+"/reinstate", nil).wantStatus(http.StatusOK)
		_, payout = createConfirmed()
		own.merchant.patch(t, payout+"/mark-failed", object{"reason": "Closed"}).wantStatus(http.StatusOK)
		own.merchant.patch(t, own.commissionPath(commission)+"/reject", nil).wantStatus(http.StatusOK)
		own.merchant.post(t, own.participantPath()+"/ledger", object{"type": "bonus", "amountCents": 700, "reason": "Sorry"}).wantStatus(http.StatusCreated)
		own.merchant.patch(t, payout+"/retry", nil).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
	})
	sys.wantPermissionDenied(t, "set role tributary_app; update ledger_entries set amount_cents = 0")
	sys.wantPermissionDenied(t, "set role tributary_app; delete from ledger_entries")
}

// testPayoutsOfOneMember checks that a member cannot confirm several small batches that
// exceed the limit together.
func testPayoutsOfOneMember(t *testing.T, sys *system) {
	f := sys.newFixture(t, "live", rules(object{"holdPeriodDays": 0}))
	f.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com", "password": password}).wantStatus(http.StatusOK)
	second := sys.newFixtureFor(t, f.merchant, f.partner, rules(object{"holdPeriodDays": 0}))
	f.merchant.patch(t, "/api/v1/workspace", object{"payoutApproval": object{"secondPersonAboveCents": 3999}}).wantStatus(http.StatusOK)
	confirm := func(body object, wantStatus string) string {
		t.Helper()
		path := batchesPath + "/" + f.createBatch(t, body).wantStatus(http.StatusCreated).wantFields(object{"totals.0.amountCents": 2000}).text("id") + "/confirm"
		f.merchant.post(t, path, nil).wantStatus(http.StatusOK).wantFields(object{"status": wantStatus})
		return path
	}
	f.reportSale(t, f.click(t), nil)
	second.reportSale(t, second.click(t), nil)
	confirm(object{"programIds": []string{f.program}}, "confirmed")
	awaiting := confirm(object{"programIds": []string{second.program}}, "awaiting_approval")
	f.reportSale(t, f.click(t), nil)
	confirm(object{"cutoff": sys.clock.now().UTC().Format(time.RFC3339Nano)}, "awaiting_approval")
	f.merchant.post(t, awaiting, nil).wantError(http.StatusConflict, "PAYOUT_STATE_INVALID")
	f.merchant.addMember(t, "finance").inMode("live").post(t, awaiting, nil).wantStatus(http.StatusOK).wantFields(object{"status": "confirmed"})
}

// testPayoutsAreReducedWithTheirCommissions checks that a payout with the status draft
// or pending is reduced when one of its commissions is rejected, refunded or
// reattributed.
func testPayoutsAreReducedWithTheirCommissions(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0}))
	f.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com", "password": password}).wantStatus(http.StatusOK)
	click := f.click(t)
	other := sys.newPartner(t).inMode("test")
	participantID := other.post(t, f.applyPath(), object{"referralCode": uniqueName("ria")}).wantStatus(http.StatusCreated).text("id")
	f.merchant.patch(t, f.programPath()+"/partners/"+participantID+"/approve", nil).wantStatus(http.StatusOK)

	for _, status := range []string{"draft", "pending"} {
		t.Run(status, func(t *testing.T) {
			sales := make([]response, 5)
			for i := range sales {
				fields := object{}
				if i == 4 { // only the last sale is a self-referral, so that its fraud event is the newest
					fields["customer_email"] = strings.Replace(f.partner.email, "@", "+shop@", 1)
				}
				sales[i] = f.reportSale(t, click, fields)
			}
			batch := f.createBatch(t, object{}).wantStatus(http.StatusCreated).text("id")
			if status == "pending" {
				f.merchant.post(t, batchesPath+"/"+batch+"/confirm", nil).wantStatus(http.StatusOK)
			}
			payout := "/api/v1/payouts/" + f.merchant.get(t, "/api/v1/payouts?batchId="+batch).wantStatus(http.StatusOK).text("data.0.id")
			wantPayout := func(status string, amount, commissions int64) {
				t.Helper()
				f.merchant.get(t, payout).wantStatus(http.StatusOK).wantFields(object{"status": status, "amountCents": amount, "commissionCount": commissions})
			}
			wantPayout(status, 10_000, 5)

			f.merchant.patch(t, f.commissionPath(sales[0].text("commission.id"))+"/reject", nil).wantStatus(http.StatusOK).wantFields(object{"payoutId": nil})
			wantPayout(status, 8_000, 4)
			external := sales[1].text("external_transaction_id")
			f.refund(t, external, object{"amount_cents": 5000}).wantStatus(http.StatusCreated).wantFields(object{"commission.amount_cents": 1000})
			wantPayout(status, 7_000, 4)
			f.refund(t, external, nil).wantStatus(http.StatusCreated).wantFields(object{"commission.status": "refunded"})
			wantPayout(status, 6_000, 3)
			f.merchant.post(t, "/api/v1/conversions/"+sales[2].text("id")+"/reattribute", object{"participant_id": participantID, "reason": "Ria's"}).wantStatus(http.StatusOK)
			wantPayout(status, 4_000, 2)
			event := f.merchant.get(t, "/api/v1/fraud/events?status=open").wantStatus(http.StatusOK).text("data.0.id")
			f.merchant.post(t, "/api/v1/fraud/events/"+event+"/resolve", object{"outcome": "confirmed"}).wantStatus(http.StatusOK)
			wantPayout(status, 2_000, 1)
			f.merchant.patch(t, f.programPath()+"/commissions/bulk-reject", object{"commissionIds": []string{sales[3].text("commission.id")}}).wantStatus(http.StatusOK)
			wantPayout("canceled", 2_000, 1)
			f.merchant.get(t, batchesPath+"/"+batch).wantStatus(http.StatusOK).wantFields(object{"status": "canceled", "totals": []any{}})
			if cents := f.balance(t); cents != 0 {
				t.Errorf("the balance is %d, want 0", cents)
			}
		})
	}
}
