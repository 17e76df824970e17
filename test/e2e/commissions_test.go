package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func testCommissions(t *testing.T, sys *system) {
	withHold := sys.newFixture(t, "test", rules(nil))
	withoutHold := sys.newFixtureFor(t, withHold.merchant, withHold.partner, rules(object{"holdPeriodDays": 0, "autoApproval": false}))
	changeStatus := func(t *testing.T, f fixture, id, name string, body any) response {
		t.Helper()
		return f.merchant.patch(t, f.commissionPath(id)+"/"+name, body)
	}

	t.Run("a commission is read and reviewed without its programme", func(t *testing.T) {
		report := withoutHold.report(t, purchase(withoutHold.click(t))).wantStatus(http.StatusCreated)
		path := "/api/v1/commissions/" + report.text("commission.id")
		withoutHold.merchant.get(t, path).wantStatus(http.StatusOK).wantFields(object{"programId": withoutHold.program, "status": "pending"})
		// The programme is not a parameter of this path.
		withoutHold.merchant.get(t, path+"?programId="+withHold.program).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "programId")
		withoutHold.merchant.patch(t, path+"/approve", object{"programId": withHold.program}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "programId")
		withoutHold.merchant.patch(t, path+"/approve", nil).wantStatus(http.StatusOK).wantFields(object{"status": "approved"})
		withoutHold.merchant.patch(t, path+"/reject", object{"code": "test_order"}).wantStatus(http.StatusOK).wantFields(object{"status": "rejected"})
		for _, list := range []string{"stats", "export"} {
			withoutHold.merchant.get(t, "/api/v1/commissions/"+list).wantStatus(http.StatusOK)
		}
		live := withoutHold.merchant.inMode("live").get(t, path)
		live.wantOutcome(notFound)
		live.wantFields(object{"message": "Not found. It exists in test mode; send X-Mode: test."})
	})
	t.Run("a commission contains its attribution decision and its rules", func(t *testing.T) {
		click := withHold.click(t)
		sale := purchase(click)
		created := withHold.report(t, sale).wantStatus(http.StatusCreated)
		// Change the rules. This creates a new version of the rules. Existing commissions
		// do not change.
		withHold.merchant.patch(t, withHold.programPath(), object{"commissionRules": object{"percentage": 50}}).wantStatus(http.StatusOK)
		got := withHold.merchant.get(t, withHold.commissionPath(created.text("commission.id"))).wantStatus(http.StatusOK).wantFields(object{
			"programId": withHold.program, "participantId": withHold.participant, "partnerId": withHold.partner.id, "partnerName": "Pia Partner",
			"partnerEmail": withHold.partner.email, "conversionId": created.text("id"), "externalTransactionId": sale["external_transaction_id"],
			"clickId": click, "promoCode": nil, "customerRef": nil, "mode": "test", "status": "pending", "commissionType": "percentage",
			"eventType": "purchase", "rateBps": 2000, "flatAmountCents": nil, "amountCents": 2000, "originalAmountCents": 2000,
			"reversedAmountCents": 0, "currency": "USD", "baseAmountCents": 10_000, "saleAmountCents": 10_000, "saleCurrency": "USD",
			"fxRate": nil, "fxDate": nil, "needsReview": false, "reviewReasons": []any{}, "disputeStatus": "none", "holdActive": true,
			"rejectionReason": nil, "rejectionCode": nil, "approvedAt": nil, "approvedBy": nil, "paidAt": nil, "payoutId": nil,
			"overrideReason": nil, "overrideBy": nil,
			"ruleSnapshot.version": 1, "ruleSnapshot.rules.percentage": 20, "ruleSnapshot.rules.holdPeriodDays": 1,
			"attribution.method": "click", "attribution.reasonCode": "CLICK_MATCHED", "attribution.decisionId": created.text("attribution.decision_id"),
			"attribution.explanation": created.text("attribution.explanation"),
			"history.0.from":          nil, "history.0.to": "pending", "history.0.actor": "system", "history.0.reason": nil,
		})
		if got.length("history") != 1 || !got.instant("holdUntil").Equal(created.instant("commission.hold_until")) {
			t.Errorf("holdUntil differs from hold_until in the response to the report, or the history does not have one entry: %s", got.body)
		}
		withHold.merchant.patch(t, withHold.programPath(), object{"commissionRules": object{"percentage": 20}}).wantStatus(http.StatusOK)
	})
	t.Run("a hold prevents approval but not rejection", func(t *testing.T) {
		id := withHold.earnCommission(t)
		changeStatus(t, withHold, id, "approve", nil).wantError(http.StatusConflict, "COMMISSION_HOLD_ACTIVE")
		changeStatus(t, withHold, id, "reject", object{"reason": " Returned. ", "code": "order_canceled"}).wantStatus(http.StatusOK).wantFields(object{
			"status": "rejected", "rejectionReason": "Returned.", "rejectionCode": "order_canceled",
			"history.1.from": "pending", "history.1.to": "rejected", "history.1.actor": withHold.merchant.id, "history.1.reason": "Returned.",
		}).instant("rejectedAt")
		changeStatus(t, withHold, id, "reject", nil).wantError(http.StatusConflict, "COMMISSION_TERMINAL")
		changeStatus(t, withHold, id, "approve", nil).wantError(http.StatusConflict, "COMMISSION_NOT_PENDING")
	})
	t.Run("without a hold a merchant approves, and may reject later", func(t *testing.T) {
		id := withoutHold.earnCommission(t)
		changeStatus(t, withoutHold, id, "approve", object{}).wantStatus(http.StatusOK).wantFields(object{
			"status": "approved", "approvedBy": withoutHold.merchant.id, "approvedByName": "Mara Merchant", "holdUntil": nil, "holdActive": false,
			"history.1.from": "pending", "history.1.to": "approved", "history.1.actor": withoutHold.merchant.id, "history.1.actorName": "Mara Merchant",
			"history.0.actor": "system", "history.0.actorName": nil,
		}).instant("approvedAt")
		changeStatus(t, withoutHold, id, "approve", nil).wantError(http.StatusConflict, "COMMISSION_NOT_PENDING")
		got := changeStatus(t, withoutHold, id, "reject", nil).wantStatus(http.StatusOK).wantFields(object{"status": "rejected", "rejectionReason": nil, "rejectionCode": nil})
		if got.length("history") != 3 {
			t.Errorf("the history has %d entries, want 3: %s", got.length("history"), got.body)
		}
	})
	t.Run("approval clears a review flag", func(t *testing.T) {
		sale := purchase(withoutHold.click(t))
		sale["currency"] = "EUR"
		id := withoutHold.report(t, sale).wantStatus(http.StatusCreated).text("commission.id")
		withoutHold.merchant.get(t, withoutHold.commissionPath(id)).wantFields(object{"needsReview": true, "reviewReasons": []any{"fx_rate_missing"}, "currency": "EUR"})
		changeStatus(t, withoutHold, id, "approve", nil).wantStatus(http.StatusOK).wantFields(object{"status": "approved", "needsReview": false})
	})
	t.Run("suspending a partner flags pending commissions", func(t *testing.T) {
		own := sys.newFixture(t, "test", rules(nil))
		id := own.earnCommission(t)
		own.merchant.patch(t, own.participantPath()+"/suspend", nil).wantStatus(http.StatusOK)
		own.merchant.get(t, own.commissionPath(id)).wantFields(object{"reviewReasons": []any{"participant_suspended"}, "status": "pending"})
	})
	t.Run("only one of many concurrent approvals succeeds", func(t *testing.T) {
		id := withoutHold.earnCommission(t)
		responses := concurrently(20, func(int) response { return changeStatus(t, withoutHold, id, "approve", nil) })
		if got := countStatuses(responses); got["200"] != 1 || got["409 COMMISSION_NOT_PENDING"] != 19 {
			t.Errorf("20 concurrent approvals got %v, want one 200 and 19 times COMMISSION_NOT_PENDING", got)
		}
		if n := withoutHold.merchant.get(t, withoutHold.commissionPath(id)).length("history"); n != 2 {
			t.Errorf("the history has %d entries, want 2", n)
		}
	})
	t.Run("invalid bodies are rejected", func(t *testing.T) {
		id := withoutHold.earnCommission(t)
		changeStatus(t, withoutHold, id, "reject", object{"code": "because"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "code")
		changeStatus(t, withoutHold, id, "reject", object{"reason": strings.Repeat("x", 501)}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "reason")
		changeStatus(t, withoutHold, id, "reject", object{"reason": ""}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "reason")
		changeStatus(t, withoutHold, id, "approve", object{"force": true}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "force")
		withoutHold.merchant.get(t, withHold.commissionPath(id)).wantOutcome(notFound)
	})
}

