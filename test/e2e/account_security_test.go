package e2e_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// testAccountSecurity lists and ends sessions and changes the password, for each kind of
// account.
func testAccountSecurity(t *testing.T, sys *system) {
	for _, first := range []caller{sys.newMerchant(t), sys.newPartner(t)} {
		t.Run(first.kind, func(t *testing.T) {
			auth, stranger := "/api/v1/auth/"+first.kind, sys.newPartner(t)
			if first.kind == "partner" {
				stranger = sys.newMerchant(t)
			}
			second, third := first.login(t), first.login(t)
			list := third.get(t, auth+"/sessions").wantStatus(http.StatusOK)
			list.wantFields(object{"total": 3, "data.0.current": true, "data.1.current": false, "data.2.current": false})
			stranger.get(t, auth+"/sessions").wantOutcome(forbidden)

			third.do(t, http.MethodDelete, auth+"/sessions/"+unknownID, nil).wantOutcome(notFound)
			third.do(t, http.MethodDelete, auth+"/sessions/"+list.text("data.1.id"), nil).wantStatus(http.StatusNoContent)
			third.do(t, http.MethodDelete, auth+"/sessions/"+list.text("data.1.id"), nil).wantOutcome(notFound)
			third.do(t, http.MethodDelete, auth+"/sessions", nil).wantStatus(http.StatusNoContent)
			for _, ended := range []caller{first, second} {
				ended.get(t, auth+"/sessions").wantOutcome(unauthorized)
			}

			change, other := auth+"/password/change", third.login(t)
			third.post(t, change, object{"currentPassword": "a wrong password", "newPassword": "a new password"}).wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")
			third.post(t, change, object{"currentPassword": password, "newPassword": "password123"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "newPassword")
			third.post(t, change, object{"currentPassword": password, "newPassword": password}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "newPassword")
			third.post(t, change, object{"currentPassword": password, "newPassword": "a new password"}).wantStatus(http.StatusNoContent)
			other.get(t, auth+"/sessions").wantOutcome(unauthorized)
			third.get(t, auth+"/sessions").wantStatus(http.StatusOK).wantFields(object{"total": 1})
			sys.client().post(t, auth+"/login", object{"email": first.email, "password": password}).wantError(http.StatusUnauthorized, "INVALID_CREDENTIALS")

			profile := auth + "/account"
			if first.kind == "partner" {
				profile = "/api/v1/partner/profile"
			}
			third.patch(t, profile, object{"name": "Renate", "locale": "de"}).wantStatus(http.StatusOK).wantFields(object{"name": "Renate", "locale": "de"})
			third.patch(t, profile, object{"locale": nil}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "locale")
			third.patch(t, profile, object{"locale": "tlh"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "locale")
			sys.client().post(t, auth+"/login", object{"email": first.email, "password": "a new password"}).
				wantStatus(http.StatusOK).wantFields(object{"user.name": "Renate", "user.locale": "de"})
		})
	}
	sys.client().get(t, "/api/v1/instance").wantStatus(http.StatusOK).wantFields(object{
		"merchantRegistration": "open", "partnerRegistration": "open",
		"consoleUrl": "https://api.example/console", "portalUrl": "https://api.example/portal",
	})
}

// testPartnerStatements reads what a partner needs for the own books, and searches for sales.
func testPartnerStatements(t *testing.T, sys *system) {
	f := sys.newFixture(t, "live", rules(object{"holdPeriodDays": 0}))
	sale := f.reportSale(t, f.click(t), nil)
	number, commission := sale.text("external_transaction_id"), sale.text("commission.id")
	f.partner.get(t, "/api/v1/partner/commissions").wantStatus(http.StatusOK).wantFields(object{
		"data.0.id": commission, "data.0.linkCode": f.code, "data.0.explanation": sale.text("attribution.explanation"),
	})
	csv := f.partner.get(t, "/api/v1/partner/commissions/export").wantStatus(http.StatusOK).body
	if lines := strings.Split(strings.TrimSpace(csv), "\r\n"); len(lines) != 2 || !strings.Contains(lines[1], commission) || strings.Contains(csv, number) {
		t.Errorf("the export is %q, want the commission without the number of the order", csv)
	}

	batch := f.sendPayouts(t)
	payout := f.partner.get(t, "/api/v1/partner/payouts").wantStatus(http.StatusOK).text("data.0.id")
	f.partner.get(t, "/api/v1/partner/payouts/"+payout).wantStatus(http.StatusOK).wantFields(object{
		"id": payout, "method": "paypal", "accountHint": "p***@example.com", "commissions.0.commissionId": commission, "adjustmentCents": 500,
	})
	for _, id := range []string{batch, unknownID, "x"} {
		f.partner.get(t, "/api/v1/partner/payouts/"+id).wantOutcome(notFound)
	}

	const lookup = "/api/v1/partner/conversions/lookup?externalTransactionId="
	found := f.partner.get(t, lookup+url.QueryEscape(number)).wantStatus(http.StatusOK)
	found.wantFields(object{"data.0.result": "credited", "data.0.reason": nil, "data.0.commissionId": commission, "explanation": nil})
	expired := f.click(t)
	sys.exec(t, `update clicks set expires_at = received_at where id = $1`, expired)
	lost := f.reportSale(t, expired, nil).text("external_transaction_id")
	f.partner.get(t, lookup+url.QueryEscape(lost)).wantStatus(http.StatusOK).wantFields(object{"data.0.result": "not_credited", "data.0.reason": "click_expired"})
	today := "/api/v1/partner/conversions/lookup?date=" + sys.clock.now().UTC().Format("2006-01-02") + "&programId=" + f.program
	if n := f.partner.get(t, today).wantStatus(http.StatusOK).length("data"); n != 2 {
		t.Errorf("%d sales today, want 2", n)
	}
	rival := sys.newPartner(t)
	unknown := f.partner.get(t, lookup+"unknown").wantStatus(http.StatusOK).wantFields(object{"data": []any{}})
	for _, hidden := range []string{number, lost} {
		if got := rival.get(t, lookup+url.QueryEscape(hidden)).wantStatus(http.StatusOK); got.body != unknown.body {
			t.Errorf("another partner gets %s, want the same as for an unknown number: %s", got.body, unknown.body)
		}
	}
	rival.get(t, today).wantOutcome(notFound)
	f.partner.get(t, "/api/v1/partner/conversions/lookup").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "externalTransactionId")
	f.partner.get(t, "/api/v1/partner/conversions/lookup?date=2026-02-30&programId="+f.program).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "date")
}
