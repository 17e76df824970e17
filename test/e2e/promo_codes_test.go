package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func (w world) promoCodes() string { return w.programPath() + "/promo-codes" }

// promoCode creates a promo code of the world's partner with a discount of ten percent.
func (w world) promoCode(t *testing.T, code string, more object) response {
	t.Helper()
	body := object{"participantId": w.participant, "code": code, "discountType": "percentage", "discountValue": 10}
	for name, value := range more {
		body[name] = value
	}
	return w.merchant.post(t, w.promoCodes(), body)
}

// promoCodeSale returns the report of a sale with a promo code and without a click.
func promoCodeSale(code string) object {
	sale := purchase("")
	delete(sale, "click_id")
	sale["promo_code"] = code
	return sale
}

func TestPromoCodes(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	made := w.promoCode(t, " Summer-25 ", object{"discountValue": 12.5}).want(http.StatusCreated).wantFields(object{
		"code": "summer-25", "discountType": "percentage", "discountValue": 12.5, "currency": nil, "maxRedemptions": nil, "redemptions": 0,
		"expiresAt": nil, "active": true, "syncToProcessor": false, "syncStatus": "none", "participantId": w.participant,
	})
	path := w.promoCodes() + "/" + made.text("id")
	if got := countStatuses(concurrently(20, func(int) response { return w.promoCode(t, "SUMMER-25", nil) })); got["409 PROMO_CODE_TAKEN"] != 20 {
		t.Errorf("%v", got)
	}
	w.promoCode(t, "summer-25", nil).wantError(http.StatusConflict, "PROMO_CODE_TAKEN")
	w.promoCode(t, "fixed", object{"discountType": "fixed", "discountValue": 500}).want(http.StatusCreated).wantFields(object{"currency": "USD", "discountValue": 500})
	for field, more := range map[string]object{
		"discountValue": {"discountValue": 10.123}, "currency": {"currency": "EUR"}, "participantId": {"participantId": w.program},
		"expiresAt": {"expiresAt": "2020-01-01T00:00:00Z"}, "maxRedemptions": {"maxRedemptions": 0},
	} {
		w.promoCode(t, "wrong", more).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
	}
	w.report(t, promoCodeSale("SUMMER-25")).want(http.StatusCreated).wantFields(object{
		"attributed": true, "attribution.method": "promo_code", "attribution.reason_code": "PROMO_CODE_MATCHED", "attribution.participant_id": w.participant,
		"commission.amount_cents": 2000,
	})
	w.merchant.get(t, path).want(http.StatusOK).wantFields(object{"redemptions": 1})
	w.report(t, promoCodeSale("nobodys")).want(http.StatusCreated).wantFields(object{"attributed": false, "attribution.reason_code": "PROMO_CODE_UNKNOWN"})

	inactive := object{"attributed": false, "attribution.reason_code": "PROMO_CODE_INACTIVE", "commission": nil}
	w.merchant.patch(t, path, object{"active": false}).want(http.StatusOK).wantFields(object{"active": false})
	w.report(t, promoCodeSale("summer-25")).want(http.StatusCreated).wantFields(inactive)
	w.merchant.patch(t, path, object{"active": true, "expiresAt": sys.clock.now().Add(-time.Minute).UTC().Format(time.RFC3339)}).want(http.StatusOK)
	w.report(t, promoCodeSale("summer-25")).want(http.StatusCreated).wantFields(inactive)
	earlier := promoCodeSale("summer-25") // the code was active at the time of the sale
	earlier["occurred_at"] = sys.clock.now().Add(-time.Hour).UTC().Format(time.RFC3339)
	w.report(t, earlier).want(http.StatusCreated).wantFields(object{"attributed": true})

	w.partner.get(t, "/api/v1/partner/promo-codes").want(http.StatusOK).wantFields(object{"total": 2})
	w.merchant.get(t, w.promoCodes()+"?search=SUM").want(http.StatusOK).wantFields(object{"total": 1, "data.0.id": made.text("id")})
	w.merchant.do(t, http.MethodDelete, path, nil).want(http.StatusNoContent)
	w.merchant.get(t, path).wantOutcome(notFound)
	w.report(t, promoCodeSale("summer-25")).want(http.StatusCreated).wantFields(object{"attribution.reason_code": "PROMO_CODE_UNKNOWN"})
	w.promoCode(t, "summer-25", nil).want(http.StatusCreated)
}

