package e2e_test

import (
	"bytes"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"
)

const brandingPath = workspacePath + "/branding"

// pngFile returns a PNG file of one colour.
func pngFile(t testing.TB, width, height int) string {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

func testBranding(t *testing.T, sys *system) {
	owner := sys.newMerchant(t)
	slug := uniqueName("brand")
	body := object{
		"portalName": " Acme Partners ", "slug": slug, "accentColor": "#FFE600", "supportEmail": "partners@acme.example",
		"websiteUrl": "https://acme.example", "locale": "de",
	}
	stored := object{
		"portalName": "Acme Partners", "slug": slug, "accentColor": "#ffe600", "palette.light.color": "#a69600", "palette.light.textColor": "#000000",
		"palette.dark.color": "#ffe600", "supportEmail": "partners@acme.example", "websiteUrl": "https://acme.example",
		"termsUrl": nil, "privacyUrl": nil, "locale": "de", "logoUrl": nil,
	}
	owner.do(t, http.MethodPut, brandingPath, body).wantStatus(http.StatusOK).wantFields(stored)
	owner.addMember(t, "viewer").get(t, brandingPath).wantStatus(http.StatusOK).wantFields(stored)

	before := owner.get(t, brandingPath).body
	owner.do(t, http.MethodPut, brandingPath, object{"slug": "x", "supportEmail": "none", "accentColor": "red", "locale": "fr", "nope": 1}).
		wantError(http.StatusBadRequest, "VALIDATION_ERROR", "slug", "supportEmail", "accentColor", "locale", "nope")
	sys.newMerchant(t).do(t, http.MethodPut, brandingPath, object{"slug": slug}).wantError(http.StatusConflict, "SLUG_TAKEN")
	for _, file := range []string{"", "{}", `<svg xmlns="http://www.w3.org/2000/svg"/>`} {
		owner.do(t, http.MethodPut, brandingPath+"/logo", file).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "body")
	}
	owner.do(t, http.MethodPut, brandingPath+"/logo", strings.Repeat("x", 256<<10+1)).wantError(http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	if after := owner.get(t, brandingPath).body; after != before {
		t.Errorf("invalid requests have changed the branding:\nbefore %s\nafter  %s", before, after)
	}

	url := owner.do(t, http.MethodPut, brandingPath+"/logo", pngFile(t, 40, 20)).wantStatus(http.StatusOK).text("logoUrl")
	logo := url[strings.Index(url, "/api/v1/"):]
	got := sys.client().get(t, logo).wantStatus(http.StatusOK)
	for header, want := range map[string]string{
		"Content-Type": "image/png", "Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff",
	} {
		if got.header.Get(header) != want {
			t.Errorf("the logo has the header %s %q, want %q", header, got.header.Get(header), want)
		}
	}
	if picture, err := png.Decode(strings.NewReader(got.body)); err != nil || picture.Bounds().Dx() != 40 {
		t.Errorf("the logo is not the picture: %v", err)
	}
	owner.do(t, http.MethodDelete, brandingPath+"/logo", nil).wantStatus(http.StatusNoContent)
	sys.client().get(t, logo).wantOutcome(notFound)
}

func testPortalProgram(t *testing.T, sys *system) {
	merchant := sys.newMerchant(t).inMode("test")
	f := fixture{merchant: merchant, program: merchant.createProgram(t, object{
		"name": "Garden Friends", "slug": "garden-friends", "termsText": "Be honest.", "publicText": "Welcome.\n\nJoin us.", "autoApprovePartners": true,
		"commissionRules": object{"percentage": 20, "laterPercentage": 10, "recurring": object{"maxMonths": 12}},
		"applicationQuestions": []object{
			{"key": "site", "label": "Your site", "type": "url", "required": true},
			{"key": "size", "label": "Visitors", "type": "select", "options": []string{"few", "many"}},
		},
	})}
	live, slug := f.merchant.inMode("live"), uniqueName("garden")
	live.do(t, http.MethodPut, brandingPath, object{"slug": slug, "portalName": "Garden Shop", "accentColor": "#000080"}).wantStatus(http.StatusOK)
	visitor, path := sys.client(), "/api/v1/portal/programs/"+slug+"/garden-friends"
	page := visitor.get(t, path+"?mode=test").wantStatus(http.StatusOK).wantFields(object{
		"id": f.program, "name": "Garden Friends", "mode": "test", "branding.name": "Garden Shop", "branding.palette.light.color": "#000080", "branding.logoUrl": nil,
		"publicText": "Welcome.\n\nJoin us.", "termsText": "Be honest.", "termsVersion": 1, "termsUrl": nil, "commissionRules.percentage": 20,
		"commissionRules.laterPercentage": 10, "commissionRules.recurring.maxMonths": 12, "applicationQuestions.0.key": "site",
		"applicationQuestions.1.options": []string{"few", "many"}, "autoApprovePartners": true, "registrationNeedsInvitation": false,
	})
	if got := page.header.Get("Cache-Control"); got != "public, max-age=60" {
		t.Errorf("the page has the header Cache-Control %q, want public, max-age=60", got)
	}

	partner := sys.newPartner(t).inMode("test")
	apply := func(body object) response { return partner.post(t, f.applyPath(), body) }
	apply(object{"acceptTerms": true, "answers": object{"size": "huge", "other": "x"}}).
		wantError(http.StatusBadRequest, "VALIDATION_ERROR", "answers.site", "answers.size", "answers.other")
	f.merchant.patch(t, f.programPath(), object{"termsText": "Be honest, always."}).wantStatus(http.StatusOK).wantFields(object{"termsVersion": 2})
	answers := object{"site": "https://garden.example", "size": "many"}
	apply(object{"acceptTerms": true, "termsVersion": 1, "answers": answers}).wantError(http.StatusConflict, "TERMS_CHANGED")
	joined := apply(object{"acceptTerms": true, "termsVersion": 2, "answers": answers}).wantStatus(http.StatusCreated)
	f.merchant.get(t, f.programPath()+"/partners/"+joined.text("id")).wantStatus(http.StatusOK).wantFields(object{
		"status": "approved", "applicationAnswers.site": "https://garden.example", "applicationAnswers.size": "many", "termsVersion": 2,
	})
	f.merchant.get(t, "/api/v1/programs").wantStatus(http.StatusOK).wantFields(object{"data.0.termsText": nil, "data.0.publicText": nil, "data.0.applicationQuestions": []any{}})

	// The response is the same whatever the reason is.
	visitor.get(t, path).wantOutcome(notFound) // another mode
	visitor.get(t, path+"?mode=other").wantOutcome(invalid)
	visitor.get(t, "/api/v1/portal/programs/"+slug+"/unknown?mode=test").wantOutcome(notFound)
	visitor.get(t, "/api/v1/portal/programs/nobody/garden-friends?mode=test").wantOutcome(notFound)
	f.merchant.patch(t, f.programPath(), object{"isPublic": false}).wantStatus(http.StatusOK)
	visitor.get(t, path+"?mode=test").wantOutcome(notFound)
	f.merchant.patch(t, f.programPath(), object{"isPublic": true}).wantStatus(http.StatusOK)
	f.merchant.post(t, f.programPath()+"/pause", nil).wantStatus(http.StatusOK)
	visitor.get(t, path+"?mode=test").wantOutcome(notFound)
}

func testPortalInvites(t *testing.T, sys *system) {
	merchant := sys.newMerchant(t).inMode("test")
	f := fixture{merchant: merchant, program: merchant.createProgram(t, object{"name": "Private", "isPublic": false})}
	group := f.merchant.post(t, f.programPath()+"/groups", object{"name": "Best", "percentage": 33}).wantStatus(http.StatusCreated).text("id")
	invited := f.merchant.post(t, f.programPath()+"/partners/invite", object{"email": "ada@example.com", "groupId": group}).wantStatus(http.StatusCreated)
	lookup := func(token string) response {
		return sys.client().post(t, "/api/v1/portal/invites/lookup", object{"token": token})
	}
	for range 2 { // a lookup changes nothing
		lookup(invited.text("token")).wantStatus(http.StatusOK).wantFields(object{
			"kind": "partner", "email": "a***@example.com", "expiresAt": invited.text("expiresAt"), "role": nil, "program.id": f.program, "program.mode": "test",
			"program.name": "Private", "commissionRate.percentage": 33, "rate": "33% of each sale",
		})
	}
	member := f.merchant.post(t, workspacePath+"/invites", object{"email": "max@example.com", "role": "finance"}).wantStatus(http.StatusCreated)
	lookup(member.text("token")).wantStatus(http.StatusOK).wantFields(object{
		"kind": "member", "email": "m***@example.com", "role": "finance", "program": nil, "commissionRate": nil, "rate": nil,
	})

	lookup("inv_unknown").wantOutcome(notFound)
	f.merchant.do(t, http.MethodDelete, workspacePath+"/invites/"+member.text("id"), nil).wantStatus(http.StatusNoContent)
	lookup(member.text("token")).wantOutcome(notFound)
	used := f.merchant.post(t, f.programPath()+"/partners/invite", object{"email": "bob@example.com"}).wantStatus(http.StatusCreated).text("token")
	sys.newPartner(t).inMode("test").post(t, "/api/v1/partner/invites/accept", object{"token": used}).wantStatus(http.StatusCreated)
	lookup(used).wantOutcome(notFound)
	sys.exec(t, `update participant_invites set expires_at = created_at where id = $1`, invited.text("id"))
	lookup(invited.text("token")).wantOutcome(notFound)
}
