package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// TestIdempotentReports checks that a report that is repeated with its idempotency key
// stores nothing, and that its response is the response to the first report.
func TestIdempotentReports(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	click := f.click(t)
	reportWithKey := func(key string, body any) response {
		return sys.client().withCredential(f.secretKey).withHeader("Idempotency-Key", key).post(t, "/api/v1/conversions", body)
	}

	sale := purchase(click)
	first := reportWithKey("order_1-a", sale).wantStatus(http.StatusCreated)
	again := reportWithKey("order_1-a", sale).wantStatus(http.StatusCreated)
	if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the repeated report got another response, or Idempotent-Replayed is wrong:\nfirst    %s %v\nrepeated %s %v", first.body, first.header, again.body, again.header)
	}
	other := purchase(click)
	reportWithKey("order_1-a", other).wantError(http.StatusConflict, "IDEMPOTENCY_KEY_REUSED")
	f.report(t, sale).wantError(http.StatusConflict, "CONVERSION_DUPLICATE")
	reportWithKey("another", sale).wantError(http.StatusConflict, "CONVERSION_DUPLICATE")
	for _, key := range []string{"has space", strings.Repeat("x", 81), "a/b"} {
		reportWithKey(key, purchase(click)).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "Idempotency-Key")
	}
	// A failed report stores nothing under its key.
	reportWithKey("open", purchase("")).wantError(http.StatusUnprocessableEntity, "NO_ATTRIBUTION_SIGNAL")
	reportWithKey("open", other).wantStatus(http.StatusCreated)

	t.Run("a key of one mode can be used again in the other mode", func(t *testing.T) {
		live := f.merchant.inMode("live")
		body := purchase(affiliate.NewID[affiliate.ClickID](sys.clock.now().Add(-time.Hour)).String())
		sys.client().withCredential(live.createSecretKey(t)).withHeader("Idempotency-Key", "order_1-a").post(t, "/api/v1/conversions", body).wantStatus(http.StatusCreated)
	})
	t.Run("concurrent reports with the same key get the same response", func(t *testing.T) {
		sale := purchase(click)
		responses := concurrently(40, func(int) response { return reportWithKey("concurrent", sale) })
		for _, r := range responses {
			if r.wantStatus(http.StatusCreated).body != responses[0].body {
				t.Errorf("two responses differ:\n%s\n%s", responses[0].body, r.body)
			}
		}
	})
	t.Run("after a day a key can be used for another report", func(t *testing.T) {
		sys.clock.advance(24*time.Hour + time.Second)
		reportWithKey("order_1-a", purchase(click)).wantStatus(http.StatusCreated)
	})
}