func TestPromoCode_RedemptionLimitHoldsUnderConcurrency(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	made := w.promoCode(t, "first-ten", object{"maxRedemptions": 10}).want(http.StatusCreated)
	reasons := map[string]int{}
	for _, got := range concurrently(50, func(int) response { return w.report(t, promoCodeSale("first-ten")) }) {
		reasons[got.want(http.StatusCreated).text("attribution.reason_code")]++
	}
	if reasons["PROMO_CODE_MATCHED"] != 10 || reasons["PROMO_CODE_INACTIVE"] != 40 {
		t.Errorf("%v", reasons)
	}
	w.merchant.get(t, w.promoCodes()+"/"+made.text("id")).want(http.StatusOK).wantFields(object{"redemptions": 10})
}

// TestSignalPrecedence reports a sale with a click of one partner and a promo code of
// another.
func TestSignalPrecedence(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	couponer := sys.partner(t).in("test")
	other := couponer.post(t, w.applyPath(), nil).want(http.StatusCreated).text("id")
	w.merchant.patch(t, w.programPath()+"/partners/"+other+"/approve", nil).want(http.StatusOK)
	w.promoCode(t, "coupon", object{"participantId": other}).want(http.StatusCreated)
	click := w.click(t)
	both := func() response {
		sale := purchase(click)
		sale["promo_code"] = "Coupon"
		return w.report(t, sale).want(http.StatusCreated)
	}
	both().wantFields(object{"attribution.method": "click", "attribution.participant_id": w.participant})
	w.merchant.patch(t, w.programPath(), object{"signalPrecedence": "promo_code_first"}).want(http.StatusOK)
	both().wantFields(object{"attribution.method": "promo_code", "attribution.participant_id": other, "attribution.reason_code": "PROMO_CODE_MATCHED"})
	// The stored trace contains the signal that lost.
	var trace map[string]any
	if err := sys.oneRow(t, &trace, `select trace->'candidates' as candidates from attribution_decisions order by decided_at desc, id desc limit 1`); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(trace["candidates"]); !containsAll(text, "OUTRANKED", click, "coupon") {
		t.Errorf("candidates %s", text)
	}
	// A signal that cannot be resolved is skipped, and the next one is used.
	sale := purchase(click)
	sale["promo_code"] = "nobodys"
	w.report(t, sale).want(http.StatusCreated).wantFields(object{"attribution.method": "click", "attributed": true})

	// A code of the other mode is an error. A code of another workspace is unknown.
	live := sys.worldOf(t, w.merchant.in("live"), w.partner.in("live"), nil)
	live.promoCode(t, "livecode", nil).want(http.StatusCreated)
	w.report(t, promoCodeSale("livecode")).wantError(http.StatusUnprocessableEntity, "MODE_MISMATCH")
	stranger := sys.world(t, "test", nil)
	stranger.report(t, promoCodeSale("coupon")).want(http.StatusCreated).wantFields(object{"attribution.reason_code": "PROMO_CODE_UNKNOWN"})
}

