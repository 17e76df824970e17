package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

func walkConversions(t *testing.T, sys *system) {
	t.Helper()
	w := sys.world(t, "test", rules(nil))

	t.Run("a purchase after a click earns a commission", func(t *testing.T) {
		click := w.click(t)
		sale := purchase(click)
		sale["tax_cents"], sale["customer_id"], sale["customer_email"] = 1900, "c-1", "buyer@home.example"
		sale["metadata"], sale["line_items"] = object{"cart": object{"size": 2}}, []object{{"product_id": "p", "amount_cents": 5000}}
		got := w.report(t, sale).want(http.StatusCreated).wantFields(object{
			"event_type": "purchase", "external_transaction_id": sale["external_transaction_id"], "amount_cents": 10_000, "currency": "USD",
			"mode": "test", "attributed": true,
			"attribution.method": "click", "attribution.reason_code": "CLICK_MATCHED", "attribution.click_id": click, "attribution.promo_code": nil,
			"attribution.program_id": w.program, "attribution.participant_id": w.participant,
			"commission.status": "pending", "commission.amount_cents": 2000, "commission.currency": "USD", "commission.needs_review": false,
			"fraud.flagged": false,
		})
		if hold := got.instant("commission.hold_until").Sub(got.instant("created_at")); hold != 24*time.Hour {
			t.Errorf("the hold is %v", hold)
		}
		if window := got.instant("attribution.expires_at").Sub(got.instant("attribution.clicked_at")); window != 30*24*time.Hour {
			t.Errorf("the window is %v", window)
		}
		if got.text("attribution.explanation") == "" || got.text("attribution.decision_id") == "" || got.text("id") == "" {
			t.Errorf("an empty explanation or id: %s", got.body)
		}
	})
	t.Run("a click is found at once", func(t *testing.T) {
		for range 10 {
			w.report(t, purchase(w.click(t))).want(http.StatusCreated).wantFields(object{"attribution.reason_code": "CLICK_MATCHED"})
		}
	})
	t.Run("a conversion without a valid signal is stored without a partner", func(t *testing.T) {
		refused := func(body object, reason string) {
			t.Helper()
			w.report(t, body).want(http.StatusCreated).wantFields(object{
				"attributed": false, "attribution.reason_code": reason, "attribution.method": nil, "attribution.program_id": nil, "commission": nil,
			})
		}
		refused(purchase("00000000-0000-4000-8000-000000000000"), "CLICK_UNKNOWN")
		refused(purchase(affiliate.NewID[affiliate.Click](sys.clock.now()).String()), "CLICK_UNKNOWN")
		refused(purchase(affiliate.NewID[affiliate.Click](sys.clock.now().Add(6*time.Minute)).String()), "CLICK_UNKNOWN")
		promo := purchase("")
		promo["promo_code"] = "SAVE10"
		refused(promo, "PROMO_CODE_UNKNOWN")
		early := purchase(w.click(t))
		early["occurred_at"] = sys.clock.now().Add(-6 * time.Minute).UTC().Format(time.RFC3339Nano)
		refused(early, "CLICK_AFTER_CONVERSION")
	})
	t.Run("if the first signal is invalid, the next one is used", func(t *testing.T) {
		both := purchase(w.click(t))
		both["promo_code"] = "SAVE10"
		w.report(t, both).want(http.StatusCreated).wantFields(object{"attributed": true, "attribution.method": "click"})
	})
	t.Run("events without an amount earn nothing by default", func(t *testing.T) {
		lead := object{"event_type": "lead", "external_transaction_id": uniqueName("lead"), "click_id": w.click(t)}
		w.report(t, lead).want(http.StatusCreated).wantFields(object{
			"amount_cents": 0, "currency": nil, "attributed": true, "attribution.reason_code": "RULE_NOT_APPLICABLE", "commission": nil,
		})
	})
	t.Run("only approved partners earn and only active programmes pay", func(t *testing.T) {
		own := sys.world(t, "live", nil)
		click := own.click(t)
		own.merchant.patch(t, own.participantPath()+"/suspend", nil).want(http.StatusOK)
		own.report(t, purchase(click)).want(http.StatusCreated).
			wantFields(object{"attributed": true, "attribution.reason_code": "PARTICIPANT_NOT_APPROVED", "commission": nil})
		own.merchant.patch(t, own.participantPath()+"/reinstate", nil).want(http.StatusOK)
		own.merchant.post(t, own.programPath()+"/pause", nil).want(http.StatusOK)
		own.report(t, purchase(click)).want(http.StatusCreated).
			wantFields(object{"attributed": false, "attribution.reason_code": "PROGRAM_INACTIVE", "commission": nil})
	})
	t.Run("the rules determine the amount", func(t *testing.T) { amountsByRule(t, sys) })
	t.Run("errors have a fixed order", func(t *testing.T) { rejectedConversions(t, sys, w) })
}

