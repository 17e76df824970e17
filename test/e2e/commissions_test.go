package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func walkCommissions(t *testing.T, sys *system) {
	t.Helper()
	held := sys.world(t, "test", rules(nil))
	free := sys.worldOf(t, held.merchant, held.partner, rules(object{"holdPeriodDays": 0, "autoApproval": false}))
	move := func(t *testing.T, w world, id, name string, body any) response {
		t.Helper()
		return w.merchant.patch(t, w.commissionPath(id)+"/"+name, body)
	}

	t.Run("the detail has the attribution and the rules", func(t *testing.T) {
		click := held.click(t)
		sale := purchase(click)
		made := held.report(t, sale).want(http.StatusCreated)
		// A change of the rules creates a new version and does not affect existing
		// commissions.
		held.merchant.patch(t, held.programPath(), object{"commissionRules": object{"percentage": 50}}).want(http.StatusOK)
		got := held.merchant.get(t, held.commissionPath(made.text("commission.id"))).want(http.StatusOK).wantFields(object{
			"programId": held.program, "participantId": held.participant, "partnerId": held.partner.id, "partnerName": "Pia Partner",
			"partnerEmail": held.partner.email, "conversionId": made.text("id"), "externalTransactionId": sale["external_transaction_id"],
			"clickId": click, "promoCode": nil, "customerRef": nil, "mode": "test", "status": "pending", "commissionType": "percentage",
			"eventType": "purchase", "rateBps": 2000, "flatAmountCents": nil, "amountCents": 2000, "originalAmountCents": 2000,
			"reversedAmountCents": 0, "currency": "USD", "baseAmountCents": 10_000, "saleAmountCents": 10_000, "saleCurrency": "USD",
			"fxRate": nil, "fxDate": nil, "needsReview": false, "reviewReasons": []any{}, "disputeStatus": "none", "holdActive": true,
			"rejectionReason": nil, "rejectionCode": nil, "approvedAt": nil, "approvedBy": nil, "paidAt": nil, "payoutId": nil,
			"overrideReason": nil, "overrideBy": nil,
			"ruleSnapshot.version": 1, "ruleSnapshot.rules.percentage": 20, "ruleSnapshot.rules.holdPeriodDays": 1,
			"attribution.method": "click", "attribution.reasonCode": "CLICK_MATCHED", "attribution.decisionId": made.text("attribution.decision_id"),
			"attribution.explanation": made.text("attribution.explanation"),
			"history.0.from":          nil, "history.0.to": "pending", "history.0.actor": "system", "history.0.reason": nil,
		})
		if got.length("history") != 1 || !got.instant("holdUntil").Equal(made.instant("commission.hold_until")) {
			t.Errorf("history or hold: %s", got.body)
		}
		held.merchant.patch(t, held.programPath(), object{"commissionRules": object{"percentage": 20}}).want(http.StatusOK)
	})
	t.Run("a hold prevents approval but not rejection", func(t *testing.T) {
		id := held.earn(t)
		move(t, held, id, "approve", nil).wantError(http.StatusConflict, "COMMISSION_HOLD_ACTIVE")
		move(t, held, id, "reject", object{"reason": " Returned. ", "code": "order_canceled"}).want(http.StatusOK).wantFields(object{
			"status": "rejected", "rejectionReason": "Returned.", "rejectionCode": "order_canceled",
			"history.1.from": "pending", "history.1.to": "rejected", "history.1.actor": held.merchant.id, "history.1.reason": "Returned.",
		}).instant("rejectedAt")
		move(t, held, id, "reject", nil).wantError(http.StatusConflict, "COMMISSION_TERMINAL")
		move(t, held, id, "approve", nil).wantError(http.StatusConflict, "COMMISSION_NOT_PENDING")
	})
	t.Run("without a hold a merchant approves, and may reject later", func(t *testing.T) {
		id := free.earn(t)
		move(t, free, id, "approve", object{}).want(http.StatusOK).wantFields(object{
			"status": "approved", "approvedBy": free.merchant.id, "holdUntil": nil, "holdActive": false,
			"history.1.from": "pending", "history.1.to": "approved", "history.1.actor": free.merchant.id,
		}).instant("approvedAt")
		move(t, free, id, "approve", nil).wantError(http.StatusConflict, "COMMISSION_NOT_PENDING")
		got := move(t, free, id, "reject", nil).want(http.StatusOK).wantFields(object{"status": "rejected", "rejectionReason": nil, "rejectionCode": nil})
		if got.length("history") != 3 {
			t.Errorf("history: %s", got.body)
		}
	})
	t.Run("approval clears a review flag", func(t *testing.T) {
		sale := purchase(free.click(t))
		sale["currency"] = "EUR"
		id := free.report(t, sale).want(http.StatusCreated).text("commission.id")
		free.merchant.get(t, free.commissionPath(id)).wantFields(object{"needsReview": true, "reviewReasons": []any{"fx_rate_missing"}, "currency": "EUR"})
		move(t, free, id, "approve", nil).want(http.StatusOK).wantFields(object{"status": "approved", "needsReview": false})
	})
	t.Run("suspending a partner flags pending commissions", func(t *testing.T) {
		own := sys.world(t, "test", rules(nil))
		id := own.earn(t)
		own.merchant.patch(t, own.participantPath()+"/suspend", nil).want(http.StatusOK)
		own.merchant.get(t, own.commissionPath(id)).wantFields(object{"reviewReasons": []any{"participant_suspended"}, "status": "pending"})
	})
	t.Run("one of many concurrent approvals succeeds", func(t *testing.T) {
		id := free.earn(t)
		responses := concurrently(20, func(int) response { return move(t, free, id, "approve", nil) })
		if got := countStatuses(responses); got["200"] != 1 || got["409 COMMISSION_NOT_PENDING"] != 19 {
			t.Errorf("20 approvals at once: %v", got)
		}
		if n := free.merchant.get(t, free.commissionPath(id)).length("history"); n != 2 {
			t.Errorf("the history has %d entries", n)
		}
	})
	t.Run("bodies are checked", func(t *testing.T) {
		id := free.earn(t)
		move(t, free, id, "reject", object{"code": "because"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "code")
		move(t, free, id, "reject", object{"reason": strings.Repeat("x", 501)}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "reason")
		move(t, free, id, "reject", object{"reason": ""}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "reason")
		move(t, free, id, "approve", object{"force": true}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "force")
		free.merchant.get(t, held.commissionPath(id)).wantOutcome(notFound)
	})
}

func walkCommissionLists(t *testing.T, sys *system) {
	t.Helper()
	a := sys.world(t, "live", rules(object{"holdPeriodDays": 0, "autoApproval": false}))
	b := sys.worldOf(t, a.merchant, sys.partner(t).in("live"), rules(object{"commissionType": "flat", "percentage": nil, "flatAmountCents": 50}))
	today, tomorrow := sys.clock.now().UTC().Format(time.DateOnly), sys.clock.now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	sell := func(w world, amount int, currency string) response {
		sale := purchase(w.click(t))
		sale["amount_cents"], sale["currency"] = amount, currency
		return w.report(t, sale).want(http.StatusCreated)
	}
	// The conversions in the order of their creation.
	small, large, euro, flat := sell(a, 1000, "USD"), sell(a, 9000, "USD"), sell(a, 5000, "EUR"), sell(b, 4000, "USD")
	a.merchant.patch(t, a.commissionPath(large.text("commission.id"))+"/approve", nil).want(http.StatusOK)
	id := func(of response) string { return of.text("commission.id") }

	list := func(t *testing.T, path, query string, want ...response) response {
		t.Helper()
		got := a.merchant.get(t, path+"?"+query).want(http.StatusOK)
		var ids, wanted []string
		for i := range got.length("data") {
			ids = append(ids, got.text(fmt.Sprintf("data.%d.id", i)))
		}
		for _, one := range want {
			wanted = append(wanted, id(one))
		}
		if fmt.Sprint(ids) != fmt.Sprint(wanted) {
			t.Errorf("%s?%s:\n got %v\nwant %v", path, query, ids, wanted)
		}
		return got
	}
	everywhere, inA := "/api/v1/commissions", a.programPath()+"/commissions"
	instant := func(of response) string { return url.QueryEscape(of.text("created_at")) }

	list(t, everywhere, "", flat, euro, large, small).wantFields(object{"total": 4, "page": 1, "limit": 20})
	list(t, inA, "", euro, large, small).wantFields(object{"total": 3})
	list(t, everywhere, "programId="+b.program, flat).wantFields(object{"total": 1})
	list(t, everywhere, "pageSize=3&page=2", small).wantFields(object{"total": 4, "page": 2, "limit": 3})
	list(t, everywhere, "page=9").wantFields(object{"total": 4, "data": []any{}})
	for query, want := range map[string][]response{
		"sortBy=createdAt&sortOrder=asc":             {small, large, euro},
		"sortBy=amountCents":                         {large, euro, small},
		"sortBy=amountCents&sortOrder=asc":           {small, euro, large},
		"sortBy=status&sortOrder=asc":                {large, euro, small},
		"sortBy=needsReview":                         {euro, large, small},
		"status=approved":                            {large},
		"status=pending&sortOrder=asc":               {small, euro},
		"status=paid":                                {},
		"needsReview=true":                           {euro},
		"needsReview=false":                          {large, small},
		"dateFrom=" + today + "&dateTo=" + tomorrow:  {euro, large, small},
		"dateFrom=" + tomorrow:                       {},
		"dateTo=2020-01-01":                          {},
		"dateFrom=" + instant(large):                 {euro, large},
		"dateTo=" + instant(small):                   {small},
		"search=" + url.QueryEscape(a.partner.email): {euro, large, small},
		"search=PIA":                                 {euro, large, small},
		"search=" + id(large):                        {large},
		"search=" + large.text("external_transaction_id") + "&status=pending": {},
		"search=nobody": {},
		"search=%25":    {},
		"search=":       {euro, large, small},
	} {
		t.Run(query, func(t *testing.T) { list(t, inA, query, want...) })
	}
	list(t, everywhere, "sortBy=commissionType&sortOrder=asc&pageSize=1", flat)
	list(t, everywhere, "sortBy=partnerName&pageSize=1", flat)

	t.Run("parameters are checked", func(t *testing.T) {
		for query, field := range map[string]string{
			"sortBy=created_at": "sortBy", "sortOrder=up": "sortOrder", "status=PENDING": "status", "status=open": "status",
			"needsReview=1": "needsReview", "dateFrom=01.02.2026": "dateFrom", "timezone=Mars": "timezone",
			"search=" + strings.Repeat("x", 201): "search", "page=0": "page", "pageSize=101": "pageSize", "pageSize=x": "pageSize",
		} {
			a.merchant.get(t, inA+"?"+query).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
			a.merchant.get(t, everywhere+"?"+query).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
		}
		a.merchant.get(t, inA+"?dateFrom=2026-02-01&dateTo=2026-01-01").wantError(http.StatusBadRequest, "VALIDATION_ERROR")
		a.merchant.get(t, everywhere+"?programId=1").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "programId")
		a.merchant.get(t, everywhere+"?programId="+unknownIDs()["program_id"]).wantOutcome(notFound)
		a.merchant.in("test").get(t, everywhere+"?programId="+a.program).wantOutcome(notFound)
		sys.merchant(t).in("live").get(t, everywhere+"?programId="+a.program).wantOutcome(forbidden)
	})
}

