package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func (f fixture) promoCodesPath() string { return f.programPath() + "/promo-codes" }

// createPromoCode creates a promo code of the fixture's partner with a discount of ten
// percent. The fields in extraFields are added to the request or replace these defaults.
func (f fixture) createPromoCode(t *testing.T, code string, extraFields object) response {
	t.Helper()
	body := object{"participantId": f.participant, "code": code, "discountType": "percentage", "discountValue": 10}
	for name, value := range extraFields {
		body[name] = value
	}
	return f.merchant.post(t, f.promoCodesPath(), body)
}

// promoCodeSale returns the request body that reports a sale with a promo code and
// without a click.
func promoCodeSale(code string) object {
	sale := purchase("")
	delete(sale, "click_id")
	sale["promo_code"] = code
	return sale
}

func testPromoCodes(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	created := f.createPromoCode(t, " Summer-25 ", object{"discountValue": 12.5}).wantStatus(http.StatusCreated).wantFields(object{
		"code": "summer-25", "discountType": "percentage", "discountValue": 12.5, "currency": nil, "maxRedemptions": nil, "redemptions": 0,
		"expiresAt": nil, "active": true, "syncToProcessor": false, "syncStatus": "none", "participantId": f.participant,
	})
	path := f.promoCodesPath() + "/" + created.text("id")
	if got := countStatuses(concurrently(20, func(int) response { return f.createPromoCode(t, "SUMMER-25", nil) })); got["409 PROMO_CODE_TAKEN"] != 20 {
		t.Errorf("20 concurrent requests with a code that exists got %v, want 20 times PROMO_CODE_TAKEN", got)
	}
	f.createPromoCode(t, "summer-25", nil).wantError(http.StatusConflict, "PROMO_CODE_TAKEN")
	f.createPromoCode(t, "fixed", object{"discountType": "fixed", "discountValue": 500}).wantStatus(http.StatusCreated).wantFields(object{"currency": "USD", "discountValue": 500})
	for field, extraFields := range map[string]object{
		"discountValue": {"discountValue": 10.123}, "currency": {"currency": "EUR"}, "participantId": {"participantId": f.program},
		"expiresAt": {"expiresAt": "2020-01-01T00:00:00Z"}, "maxRedemptions": {"maxRedemptions": 0},
	} {
		f.createPromoCode(t, "wrong", extraFields).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
	}
	f.report(t, promoCodeSale("SUMMER-25")).wantStatus(http.StatusCreated).wantFields(object{
		"attributed": true, "attribution.method": "promo_code", "attribution.reason_code": "PROMO_CODE_MATCHED", "attribution.participant_id": f.participant,
		"commission.amount_cents": 2000,
	})
	f.merchant.get(t, path).wantStatus(http.StatusOK).wantFields(object{"redemptions": 1})
	f.report(t, promoCodeSale("nobodys")).wantStatus(http.StatusCreated).wantFields(object{"attributed": false, "attribution.reason_code": "PROMO_CODE_UNKNOWN"})

	inactive := object{"attributed": false, "attribution.reason_code": "PROMO_CODE_INACTIVE", "commission": nil}
	f.merchant.patch(t, path, object{"active": false}).wantStatus(http.StatusOK).wantFields(object{"active": false})
	f.report(t, promoCodeSale("summer-25")).wantStatus(http.StatusCreated).wantFields(inactive)
	f.merchant.patch(t, path, object{"active": true, "expiresAt": sys.clock.now().Add(-time.Minute).UTC().Format(time.RFC3339)}).wantStatus(http.StatusOK)
	f.report(t, promoCodeSale("summer-25")).wantStatus(http.StatusCreated).wantFields(inactive)
	earlier := promoCodeSale("summer-25") // the code was active at the time of the sale
	earlier["occurred_at"] = sys.clock.now().Add(-time.Hour).UTC().Format(time.RFC3339)
	f.report(t, earlier).wantStatus(http.StatusCreated).wantFields(object{"attributed": true})

	f.partner.get(t, "/api/v1/partner/promo-codes").wantStatus(http.StatusOK).wantFields(object{"total": 2})
	f.merchant.get(t, f.promoCodesPath()+"?search=SUM").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.id": created.text("id")})
	f.merchant.do(t, http.MethodDelete, path, nil).wantStatus(http.StatusNoContent)
	f.merchant.get(t, path).wantOutcome(notFound)
	f.report(t, promoCodeSale("summer-25")).wantStatus(http.StatusCreated).wantFields(object{"attribution.reason_code": "PROMO_CODE_UNKNOWN"})
	f.createPromoCode(t, "summer-25", nil).wantStatus(http.StatusCreated)
}

