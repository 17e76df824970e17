package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
)

// applicant is a partner who has applied to the fixture's programme.
type applicant struct {
	caller
	participant string
}

// createApplicants creates partners with the given names. They apply to the programme in
// this order.
func (f fixture) createApplicants(t *testing.T, names ...string) []applicant {
	t.Helper()
	var all []applicant
	for _, name := range names {
		p := f.sys.newPartner(t).inMode("test")
		p.patch(t, "/api/v1/partner/profile", object{"name": name}).wantStatus(http.StatusOK)
		all = append(all, applicant{p, p.post(t, f.applyPath(), nil).wantStatus(http.StatusCreated).text("id")})
	}
	return all
}

// partnerNames returns the partner names on a page.
func partnerNames(a response) []string {
	a.t.Helper()
	var names []string
	for i := range a.wantStatus(http.StatusOK).length("data") {
		names = append(names, a.text(fmt.Sprintf("data.%d.partnerName", i)))
	}
	return names
}

func testParticipantList(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	people := f.createApplicants(t, "Zoe", "anna", "Ben", "Annika")
	partners := f.programPath() + "/partners"
	page := func(query string) response { return f.merchant.get(t, partners+query) }
	wantNames := func(query string, want ...string) {
		t.Helper()
		if got := partnerNames(page(query)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s lists %v, want %v", query, got, want)
		}
	}
	wantNames("", "Annika", "Ben", "anna", "Zoe", "Pia Partner")
	wantNames("?sortBy=partnerName&sortOrder=asc", "anna", "Annika", "Ben", "Pia Partner", "Zoe")
	wantNames("?status=pending&sortOrder=asc", "Zoe", "anna", "Ben", "Annika")
	wantNames("?search=ANN&sortBy=partnerName&sortOrder=desc", "Annika", "anna")
	wantNames("?search="+people[2].email, "Ben")
	wantNames("?search="+people[0].participant, "Zoe")
	wantNames("?search="+f.code, "Pia Partner")
	wantNames("?search=%25")
	page("?status=pending").wantFields(object{"total": 4})
	page("?search=ann").wantFields(object{"total": 2})
	page("?pageSize=2&page=3").wantFields(object{"total": 5, "page": 3, "limit": 2})
	page("?sortBy=note").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "sortBy")

	// The list contains the clicks and conversions of each participant, and can be sorted
	// by them.
	f.earnCommission(t)
	eventually(t, waitTimeout, "the counts are up to date", func() error {
		got := page("?sortBy=conversions")
		if got.text("data.0.id") != f.participant || got.number("data.0.clicks") < 1 {
			return fmt.Errorf("the list is %s", got.body)
		}
		return nil
	})
	f.merchant.get(t, f.participantPath()).wantStatus(http.StatusOK).wantFields(object{
		"conversions": 1, "revenueCents": 10_000, "commissionCents": 2000, "balanceCents": 0,
	})

	// The totals are correct after changes of the status.
	changeStatus := func(i int, action string) {
		f.merchant.patch(t, partners+"/"+people[i].participant+"/"+action, nil).wantStatus(http.StatusOK)
	}
	changeStatus(0, "approve")
	changeStatus(1, "reject")
	changeStatus(0, "suspend")
	for status, total := range map[string]int{"pending": 2, "approved": 1, "suspended": 1, "rejected": 1} {
		page("?status=" + status).wantFields(object{"total": total})
	}
	page("").wantFields(object{"total": 5})
	people[1].post(t, "/api/v1/partner/links", object{"programId": f.program, "destinationUrl": "https://shop.example"}).
		wantError(http.StatusConflict, "PARTICIPANT_STATE_INVALID")
}

