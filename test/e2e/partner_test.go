package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPartner_SeesOnlyOwnData tests a partner who participates in programmes of two
// workspaces. The partner can read only the partner's own data.
func TestPartner_SeesOnlyOwnData(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	partner := sys.newPartner(t).inMode("test")
	a := sys.newFixtureFor(t, sys.newMerchant(t).inMode("test"), partner, rules(object{"percentage": 20}))
	b := sys.newFixtureFor(t, sys.newMerchant(t).inMode("test"), partner, object{"currency": "EUR", "commissionRules": object{"percentage": 30, "holdPeriodDays": 0, "autoApproval": true}})
	rival := sys.newPartner(t).inMode("test")
	rival.post(t, a.applyPath(), nil).wantStatus(http.StatusCreated)

	// With scope=public the list contains the active public programmes of all workspaces.
	hidden := a.merchant.createProgram(t, object{"name": "Hidden", "isPublic": false})
	a.merchant.post(t, "/api/v1/programs", object{"name": "Draft"}).wantStatus(http.StatusCreated)
	list := "/api/v1/partner/programs"
	partner.get(t, list+"?scope=public").wantStatus(http.StatusOK).wantFields(object{"total": 2, "data.0.id": b.program, "data.0.participation.status": "approved"})
	partner.get(t, list+"?scope=public&search=hid").wantStatus(http.StatusOK).wantFields(object{"total": 0})
	rival.get(t, list+"?scope=mine").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.participation.status": "pending"})
	partner.get(t, list+"/"+hidden).wantOutcome(notFound)
	partner.inMode("live").get(t, list).wantStatus(http.StatusOK).wantFields(object{"total": 0})

	// A partner can join a private programme only with an invitation.
	rival.post(t, "/api/v1/partner/programs/"+hidden+"/apply", nil).wantOutcome(notFound)
	invite := a.merchant.post(t, "/api/v1/programs/"+hidden+"/partners/invite", object{"email": strings.ToUpper(rival.email)}).wantStatus(http.StatusCreated)
	partner.inMode("live").post(t, "/api/v1/partner/invites/accept", object{"token": invite.text("token")}).wantOutcome(notFound)
	rival.post(t, "/api/v1/partner/invites/accept", object{"token": invite.text("token")}).wantStatus(http.StatusCreated).wantFields(object{
		"status": "approved", "programId": hidden, "note": nil, "groupId": nil,
	})
	rival.post(t, "/api/v1/partner/invites/accept", object{"token": invite.text("token")}).wantOutcome(notFound)
	// An invited partner may apply instead of accepting the invitation. Another partner
	// cannot use the invitation.
	guest := sys.newPartner(t).inMode("test")
	other := a.merchant.post(t, "/api/v1/programs/"+hidden+"/partners/invite", object{"email": guest.email}).wantStatus(http.StatusCreated)
	guest.post(t, "/api/v1/partner/programs/"+hidden+"/apply", nil).wantStatus(http.StatusCreated)
	partner.post(t, "/api/v1/partner/invites/accept", object{"token": other.text("token")}).wantOutcome(notFound)
	rival.get(t, list).wantStatus(http.StatusOK).wantFields(object{"total": 2})

	// Report sales in both programmes.
	pending := a.earnCommission(t)
	euros := purchase(b.click(t))
	euros["currency"] = "EUR"
	b.report(t, euros).wantStatus(http.StatusCreated).wantFields(object{"commission.status": "approved"})
	rejected := a.earnCommission(t)
	a.merchant.patch(t, a.commissionPath(rejected)+"/reject", object{"reason": "They know each other.", "code": "fraud"}).wantStatus(http.StatusOK)

	commissions := partner.get(t, "/api/v1/partner/commissions").wantStatus(http.StatusOK).wantFields(object{"total": 3, "data.0.id": rejected, "data.0.rejectionCode": "fraud"})
	for _, secret := range []string{"know each other", a.merchant.email, "partnerEmail", "externalTransactionId", "override", "customerRef"} {
		if strings.Contains(commissions.body, secret) {
			t.Errorf("the partner's list of commissions contains %q", secret)
		}
	}
	partner.get(t, "/api/v1/partner/commissions?status=pending&programId="+a.program).wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.id": pending})
	partner.get(t, "/api/v1/partner/commissions?programId="+hidden).wantOutcome(notFound)
	partner.get(t, "/api/v1/partner/commissions/"+pending).wantStatus(http.StatusOK).wantFields(object{"id": pending, "status": "pending"})
	rival.get(t, "/api/v1/partner/commissions/"+pending).wantOutcome(notFound)
	rival.get(t, "/api/v1/partner/commissions").wantStatus(http.StatusOK).wantFields(object{"total": 0})
	partner.get(t, "/api/v1/partner/balances").wantStatus(http.StatusOK).wantFields(object{"balances": []object{
		{"currency": "EUR", "balanceCents": 3000, "payableCents": 3000, "inPayoutCents": 0, "pendingCents": 0, "holdCents": 0, "reviewCents": 0, "paidCents": 0},
		{"currency": "USD", "balanceCents": 0, "payableCents": 0, "inPayoutCents": 0, "pendingCents": 2000, "holdCents": 2000, "reviewCents": 0, "paidCents": 0},
	}})
	rival.get(t, "/api/v1/partner/balances").wantStatus(http.StatusOK).wantFields(object{"balances": []object{}})
	eventually(t, waitTimeout, "the summary has all clicks and conversions", func() error {
		got := partner.get(t, "/api/v1/partner/analytics/summary?dateFrom="+sys.clock.now().UTC().Format(time.DateOnly)).wantStatus(http.StatusOK)
		if clicks, conversions := got.number("metrics.clicks"), got.number("metrics.conversions"); clicks < 3 || conversions != 3 || got.length("byCurrency") != 2 {
			return fmt.Errorf("the summary is %s", got.body)
		}
		return nil
	})
	partner.get(t, "/api/v1/partner/analytics/summary?dateTo=2020-01-01").wantStatus(http.StatusOK).wantFields(object{"metrics.clicks": 0, "metrics.conversionRate": nil, "byCurrency": []object{}})
	partner.get(t, list+"/"+b.program).wantStatus(http.StatusOK).wantFields(object{
		"participation.conversions": 1, "participation.balanceCents": 3000, "participation.commissionCents": 3000, "participation.referralCode": b.code,
	})
}