// testConversionBatches checks that each conversion of a batch succeeds or fails
// independently of the others.
func testConversionBatches(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	click := f.click(t)
	key := sys.client().withCredential(f.secretKey)
	const path = "/api/v1/conversions/batch"
	sale1, sale2 := purchase(click), purchase(click)

	got := key.post(t, path, object{"conversions": []object{sale1, sale2}}).wantStatus(http.StatusOK).wantFields(object{
		"summary": object{"total": 2, "succeeded": 2, "failed": 0}, "results.0.index": 0, "results.0.success": true, "results.0.status_code": 201,
		"results.1.external_transaction_id": sale2["external_transaction_id"], "results.1.conversion.attributed": true, "results.1.code": nil,
	})
	if got.text("results.0.id") != got.text("results.0.conversion.id") {
		t.Errorf("results.0.id and results.0.conversion.id differ: %s", got.body)
	}
	sale3 := purchase(click)
	key.post(t, path, object{"conversions": []object{sale1, sale3, sale3, purchase("")}}).wantStatus(http.StatusMultiStatus).wantFields(object{
		"summary":               object{"total": 4, "succeeded": 1, "failed": 3},
		"results.0.status_code": 409, "results.0.code": "CONVERSION_DUPLICATE", "results.0.id": nil, "results.0.conversion": nil,
		"results.1.status_code": 201, "results.2.code": "CONVERSION_DUPLICATE", "results.3.status_code": 422, "results.3.code": "NO_ATTRIBUTION_SIGNAL",
	})
	key.post(t, path, object{"conversions": []object{sale1, sale2}}).wantError(http.StatusUnprocessableEntity, "BULK_ALL_FAILED").
		wantFields(object{"results.1.code": "CONVERSION_DUPLICATE", "summary.failed": 2})

	t.Run("a customer's payments keep their order", func(t *testing.T) {
		payments := make([]object, 12)
		for i := range payments {
			payments[i] = purchase(click)
			payments[i]["customer_id"] = "in-order"
		}
		created := key.post(t, path, object{"conversions": payments}).wantStatus(http.StatusOK)
		for i := range payments {
			key.get(t, "/api/v1/conversions/"+created.text(fmt.Sprintf("results.%d.id", i))).wantStatus(http.StatusOK).wantFields(object{"recurring_index": i + 1})
		}
	})
	t.Run("an invalid item does not affect the others", func(t *testing.T) {
		good, bad := purchase(click), purchase(click)
		bad["currency"], bad["occurred_at"], bad["external_transaction_id"] = "XXX", "2001-01-01T00:00:00Z", ""
		key.post(t, path, object{"conversions": []object{good, bad}}).wantStatus(http.StatusMultiStatus).wantFields(object{
			"summary": object{"total": 2, "succeeded": 1, "failed": 1}, "results.0.success": true, "results.0.details": []any{},
			"results.1.success": false, "results.1.status_code": 400, "results.1.code": "VALIDATION_ERROR", "results.1.conversion": nil,
			"results.1.details.0.field": "conversions[1].external_transaction_id", "results.1.details.1.field": "conversions[1].currency",
			"results.1.details.2.field": "conversions[1].occurred_at",
		})
		key.post(t, path, object{"conversions": []object{bad, bad}}).wantError(http.StatusUnprocessableEntity, "BULK_ALL_FAILED").wantFields(object{
			"statusCode": 422, "summary": object{"total": 2, "succeeded": 0, "failed": 2}, "results.1.status_code": 400,
			"results.1.details.1.field": "conversions[1].currency",
		})
	})
	t.Run("an item that cannot be decoded does not affect the others", func(t *testing.T) {
		good, bad := purchase(click), purchase(click)
		bad["amount_cents"] = "10"
		key.post(t, path, object{"conversions": []object{bad, good}}).wantStatus(http.StatusMultiStatus).wantFields(object{
			"summary": object{"total": 2, "succeeded": 1, "failed": 1}, "results.0.success": false, "results.0.status_code": 400,
			"results.0.code": "VALIDATION_ERROR", "results.0.details.0.field": "conversions[0].amount_cents", "results.1.success": true,
		})
		bad["amount_cents"] = 10
		f.report(t, bad).wantStatus(http.StatusCreated) // the first attempt stored nothing
	})
	t.Run("a body without a list of objects is rejected", func(t *testing.T) {
		good := purchase(click)
		key.post(t, path, object{"conversions": []any{good, 1}}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "conversions[1]")
		key.post(t, path, object{"conversions": []object{}}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "conversions")
		f.report(t, good).wantStatus(http.StatusCreated)
	})
	t.Run("a batch of 500 can be repeated with its idempotency key", func(t *testing.T) {
		many := make([]object, 500)
		for i := range many {
			many[i] = purchase(click)
		}
		keyed := key.withHeader("Idempotency-Key", "nightly")
		first := keyed.post(t, path, object{"conversions": many}).wantStatus(http.StatusOK)
		again := keyed.post(t, path, object{"conversions": many}).wantStatus(http.StatusOK)
		if first.body != again.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("the repeated batch got another response")
		}
		keyed.post(t, path, object{"conversions": many[:499]}).wantError(http.StatusConflict, "IDEMPOTENCY_KEY_REUSED")
		key.post(t, path, object{"conversions": slices.Concat(many, []object{purchase(click)})}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "conversions")
	})
}