func testParticipantUpdate(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	other := f.createApplicants(t, "Ben")[0]
	f.merchant.patch(t, f.participantPath(), object{"note": " Met at the fair. ", "tags": []string{"press", "vip", "press"}}).wantStatus(http.StatusOK).wantFields(object{
		"note": "Met at the fair.", "tags": []string{"press", "vip"},
	})
	f.merchant.patch(t, f.participantPath(), object{"note": nil, "tags": nil}).wantStatus(http.StatusOK).wantFields(object{"note": nil, "tags": []string{}})

	// After a change of the code, the old code stays reserved. Clicks with the old code
	// still belong to the participant.
	f.click(t)
	code := uniqueName("renamed")
	f.merchant.patch(t, f.participantPath(), object{"referralCode": code}).wantStatus(http.StatusOK).wantFields(object{"referralCode": code})
	for _, valid := range []string{code, f.code} {
		eventually(t, waitTimeout, "clicks with the code "+valid+" are accepted", func() error {
			if got := sys.click(t, f.publicKey, object{"referral_code": valid}); got.status != http.StatusCreated {
				return fmt.Errorf("the collector returns %d", got.status)
			}
			return nil
		})
	}
	path := f.programPath() + "/partners/" + other.participant
	for _, taken := range []string{code, f.code} {
		f.merchant.patch(t, path, object{"referralCode": taken}).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
	}
	f.merchant.patch(t, path, object{"referralCode": "admin"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "referralCode")
	f.merchant.patch(t, f.participantPath(), object{"referralCode": f.code}).wantStatus(http.StatusOK) // the old code of the same participant
	f.merchant.get(t, f.programPath()+"/links?participantId="+f.participant).wantStatus(http.StatusOK).wantFields(object{"data.0.code": f.code, "total": 1})

	foreign := sys.newFixture(t, "test", nil)
	group := foreign.merchant.post(t, foreign.programPath()+"/groups", object{"name": "G", "percentage": 1}).wantStatus(http.StatusCreated).text("id")
	for field, body := range map[string]object{
		"groupId": {"groupId": group}, "commissionOverride.flatAmountCents": {"commissionOverride": object{"percentage": 1, "flatAmountCents": 1}},
		"status": {"status": "approved"}, "tags[0]": {"tags": []string{""}},
	} {
		f.merchant.patch(t, f.participantPath(), body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
	}
}

func testParticipantsBulkActions(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	people := f.createApplicants(t, "Ada", "Bo", "Cem")
	stranger := sys.newFixture(t, "test", nil)
	approve, reject := f.programPath()+"/partners/bulk-approve", f.programPath()+"/partners/bulk-reject"

	// 200 means that all actions succeeded. An id that occurs twice counts once.
	f.merchant.patch(t, approve, object{"participantIds": []string{people[0].participant, people[0].participant}}).wantStatus(http.StatusOK).wantFields(object{
		"summary": object{"total": 1, "succeeded": 1, "failed": 0}, "results.0.status": "approved", "results.0.statusCode": 200, "results.0.code": nil,
	})
	// 207 means that some actions succeeded. The results have the order of the ids in the
	// request.
	f.merchant.patch(t, reject, object{"participantIds": []string{people[0].participant, people[1].participant, stranger.participant}, "reason": "Full."}).wantStatus(http.StatusMultiStatus).wantFields(object{
		"summary":        object{"total": 3, "succeeded": 1, "failed": 2},
		"results.0.code": "PARTICIPANT_STATE_INVALID", "results.0.status": "approved", "results.0.statusCode": 409,
		"results.1.success": true, "results.1.status": "rejected", "results.1.participantId": people[1].participant,
		"results.2.code": "NOT_FOUND", "results.2.status": nil, "results.2.statusCode": 404,
	})
	f.merchant.get(t, f.programPath()+"/partners/"+people[1].participant).wantFields(object{"rejectionReason": "Full."})
	// 422 means that no action succeeded. The error response also has the fields summary
	// and results.
	f.merchant.patch(t, approve, object{"participantIds": []string{people[0].participant}}).wantError(http.StatusUnprocessableEntity, "BULK_ALL_FAILED").wantFields(object{
		"summary": object{"total": 1, "succeeded": 0, "failed": 1}, "results.0.code": "PARTICIPANT_STATE_INVALID",
	})
	stranger.merchant.patch(t, approve, object{"participantIds": []string{people[2].participant}}).wantError(http.StatusUnprocessableEntity, "BULK_ALL_FAILED")
	tooMany := make([]string, 101)
	for i := range tooMany {
		tooMany[i] = people[2].participant
	}
	for _, ids := range []any{[]string{}, []string{"1"}, tooMany, "x", nil} {
		f.merchant.patch(t, approve, object{"participantIds": ids}).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
	}
	f.merchant.get(t, f.programPath()+"/partners/"+people[2].participant).wantFields(object{"status": "pending"})

	group := f.merchant.post(t, f.programPath()+"/groups", object{"name": "Gold", "percentage": 33}).wantStatus(http.StatusCreated).text("id")
	update := func(caller caller, fields object, ids ...string) response {
		fields["participantIds"] = ids
		return caller.patch(t, f.programPath()+"/partners/bulk-update", fields)
	}
	update(f.merchant, object{"groupId": group, "addTags": []string{"vip"}}, people[0].participant, people[1].participant).wantStatus(http.StatusOK)
	update(f.merchant, object{"removeTags": []string{"vip"}}, people[1].participant, stranger.participant).wantStatus(http.StatusMultiStatus).
		wantFields(object{"results.0.status": "rejected", "results.1.code": "NOT_FOUND"})
	update(f.merchant, object{"groupId": nil}, people[0].participant).wantStatus(http.StatusOK)
	f.merchant.get(t, "/api/v1/partners?tag=vip&sortBy=partnerName").wantStatus(http.StatusOK).
		wantFields(object{"total": 1, "data.0.id": people[0].participant, "data.0.groupId": nil, "data.0.tags": []any{"vip"}})
	f.merchant.get(t, "/api/v1/partners?groupId="+group).wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.id": people[1].participant, "data.0.tags": []any{}})
	update(f.merchant, object{}, people[0].participant).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "addTags")
	update(stranger.merchant, object{"addTags": []string{"vip"}}, people[0].participant).wantError(http.StatusNotFound, "NOT_FOUND")

	invite := func(caller caller, emails ...string) response {
		var invites []object
		for _, email := range emails {
			invites = append(invites, object{"email": email})
		}
		return caller.post(t, f.programPath()+"/partners/bulk-invite", object{"invites": invites})
	}
	guest := uniqueName("guest") + "@example.com"
	invite(f.merchant, guest, f.partner.email).wantStatus(http.StatusMultiStatus).wantFields(object{
		"summary":         object{"total": 2, "succeeded": 1, "failed": 1},
		"results.0.email": guest, "results.0.statusCode": 201, "results.0.invite.mailed": true, "results.0.code": nil,
		"results.1.index": 1, "results.1.statusCode": 409, "results.1.code": "APPLICATION_DUPLICATE", "results.1.invite": nil,
	})
	invite(f.merchant, guest, "no address").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "invites[1].email")
	invite(stranger.merchant, guest).wantOutcome(notFound)
}