func testPromoCodeRedemptionLimitHoldsUnderConcurrency(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	created := f.createPromoCode(t, "first-ten", object{"maxRedemptions": 10}).wantStatus(http.StatusCreated)
	reasons := map[string]int{}
	for _, got := range concurrently(50, func(int) response { return f.report(t, promoCodeSale("first-ten")) }) {
		reasons[got.wantStatus(http.StatusCreated).text("attribution.reason_code")]++
	}
	if reasons["PROMO_CODE_MATCHED"] != 10 || reasons["PROMO_CODE_INACTIVE"] != 40 {
		t.Errorf("50 concurrent sales got the reasons %v, want ten PROMO_CODE_MATCHED and 40 PROMO_CODE_INACTIVE", reasons)
	}
	f.merchant.get(t, f.promoCodesPath()+"/"+created.text("id")).wantStatus(http.StatusOK).wantFields(object{"redemptions": 10})
}

// TestSignalPrecedence reports sales with a click of one partner and a promo code of
// another partner. The field signalPrecedence of the programme determines which of the
// two partners gets the sale.
func TestSignalPrecedence(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	codePartner := sys.newPartner(t).inMode("test")
	codeParticipant := codePartner.post(t, f.applyPath(), nil).wantStatus(http.StatusCreated).text("id")
	f.merchant.patch(t, f.programPath()+"/partners/"+codeParticipant+"/approve", nil).wantStatus(http.StatusOK)
	f.createPromoCode(t, "coupon", object{"participantId": codeParticipant}).wantStatus(http.StatusCreated)
	click := f.click(t)
	reportWithBothSignals := func() response {
		sale := purchase(click)
		sale["promo_code"] = "Coupon"
		return f.report(t, sale).wantStatus(http.StatusCreated)
	}
	reportWithBothSignals().wantFields(object{"attribution.method": "click", "attribution.participant_id": f.participant})
	f.merchant.patch(t, f.programPath(), object{"signalPrecedence": "promo_code_first"}).wantStatus(http.StatusOK)
	reportWithBothSignals().wantFields(object{"attribution.method": "promo_code", "attribution.participant_id": codeParticipant, "attribution.reason_code": "PROMO_CODE_MATCHED"})
	// The trace of the attribution decision also contains the click, which was not used.
	var trace map[string]any
	if err := sys.oneRow(t, &trace, `select trace->'candidates' as candidates from attribution_decisions order by decided_at desc, id desc limit 1`); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(trace["candidates"]); !containsAll(text, "OUTRANKED", click, "coupon") {
		t.Errorf("the trace has the candidates %s, want the click, the code coupon and OUTRANKED", text)
	}
	// An unknown promo code is skipped, and the click is used.
	sale := purchase(click)
	sale["promo_code"] = "nobodys"
	f.report(t, sale).wantStatus(http.StatusCreated).wantFields(object{"attribution.method": "click", "attributed": true})

	// A promo code of the other mode is an error. A promo code of another workspace is
	// unknown.
	live := sys.newFixtureFor(t, f.merchant.inMode("live"), f.partner.inMode("live"), nil)
	live.createPromoCode(t, "livecode", nil).wantStatus(http.StatusCreated)
	f.report(t, promoCodeSale("livecode")).wantError(http.StatusUnprocessableEntity, "MODE_MISMATCH")
	stranger := sys.newFixture(t, "test", nil)
	stranger.report(t, promoCodeSale("coupon")).wantStatus(http.StatusCreated).wantFields(object{"attribution.reason_code": "PROMO_CODE_UNKNOWN"})
}

