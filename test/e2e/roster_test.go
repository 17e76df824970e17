package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
)

// applicant is a partner with an application to the programme.
type applicant struct {
	account
	participant string
}

// createApplicants creates partners with these names, who apply to the programme in
// this order.
func (w world) createApplicants(t *testing.T, names ...string) []applicant {
	t.Helper()
	var all []applicant
	for _, name := range names {
		p := w.sys.partner(t).in("test")
		p.patch(t, "/api/v1/partner/profile", object{"name": name}).want(http.StatusOK)
		all = append(all, applicant{p, p.post(t, w.applyPath(), nil).want(http.StatusCreated).text("id")})
	}
	return all
}

// partnerNames returns the partner names on a page.
func partnerNames(a response) []string {
	a.t.Helper()
	var names []string
	for i := range a.want(http.StatusOK).length("data") {
		names = append(names, a.text(fmt.Sprintf("data.%d.partnerName", i)))
	}
	return names
}

func TestParticipantList(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	people := w.createApplicants(t, "Zoe", "anna", "Ben", "Annika")
	partners := w.programPath() + "/partners"
	page := func(query string) response { return w.merchant.get(t, partners+query) }
	same := func(query string, want ...string) {
		t.Helper()
		if got := partnerNames(page(query)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s lists %v, want %v", query, got, want)
		}
	}
	same("", "Annika", "Ben", "anna", "Zoe", "Pia Partner")
	same("?sortBy=partnerName&sortOrder=asc", "anna", "Annika", "Ben", "Pia Partner", "Zoe")
	same("?status=pending&sortOrder=asc", "Zoe", "anna", "Ben", "Annika")
	same("?search=ANN&sortBy=partnerName&sortOrder=desc", "Annika", "anna")
	same("?search="+people[2].email, "Ben")
	same("?search="+people[0].participant, "Zoe")
	same("?search="+w.code, "Pia Partner")
	same("?search=%25")
	page("?status=pending").wantFields(object{"total": 4})
	page("?search=ann").wantFields(object{"total": 2})
	page("?pageSize=2&page=3").wantFields(object{"total": 5, "page": 3, "limit": 2})
	page("?sortBy=note").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "sortBy")

	// The list has counts, and can be sorted by them.
	w.earn(t)
	eventually(t, waitTimeout, "the counts are up to date", func() error {
		got := page("?sortBy=conversions")
		if got.text("data.0.id") != w.participant || got.number("data.0.clicks") < 1 {
			return fmt.Errorf("%s", got.body)
		}
		return nil
	})
	w.merchant.get(t, w.participantPath()).want(http.StatusOK).wantFields(object{
		"conversions": 1, "revenueCents": 10_000, "commissionCents": 2000, "balanceCents": 0,
	})

	// The totals are correct after each status change.
	move := func(i int, to string) {
		w.merchant.patch(t, partners+"/"+people[i].participant+"/"+to, nil).want(http.StatusOK)
	}
	move(0, "approve")
	move(1, "reject")
	move(0, "suspend")
	for status, total := range map[string]int{"pending": 2, "approved": 1, "suspended": 1, "rejected": 1} {
		page("?status=" + status).wantFields(object{"total": total})
	}
	page("").wantFields(object{"total": 5})
	people[1].post(t, "/api/v1/partner/links", object{"programId": w.program, "destinationUrl": "https://shop.example"}).
		wantError(http.StatusConflict, "PARTICIPANT_STATE_INVALID")
}