func testParticipantsInvitations(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	f.merchant.patch(t, f.programPath(), object{"termsUrl": "https://shop.example/terms"}).wantStatus(http.StatusOK)
	group := f.merchant.post(t, f.programPath()+"/groups", object{"name": "Invited", "percentage": 33}).wantStatus(http.StatusCreated).text("id")
	path := f.programPath() + "/partners/invite"
	guest := sys.newPartner(t).inMode("test")
	code := uniqueName("guest")
	invite := f.merchant.post(t, path, object{"email": guest.email, "groupId": group, "referralCode": code}).wantStatus(http.StatusCreated)
	f.merchant.get(t, f.programPath()+"/partners/invites").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.email": guest.email, "data.0.groupId": group})
	f.merchant.do(t, http.MethodDelete, f.programPath()+"/groups/"+group, nil).wantError(http.StatusConflict, "GROUP_IN_USE")
	accept := func(extraFields object) response {
		body := object{"token": invite.text("token")}
		for name, value := range extraFields {
			body[name] = value
		}
		return guest.post(t, "/api/v1/partner/invites/accept", body)
	}
	accept(nil).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "acceptTerms")
	got := accept(object{"acceptTerms": true}).wantStatus(http.StatusCreated).wantFields(object{"status": "approved", "referralCode": code, "groupId": nil})
	f.merchant.get(t, f.programPath()+"/partners/"+got.text("id")).wantStatus(http.StatusOK).wantFields(object{"groupId": group})
	f.merchant.post(t, path, object{"email": guest.email}).wantError(http.StatusConflict, "APPLICATION_DUPLICATE")
	f.merchant.post(t, path, object{"email": "x@example.com", "referralCode": code}).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
	f.merchant.post(t, path, object{"email": "no address"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "email")

	revoked := f.merchant.post(t, path, object{"email": "late@example.com"}).wantStatus(http.StatusCreated)
	f.merchant.do(t, http.MethodDelete, f.programPath()+"/partners/invites/"+revoked.text("id"), nil).wantStatus(http.StatusNoContent)
	sys.newPartner(t).inMode("test").post(t, "/api/v1/partner/invites/accept", object{"token": revoked.text("token"), "acceptTerms": true}).wantOutcome(notFound)
}

