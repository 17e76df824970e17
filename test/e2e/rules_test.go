package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
)

// testCommissionRules checks that the API returns all fields of the rules unchanged, and
// that each change creates a new version of the rules.
func testCommissionRules(t *testing.T, sys *system) {
	m := sys.newMerchant(t).inMode("test")
	full := object{
		"commissionType": "percentage", "percentage": 12.34, "flatAmountCents": nil, "holdPeriodDays": 7, "autoApproval": false,
		"netBasis": "net_of_tax_shipping", "recurring": object{"enabled": true, "maxMonths": 12, "maxPayments": 6},
		"laterPercentage": 5.5, "minOrderCents": 500, "capCents": 9000,
		"tiers":    []object{{"minConversions": 10, "minRevenueCents": nil, "percentage": 15}, {"minConversions": 100, "minRevenueCents": nil, "percentage": 20}},
		"products": []object{{"productId": "a", "percentage": 1, "flatAmountCents": nil}, {"productId": "b", "percentage": nil, "flatAmountCents": 25}},
		"events":   []object{{"eventType": "purchase", "percentage": nil, "flatAmountCents": nil}, {"eventType": "signup", "percentage": nil, "flatAmountCents": 50}},
	}
	created := m.post(t, "/api/v1/programs", object{
		"name": "Full", "websiteUrl": "https://shop.example", "allowedDomains": []string{"*.shop.example"}, "signalPrecedence": "promo_code_first",
		"minPayoutCents": 5000, "payoutTermDays": 30, "fraudPolicy": "block", "commissionRules": full,
	}).wantStatus(http.StatusCreated).wantFields(object{
		"signalPrecedence": "promo_code_first", "minPayoutCents": 5000, "payoutTermDays": 30, "fraudPolicy": "block",
		"allowedDomains": []string{"*.shop.example"}, "commissionRules": full, "rulesVersion": 1,
	})
	path := "/api/v1/programs/" + created.text("id")

	// A PATCH merges objects, replaces arrays, and clears fields whose value is null.
	m.patch(t, path, object{"commissionRules": object{"recurring": object{"maxMonths": nil}, "tiers": []object{}, "capCents": nil}}).wantStatus(http.StatusOK).wantFields(object{
		"commissionRules.recurring": object{"enabled": true, "maxMonths": nil, "maxPayments": 6}, "commissionRules.tiers": []object{},
		"commissionRules.capCents": nil, "commissionRules.minOrderCents": 500, "rulesVersion": 2,
	})
	m.patch(t, path, object{"commissionRules": object{"percentage": 12.34}}).wantStatus(http.StatusOK).wantFields(object{"rulesVersion": 2})
	m.get(t, path+"/rules").wantStatus(http.StatusOK).wantFields(object{
		"total": 2, "data.0.version": 2, "data.0.by": m.id, "data.1.version": 1, "data.1.rules": full,
	})
	m.get(t, path+"/rules?pageSize=1&page=2").wantStatus(http.StatusOK).wantFields(object{"total": 2, "data.0.version": 1})

	for field, rules := range map[string]object{
		"commissionRules.tiers[0].percentage":      {"tiers": []object{{"minConversions": 1, "percentage": 1.234}}},
		"commissionRules.tiers[1].minRevenueCents": {"tiers": []object{{"minConversions": 1, "percentage": 1}, {"minRevenueCents": 1, "percentage": 1}}},
		"commissionRules.tiers[0].minConversions":  {"tiers": []object{{"percentage": 1}}},
		"commissionRules.products[0].percentage":   {"products": []object{{"productId": "a"}}},
		"commissionRules.products[1].productId":    {"products": []object{{"productId": "a", "percentage": 1}, {"productId": "a", "percentage": 2}}},
		"commissionRules.events[1].eventType":      {"events": []object{{"eventType": "lead"}, {"eventType": "lead"}}},
		"commissionRules.recurring.maxMonths":      {"recurring": object{"maxMonths": 0}},
		"commissionRules.laterPercentage":          {"laterPercentage": 101},
		"commissionRules.capCents":                 {"capCents": -1},
		"commissionRules.unheardOf":                {"unheardOf": 1},
	} {
		m.patch(t, path, object{"commissionRules": rules}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
	}
	m.get(t, path).wantFields(object{"rulesVersion": 2})
	for _, name := range []string{"utm_source", "sub_id", "aff_click_id", "UTM_Term"} {
		m.patch(t, path, object{"linkParam": name}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "linkParam")
	}
}

func testGroups(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	groups := f.programPath() + "/groups"
	gold := f.merchant.post(t, groups, object{"name": "Gold", "percentage": 40}).wantStatus(http.StatusCreated).wantFields(object{
		"name": "Gold", "percentage": 40, "flatAmountCents": nil, "participants": 0, "programId": f.program,
	}).text("id")
	f.merchant.post(t, groups, object{"name": "gold", "percentage": 1}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name")
	for _, body := range []object{{"name": "Both", "percentage": 1, "flatAmountCents": 1}, {"name": "None"}} {
		f.merchant.post(t, groups, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
	}
	f.merchant.patch(t, groups+"/"+gold, object{"flatAmountCents": 700}).wantStatus(http.StatusOK).wantFields(object{"percentage": nil, "flatAmountCents": 700})
	f.merchant.patch(t, f.participantPath(), object{"groupId": gold}).wantStatus(http.StatusOK).wantFields(object{"groupId": gold})
	f.merchant.get(t, groups).wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.participants": 1})
	f.merchant.do(t, http.MethodDelete, groups+"/"+gold, nil).wantError(http.StatusConflict, "GROUP_IN_USE")
	f.merchant.patch(t, f.participantPath(), object{"groupId": nil}).wantStatus(http.StatusOK).wantFields(object{"groupId": nil})
	f.merchant.do(t, http.MethodDelete, groups+"/"+gold, nil).wantStatus(http.StatusNoContent)
	f.merchant.get(t, groups).wantStatus(http.StatusOK).wantFields(object{"total": 0})
}

// testRatesMostSpecificWins checks which rate applies if several rates are set. The rate
// of a tier replaces the rate of the programme. The rate of the participant's group
// replaces both, the rate of a product replaces the rate of the group, and the rate of
// the participant replaces all others. Each commission contains the source of its rate.
func testRatesMostSpecificWins(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{"percentage": 10}))
	click := f.click(t)
	sale := func(changes object) response {
		body := purchase(click)
		for name, value := range changes {
			body[name] = value
		}
		id := f.report(t, body).wantStatus(http.StatusCreated).text("commission.id")
		return f.merchant.get(t, f.commissionPath(id)).wantStatus(http.StatusOK)
	}
	program := func(rules object) {
		f.merchant.patch(t, f.programPath(), object{"commissionRules": rules}).wantStatus(http.StatusOK)
	}
	first := sale(nil).wantFields(object{"amountCents": 1000, "ruleSnapshot.source": "program", "rateBps": 1000})

	program(object{"tiers": []object{{"minConversions": 1, "percentage": 15}}})
	sale(nil).wantFields(object{"amountCents": 1500, "ruleSnapshot.source": "tier"})

	group := f.merchant.post(t, f.programPath()+"/groups", object{"name": "Gold", "percentage": 20}).wantStatus(http.StatusCreated).text("id")
	f.merchant.patch(t, f.participantPath(), object{"groupId": group}).wantStatus(http.StatusOK)
	sale(nil).wantFields(object{"amountCents": 2000, "ruleSnapshot.source": "group", "ruleSnapshot.groupName": "Gold"})

	program(object{"products": []object{{"productId": "beans", "percentage": 25}, {"productId": "cup", "flatAmountCents": 100}}})
	sale(object{"product_ids": []string{"beans"}}).wantFields(object{"amountCents": 2500, "ruleSnapshot.source": "product"})
	sale(object{"product_ids": []string{"other"}}).wantFields(object{"amountCents": 2000, "ruleSnapshot.source": "group"})
	// Each line of an order has its own rate: 60.00 at 25 %, three cups at 1.00 each, and
	// 40.00 at the group's 20 %. Only the sum is rounded.
	sale(object{"line_items": []object{
		{"product_id": "beans", "amount_cents": 6000}, {"product_id": "cup", "quantity": 3, "amount_cents": 0}, {"product_id": "tea", "amount_cents": 4000},
	}}).wantFields(object{"amountCents": 1500 + 300 + 800, "ruleSnapshot.source": "mixed"})

	f.merchant.patch(t, f.participantPath(), object{"commissionOverride": object{"flatAmountCents": 777}}).wantStatus(http.StatusOK)
	sale(object{"product_ids": []string{"beans"}}).wantFields(object{
		"amountCents": 777, "commissionType": "flat", "rateBps": nil, "flatAmountCents": 777, "ruleSnapshot.source": "participant",
	})
	f.merchant.patch(t, f.participantPath(), object{"commissionOverride": object{"percentage": 50}}).wantStatus(http.StatusOK).wantFields(object{
		"commissionOverride": object{"percentage": 50, "flatAmountCents": nil},
	})
	sale(nil).wantFields(object{"amountCents": 5000, "ruleSnapshot.source": "participant"})
	program(object{"capCents": 1200})
	sale(nil).wantFields(object{"amountCents": 1200})

	// The first commission has not changed.
	f.merchant.get(t, f.commissionPath(first.text("id"))).wantStatus(http.StatusOK).wantFields(object{"amountCents": 1000, "ruleSnapshot.version": 1})
}

func testCommissionRulesLimits(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", rules(object{
		"percentage": 10, "laterPercentage": 5, "minOrderCents": 1000, "recurring": object{"maxPayments": 3},
		"events": []object{{"eventType": "purchase"}, {"eventType": "renewal"}, {"eventType": "signup", "flatAmountCents": 50}},
	}))
	click := f.click(t)
	sale := func(changes object) response {
		body := purchase(click)
		for name, value := range changes {
			body[name] = value
		}
		return f.report(t, body).wantStatus(http.StatusCreated)
	}
	noCommission := func(reason string) object {
		return object{"attributed": true, "commission": nil, "attribution.reason_code": reason}
	}
	sale(object{"amount_cents": 999}).wantFields(noCommission("RULE_NOT_APPLICABLE"))
	sale(object{"event_type": "lead"}).wantFields(noCommission("RULE_NOT_APPLICABLE"))
	signup := object{"event_type": "signup", "external_transaction_id": uniqueName("order"), "click_id": click}
	f.report(t, signup).wantStatus(http.StatusCreated).wantFields(object{"commission.amount_cents": 50})

	renewal := object{"event_type": "renewal", "customer_id": "customer-1"}
	for payment, want := range []int{1000, 500, 500} {
		got := sale(renewal).wantFields(object{"commission.amount_cents": want})
		f.merchant.get(t, f.commissionPath(got.text("commission.id"))).wantFields(object{"recurringIndex": payment + 1})
	}
	sale(renewal).wantFields(noCommission("RECURRING_LIMIT_REACHED"))
	sale(object{"customer_id": "customer-2"}).wantFields(object{"commission.amount_cents": 1000})
}