// walkAutomaticApproval checks that a commission is approved at the end of its hold,
// unless it must be approved by a person.
func walkAutomaticApproval(t *testing.T, sys *system) {
	t.Helper()
	w := sys.world(t, "test", rules(nil))
	manual := sys.worldOf(t, w.merchant, w.partner, rules(object{"autoApproval": false}))
	earned, left := w.earn(t), manual.earn(t)
	sale := purchase(w.click(t))
	sale["currency"] = "EUR"
	flagged := w.report(t, sale).want(http.StatusCreated).text("commission.id")

	sys.clock.advance(24*time.Hour - time.Minute)
	w.merchant = w.merchant.login(t)
	w.merchant.get(t, w.commissionPath(earned)).want(http.StatusOK).wantFields(object{"status": "pending", "holdActive": true})
	w.merchant.patch(t, w.commissionPath(earned)+"/approve", nil).wantError(http.StatusConflict, "COMMISSION_HOLD_ACTIVE")

	sys.clock.advance(2 * time.Minute)
	eventually(t, waitTimeout, "the service approves the commission", func() error {
		if got := w.merchant.get(t, w.commissionPath(earned)); got.text("status") != "approved" {
			return fmt.Errorf("it is %s", got.text("status"))
		}
		return nil
	})
	w.merchant.get(t, w.commissionPath(earned)).wantFields(object{
		"approvedBy": "system", "holdActive": false, "history.1.from": "pending", "history.1.to": "approved", "history.1.actor": "system",
	}).instant("approvedAt")

	// The job that approved the first commission did not approve these. A merchant may
	// approve them now.
	for _, path := range []string{w.commissionPath(flagged), manual.commissionPath(left)} {
		w.merchant.get(t, path).want(http.StatusOK).wantFields(object{"status": "pending", "holdActive": false, "approvedAt": nil})
		w.merchant.patch(t, path+"/approve", nil).want(http.StatusOK).wantFields(object{"status": "approved", "approvedBy": w.merchant.id})
	}
}