// testIdempotencyKeyIsRefused checks that a bonus, an announcement, a new partner and an
// invitation with an Idempotency-Key are made once, and that requests on which the header has no effect refuse it and change nothing.
func testIdempotencyKeyIsRefused(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	keyed := f.merchant.withHeader("Idempotency-Key", uniqueName("key"))
	ledger := f.participantPath() + "/ledger"
	bonus := object{"type": "bonus", "amountCents": 500, "reason": "Thank you."}
	first := keyed.post(t, ledger, bonus).wantStatus(http.StatusCreated)
	again := keyed.post(t, ledger, bonus).wantStatus(http.StatusCreated)
	if first.body != again.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the repeated bonus got the response %s, want the first response %s", again.body, first.body)
	}
	keyed.post(t, ledger, object{"type": "bonus", "amountCents": 501, "reason": "Thank you."}).wantError(http.StatusConflict, "IDEMPOTENCY_KEY_REUSED")
	f.merchant.get(t, ledger).wantStatus(http.StatusOK).wantFields(object{"total": 1})

	// The other requests that accept a key repeat their first response, and another body is
	// refused.
	for path, bodies := range map[string][2]object{
		f.programPath() + "/announcements":   {{"title": "News", "body": "Beans."}, {"title": "News", "body": "Tea."}},
		f.programPath() + "/partners":        {{"email": uniqueName("a") + "@example.com", "name": "Ada"}, {"email": uniqueName("b") + "@example.com", "name": "Ada"}},
		f.programPath() + "/partners/invite": {{"email": uniqueName("c") + "@example.com"}, {"email": uniqueName("d") + "@example.com"}},
		workspacePath + "/invites":           {{"email": uniqueName("e") + "@example.com", "role": "viewer"}, {"email": uniqueName("f") + "@example.com", "role": "viewer"}},
	} {
		first := keyed.post(t, path, bodies[0]).wantStatus(http.StatusCreated)
		again := keyed.post(t, path, bodies[0]).wantStatus(http.StatusCreated)
		if first.body != again.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("POST %s: the repeated request got the response %s, want the first response %s", path, again.body, first.body)
		}
		keyed.post(t, path, bodies[1]).wantError(http.StatusConflict, "IDEMPOTENCY_KEY_REUSED")
	}

	keyed.get(t, ledger).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "Idempotency-Key")
	keyed.get(t, ledger+"?type=none&page=0").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "type", "page", "Idempotency-Key")
	keyed.patch(t, f.programPath(), object{"name": 5}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name", "Idempotency-Key")
	keyed.post(t, f.programPath()+"/pause", nil).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "Idempotency-Key")
	keyed.get(t, "/api/v1/commissions/export").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "Idempotency-Key")
	sys.client().withHeader("Idempotency-Key", "k").get(t, ledger).wantError(http.StatusUnauthorized, "UNAUTHORIZED")
	f.merchant.get(t, f.programPath()).wantStatus(http.StatusOK).wantFields(object{"status": "active"})
}

