package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

func testConversions(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(nil))

	t.Run("a purchase after a click earns a commission", func(t *testing.T) {
		click := f.click(t)
		sale := purchase(click)
		sale["tax_cents"], sale["customer_id"], sale["customer_email"] = 1900, "c-1", "buyer@home.example"
		sale["metadata"], sale["line_items"] = object{"cart": object{"size": 2}}, []object{{"product_id": "p", "amount_cents": 5000}}
		got := f.report(t, sale).wantStatus(http.StatusCreated).wantFields(object{
			"event_type": "purchase", "external_transaction_id": sale["external_transaction_id"], "amount_cents": 10_000, "currency": "USD",
			"mode": "test", "attributed": true,
			"attribution.method": "click", "attribution.reason_code": "CLICK_MATCHED", "attribution.click_id": click, "attribution.promo_code": nil,
			"attribution.program_id": f.program, "attribution.participant_id": f.participant,
			"commission.status": "pending", "commission.amount_cents": 1620, "commission.currency": "USD", "commission.needs_review": false,
			"fraud.flagged": false,
		})
		if hold := got.instant("commission.hold_until").Sub(got.instant("created_at")); hold != 24*time.Hour {
			t.Errorf("the hold period is %v, want 24 hours", hold)
		}
		if window := got.instant("attribution.expires_at").Sub(got.instant("attribution.clicked_at")); window != 60*24*time.Hour {
			t.Errorf("the attribution window is %v, want 60 days", window)
		}
		if got.text("attribution.explanation") == "" || got.text("attribution.decision_id") == "" || got.text("id") == "" {
			t.Errorf("the explanation, the decision id or the id is empty: %s", got.body)
		}
	})
	t.Run("a click is found immediately after its registration", func(t *testing.T) {
		for range 10 {
			f.report(t, purchase(f.click(t))).wantStatus(http.StatusCreated).wantFields(object{"attribution.reason_code": "CLICK_MATCHED"})
		}
	})
	t.Run("a conversion without a valid signal is stored without a partner", func(t *testing.T) {
		wantUnattributed := func(body object, reason string) {
			t.Helper()
			f.report(t, body).wantStatus(http.StatusCreated).wantFields(object{
				"attributed": false, "attribution.reason_code": reason, "attribution.method": nil, "attribution.program_id": nil, "commission": nil,
			})
		}
		wantUnattributed(purchase("00000000-0000-4000-8000-000000000000"), "CLICK_UNKNOWN")
		wantUnattributed(purchase(affiliate.NewID[affiliate.ClickID](sys.clock.now()).String()), "CLICK_UNKNOWN")
		wantUnattributed(purchase(affiliate.NewID[affiliate.ClickID](sys.clock.now().Add(25*time.Hour)).String()), "CLICK_UNKNOWN")
		promo := purchase("")
		promo["promo_code"] = "SAVE10"
		wantUnattributed(promo, "PROMO_CODE_UNKNOWN")
		early := purchase(f.click(t))
		early["occurred_at"] = sys.clock.now().Add(-6 * time.Minute).UTC().Format(time.RFC3339Nano)
		wantUnattributed(early, "CLICK_AFTER_CONVERSION")
	})
	t.Run("an unknown promo code does not affect a valid click", func(t *testing.T) {
		sale := purchase(f.click(t))
		sale["promo_code"] = "SAVE10"
		f.report(t, sale).wantStatus(http.StatusCreated).wantFields(object{"attributed": true, "attribution.method": "click"})
	})
	t.Run("events without an amount earn nothing by default", func(t *testing.T) {
		lead := object{"event_type": "lead", "external_transaction_id": uniqueName("lead"), "click_id": f.click(t)}
		f.report(t, lead).wantStatus(http.StatusCreated).wantFields(object{
			"amount_cents": 0, "currency": nil, "attributed": true, "attribution.reason_code": "RULE_NOT_APPLICABLE", "commission": nil,
		})
	})
	t.Run("only approved partners earn and only active programmes pay", func(t *testing.T) {
		own := sys.newFixture(t, "live", nil)
		click := own.click(t)
		own.merchant.patch(t, own.participantPath()+"/suspend", nil).wantStatus(http.StatusOK)
		own.report(t, purchase(click)).wantStatus(http.StatusCreated).
			wantFields(object{"attributed": true, "attribution.reason_code": "PARTICIPANT_NOT_APPROVED", "commission": nil})
		own.merchant.patch(t, own.participantPath()+"/reinstate", nil).wantStatus(http.StatusOK)
		own.merchant.post(t, own.programPath()+"/pause", nil).wantStatus(http.StatusOK)
		own.report(t, purchase(click)).wantStatus(http.StatusCreated).
			wantFields(object{"attributed": false, "attribution.reason_code": "PROGRAM_INACTIVE", "commission": nil})
	})
	t.Run("the rules determine the amount", func(t *testing.T) { testAmountsByRule(t, sys) })
	t.Run("a report with several errors gets the error with the highest precedence", func(t *testing.T) { testRejectedConversions(t, sys, f) })
}