// TestCustomerBinding checks that the first attributed sale binds the customer to a
// partner. Later sales of the customer need no valid click. A merchant can change the
// binding.
func TestCustomerBinding(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", object{"attributionWindowDays": 7, "commissionRules": object{"percentage": 20, "holdPeriodDays": 1}})
	rival := sys.partner(t).in("test")
	other := rival.post(t, w.applyPath(), nil).want(http.StatusCreated).text("id")
	w.merchant.patch(t, w.programPath()+"/partners/"+other+"/approve", nil).want(http.StatusOK)
	w.promoCode(t, "rival", object{"participantId": other}).want(http.StatusCreated)
	click := w.click(t)
	by := func(customer string, sale object, event string) response {
		sale["customer_id"], sale["event_type"] = customer, event
		return w.report(t, sale).want(http.StatusCreated)
	}
	by("c-1", purchase(click), "purchase").wantFields(object{"attribution.method": "click"})
	// Another partner's code gets this sale but does not change the binding.
	by("c-1", promoCodeSale("rival"), "purchase").wantFields(object{"attribution.participant_id": other})
	sys.clock.advance(30 * 24 * time.Hour)
	renewal := by("c-1", purchase(click), "renewal").wantFields(object{
		"attribution.method": "customer", "attribution.reason_code": "CUSTOMER_BOUND", "attribution.participant_id": w.participant, "commission.amount_cents": 2000,
	})
	by("c-2", purchase(click), "renewal").wantFields(object{"attributed": false, "attribution.reason_code": "CLICK_EXPIRED"})
	w.sys.caller().as(w.secretKey).post(t, "/api/v1/conversions", object{
		"event_type": "renewal", "external_transaction_id": uniqueName("order"), "amount_cents": 100, "currency": "USD", "customer_id": "c-1",
	}).wantError(http.StatusUnprocessableEntity, "NO_ATTRIBUTION_SIGNAL")

	// The merchant reattributes a sale with a reason.
	w.merchant = w.merchant.login(t)
	path := "/api/v1/conversions/" + renewal.text("id") + "/reattribute"
	w.merchant.post(t, path, object{"participant_id": other}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "reason")
	w.merchant.post(t, path, object{"participant_id": w.program, "reason": "Mistaken"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "participant_id")
	w.merchant.post(t, path, object{"participant_id": other, "reason": "The rival convinced them."}).want(http.StatusOK).wantFields(object{
		"attributed": true, "attribution.method": "manual", "attribution.participant_id": other, "commission.amount_cents": 2000,
	})
	w.merchant.get(t, w.commissionPath(renewal.text("commission.id"))).want(http.StatusOK).wantFields(object{"status": "rejected"})
	by("c-1", purchase(click), "renewal").wantFields(object{"attribution.method": "customer", "attribution.participant_id": other})
}

// TestReattribution_CanBeUndone checks that a payment that was moved to another partner,
// even in another programme, and back again is the customer's first payment again. It
// also checks that a sale that is moved between other partners does not change the
// customer's binding.
func TestReattribution_CanBeUndone(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", rules(object{"percentage": 30, "recurring": object{"enabled": false}}))
	elsewhere := sys.worldOf(t, w.merchant, sys.partner(t).in("test"), nil)
	third := w.createApplicants(t, "Third")[0]
	w.merchant.patch(t, w.programPath()+"/partners/"+third.participant+"/approve", nil).want(http.StatusOK)
	click := w.click(t)
	pay := func(customer string) response {
		sale := purchase(click)
		sale["customer_id"] = customer
		return w.report(t, sale).want(http.StatusCreated)
	}
	give := func(conversion response, to string) response {
		return w.merchant.post(t, "/api/v1/conversions/"+conversion.text("id")+"/reattribute", object{"participant_id": to, "reason": "Moved."}).want(http.StatusOK)
	}
	first := pay("c-1").wantFields(object{"commission.amount_cents": 3000})
	pay("c-1").wantFields(object{"attribution.reason_code": "RECURRING_LIMIT_REACHED"})
	give(first, elsewhere.participant)
	give(first, w.participant).wantFields(object{"commission.amount_cents": 3000, "attribution.method": "manual"})

	// The customer c-2 is bound to the world's partner. One order of c-2 belongs to a
	// third partner and is moved to another one. Both get only the order, not the
	// customer.
	pay("c-2")
	w.promoCode(t, "third", object{"participantId": third.participant}).want(http.StatusCreated)
	byCode := promoCodeSale("third")
	byCode["customer_id"] = "c-2"
	order := w.report(t, byCode).want(http.StatusCreated).wantFields(object{"attribution.participant_id": third.participant})
	give(order, elsewhere.participant)
	renewal := promoCodeSale("nobodys")
	renewal["customer_id"], renewal["event_type"] = "c-2", "renewal"
	w.report(t, renewal).want(http.StatusCreated).wantFields(object{"attribution.method": "customer", "attribution.participant_id": w.participant})
}
