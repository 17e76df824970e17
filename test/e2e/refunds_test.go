package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
)

func (w world) refund(t testing.TB, external string, fields object) response {
	t.Helper()
	body := object{"external_transaction_id": external, "external_refund_id": uniqueName("refund")}
	for field, value := range fields {
		body[field] = value
	}
	return w.sys.caller().as(w.secretKey).post(t, "/api/v1/conversions/refunds", body)
}

// TestRefunds checks that a commission is reduced with each refund of its sale, no
// matter when the refund arrives.
func TestRefunds(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", rules(object{"holdPeriodDays": 0}))
	click := w.click(t)
	ledger := func(t *testing.T) response {
		t.Helper()
		return w.merchant.get(t, w.participantPath()+"/ledger").want(http.StatusOK)
	}

	t.Run("partial refunds and then the rest", func(t *testing.T) {
		sale := w.sell(t, click, object{"amount_cents": 9999})
		external, commission := sale.text("external_transaction_id"), sale.text("commission.id")
		w.refund(t, external, object{"amount_cents": 3333, "reason": "One of three"}).want(http.StatusCreated).wantFields(object{
			"status": "applied", "conversion_id": sale.text("id"), "amount_cents": 3333, "refunded_amount_cents": 3333, "currency": "USD", "reason": "One of three",
			"commission.id": commission, "commission.status": "approved", "commission.amount_cents": 1333, "commission.reversed_amount_cents": 667,
		})
		w.merchant.get(t, w.commissionPath(commission)).wantFields(object{
			"amountCents": 1333, "originalAmountCents": 2000, "reversedAmountCents": 667, "status": "approved", "refundedAt": nil,
		})
		w.refund(t, external, object{"amount_cents": 6667}).wantError(http.StatusUnprocessableEntity, "REFUND_EXCEEDS_AMOUNT")
		w.refund(t, external, nil).want(http.StatusCreated).wantFields(object{
			"amount_cents": 6666, "refunded_amount_cents": 9999, "commission.status": "refunded", "commission.amount_cents": 0,
		})
		w.refund(t, external, nil).wantError(http.StatusUnprocessableEntity, "REFUND_EXCEEDS_AMOUNT")
		w.merchant.get(t, w.commissionPath(commission)).wantFields(object{"status": "refunded", "amountCents": 0, "reversedAmountCents": 2000})
		detail := w.sys.caller().as(w.secretKey).get(t, "/api/v1/conversions/"+sale.text("id")).want(http.StatusOK)
		detail.wantFields(object{"status": "refunded", "refunded_amount_cents": 9999, "refunds.0.amount_cents": 3333, "refunds.1.amount_cents": 6666, "commission.status": "refunded"})
		ledger(t).wantFields(object{"balances": []any{object{"currency": "USD", "balanceCents": 0}}, "data.0.type": "commission_reversed", "data.0.amountCents": -1333})
	})
	t.Run("a refund id is accepted once", func(t *testing.T) {
		external := w.sell(t, click, nil).text("external_transaction_id")
		w.refund(t, external, object{"external_refund_id": "twice", "amount_cents": 10}).want(http.StatusCreated)
		w.refund(t, external, object{"external_refund_id": "twice", "amount_cents": 10}).wantError(http.StatusConflict, "REFUND_DUPLICATE")
	})
	t.Run("a refund before its sale is parked", func(t *testing.T) {
		external := uniqueName("early")
		w.refund(t, external, object{"external_refund_id": "early", "amount_cents": 2500}).want(http.StatusAccepted).
			wantFields(object{"status": "parked", "conversion_id": nil, "commission": nil, "refunded_amount_cents": nil})
		w.refund(t, external, object{"external_refund_id": "early"}).wantError(http.StatusConflict, "REFUND_DUPLICATE")
		sale := w.sell(t, click, object{"external_transaction_id": external})
		w.merchant.get(t, w.commissionPath(sale.text("commission.id"))).wantFields(object{"amountCents": 1500, "originalAmountCents": 2000, "status": "approved"})
		w.sys.caller().as(w.secretKey).get(t, "/api/v1/conversions/"+sale.text("id")).
			wantFields(object{"status": "partially_refunded", "refunded_amount_cents": 2500, "refunds.0.external_refund_id": "early"})
	})
	t.Run("refunds and their sale at the same time", func(t *testing.T) {
		for range 5 {
			external := uniqueName("race")
			concurrently(11, func(i int) response {
				if i == 5 {
					return w.sell(t, click, object{"external_transaction_id": external})
				}
				return w.refund(t, external, object{"amount_cents": 100})
			})
			path := "/api/v1/conversions?external_transaction_id=" + external
			eventually(t, waitTimeout, "all refunds are applied", func() error {
				got := w.merchant.get(t, path).want(http.StatusOK)
				if n := got.number("data.0.refunded_amount_cents"); n != 1000 {
					return fmt.Errorf("%d", n)
				}
				got.wantFields(object{"data.0.commission.amount_cents": 1800})
				return nil
			})
		}
	})
	t.Run("a flat commission is reversed only when the whole sale is refunded", func(t *testing.T) {
		flat := sys.worldOf(t, w.merchant, w.partner, rules(object{"commissionType": "flat", "percentage": nil, "flatAmountCents": 300}))
		sale := flat.sell(t, flat.click(t), nil)
		external := sale.text("external_transaction_id")
		flat.refund(t, external, object{"amount_cents": 9999}).want(http.StatusCreated).wantFields(object{"commission.amount_cents": 300, "commission.status": "pending"})
		flat.refund(t, external, object{"amount_cents": 1}).want(http.StatusCreated).wantFields(object{"commission.amount_cents": 0, "commission.status": "refunded"})
	})
	t.Run("concurrent refunds never exceed the amount of the sale", func(t *testing.T) {
		external := w.sell(t, click, nil).text("external_transaction_id")
		responses := concurrently(30, func(int) response { return w.refund(t, external, object{"amount_cents": 700}) })
		if got := countStatuses(responses); got["201"] != 14 || got["422 REFUND_EXCEEDS_AMOUNT"] != 16 {
			t.Errorf("%v", got)
		}
	})
	t.Run("bad input changes nothing", func(t *testing.T) {
		external := w.sell(t, click, nil).text("external_transaction_id")
		w.refund(t, external, object{"amount_cents": 0}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amount_cents")
		w.refund(t, external, object{"amount_cents": "10"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amount_cents")
		w.refund(t, "", object{"external_refund_id": ""}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "external_refund_id", "external_transaction_id")
		w.merchant.get(t, "/api/v1/conversions?external_transaction_id="+external).wantFields(object{"data.0.refunded_amount_cents": 0, "total": 1})
	})
}