func testCommissionLists(t *testing.T, sys *system) {
	a := sys.newFixture(t, "live", rules(object{"holdPeriodDays": 0, "autoApproval": false}))
	b := sys.newFixtureFor(t, a.merchant, sys.newPartner(t).inMode("live"), rules(object{"commissionType": "flat", "percentage": nil, "flatAmountCents": 50}))
	today, tomorrow := sys.clock.now().UTC().Format(time.DateOnly), sys.clock.now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	sell := func(f fixture, amount int, currency string) response {
		sale := purchase(f.click(t))
		sale["amount_cents"], sale["currency"] = amount, currency
		return f.report(t, sale).wantStatus(http.StatusCreated)
	}
	// The variables hold the responses to four reports, in the order of the reports.
	small, large, euro, flat := sell(a, 1000, "USD"), sell(a, 9000, "USD"), sell(a, 5000, "EUR"), sell(b, 4000, "USD")
	a.merchant.patch(t, a.commissionPath(large.text("commission.id"))+"/approve", nil).wantStatus(http.StatusOK)
	id := func(conversion response) string { return conversion.text("commission.id") }

	list := func(t *testing.T, path, query string, want ...response) response {
		t.Helper()
		got := a.merchant.get(t, path+"?"+query).wantStatus(http.StatusOK)
		var ids, wanted []string
		for i := range got.length("data") {
			ids = append(ids, got.text(fmt.Sprintf("data.%d.id", i)))
		}
		for _, conversion := range want {
			wanted = append(wanted, id(conversion))
		}
		if fmt.Sprint(ids) != fmt.Sprint(wanted) {
			t.Errorf("%s?%s:\n got %v\nwant %v", path, query, ids, wanted)
		}
		return got
	}
	everywhere, inA := "/api/v1/commissions", a.programPath()+"/commissions"
	createdAt := func(conversion response) string { return url.QueryEscape(conversion.text("created_at")) }

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
		"dateFrom=" + createdAt(large):               {euro, large},
		"dateTo=" + createdAt(small):                 {small},
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

	t.Run("invalid parameters are rejected", func(t *testing.T) {
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
		a.merchant.inMode("test").get(t, everywhere+"?programId="+a.program).wantOutcome(notFound)
		sys.newMerchant(t).inMode("live").get(t, everywhere+"?programId="+a.program).wantOutcome(forbidden)
	})
}