func testAmountsByRule(t *testing.T, sys *system) {
	merchant, partner := sys.newMerchant(t).inMode("test"), sys.newPartner(t).inMode("test")
	for name, c := range map[string]struct {
		rules object
		sale  object
		want  object
	}{
		"half a cent is rounded up": {
			object{"percentage": 12.5},
			object{"amount_cents": 1004},
			object{"commission.amount_cents": 126},
		},
		"net of tax, shipping and fees": {
			object{"netBasis": "net_of_tax_shipping_fees"},
			object{"tax_cents": 1000, "shipping_cents": 500, "fee_cents": 300},
			object{"commission.amount_cents": 1640},
		},
		"a flat amount": {
			object{"commissionType": "flat", "percentage": nil, "flatAmountCents": 777},
			nil,
			object{"commission.amount_cents": 777},
		},
		"a commission is never higher than its base": {
			object{"commissionType": "flat", "percentage": nil, "flatAmountCents": 777},
			object{"amount_cents": 500},
			object{"commission.amount_cents": 500},
		},
		"without a hold it is approved immediately": {
			object{"holdPeriodDays": 0},
			nil,
			object{"commission.status": "approved", "commission.hold_until": nil},
		},
		"without a hold and without automatic approval it is pending": {
			object{"holdPeriodDays": 0, "autoApproval": false},
			nil,
			object{"commission.status": "pending", "commission.hold_until": nil},
		},
		"another currency without an exchange rate needs review": {
			object{"holdPeriodDays": 0},
			object{"currency": "EUR"},
			object{"commission.status": "pending", "commission.currency": "EUR", "commission.needs_review": true},
		},
		"the largest possible amount": {
			object{"percentage": 100},
			object{"amount_cents": 1_000_000_000_000},
			object{"commission.amount_cents": 1_000_000_000_000},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := sys.newFixtureFor(t, merchant, partner, rules(c.rules))
			sale := purchase(f.click(t))
			for field, value := range c.sale {
				sale[field] = value
			}
			f.report(t, sale).wantStatus(http.StatusCreated).wantFields(c.want)
		})
	}
}