// testProgramStatus checks the effect of the programme's status on clicks, links and
// conversions.
func testProgramStatus(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	click := f.click(t)
	short := f.merchant.get(t, f.programPath()+"/links").wantStatus(http.StatusOK).text("data.0.shortUrl")
	changes := []struct {
		action, reason string
		acceptsClicks  bool
	}{
		{"pause", "PROGRAM_INACTIVE", false}, {"activate", "CLICK_MATCHED", true}, {"archive", "PROGRAM_INACTIVE", false},
	}
	for _, s := range changes {
		f.merchant.post(t, f.programPath()+"/"+s.action, nil).wantStatus(http.StatusOK)
		eventually(t, waitTimeout, "the collector applies the action "+s.action, func() error {
			got := sys.click(t, f.publicKey, object{"referral_code": f.code}).status
			followed := sys.getShortLink(t, short).status
			if (got == http.StatusCreated) != s.acceptsClicks || (followed == http.StatusFound) != s.acceptsClicks || !s.acceptsClicks && (got != http.StatusNotFound || followed != http.StatusNotFound) {
				return fmt.Errorf("a click returns %d, the link %d", got, followed)
			}
			return nil
		})
		f.report(t, purchase(click)).wantStatus(http.StatusCreated).wantFields(object{"attribution.reason_code": s.reason})
	}
	f.merchant.post(t, f.programPath()+"/activate", nil).wantError(http.StatusConflict, "PROGRAM_STATE_INVALID")
	f.merchant.get(t, f.programPath()).wantFields(object{"status": "archived"})
}