func TestParticipant_Update(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	other := w.createApplicants(t, "Ben")[0]
	w.merchant.patch(t, w.participantPath(), object{"note": " Met at the fair. ", "tags": []string{"press", "vip", "press"}}).want(http.StatusOK).wantFields(object{
		"note": "Met at the fair.", "tags": []string{"press", "vip"},
	})
	w.merchant.patch(t, w.participantPath(), object{"note": nil, "tags": nil}).want(http.StatusOK).wantFields(object{"note": nil, "tags": []string{}})

	// The old code stays reserved and still leads to the participant.
	w.click(t)
	code := uniqueName("renamed")
	w.merchant.patch(t, w.participantPath(), object{"referralCode": code}).want(http.StatusOK).wantFields(object{"referralCode": code})
	for _, works := range []string{code, w.code} {
		eventually(t, waitTimeout, "clicks with the code "+works+" are accepted", func() error {
			if got := sys.click(t, w.publicKey, object{"referral_code": works}); got.status != http.StatusCreated {
				return fmt.Errorf("%d", got.status)
			}
			return nil
		})
	}
	path := w.programPath() + "/partners/" + other.participant
	for _, taken := range []string{code, w.code} {
		w.merchant.patch(t, path, object{"referralCode": taken}).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
	}
	w.merchant.patch(t, path, object{"referralCode": "admin"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "referralCode")
	w.merchant.patch(t, w.participantPath(), object{"referralCode": w.code}).want(http.StatusOK) // the participant's own old code
	w.merchant.get(t, w.programPath()+"/links?participantId="+w.participant).want(http.StatusOK).wantFields(object{"data.0.code": w.code, "total": 1})

	foreign := sys.world(t, "test", nil)
	group := foreign.merchant.post(t, foreign.programPath()+"/groups", object{"name": "G", "percentage": 1}).want(http.StatusCreated).text("id")
	for field, body := range map[string]object{
		"groupId": {"groupId": group}, "commissionOverride.flatAmountCents": {"commissionOverride": object{"percentage": 1, "flatAmountCents": 1}},
		"status": {"status": "approved"}, "tags[0]": {"tags": []string{""}},
	} {
		w.merchant.patch(t, w.participantPath(), body).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
	}
}

func TestParticipants_BulkActions(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	people := w.createApplicants(t, "Ada", "Bo", "Cem")
	stranger := sys.world(t, "test", nil)
	approve, reject := w.programPath()+"/partners/bulk-approve", w.programPath()+"/partners/bulk-reject"

	// 200 means that all succeeded. Repeated ids count once.
	w.merchant.patch(t, approve, object{"participantIds": []string{people[0].participant, people[0].participant}}).want(http.StatusOK).wantFields(object{
		"summary": object{"total": 1, "succeeded": 1, "failed": 0}, "results.0.status": "approved", "results.0.statusCode": 200, "results.0.code": nil,
	})
	// 207 means that some succeeded. The results have the order of the request.
	w.merchant.patch(t, reject, object{"participantIds": []string{people[0].participant, people[1].participant, stranger.participant}, "reason": "Full."}).want(http.StatusMultiStatus).wantFields(object{
		"summary":        object{"total": 3, "succeeded": 1, "failed": 2},
		"results.0.code": "PARTICIPANT_STATE_INVALID", "results.0.status": "approved", "results.0.statusCode": 409,
		"results.1.success": true, "results.1.status": "rejected", "results.1.participantId": people[1].participant,
		"results.2.code": "NOT_FOUND", "results.2.status": nil, "results.2.statusCode": 404,
	})
	w.merchant.get(t, w.programPath()+"/partners/"+people[1].participant).wantFields(object{"rejectionReason": "Full."})
	// 422 means that none succeeded. The error has the same two fields in addition.
	w.merchant.patch(t, approve, object{"participantIds": []string{people[0].participant}}).wantError(http.StatusUnprocessableEntity, "BULK_ALL_FAILED").wantFields(object{
		"summary": object{"total": 1, "succeeded": 0, "failed": 1}, "results.0.code": "PARTICIPANT_STATE_INVALID",
	})
	stranger.merchant.patch(t, approve, object{"participantIds": []string{people[2].participant}}).wantError(http.StatusUnprocessableEntity, "BULK_ALL_FAILED")
	tooMany := make([]string, 101)
	for i := range tooMany {
		tooMany[i] = people[2].participant
	}
	for _, ids := range []any{[]string{}, []string{"1"}, tooMany, "x", nil} {
		w.merchant.patch(t, approve, object{"participantIds": ids}).wantError(http.StatusBadRequest, "VALIDATION_ERROR")
	}
	w.merchant.get(t, w.programPath()+"/partners/"+people[2].participant).wantFields(object{"status": "pending"})
}

func TestParticipants_Invitations(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	w.merchant.patch(t, w.programPath(), object{"termsUrl": "https://shop.example/terms"}).want(http.StatusOK)
	group := w.merchant.post(t, w.programPath()+"/groups", object{"name": "Invited", "percentage": 33}).want(http.StatusCreated).text("id")
	path := w.programPath() + "/partners/invite"
	guest := sys.partner(t).in("test")
	code := uniqueName("guest")
	invite := w.merchant.post(t, path, object{"email": guest.email, "groupId": group, "referralCode": code}).want(http.StatusCreated)
	w.merchant.get(t, w.programPath()+"/partners/invites").want(http.StatusOK).wantFields(object{"total": 1, "data.0.email": guest.email, "data.0.groupId": group})
	w.merchant.do(t, http.MethodDelete, w.programPath()+"/groups/"+group, nil).wantError(http.StatusConflict, "GROUP_IN_USE")
	accept := func(more object) response {
		body := object{"token": invite.text("token")}
		for name, value := range more {
			body[name] = value
		}
		return guest.post(t, "/api/v1/partner/invites/accept", body)
	}
	accept(nil).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "acceptTerms")
	got := accept(object{"acceptTerms": true}).want(http.StatusCreated).wantFields(object{"status": "approved", "referralCode": code, "groupId": nil})
	w.merchant.get(t, w.programPath()+"/partners/"+got.text("id")).want(http.StatusOK).wantFields(object{"groupId": group})
	w.merchant.post(t, path, object{"email": guest.email}).wantError(http.StatusConflict, "APPLICATION_DUPLICATE")
	w.merchant.post(t, path, object{"email": "x@example.com", "referralCode": code}).wantError(http.StatusConflict, "REFERRAL_CODE_TAKEN")
	w.merchant.post(t, path, object{"email": "no address"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "email")

	revoked := w.merchant.post(t, path, object{"email": "late@example.com"}).want(http.StatusCreated)
	w.merchant.do(t, http.MethodDelete, w.programPath()+"/partners/invites/"+revoked.text("id"), nil).want(http.StatusNoContent)
	sys.partner(t).in("test").post(t, "/api/v1/partner/invites/accept", object{"token": revoked.text("token"), "acceptTerms": true}).wantOutcome(notFound)
}

func TestErasedParticipant_RejectsAllWrites(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	promo := w.promoCode(t, "kept", nil).want(http.StatusCreated).text("id")
	link := w.merchant.post(t, w.programPath()+"/links", object{"participantId": w.participant, "destinationUrl": "https://shop.example"}).want(http.StatusCreated).text("id")
	report := w.report(t, purchase(w.click(t))).want(http.StatusCreated)
	other := w.createApplicants(t, "Ben")[0]
	sys.exec(t, `update participants set erased_at = now() where id = $1`, w.participant)
	before := w.merchant.get(t, w.participantPath()).want(http.StatusOK).body
	erased := func(a response) { a.wantError(http.StatusConflict, "PARTICIPANT_ERASED") }
	erased(w.merchant.patch(t, w.participantPath(), object{"note": "x"}))
	erased(w.merchant.patch(t, w.participantPath(), object{"referralCode": uniqueName("code")}))
	erased(w.merchant.post(t, w.programPath()+"/links", object{"participantId": w.participant, "destinationUrl": "https://shop.example"}))
	erased(w.merchant.patch(t, w.programPath()+"/links/"+link, object{"subId": "x"}))
	erased(w.promoCode(t, "new", nil))
	erased(w.merchant.patch(t, w.promoCodes()+"/"+promo, object{"active": false}))
	erased(w.partner.post(t, "/api/v1/partner/links", object{"programId": w.program, "destinationUrl": "https://shop.example"}))
	w.merchant.patch(t, w.programPath()+"/partners/bulk-reject", object{"participantIds": []string{w.participant, other.participant}}).
		want(http.StatusMultiStatus).wantFields(object{"results.0.code": "PARTICIPANT_ERASED"})
	erased(w.merchant.post(t, "/api/v1/conversions/"+w.report(t, promoCodeSale("nobodys")).want(http.StatusCreated).text("id")+"/reattribute",
		object{"participant_id": w.participant, "reason": "x"}))
	if after := w.merchant.get(t, w.participantPath()).body; after != before {
		t.Errorf("the participant has changed:\nbefore\n%s\nafter\n%s", before, after)
	}
	w.merchant.get(t, w.commissionPath(report.text("commission.id"))).want(http.StatusOK)
}