func amountsByRule(t *testing.T, sys *system) {
	t.Helper()
	merchant, partner := sys.merchant(t).in("test"), sys.partner(t).in("test")
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
		"never above the base": {
			object{"commissionType": "flat", "percentage": nil, "flatAmountCents": 777},
			object{"amount_cents": 500},
			object{"commission.amount_cents": 500},
		},
		"without a hold it is approved at once": {
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
			w := sys.worldOf(t, merchant, partner, rules(c.rules))
			sale := purchase(w.click(t))
			for field, value := range c.sale {
				sale[field] = value
			}
			w.report(t, sale).want(http.StatusCreated).wantFields(c.want)
		})
	}
}

func rejectedConversions(t *testing.T, sys *system, w world) {
	t.Helper()
	merchant := w.merchant
	live := merchant.in("live")
	liveWorld := world{sys: sys, merchant: live, secretKey: live.secretKey(t)}
	click := w.click(t)

	faulty := func(changes object, fields ...string) {
		t.Helper()
		body := purchase(click)
		for field, value := range changes {
			body[field] = value
		}
		w.report(t, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", fields...)
	}
	faulty(object{"event_type": nil, "external_transaction_id": "", "amount_cents": -1, "currency": "usdollar", "click_id": "1"},
		"event_type", "external_transaction_id", "amount_cents", "currency", "click_id")
	faulty(object{"event_type": "Purchase"}, "event_type")
	faulty(object{"amount_cents": nil, "currency": nil}, "amount_cents", "currency")
	faulty(object{"amount_cents": 1_000_000_000_001}, "amount_cents")
	faulty(object{"occurred_at": sys.clock.now().Add(6 * time.Minute).UTC().Format(time.RFC3339)}, "occurred_at")
	faulty(object{"occurred_at": sys.clock.now().AddDate(0, 0, -91).UTC().Format(time.RFC3339)}, "occurred_at")
	faulty(object{"customer_email": "nobody", "customer_ip": "1.2.3"}, "customer_email", "customer_ip")

	// 400 takes precedence over 422: the report has no signal and a value of a wrong
	// type.
	w.report(t, object{"event_type": 5}).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
	for _, none := range []any{nil, ""} {
		body := purchase("")
		body["click_id"], body["promo_code"] = none, none
		w.report(t, body).wantError(http.StatusUnprocessableEntity, "NO_ATTRIBUTION_SIGNAL")
	}
	liveWorld.report(t, purchase(click)).wantError(http.StatusUnprocessableEntity, "MODE_MISMATCH")

	// 422 takes precedence over 409: the external id exists, and the signal is of the
	// other mode.
	twice := purchase(click)
	w.report(t, twice).want(http.StatusCreated)
	w.report(t, twice).wantError(http.StatusConflict, "CONVERSION_DUPLICATE")
	taken := purchase("00000000-0000-4000-8000-000000000000")
	taken["external_transaction_id"] = twice["external_transaction_id"]
	liveWorld.report(t, taken).want(http.StatusCreated)
	liveWorld.report(t, twice).wantError(http.StatusUnprocessableEntity, "MODE_MISMATCH")
}

// walkRaces sends concurrent reports, and a click that arrives after its purchase.
func walkRaces(t *testing.T, sys *system) {
	t.Helper()
	w := sys.world(t, "test", nil)

	t.Run("one of a hundred equal reports is stored", func(t *testing.T) {
		sale := purchase(w.click(t))
		before := w.merchant.get(t, "/api/v1/commissions").number("total")
		responses := concurrently(100, func(int) response { return w.report(t, sale) })
		if got := countStatuses(responses); got["201"] != 1 || got["409 CONVERSION_DUPLICATE"] != 99 {
			t.Errorf("100 reports at once: %v", got)
		}
		if after := w.merchant.get(t, "/api/v1/commissions").number("total"); after != before+1 {
			t.Errorf("they created %d commissions", after-before)
		}
	})
	t.Run("a late click is attributed once", func(t *testing.T) {
		// The collector uses the id that the client proposes, so the purchase can be
		// reported first.
		late := affiliate.NewID[affiliate.Click](sys.clock.now()).String()
		sale := purchase(late)
		w.report(t, sale).want(http.StatusCreated).wantFields(object{"attributed": false, "attribution.reason_code": "CLICK_UNKNOWN"})
		for range 2 {
			sys.click(t, w.publicKey, object{"referral_code": w.code, "click_id": late})
		}
		search := "/api/v1/commissions?search=" + sale["external_transaction_id"].(string)
		eventually(t, waitTimeout, "the commission exists", func() error {
			if n := w.merchant.get(t, search).number("total"); n != 1 {
				return fmt.Errorf("there are %d", n)
			}
			return nil
		})
		w.merchant.get(t, search).wantFields(object{"data.0.amountCents": 2000, "data.0.clickId": late})
		id := w.merchant.get(t, search).text("data.0.id")
		w.merchant.get(t, w.commissionPath(id)).want(http.StatusOK).wantFields(object{"attribution.reasonCode": "CLICK_MATCHED", "attribution.method": "click"})
		w.report(t, sale).wantError(http.StatusConflict, "CONVERSION_DUPLICATE")

		decisions := sys.count(t, `select count(*) from attribution_decisions d join conversions c on c.workspace_id = d.workspace_id and c.id = d.conversion_id
			where c.external_transaction_id = $1`, sale["external_transaction_id"])
		// The conversion must no longer wait for the click, so it is not attributed
		// again.
		waiting := sys.count(t, "select count(*) from awaited_clicks where click_id = $1", late)
		if decisions != 2 || waiting != 0 {
			t.Errorf("%d decisions, %d still waiting", decisions, waiting)
		}
	})
}

// walkWindows checks that an attribution window ends exactly days × 24 hours after its
// click, to the millisecond.
func walkWindows(t *testing.T, sys *system) {
	t.Helper()
	w := sys.world(t, "test", object{"attributionWindowDays": 1})
	var ends time.Time
	var click string
	eventually(t, waitTimeout, "a click", func() error {
		got := sys.click(t, w.publicKey, object{"referral_code": w.code})
		if got.status != http.StatusCreated {
			return fmt.Errorf("the collector returns %d", got.status)
		}
		click, ends = got.text("click_id"), got.instant("expires_at")
		return nil
	})
	at := func(when time.Time) response {
		sale := purchase(click)
		sale["occurred_at"] = when.UTC().Format(time.RFC3339Nano)
		return w.report(t, sale).want(http.StatusCreated)
	}
	expired := object{"attributed": false, "attribution.reason_code": "CLICK_EXPIRED", "commission": nil}

	sys.clock.advance(24*time.Hour - 2*time.Minute)
	at(ends).wantFields(object{"attribution.reason_code": "CLICK_MATCHED"})
	at(ends.Add(time.Millisecond)).wantFields(expired)
	// A sale within the window is attributed, even if it is reported after the window.
	sys.clock.advance(time.Hour)
	w.report(t, purchase(click)).want(http.StatusCreated).wantFields(expired)
	at(ends).wantFields(object{"attribution.reason_code": "CLICK_MATCHED"})
}