// testConversionReads checks that servers and merchants can read reported conversions.
func testConversionReads(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	sale := f.reportSale(t, f.click(t), object{"customer_id": "c-1", "metadata": object{"plan": "pro"}, "line_items": []object{{"product_id": "p", "amount_cents": 10000}}})
	unattributed := f.reportSale(t, affiliate.NewID[affiliate.ClickID](sys.clock.now().Add(-time.Hour)).String(), object{"event_type": "renewal"})
	today := sys.clock.now().UTC().Format(time.DateOnly)
	for name, reader := range map[string]apiClient{"a secret key": sys.client().withCredential(f.secretKey), "a merchant": f.merchant.apiClient} {
		t.Run(name, func(t *testing.T) {
			reader.get(t, "/api/v1/conversions").wantStatus(http.StatusOK).wantFields(object{
				"total": 2, "page": 1, "limit": 20, "page_size": 20, "data.0.id": unattributed.text("id"), "data.1.id": sale.text("id"), "data.1.workspace_id": f.merchant.workspace,
				"data.1.commission.id": sale.text("commission.id"), "data.1.attribution.explanation": sale.text("attribution.explanation"), "data.0.commission": nil,
			})
			reader.get(t, "/api/v1/conversions/"+sale.text("id")).wantStatus(http.StatusOK).wantFields(object{
				"id": sale.text("id"), "mode": "test", "source": "api", "status": "recorded", "amount_cents": 10_000, "refunded_amount_cents": 0,
				"program_id": f.program, "participant_id": f.participant, "metadata": object{"plan": "pro"}, "line_items.0.product_id": "p", "refunds": []any{},
				"recurring_index": 1, "attribution.reason_code": "CLICK_MATCHED",
			})
			for query, total := range map[string]int{
				"attributed=true": 1, "attributed=false": 1, "event_type=renewal": 1, "event_type=lead": 0, "dateFrom=" + today: 2, "dateTo=2020-01-01": 0,
				"program_id=" + f.program: 1, "participant_id=" + f.participant: 1, "page=2": 2,
				"external_transaction_id=" + sale.text("external_transaction_id"): 1, "external_transaction_id=order": 0,
			} {
				reader.get(t, "/api/v1/conversions?"+query).wantStatus(http.StatusOK).wantFields(object{"total": total})
			}
			for _, query := range []string{"event_type=sale", "attributed=1", "program_id=1", "dateFrom=x", "dateFrom=2026-02-01&dateTo=2026-01-01", "pageSize=101", "program=" + f.program} {
				reader.get(t, "/api/v1/conversions?"+query).wantOutcome(invalid)
			}
			reader.get(t, "/api/v1/conversions/"+unknownID).wantOutcome(notFound)
			reader.get(t, "/api/v1/conversions?participant_id="+unknownID).wantOutcome(notFound)
		})
	}
}

