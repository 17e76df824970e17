package e2e_test

import (
	"net/http"
	"strings"
	"testing"
)

func testParticipants(t *testing.T, sys *system) {
	merchant, partner := sys.newMerchant(t).inMode("test"), sys.newPartner(t).inMode("test")
	program := merchant.createProgram(t, nil)
	apply := func(t *testing.T, partner caller, program string, body any) response {
		t.Helper()
		return partner.post(t, "/api/v1/partner/programs/"+program+"/apply", body)
	}
	var path string

	t.Run("a partner applies once", func(t *testing.T) {
		got := apply(t, partner, program, object{"referralCode": "Pia_Code", "answers": object{"Why?": "Because."}}).wantStatus(http.StatusCreated).wantFields(object{
			"programId": program, "partnerId": partner.id, "partnerEmail": partner.email, "status": "pending", "referralCode": "pia_code",
			"applicationAnswers": object{"Why?": "Because."}, "termsAcceptedAt": nil, "approvedAt": nil, "erasedAt": nil,
		})
		path = "/api/v1/programs/" + program + "/partners/" + got.text("id")
		apply(t, partner, program, nil).wantError(http.StatusConflict, "APPLICATION_DUPLICATE")
	})
	t.Run("a referral code is unique in the workspace", func(t *testing.T) {
		second := sys.newPartner(t).inMode("test")
		other := merchant.createProgram(t, nil)
		apply(t, second, program, object{"referralCode": "PIA_CODE"}).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
		apply(t, second, other, object{"referralCode": "pia_code"}).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
		apply(t, second, program, object{"referralCode": "admin"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "referralCode")
		apply(t, second, program, object{"referralCode": "no"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "referralCode")
		apply(t, second, program, nil).wantStatus(http.StatusCreated).wantFields(object{"referralCode": "pia-partner"})
		if code := apply(t, sys.newPartner(t).inMode("test"), program, nil).wantStatus(http.StatusCreated).text("referralCode"); len(code) != len("pia-partner-xyz") {
			t.Errorf("the second partner with the name Pia Partner has the code %q, want pia-partner- and three characters", code)
		}
	})
	t.Run("only active public programmes of the partner's mode accept applications", func(t *testing.T) {
		draft := merchant.post(t, "/api/v1/programs", object{"name": "Draft"}).wantStatus(http.StatusCreated).text("id")
		paused := merchant.createProgram(t, nil)
		merchant.post(t, "/api/v1/programs/"+paused+"/pause", nil).wantStatus(http.StatusOK)
		private := merchant.createProgram(t, object{"isPublic": false})
		for _, closed := range []string{draft, paused, private, unknownIDs()["program_id"]} {
			apply(t, partner, closed, nil).wantOutcome(notFound)
		}
		apply(t, partner.inMode("live"), program, nil).wantOutcome(notFound)
	})
	t.Run("terms must be accepted", func(t *testing.T) {
		withTerms := merchant.createProgram(t, object{"termsUrl": "https://shop.example/terms"})
		apply(t, partner, withTerms, nil).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "acceptTerms")
		apply(t, partner, withTerms, object{"acceptTerms": true}).wantStatus(http.StatusCreated).instant("termsAcceptedAt")
	})
	t.Run("a programme can approve partners automatically", func(t *testing.T) {
		open := merchant.createProgram(t, object{"autoApprovePartners": true})
		apply(t, partner, open, nil).wantStatus(http.StatusCreated).wantFields(object{"status": "approved"}).instant("approvedAt")
	})
	t.Run("the merchant lists and filters participants", func(t *testing.T) {
		list := "/api/v1/programs/" + program + "/partners"
		merchant.get(t, list).wantStatus(http.StatusOK).wantFields(object{"total": 3, "page": 1, "limit": 20, "data.2.referralCode": "pia_code"})
		merchant.get(t, list+"?status=pending&pageSize=1").wantFields(object{"total": 3, "limit": 1})
		merchant.get(t, list+"?status=approved").wantFields(object{"total": 0, "data": []any{}})
		merchant.get(t, path).wantStatus(http.StatusOK).wantFields(object{"status": "pending", "partnerName": "Pia Partner"})
	})

	changeStatus := func(t *testing.T, name string, body any) response {
		t.Helper()
		return merchant.patch(t, path+"/"+name, body)
	}
	wantStateInvalid := func(t *testing.T, names ...string) {
		t.Helper()
		for _, name := range names {
			changeStatus(t, name, nil).wantError(http.StatusConflict, "PARTICIPANT_STATE_INVALID")
		}
	}
	t.Run("status changes", func(t *testing.T) {
		wantStateInvalid(t, "suspend", "reinstate")
		changeStatus(t, "reject", object{"reason": " Too early. "}).wantStatus(http.StatusOK).wantFields(object{"status": "rejected", "rejectionReason": "Too early."}).instant("rejectedAt")
		wantStateInvalid(t, "reject", "suspend", "reinstate")
		apply(t, partner, program, nil).wantError(http.StatusConflict, "APPLICATION_DUPLICATE")
		changeStatus(t, "approve", nil).wantStatus(http.StatusOK).wantFields(object{"status": "approved", "rejectionReason": nil, "rejectedAt": nil}).instant("approvedAt")
		wantStateInvalid(t, "approve", "reject", "reinstate")
		changeStatus(t, "suspend", object{"reason": "Coupon site"}).wantStatus(http.StatusOK).wantFields(object{"status": "suspended", "suspensionReason": "Coupon site"}).instant("suspendedAt")
		wantStateInvalid(t, "approve", "reject", "suspend")
		changeStatus(t, "reinstate", nil).wantStatus(http.StatusOK).wantFields(object{"status": "approved", "suspensionReason": nil, "suspendedAt": nil})
	})
	t.Run("a reason has 1 to 500 characters", func(t *testing.T) {
		changeStatus(t, "suspend", object{"reason": strings.Repeat("é", 501)}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "reason")
		changeStatus(t, "suspend", object{"reason": strings.Repeat("é", 500)}).wantStatus(http.StatusOK)
		changeStatus(t, "reinstate", nil).wantStatus(http.StatusOK)
		// A reason of only white space counts as no reason.
		changeStatus(t, "suspend", object{"reason": "  "}).wantStatus(http.StatusOK).wantFields(object{"suspensionReason": nil})
	})
	t.Run("a pending participant is approved", func(t *testing.T) {
		second := apply(t, sys.newPartner(t).inMode("test"), program, nil).wantStatus(http.StatusCreated).text("id")
		merchant.patch(t, "/api/v1/programs/"+program+"/partners/"+second+"/approve", object{}).wantStatus(http.StatusOK).wantFields(object{"status": "approved"})
	})
	t.Run("only one of many concurrent applications of a partner succeeds", func(t *testing.T) {
		applicant := sys.newPartner(t).inMode("test")
		responses := concurrently(20, func(int) response { return apply(t, applicant, program, nil) })
		if got := countStatuses(responses); got["201"] != 1 || got["409 APPLICATION_DUPLICATE"] != 19 {
			t.Errorf("20 concurrent applications got %v, want one 201 and 19 times APPLICATION_DUPLICATE", got)
		}
	})
}
