package e2e_test

import (
	"net/http"
	"strings"
	"testing"
)

func walkParticipants(t *testing.T, sys *system) {
	t.Helper()
	merchant, partner := sys.merchant(t).in("test"), sys.partner(t).in("test")
	program := merchant.program(t, nil)
	apply := func(t *testing.T, who account, program string, body any) response {
		t.Helper()
		return who.post(t, "/api/v1/partner/programs/"+program+"/apply", body)
	}
	var path string

	t.Run("a partner applies once", func(t *testing.T) {
		got := apply(t, partner, program, object{"referralCode": "Pia_Code", "answers": object{"Why?": "Because."}}).want(http.StatusCreated).wantFields(object{
			"programId": program, "partnerId": partner.id, "partnerEmail": partner.email, "status": "pending", "referralCode": "pia_code",
			"applicationAnswers": object{"Why?": "Because."}, "termsAcceptedAt": nil, "approvedAt": nil, "erasedAt": nil,
		})
		path = "/api/v1/programs/" + program + "/partners/" + got.text("id")
		apply(t, partner, program, nil).wantError(http.StatusConflict, "APPLICATION_DUPLICATE")
	})
	t.Run("a referral code is unique in the workspace", func(t *testing.T) {
		second := sys.partner(t).in("test")
		other := merchant.program(t, nil)
		apply(t, second, program, object{"referralCode": "PIA_CODE"}).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
		apply(t, second, other, object{"referralCode": "pia_code"}).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
		apply(t, second, program, object{"referralCode": "admin"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "referralCode")
		apply(t, second, program, object{"referralCode": "no"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "referralCode")
		apply(t, second, program, nil).want(http.StatusCreated).wantFields(object{"referralCode": "pia-partner"})
		if code := apply(t, sys.partner(t).in("test"), program, nil).want(http.StatusCreated).text("referralCode"); len(code) != len("pia-partner-xyz") {
			t.Errorf("the second partner of that name has the code %q", code)
		}
	})
	t.Run("only an active public programme of the mode accepts applications", func(t *testing.T) {
		draft := merchant.post(t, "/api/v1/programs", object{"name": "Draft"}).want(http.StatusCreated).text("id")
		paused := merchant.program(t, nil)
		merchant.post(t, "/api/v1/programs/"+paused+"/pause", nil).want(http.StatusOK)
		private := merchant.program(t, object{"isPublic": false})
		for _, closed := range []string{draft, paused, private, unknownIDs()["program_id"]} {
			apply(t, partner, closed, nil).wantOutcome(notFound)
		}
		apply(t, partner.in("live"), program, nil).wantOutcome(notFound)
	})
	t.Run("terms must be accepted", func(t *testing.T) {
		withTerms := merchant.program(t, object{"termsUrl": "https://shop.example/terms"})
		apply(t, partner, withTerms, nil).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "acceptTerms")
		apply(t, partner, withTerms, object{"acceptTerms": true}).want(http.StatusCreated).instant("termsAcceptedAt")
	})
	t.Run("a programme may approve automatically", func(t *testing.T) {
		open := merchant.program(t, object{"autoApprovePartners": true})
		apply(t, partner, open, nil).want(http.StatusCreated).wantFields(object{"status": "approved"}).instant("approvedAt")
	})
	t.Run("the merchant lists and filters participants", func(t *testing.T) {
		list := "/api/v1/programs/" + program + "/partners"
		merchant.get(t, list).want(http.StatusOK).wantFields(object{"total": 3, "page": 1, "limit": 20, "data.2.referralCode": "pia_code"})
		merchant.get(t, list+"?status=pending&pageSize=1").wantFields(object{"total": 3, "limit": 1})
		merchant.get(t, list+"?status=approved").wantFields(object{"total": 0, "data": []any{}})
		merchant.get(t, path).want(http.StatusOK).wantFields(object{"status": "pending", "partnerName": "Pia Partner"})
	})

	move := func(t *testing.T, name string, body any) response {
		t.Helper()
		return merchant.patch(t, path+"/"+name, body)
	}
	refused := func(t *testing.T, names ...string) {
		t.Helper()
		for _, name := range names {
			move(t, name, nil).wantError(http.StatusConflict, "PARTICIPANT_STATE_INVALID")
		}
	}
	t.Run("status changes", func(t *testing.T) {
		refused(t, "suspend", "reinstate")
		move(t, "reject", object{"reason": " Too early. "}).want(http.StatusOK).wantFields(object{"status": "rejected", "rejectionReason": "Too early."}).instant("rejectedAt")
		refused(t, "reject", "suspend", "reinstate")
		apply(t, partner, program, nil).wantError(http.StatusConflict, "APPLICATION_DUPLICATE")
		move(t, "approve", nil).want(http.StatusOK).wantFields(object{"status": "approved", "rejectionReason": nil, "rejectedAt": nil}).instant("approvedAt")
		refused(t, "approve", "reject", "reinstate")
		move(t, "suspend", object{"reason": "Coupon site"}).want(http.StatusOK).wantFields(object{"status": "suspended", "suspensionReason": "Coupon site"}).instant("suspendedAt")
		refused(t, "approve", "reject", "suspend")
		move(t, "reinstate", nil).want(http.StatusOK).wantFields(object{"status": "approved", "suspensionReason": nil, "suspendedAt": nil})
	})
	t.Run("a reason has 1 to 500 characters", func(t *testing.T) {
		move(t, "suspend", object{"reason": strings.Repeat("é", 501)}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "reason")
		move(t, "suspend", object{"reason": strings.Repeat("é", 500)}).want(http.StatusOK)
		move(t, "reinstate", nil).want(http.StatusOK)
		// A reason of only white space counts as no reason.
		move(t, "suspend", object{"reason": "  "}).want(http.StatusOK).wantFields(object{"suspensionReason": nil})
	})
	t.Run("a pending participant is approved", func(t *testing.T) {
		second := apply(t, sys.partner(t).in("test"), program, nil).want(http.StatusCreated).text("id")
		merchant.patch(t, "/api/v1/programs/"+program+"/partners/"+second+"/approve", object{}).want(http.StatusOK).wantFields(object{"status": "approved"})
	})
	t.Run("one of many concurrent applications of a partner succeeds", func(t *testing.T) {
		eager := sys.partner(t).in("test")
		responses := concurrently(20, func(int) response { return apply(t, eager, program, nil) })
		if got := countStatuses(responses); got["201"] != 1 || got["409 APPLICATION_DUPLICATE"] != 19 {
			t.Errorf("20 applications at once: %v", got)
		}
	})
}