// testAttributionAudit reads the attribution decision of a conversion, and simulates the
// attribution of another conversion.
func testAttributionAudit(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(nil))
	click := f.click(t)
	sale := f.reportSale(t, click, object{"customer_id": "c-1"})
	key := sys.client().withCredential(f.secretKey)
	const path = "/api/v1/attribution"

	decision := key.get(t, path+"/conversions/"+sale.text("id")).wantStatus(http.StatusOK).wantFields(object{
		"decision_id": sale.text("attribution.decision_id"), "conversion_id": sale.text("id"), "attributed": true, "method": "click",
		"reason_code": "CLICK_MATCHED", "explanation": sale.text("attribution.explanation"), "inputs.amount_cents": 10_000, "inputs.click_id": click,
		"program.id": f.program, "program.window_days": 60, "program.model": "last_click", "program.precedence": "click_first",
		"candidates.0.type": "click", "candidates.0.click_id": click, "candidates.0.participant_id": f.participant, "candidates.0.eligible": true,
		"candidates.0.rejected_because": nil, "steps.0.order": 1, "steps.0.check": "click.known", "steps.0.outcome": "passed",
		"rule.version": 1, "rule.rules.rate_bps": 2000, "calculation.base_amount_cents": 10_000, "calculation.rate_bps": 2000,
		"calculation.rounding": "half_up", "calculation.amount_cents": 2000, "supersedes": nil, "superseded_by": nil,
	})
	if found := key.get(t, path+"/conversions?external_transaction_id="+sale.text("external_transaction_id")).wantStatus(http.StatusOK); found.body != decision.body {
		t.Errorf("the decision by external id differs from the decision by id:\n%s\n%s", found.body, decision.body)
	}
	if read := f.merchant.get(t, "/api/v1/conversions/"+sale.text("id")+"/attribution").wantStatus(http.StatusOK); read.body != decision.body {
		t.Errorf("a merchant and a secret key read different decisions:\n%s\n%s", read.body, decision.body)
	}
	key.get(t, path+"/conversions?external_transaction_id=nobody").wantOutcome(notFound)
	key.get(t, path+"/clicks/"+click).wantStatus(http.StatusOK).wantFields(object{
		"id": click, "participant_id": f.participant, "program_id": f.program, "mode": "test", "referral_code": f.code, "conversions.0.id": sale.text("id"),
	})
	for _, secret := range []string{"hash", "ip_prefix"} {
		if strings.Contains(key.get(t, path+"/clicks/"+click).body, secret) {
			t.Errorf("the click has the field %s", secret)
		}
	}

	t.Run("a reattribution adds a decision", func(t *testing.T) {
		rival := sys.newPartner(t).inMode("test")
		participantID := rival.post(t, f.applyPath(), nil).wantStatus(http.StatusCreated).text("id")
		f.merchant.patch(t, f.programPath()+"/partners/"+participantID+"/approve", nil).wantStatus(http.StatusOK)
		f.merchant.post(t, "/api/v1/conversions/"+sale.text("id")+"/reattribute", object{"participant_id": participantID, "reason": "Another partner sent the customer"}).wantStatus(http.StatusOK)
		current := key.get(t, path+"/conversions/"+sale.text("id")).wantStatus(http.StatusOK).wantFields(object{
			"method": "manual", "reason_code": "MANUALLY_REASSIGNED", "supersedes": decision.text("decision_id"), "superseded_by": nil,
		})
		key.get(t, path+"/decisions").wantStatus(http.StatusOK).wantFields(object{
			"total": 2, "data.0.decision_id": current.text("decision_id"), "data.1.superseded_by": current.text("decision_id"),
		})
	})
	t.Run("decisions can be listed and filtered", func(t *testing.T) {
		today := sys.clock.now().UTC().Format(time.DateOnly)
		for query, total := range map[string]int{
			"attributed=true": 2, "attributed=false": 0, "reason_code=CLICK_MATCHED": 1, "reason_code=CLICK_EXPIRED": 0, "program_id=" + f.program: 2,
			"from=" + today: 2, "to=2020-01-01": 0, "date_from=" + today: 2, "dateTo=2020-01-01": 0, "date_from=" + today + "&timezone=Europe/Berlin": 2,
			"date_from=2020-01-01&to=" + today: 2,
		} {
			key.get(t, path+"/decisions?"+query).wantStatus(http.StatusOK).wantFields(object{"total": total})
		}
		for query, field := range map[string]string{
			"reason_code=BECAUSE": "reason_code", "from=x": "from", "dateFrom=x": "dateFrom", "to=x": "to", "from=2026-02-01&to=2026-01-01": "to",
			"date_from=2026-02-01&to=2026-01-01": "to", "program_id=1": "program_id", "timezone=Mars": "timezone",
			"from=2026-01-01&date_from=2026-01-01": "from", "to=2026-01-01&dateTo=2026-01-01": "to",
			"date_from=2026-01-01&dateFrom=2026-01-01": "dateFrom", "dateFrom=2026-01-01&date_from=2026-01-01": "date_from",
		} {
			key.get(t, path+"/decisions?"+query).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
		}
	})
	t.Run("a simulation stores nothing", func(t *testing.T) {
		before := f.merchant.get(t, "/api/v1/conversions").number("total")
		body := purchase(click)
		delete(body, "external_transaction_id")
		body["customer_id"] = "c-2"
		for range 2 {
			key.post(t, path+"/simulate", body).wantStatus(http.StatusOK).wantFields(object{
				"decision_id": nil, "conversion_id": nil, "attributed": true, "reason_code": "CLICK_MATCHED", "calculation.amount_cents": 2000,
			})
		}
		body["click_id"] = affiliate.NewID[affiliate.ClickID](sys.clock.now()).String()
		key.post(t, path+"/simulate", body).wantStatus(http.StatusOK).wantFields(object{"attributed": false, "reason_code": "CLICK_UNKNOWN", "calculation": nil})
		delete(body, "click_id")
		key.post(t, path+"/simulate", body).wantError(http.StatusUnprocessableEntity, "NO_ATTRIBUTION_SIGNAL")
		body["amount_cents"] = -1
		key.post(t, path+"/simulate", body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "amount_cents")
		if after := f.merchant.get(t, "/api/v1/conversions").number("total"); after != before {
			t.Errorf("%d conversions were stored", after-before)
		}
	})
	t.Run("only secret keys and members of the same workspace and mode can read the audit", func(t *testing.T) {
		sys.client().get(t, path+"/decisions").wantError(http.StatusUnauthorized, "INVALID_SECRET_KEY")
		f.partner.get(t, path+"/decisions").wantOutcome(forbidden)
		sys.client().withCredential(f.publicKey).get(t, path+"/decisions").wantOutcome(forbidden)
		stranger := sys.newFixture(t, "test", nil)
		for _, foreignPath := range []string{"/conversions/" + sale.text("id"), "/clicks/" + click, "/conversions?external_transaction_id=" + sale.text("external_transaction_id")} {
			sys.client().withCredential(stranger.secretKey).get(t, path+foreignPath).wantOutcome(notFound)
			sys.client().withCredential(f.merchant.inMode("live").createSecretKey(t)).get(t, path+foreignPath).wantOutcome(notFound)
			f.merchant.get(t, path+foreignPath).wantOutcome(ok)
			f.merchant.inMode("live").get(t, path+foreignPath).wantOutcome(notFound)
			stranger.merchant.get(t, path+foreignPath).wantOutcome(notFound)
		}
	})
}

