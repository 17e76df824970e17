package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
)

// refund reports a refund of a sale. Without amount_cents in fields, it refunds the rest
// of the sale.
func (f fixture) refund(t testing.TB, transactionID string, fields object) response {
	t.Helper()
	body := object{"external_transaction_id": transactionID, "external_refund_id": uniqueName("refund")}
	for field, value := range fields {
		body[field] = value
	}
	return f.sys.client().withCredential(f.secretKey).post(t, "/api/v1/conversions/refunds", body)
}

// testRefunds checks that each refund of a sale reduces the commission, even if the
// refund is reported before the sale.
func testRefunds(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0}))
	click := f.click(t)
	ledger := func(t *testing.T) response {
		t.Helper()
		return f.merchant.get(t, f.participantPath()+"/ledger").wantStatus(http.StatusOK)
	}

	t.Run("a sale can be refunded in parts", func(t *testing.T) {
		sale := f.reportSale(t, click, object{"amount_cents": 9999})
		external, commission := sale.text("external_transaction_id"), sale.text("commission.id")
		f.refund(t, external, object{"amount_cents": 3333, "reason": "One of three"}).wantStatus(http.StatusCreated).wantFields(object{
			"status": "applied", "conversion_id": sale.text("id"), "amount_cents": 3333, "refunded_amount_cents": 3333, "currency": "USD", "reason": "One of three",
			"commission.id": commission, "commission.status": "approved", "commission.amount_cents": 1333, "commission.reversed_amount_cents": 667,
		})
		f.merchant.get(t, f.commissionPath(commission)).wantFields(object{
			"amountCents": 1333, "originalAmountCents": 2000, "reversedAmountCents": 667, "status": "approved", "refundedAt": nil,
		})
		f.refund(t, external, object{"amount_cents": 6667}).wantError(http.StatusUnprocessableEntity, "REFUND_EXCEEDS_AMOUNT").
			wantFields(object{"context": object{"refundableCents": 6666}})
		f.refund(t, external, nil).wantStatus(http.StatusCreated).wantFields(object{
			"amount_cents": 6666, "refunded_amount_cents": 9999, "commission.status": "refunded", "commission.amount_cents": 0,
		})
		f.refund(t, external, nil).wantError(http.StatusUnprocessableEntity, "REFUND_EXCEEDS_AMOUNT")
		f.merchant.get(t, f.commissionPath(commission)).wantFields(object{"status": "refunded", "amountCents": 0, "reversedAmountCents": 2000})
		detail := f.sys.client().withCredential(f.secretKey).get(t, "/api/v1/conversions/"+sale.text("id")).wantStatus(http.StatusOK)
		detail.wantFields(object{"status": "refunded", "refunded_amount_cents": 9999, "refunds.0.amount_cents": 3333, "refunds.1.amount_cents": 6666, "commission.status": "refunded"})
		ledger(t).wantFields(object{"balances": []any{object{"currency": "USD", "balanceCents": 0}}, "data.0.type": "commission_reversed", "data.0.amountCents": -1333})
	})
	t.Run("a refund with the same refund id is accepted only once", func(t *testing.T) {
		external := f.reportSale(t, click, nil).text("external_transaction_id")
		f.refund(t, external, object{"external_refund_id": "twice", "amount_cents": 10}).wantStatus(http.StatusCreated)
		f.refund(t, external, object{"external_refund_id": "twice", "amount_cents": 10}).wantError(http.StatusConflict, "REFUND_DUPLICATE")
	})
	t.Run("a member can report a refund", func(t *testing.T) {
		external := f.reportSale(t, click, nil).text("external_transaction_id")
		refund := f.merchant.post(t, "/api/v1/conversions/refunds", object{"external_transaction_id": external, "external_refund_id": uniqueName("refund")}).
			wantStatus(http.StatusCreated).wantFields(object{"status": "applied", "commission.status": "refunded"})
		f.merchant.get(t, "/api/v1/workspace/audit-log?action=conversion.refund").wantStatus(http.StatusOK).wantFields(object{
			"total": 1, "data.0.resourceId": refund.text("id"), "data.0.actor": f.merchant.id,
		})
	})
	t.Run("a refund that arrives before its sale is stored and applied later", func(t *testing.T) {
		external := uniqueName("early")
		f.refund(t, external, object{"external_refund_id": "early", "amount_cents": 2500}).wantStatus(http.StatusAccepted).
			wantFields(object{"status": "parked", "conversion_id": nil, "commission": nil, "refunded_amount_cents": nil})
		f.refund(t, external, object{"external_refund_id": "early"}).wantError(http.StatusConflict, "REFUND_DUPLICATE")
		sale := f.reportSale(t, click, object{"external_transaction_id": external})
		f.merchant.get(t, f.commissionPath(sale.text("commission.id"))).wantFields(object{"amountCents": 1500, "originalAmountCents": 2000, "status": "approved"})
		f.sys.client().withCredential(f.secretKey).get(t, "/api/v1/conversions/"+sale.text("id")).
			wantFields(object{"status": "partially_refunded", "refunded_amount_cents": 2500, "refunds.0.external_refund_id": "early"})
	})
	t.Run("refunds that are reported at the same time as their sale are applied", func(t *testing.T) {
		for range 5 {
			external := uniqueName("race")
			concurrently(11, func(i int) response {
				if i == 5 {
					return f.reportSale(t, click, object{"external_transaction_id": external})
				}
				return f.refund(t, external, object{"amount_cents": 100})
			})
			path := "/api/v1/conversions?external_transaction_id=" + external
			eventually(t, waitTimeout, "all refunds are applied", func() error {
				got := f.merchant.get(t, path).wantStatus(http.StatusOK)
				if n := got.number("data.0.refunded_amount_cents"); n != 1000 {
					return fmt.Errorf("%d cents are refunded, want 1000", n)
				}
				got.wantFields(object{"data.0.commission.amount_cents": 1800})
				return nil
			})
		}
	})
	t.Run("a flat commission is reversed only when the whole sale is refunded", func(t *testing.T) {
		flat := sys.newFixtureFor(t, f.merchant, f.partner, rules(object{"commissionType": "flat", "percentage": nil, "flatAmountCents": 300}))
		sale := flat.reportSale(t, flat.click(t), nil)
		external := sale.text("external_transaction_id")
		flat.refund(t, external, object{"amount_cents": 9999}).wantStatus(http.StatusCreated).wantFields(object{"commission.amount_cents": 300, "commission.status": "pending"})
		flat.refund(t, external, object{"amount_cents": 1}).wantStatus(http.StatusCreated).wantFields(object{"commission.amount_cents": 0, "commission.status": "refunded"})
	})
	t.Run("concurrent refunds never exceed the amount of the sale", func(t *testing.T) {
		external := f.reportSale(t, click, nil).text("external_transaction_id")
		responses := concurrently(30, func(int) response { return f.refund(t, external, object{"amount_cents": 700}) })
		if got := countStatuses(responses); got["201"] != 14 || got["422 REFUND_EXCEEDS_AMOUNT"] != 16 {
			t.Errorf("30 concurrent refunds got %v, want 14 times 201 and 16 times REFUND_EXCEEDS_AMOUNT", got)
		}
	})
	t.Run("an invalid refund changes nothing", func(t *testing.T) {
		external := f.reportSale(t, click, nil).text("external_transaction_id")
		f.refund(t, external, object{"amount_cents": 0}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amount_cents")
		f.refund(t, external, object{"amount_cents": "10"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amount_cents")
		f.refund(t, "", object{"external_refund_id": ""}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "external_refund_id", "external_transaction_id")
		f.merchant.get(t, "/api/v1/conversions?external_transaction_id="+external).wantFields(object{"data.0.refunded_amount_cents": 0, "total": 1})
	})
}

// dispute reports a dispute about a sale, or its new status.
func (f fixture) dispute(t testing.TB, transactionID, disputeID, status string, fields object) response {
	t.Helper()
	body := object{"external_transaction_id": transactionID, "external_dispute_id": disputeID, "status": status}
	for field, value := range fields {
		body[field] = value
	}
	return f.sys.client().withCredential(f.secretKey).post(t, "/api/v1/conversions/disputes", body)
}

// testDisputes checks that a dispute that the merchant reports has the effect of a dispute
// at Stripe.
func testDisputes(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0}))
	click := f.click(t)
	conversion := func(t *testing.T, sale response) response {
		t.Helper()
		return f.merchant.get(t, "/api/v1/conversions/"+sale.text("id")).wantStatus(http.StatusOK)
	}
	balance := func(t *testing.T) int64 {
		t.Helper()
		return f.merchant.get(t, f.participantPath()+"/ledger").wantStatus(http.StatusOK).number("balances.0.balanceCents")
	}

	t.Run("an open dispute holds the commission, and a lost one reverses it", func(t *testing.T) {
		sale := f.reportSale(t, click, object{"amount_cents": 10000})
		external, dispute, path := sale.text("external_transaction_id"), uniqueName("dispute"), f.commissionPath(sale.text("commission.id"))
		earned := balance(t)
		opened := object{
			"external_dispute_id": dispute, "external_transaction_id": external, "conversion_id": sale.text("id"), "status": "open", "amount_cents": 10000,
			"currency": "USD", "refunded_amount_cents": 0, "commission.status": "approved", "commission.amount_cents": 2000, "commission.reversed_amount_cents": 0,
		}
		f.dispute(t, external, dispute, "open", nil).wantStatus(http.StatusCreated).wantFields(opened)
		conversion(t, sale).wantFields(object{"status": "disputed", "refunded_amount_cents": 0})
		held := f.merchant.get(t, path).wantFields(object{"disputeStatus": "open", "needsReview": true, "reviewReasons": []any{"dispute"}, "amountCents": 2000})
		f.dispute(t, external, dispute, "open", nil).wantStatus(http.StatusOK).wantFields(opened)
		f.merchant.get(t, path).wantFields(object{"updatedAt": held.text("updatedAt"), "disputeStatus": "open"})

		lost := object{
			"status": "lost", "amount_cents": 10000, "refunded_amount_cents": 10000, "commission.status": "refunded",
			"commission.amount_cents": 0, "commission.reversed_amount_cents": 2000,
		}
		f.dispute(t, external, dispute, "lost", nil).wantStatus(http.StatusOK).wantFields(lost)
		conversion(t, sale).wantFields(object{"status": "refunded", "refunded_amount_cents": 10000})
		f.merchant.get(t, path).wantFields(object{"status": "refunded", "disputeStatus": "lost", "amountCents": 0})
		if after := balance(t); after != earned-2000 {
			t.Errorf("the balance is %v after the lost dispute, want %v", after, earned-2000)
		}
		for _, status := range []string{"lost", "open"} {
			f.dispute(t, external, dispute, status, nil).wantStatus(http.StatusOK).wantFields(lost)
		}
		if after := balance(t); after != earned-2000 {
			t.Errorf("the balance is %v after repeated reports, want %v", after, earned-2000)
		}

		f.dispute(t, external, dispute, "won", nil).wantStatus(http.StatusOK).wantFields(object{
			"status": "won", "refunded_amount_cents": 0, "commission.status": "approved", "commission.amount_cents": 2000,
		})
		conversion(t, sale).wantFields(object{"status": "recorded", "refunded_amount_cents": 0})
		if after := balance(t); after != earned {
			t.Errorf("the balance is %v after the appeal was won, want %v", after, earned)
		}
	})
	t.Run("a dispute that is won restores the commission", func(t *testing.T) {
		sale := f.reportSale(t, click, nil)
		external, dispute, path := sale.text("external_transaction_id"), uniqueName("dispute"), f.commissionPath(sale.text("commission.id"))
		f.dispute(t, external, dispute, "open", object{"amount_cents": 5000}).wantStatus(http.StatusCreated)
		f.dispute(t, external, dispute, "won", nil).wantStatus(http.StatusOK).wantFields(object{"status": "won", "amount_cents": 5000})
		f.merchant.get(t, path).wantFields(object{"disputeStatus": "won", "needsReview": false, "reviewReasons": []any{}, "amountCents": 2000, "status": "approved"})
		conversion(t, sale).wantFields(object{"status": "recorded"})
	})
	t.Run("a part of the sale can be lost beside a refund", func(t *testing.T) {
		sale := f.reportSale(t, click, object{"amount_cents": 10000})
		external := sale.text("external_transaction_id")
		f.refund(t, external, object{"amount_cents": 3000}).wantStatus(http.StatusCreated)
		f.dispute(t, external, uniqueName("dispute"), "lost", object{"amount_cents": 2500}).wantStatus(http.StatusCreated).
			wantFields(object{"amount_cents": 2500, "refunded_amount_cents": 5500, "commission.amount_cents": 900, "commission.status": "approved"})
		f.dispute(t, external, uniqueName("dispute"), "lost", nil).wantStatus(http.StatusCreated).
			wantFields(object{"amount_cents": 10000, "refunded_amount_cents": 10000, "commission.status": "refunded"})
	})
	t.Run("concurrent reports of one dispute have one effect", func(t *testing.T) {
		sale := f.reportSale(t, click, object{"amount_cents": 10000})
		external, dispute, before := sale.text("external_transaction_id"), uniqueName("dispute"), balance(t)
		responses := concurrently(8, func(int) response { return f.dispute(t, external, dispute, "lost", object{"amount_cents": 5000}) })
		if got := countStatuses(responses); got["201"] != 1 || got["200"] != 7 {
			t.Errorf("8 concurrent reports got %v, want 1 times 201 and 7 times 200", got)
		}
		if after := balance(t); after != before-1000 {
			t.Errorf("the balance is %v, want %v", after, before-1000)
		}
	})
	t.Run("an invalid report changes nothing", func(t *testing.T) {
		sale, other := f.reportSale(t, click, object{"amount_cents": 10000}), f.reportSale(t, click, nil)
		external, dispute := sale.text("external_transaction_id"), uniqueName("dispute")
		unknown := f.dispute(t, "unknown-order", dispute, "open", nil).wantError(http.StatusNotFound, "NOT_FOUND")
		unknown.wantFields(object{"message": "No conversion has this external_transaction_id."})
		f.dispute(t, external, dispute, "open", object{"amount_cents": 10001}).wantError(http.StatusUnprocessableEntity, "DISPUTE_EXCEEDS_AMOUNT").
			wantFields(object{"message": "The disputed amount exceeds the amount of the sale."})
		f.dispute(t, external, dispute, "open", object{"amount_cents": 0}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amount_cents")
		f.dispute(t, external, dispute, "none", nil).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "status")
		f.dispute(t, "", "", "open", nil).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "external_dispute_id", "external_transaction_id")
		conversion(t, sale).wantFields(object{"status": "recorded", "refunded_amount_cents": 0})

		f.dispute(t, external, dispute, "open", nil).wantStatus(http.StatusCreated)
		f.dispute(t, other.text("external_transaction_id"), dispute, "lost", nil).wantError(http.StatusConflict, "DISPUTE_DUPLICATE")
		conversion(t, other).wantFields(object{"status": "recorded", "refunded_amount_cents": 0})
		conversion(t, sale).wantFields(object{"status": "disputed"})
	})
}