func TestPartner_Profile(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	profile := "/api/v1/partner/profile"
	f.partner.patch(t, profile, object{"name": "Pia Renamed", "country": "DE", "websiteUrl": "https://pia.example"}).wantStatus(http.StatusOK).wantFields(object{
		"name": "Pia Renamed", "country": "DE", "websiteUrl": "https://pia.example", "companyName": nil, "payoutMethod": nil,
	})
	f.merchant.get(t, f.programPath()+"/partners?search=pia%20ren").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.partnerName": "Pia Renamed"})
	f.partner.patch(t, profile, object{"name": nil}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name")
	f.partner.patch(t, profile, object{"email": "x@example.com"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "email")

	method := "/api/v1/partner/payout-method"
	f.partner.patch(t, method, object{"method": "bank_transfer", "account": "DE89 3704 0044 0532 0130 00", "accountHolder": "Pia Partner", "password": password}).wantStatus(http.StatusOK).wantFields(object{
		"method": "bank_transfer", "accountHint": "••••3000",
	})
	f.partner.get(t, profile).wantStatus(http.StatusOK).wantFields(object{"payoutMethod.method": "bank_transfer", "payoutMethod.accountHint": "••••3000"})
	if n := sys.count(t, `select count(*) from payout_methods where position('3704'::bytea in account) + position('Pia'::bytea in account) > 0`); n != 0 {
		t.Error("the database contains the payout account in plain text")
	}
	for field, body := range map[string]object{
		"account":       {"method": "paypal", "account": "nobody"},
		"accountHolder": {"method": "bank_transfer", "account": "DE89370400440532013000"},
		"method":        {"method": "stripe_connect"},
	} {
		f.partner.patch(t, method, body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
	}
	f.partner.patch(t, method, object{"method": "bank_transfer", "account": "DE89370400440532013001", "accountHolder": "P", "password": password}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "account")
	f.partner.get(t, profile).wantFields(object{"payoutMethod.accountHint": "••••3000"})
	sys.wantPermissionDenied(t, "set role tributary_app; delete from account_audit_log")
}