// testFraud checks the effect of each fraud policy on a conversion with a fraud signal.
func testFraud(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0}))
	policyPath := f.programPath() + "/fraud-policy"
	setPolicy := func(t *testing.T, body object) response {
		t.Helper()
		return f.merchant.do(t, http.MethodPut, policyPath, body)
	}
	selfReferral := func(t *testing.T) response {
		t.Helper()
		return f.reportSale(t, f.click(t), object{"customer_email": strings.Replace(f.partner.email, "@", "+shop@", 1)})
	}
	events := func(t *testing.T, query string) response {
		t.Helper()
		return f.merchant.get(t, "/api/v1/fraud/events"+query).wantStatus(http.StatusOK)
	}

	f.merchant.get(t, policyPath).wantStatus(http.StatusOK).wantFields(object{"policy": "observe", "disabledRules": []any{}, "blockedCountries": []any{}})
	t.Run("policy observe", func(t *testing.T) {
		sale := selfReferral(t)
		sale.wantFields(object{"fraud.flagged": false, "fraud.signals.0.rule": "self_referral_email", "commission.needs_review": false, "commission.status": "approved"})
		events(t, "").wantFields(object{"data.0.conversionId": sale.text("id"), "data.0.action": "observed", "data.0.status": "open", "data.0.score": 100, "data.0.commissionId": sale.text("commission.id")})
	})
	t.Run("policy flag, the merchant dismisses the event", func(t *testing.T) {
		setPolicy(t, object{"policy": "flag", "disabledRules": []string{"click_to_convert"}}).wantStatus(http.StatusOK).wantFields(object{"policy": "flag", "disabledRules": []any{"click_to_convert"}})
		sale := selfReferral(t)
		sale.wantFields(object{"fraud.flagged": true, "commission.needs_review": true, "commission.status": "pending"})
		read := f.sys.client().withCredential(f.secretKey).get(t, "/api/v1/conversions/"+sale.text("id")).wantStatus(http.StatusOK)
		read.wantFields(object{"fraud.flagged": true, "fraud_score": 100, "fraud.signals.0.rule": "self_referral_email"})
		event := events(t, "?status=open").wantFields(object{"data.0.action": "flagged", "data.0.signals.0.rule": "self_referral_email", "data.0.signals.0.score": 100})
		if strings.Contains(event.body, "@") {
			t.Errorf("the evidence contains an e-mail address: %s", event.body)
		}
		path := "/api/v1/fraud/events/" + event.text("data.0.id") + "/resolve"
		f.merchant.post(t, path, object{"outcome": "open"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "outcome")
		f.merchant.post(t, path, object{"outcome": "dismissed", "note": "A colleague"}).wantStatus(http.StatusOK).
			wantFields(object{"status": "dismissed", "note": "A colleague", "resolvedBy": f.merchant.id})
		f.merchant.get(t, f.commissionPath(sale.text("commission.id"))).wantFields(object{"needsReview": false, "reviewReasons": []any{}})
		f.merchant.post(t, path, object{"outcome": "confirmed"}).wantError(http.StatusConflict, "FRAUD_EVENT_RESOLVED")
	})
	t.Run("policy flag, the merchant confirms the event", func(t *testing.T) {
		sale := selfReferral(t)
		path := "/api/v1/fraud/events/" + events(t, "?status=open").text("data.0.id") + "/resolve"
		responses := concurrently(8, func(int) response { return f.merchant.post(t, path, object{"outcome": "confirmed"}) })
		if got := countStatuses(responses); got["200"] != 1 || got["409 FRAUD_EVENT_RESOLVED"] != 7 {
			t.Errorf("eight concurrent requests got %v, want one 200 and seven 409", got)
		}
		f.merchant.get(t, f.commissionPath(sale.text("commission.id"))).wantFields(object{"status": "rejected", "rejectionCode": "fraud", "needsReview": false})
	})
	t.Run("policy block", func(t *testing.T) {
		setPolicy(t, object{"policy": "block"}).wantStatus(http.StatusOK).wantFields(object{"disabledRules": []any{}})
		sale := selfReferral(t).wantFields(object{"attributed": true, "attribution.reason_code": "SELF_REFERRAL_BLOCKED", "commission": nil, "fraud.flagged": true})
		events(t, fmt.Sprintf("?programId=%s&participantId=%s", f.program, f.participant)).wantFields(object{"data.0.action": "blocked", "data.0.commissionId": nil, "data.0.conversionId": sale.text("id")})
		// A merchant can still attribute the conversion.
		f.merchant.post(t, "/api/v1/conversions/"+sale.text("id")+"/reattribute", object{"participant_id": f.participant, "reason": "A colleague, again"}).
			wantStatus(http.StatusOK).wantFields(object{"attribution.method": "manual", "commission.amount_cents": 2000, "fraud.flagged": false})
		f.sys.client().withCredential(f.secretKey).get(t, "/api/v1/conversions/"+sale.text("id")).wantStatus(http.StatusOK).
			wantFields(object{"fraud.flagged": false, "fraud_score": 0, "fraud.signals": []any{}})
	})
	t.Run("policy off", func(t *testing.T) {
		before := events(t, "").number("total")
		setPolicy(t, object{"policy": "off"}).wantStatus(http.StatusOK)
		selfReferral(t).wantFields(object{"fraud.flagged": false, "fraud.signals": []any{}, "commission.status": "approved"})
		if after := events(t, "").number("total"); after != before {
			t.Errorf("%d fraud events were stored, want none", after-before)
		}
	})
	t.Run("an invalid policy is rejected", func(t *testing.T) {
		setPolicy(t, object{"policy": "off", "disabledRules": []string{"luck"}}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "disabledRules[0]")
		setPolicy(t, object{"policy": "strict"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "policy")
		setPolicy(t, object{"policy": "flag", "blockedCountries": []string{"Germany"}}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "blockedCountries[0]")
		f.merchant.get(t, policyPath).wantFields(object{"policy": "off"})
	})
}