// testAutomaticApproval checks that a job approves a commission when its hold period has
// ended. A commission stays pending if it is flagged for review, or if its programme does
// not approve commissions automatically.
func testAutomaticApproval(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(nil))
	manual := sys.newFixtureFor(t, f.merchant, f.partner, rules(object{"autoApproval": false}))
	id, manualID := f.earnCommission(t), manual.earnCommission(t)
	sale := purchase(f.click(t))
	sale["currency"] = "EUR"
	flagged := f.report(t, sale).wantStatus(http.StatusCreated).text("commission.id")

	sys.clock.advance(24*time.Hour - time.Minute)
	f.merchant = f.merchant.login(t)
	pending := f.merchant.get(t, f.commissionPath(id)).wantStatus(http.StatusOK).wantFields(object{"status": "pending", "holdActive": true})
	f.merchant.patch(t, f.commissionPath(id)+"/approve", nil).wantError(http.StatusConflict, "COMMISSION_HOLD_ACTIVE").
		wantFields(object{"context": object{"status": "pending", "holdUntil": pending.text("holdUntil")}})

	sys.clock.advance(2 * time.Minute)
	eventually(t, waitTimeout, "the service approves the commission", func() error {
		if got := f.merchant.get(t, f.commissionPath(id)); got.text("status") != "approved" {
			return fmt.Errorf("its status is %s", got.text("status"))
		}
		return nil
	})
	f.merchant.get(t, f.commissionPath(id)).wantFields(object{
		"approvedBy": "system", "approvedByName": nil, "holdActive": false, "history.1.from": "pending", "history.1.to": "approved", "history.1.actor": "system",
	}).instant("approvedAt")

	// The job has not approved the flagged commission and the commission of the programme
	// without automatic approval. The merchant can approve both now.
	for _, path := range []string{f.commissionPath(flagged), manual.commissionPath(manualID)} {
		f.merchant.get(t, path).wantStatus(http.StatusOK).wantFields(object{"status": "pending", "holdActive": false, "approvedAt": nil})
		f.merchant.patch(t, path+"/approve", nil).wantStatus(http.StatusOK).wantFields(object{"status": "approved", "approvedBy": f.merchant.id})
	}
}