func testErasedParticipantRejectsAllWrites(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	promo := f.createPromoCode(t, "kept", nil).wantStatus(http.StatusCreated).text("id")
	link := f.merchant.post(t, f.programPath()+"/links", object{"participantId": f.participant, "destinationUrl": "https://shop.example"}).wantStatus(http.StatusCreated).text("id")
	report := f.report(t, purchase(f.click(t))).wantStatus(http.StatusCreated)
	other := f.createApplicants(t, "Ben")[0]
	sys.exec(t, `update participants set erased_at = now() where id = $1`, f.participant)
	before := f.merchant.get(t, f.participantPath()).wantStatus(http.StatusOK).body
	wantErased := func(a response) { a.wantError(http.StatusConflict, "PARTICIPANT_ERASED") }
	wantErased(f.merchant.patch(t, f.participantPath(), object{"note": "x"}))
	wantErased(f.merchant.patch(t, f.participantPath(), object{"referralCode": uniqueName("code")}))
	wantErased(f.merchant.post(t, f.programPath()+"/links", object{"participantId": f.participant, "destinationUrl": "https://shop.example"}))
	wantErased(f.merchant.patch(t, f.programPath()+"/links/"+link, object{"subId": "x"}))
	wantErased(f.createPromoCode(t, "new", nil))
	wantErased(f.merchant.patch(t, f.promoCodesPath()+"/"+promo, object{"active": false}))
	wantErased(f.partner.post(t, "/api/v1/partner/links", object{"programId": f.program, "destinationUrl": "https://shop.example"}))
	f.merchant.patch(t, f.programPath()+"/partners/bulk-reject", object{"participantIds": []string{f.participant, other.participant}}).
		wantStatus(http.StatusMultiStatus).wantFields(object{"results.0.code": "PARTICIPANT_ERASED"})
	wantErased(f.merchant.post(t, "/api/v1/conversions/"+f.report(t, promoCodeSale("nobodys")).wantStatus(http.StatusCreated).text("id")+"/reattribute",
		object{"participant_id": f.participant, "reason": "x"}))
	if after := f.merchant.get(t, f.participantPath()).body; after != before {
		t.Errorf("the participant has changed:\nbefore\n%s\nafter\n%s", before, after)
	}
	f.merchant.get(t, f.commissionPath(report.text("commission.id"))).wantStatus(http.StatusOK)
}