func testRejectedConversions(t *testing.T, sys *system, f fixture) {
	t.Helper()
	merchant := f.merchant
	live := merchant.inMode("live")
	liveFixture := fixture{sys: sys, merchant: live, secretKey: live.createSecretKey(t)}
	click := f.click(t)

	wantInvalid := func(changes object, fields ...string) {
		t.Helper()
		body := purchase(click)
		for field, value := range changes {
			body[field] = value
		}
		f.report(t, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", fields...)
	}
	wantInvalid(object{"event_type": nil, "external_transaction_id": "", "amount_cents": -1, "currency": "usdollar", "click_id": "1"},
		"event_type", "external_transaction_id", "amount_cents", "currency", "click_id")
	wantInvalid(object{"event_type": "Purchase"}, "event_type")
	wantInvalid(object{"amount_cents": nil, "currency": nil}, "amount_cents", "currency")
	wantInvalid(object{"amount_cents": 1_000_000_000_001}, "amount_cents")
	wantInvalid(object{"occurred_at": sys.clock.now().Add(6 * time.Minute).UTC().Format(time.RFC3339)}, "occurred_at")
	wantInvalid(object{"occurred_at": sys.clock.now().AddDate(0, 0, -91).UTC().Format(time.RFC3339)}, "occurred_at")
	wantInvalid(object{"customer_email": "nobody", "customer_ip": "1.2.3"}, "customer_email", "customer_ip")

	// 400 takes precedence over 422. The report has no attribution signal (422), and the
	// field event_type has the wrong type (400).
	f.report(t, object{"event_type": 5}).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
	for _, empty := range []any{nil, ""} {
		body := purchase("")
		body["click_id"], body["promo_code"] = empty, empty
		f.report(t, body).wantError(http.StatusUnprocessableEntity, "NO_ATTRIBUTION_SIGNAL")
	}
	liveFixture.report(t, purchase(click)).wantError(http.StatusUnprocessableEntity, "MODE_MISMATCH")

	// 422 takes precedence over 409. A conversion with the external id already exists in
	// the mode of the key (409), and the click belongs to the other mode (422).
	sale := purchase(click)
	first := f.report(t, sale).wantStatus(http.StatusCreated)
	f.report(t, sale).wantError(http.StatusConflict, "CONVERSION_DUPLICATE").
		wantFields(object{"context": object{"conversionId": first.text("id")}})
	liveSale := purchase("00000000-0000-4000-8000-000000000000")
	liveSale["external_transaction_id"] = sale["external_transaction_id"]
	liveFixture.report(t, liveSale).wantStatus(http.StatusCreated)
	liveFixture.report(t, sale).wantError(http.StatusUnprocessableEntity, "MODE_MISMATCH")
}

// testRaces sends equal reports concurrently, and sends a click after its purchase was
// reported.
func testRaces(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)

	t.Run("only one of a hundred concurrent equal reports is stored", func(t *testing.T) {
		sale := purchase(f.click(t))
		before := f.merchant.get(t, "/api/v1/commissions").number("total")
		responses := concurrently(100, func(int) response { return f.report(t, sale) })
		if got := countStatuses(responses); got["201"] != 1 || got["409 CONVERSION_DUPLICATE"] != 99 {
			t.Errorf("100 concurrent reports got %v, want one 201 and 99 times CONVERSION_DUPLICATE", got)
		}
		if after := f.merchant.get(t, "/api/v1/commissions").number("total"); after != before+1 {
			t.Errorf("100 concurrent reports created %d commissions, want 1", after-before)
		}
	})
	t.Run("a sale whose click arrives later is attributed once", func(t *testing.T) {
		// The collector uses the id that the client proposes, so the purchase can be
		// reported first.
		late := affiliate.NewID[affiliate.ClickID](sys.clock.now()).String()
		sale := purchase(late)
		f.report(t, sale).wantStatus(http.StatusCreated).wantFields(object{"attributed": false, "attribution.reason_code": "CLICK_UNKNOWN"})
		for range 2 {
			sys.click(t, f.publicKey, object{"referral_code": f.code, "click_id": late})
		}
		search := "/api/v1/commissions?search=" + sale["external_transaction_id"].(string)
		eventually(t, waitTimeout, "the commission exists", func() error {
			if n := f.merchant.get(t, search).number("total"); n != 1 {
				return fmt.Errorf("there are %d commissions, want 1", n)
			}
			return nil
		})
		f.merchant.get(t, search).wantFields(object{"data.0.amountCents": 2000, "data.0.clickId": late})
		id := f.merchant.get(t, search).text("data.0.id")
		f.merchant.get(t, f.commissionPath(id)).wantStatus(http.StatusOK).wantFields(object{"attribution.reasonCode": "CLICK_MATCHED", "attribution.method": "click"})
		f.report(t, sale).wantError(http.StatusConflict, "CONVERSION_DUPLICATE")

		decisions := sys.count(t, `select count(*) from attribution_decisions d join conversions c on c.workspace_id = d.workspace_id and c.id = d.conversion_id
			where c.external_transaction_id = $1`, sale["external_transaction_id"])
		// The conversion must no longer wait for the click. Otherwise it would be
		// attributed a second time.
		waiting := sys.count(t, "select count(*) from awaited_clicks where click_id = $1", late)
		if decisions != 2 || waiting != 0 {
			t.Errorf("the conversion has %d decisions and %d entries that wait for the click, want 2 and 0", decisions, waiting)
		}
	})
}

// testWindows checks that an attribution window of n days ends exactly n × 24 hours after
// the click, to the millisecond.
func testWindows(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", object{"attributionWindowDays": 1})
	var windowEnd time.Time
	var click string
	eventually(t, waitTimeout, "the collector accepts a click", func() error {
		got := sys.click(t, f.publicKey, object{"referral_code": f.code})
		if got.status != http.StatusCreated {
			return fmt.Errorf("the collector returns %d", got.status)
		}
		click, windowEnd = got.text("click_id"), got.instant("expires_at")
		return nil
	})
	reportSaleAt := func(occurredAt time.Time) response {
		sale := purchase(click)
		sale["occurred_at"] = occurredAt.UTC().Format(time.RFC3339Nano)
		return f.report(t, sale).wantStatus(http.StatusCreated)
	}
	expired := object{"attributed": false, "attribution.reason_code": "CLICK_EXPIRED", "commission": nil}

	sys.clock.advance(24*time.Hour - 2*time.Minute)
	reportSaleAt(windowEnd).wantFields(object{"attribution.reason_code": "CLICK_MATCHED"})
	reportSaleAt(windowEnd.Add(time.Millisecond)).wantFields(expired)
	// A sale that happened within the window is attributed, even if it is reported after
	// the end of the window.
	sys.clock.advance(time.Hour)
	f.report(t, purchase(click)).wantStatus(http.StatusCreated).wantFields(expired)
	reportSaleAt(windowEnd).wantFields(object{"attribution.reason_code": "CLICK_MATCHED"})
}