// TestCustomerBinding checks that the first attributed sale of a customer binds the
// customer to the partner. Later sales of the customer are attributed to this partner
// even if their click has expired. A merchant can change the binding.
func TestCustomerBinding(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", object{"attributionWindowDays": 7, "commissionRules": object{"percentage": 20, "holdPeriodDays": 1}})
	rival := sys.newPartner(t).inMode("test")
	other := rival.post(t, f.applyPath(), nil).wantStatus(http.StatusCreated).text("id")
	f.merchant.patch(t, f.programPath()+"/partners/"+other+"/approve", nil).wantStatus(http.StatusOK)
	f.createPromoCode(t, "rival", object{"participantId": other}).wantStatus(http.StatusCreated)
	click := f.click(t)
	reportFor := func(customer string, sale object, event string) response {
		sale["customer_id"], sale["event_type"] = customer, event
		return f.report(t, sale).wantStatus(http.StatusCreated)
	}
	reportFor("c-1", purchase(click), "purchase").wantFields(object{"attribution.method": "click"})
	// A sale with the promo code of the rival is attributed to the rival, but the
	// customer stays bound to the first partner.
	reportFor("c-1", promoCodeSale("rival"), "purchase").wantFields(object{"attribution.participant_id": other})
	sys.clock.advance(30 * 24 * time.Hour)
	renewal := reportFor("c-1", purchase(click), "renewal").wantFields(object{
		"attribution.method": "customer", "attribution.reason_code": "CUSTOMER_BOUND", "attribution.participant_id": f.participant, "commission.amount_cents": 2000,
	})
	reportFor("c-2", purchase(click), "renewal").wantFields(object{"attributed": false, "attribution.reason_code": "CLICK_EXPIRED"})
	// A bound customer is a signal. A customer without a binding is not.
	renewalOf := func(customer string) object {
		return object{
			"event_type": "renewal", "external_transaction_id": uniqueName("order"), "amount_cents": 10000, "currency": "USD", "customer_id": customer,
		}
	}
	f.report(t, renewalOf("c-1")).wantStatus(http.StatusCreated).wantFields(object{
		"attribution.method": "customer", "attribution.reason_code": "CUSTOMER_BOUND", "attribution.participant_id": f.participant, "commission.amount_cents": 2000,
	})
	for _, unbound := range []string{"c-2", "c-3"} {
		f.report(t, renewalOf(unbound)).wantError(http.StatusUnprocessableEntity, "NO_ATTRIBUTION_SIGNAL")
	}
	simulate := f.sys.client().withCredential(f.secretKey)
	simulate.post(t, "/api/v1/attribution/simulate", renewalOf("c-1")).wantStatus(http.StatusOK).wantFields(object{"reason_code": "CUSTOMER_BOUND"})
	simulate.post(t, "/api/v1/attribution/simulate", renewalOf("c-2")).wantError(http.StatusUnprocessableEntity, "NO_ATTRIBUTION_SIGNAL")

	// The merchant must give a reason to reattribute a sale.
	f.merchant = f.merchant.login(t)
	path := "/api/v1/conversions/" + renewal.text("id") + "/reattribute"
	f.merchant.post(t, path, object{"participant_id": other}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "reason")
	f.merchant.post(t, path, object{"participant_id": f.program, "reason": "Mistaken"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "participant_id")
	f.merchant.post(t, path, object{"participant_id": other, "reason": "The rival convinced them."}).wantStatus(http.StatusOK).wantFields(object{
		"attributed": true, "attribution.method": "manual", "attribution.participant_id": other, "commission.amount_cents": 2000,
	})
	f.merchant.get(t, f.commissionPath(renewal.text("commission.id"))).wantStatus(http.StatusOK).wantFields(object{"status": "rejected"})
	reportFor("c-1", purchase(click), "renewal").wantFields(object{"attribution.method": "customer", "attribution.participant_id": other})
}

// testReattributionCanBeUndone moves the first payment of a customer to a partner in
// another programme and back. After that the payment must count as the customer's first
// payment again. The test also moves a sale between two partners to whom the customer is
// not bound. This must not change the customer's binding.
func testReattributionCanBeUndone(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{"percentage": 30, "recurring": object{"enabled": false}}))
	otherProgram := sys.newFixtureFor(t, f.merchant, sys.newPartner(t).inMode("test"), nil)
	third := f.createApplicants(t, "Third")[0]
	f.merchant.patch(t, f.programPath()+"/partners/"+third.participant+"/approve", nil).wantStatus(http.StatusOK)
	click := f.click(t)
	pay := func(customer string) response {
		sale := purchase(click)
		sale["customer_id"] = customer
		return f.report(t, sale).wantStatus(http.StatusCreated)
	}
	reattribute := func(conversion response, participant string) response {
		return f.merchant.post(t, "/api/v1/conversions/"+conversion.text("id")+"/reattribute", object{"participant_id": participant, "reason": "Moved."}).wantStatus(http.StatusOK)
	}
	first := pay("c-1").wantFields(object{"commission.amount_cents": 3000})
	pay("c-1").wantFields(object{"attribution.reason_code": "RECURRING_LIMIT_REACHED"})
	reattribute(first, otherProgram.participant)
	reattribute(first, f.participant).wantFields(object{"commission.amount_cents": 3000, "attribution.method": "manual"})

	// The customer c-2 is bound to the fixture's partner. One order of c-2 is attributed
	// to a third partner by a promo code, and then moved to another partner. The binding
	// of c-2 must not change.
	pay("c-2")
	f.createPromoCode(t, "third", object{"participantId": third.participant}).wantStatus(http.StatusCreated)
	byCode := promoCodeSale("third")
	byCode["customer_id"] = "c-2"
	order := f.report(t, byCode).wantStatus(http.StatusCreated).wantFields(object{"attribution.participant_id": third.participant})
	reattribute(order, otherProgram.participant)
	renewal := promoCodeSale("nobodys")
	renewal["customer_id"], renewal["event_type"] = "c-2", "renewal"
	f.report(t, renewal).wantStatus(http.StatusCreated).wantFields(object{"attribution.method": "customer", "attribution.participant_id": f.participant})
}
