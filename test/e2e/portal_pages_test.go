package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// portalData is a partner with records for all pages of the portal.
type portalData struct {
	fixture
	page                                  string // of the programme
	earned, rejected, paid, bounced, lost string
}

// newPortalData creates the data. text returns the texts of users by their names and maximum
// lengths.
func (sys *system) newPortalData(t *testing.T, text func(name string, length int) string) (d portalData) {
	t.Helper()
	d.fixture, d.page = sys.newPublicProgram(t, object{
		"name": text("programme", 100), "description": text("description", 2000), "publicText": text("public text", 5000), "termsText": text("terms", 20_000),
		"autoApprovePartners": true, "fraudPolicy": "observe",
		"commissionRules":      object{"percentage": 20, "holdPeriodDays": 0, "products": []object{{"productId": text("product", 255), "percentage": 5}}},
		"applicationQuestions": []object{{"key": "a", "label": text("question", 200), "type": "select", "options": []string{text("option", 100)}}},
	})
	slug := strings.Split(d.page, "/")[3]
	d.merchant.do(t, http.MethodPut, brandingPath, object{"slug": slug, "portalName": text("merchant", 100)}).wantStatus(http.StatusOK)
	d.partner, d.code = sys.newPartner(t).inMode("test"), strings.Repeat("w", 40)+uniqueName("")
	d.partner.patch(t, "/api/v1/partner/profile", object{"name": text("partner", 100), "companyName": text("company", 200)}).wantStatus(http.StatusOK)
	d.participant = d.partner.post(t, d.applyPath(), object{"referralCode": d.code, "acceptTerms": true, "termsVersion": 1}).wantStatus(http.StatusCreated).text("id")
	d.publicKey, d.secretKey = d.merchant.publicKey(t), d.merchant.createSecretKey(t)

	sub := text("sub id", 255)
	d.partner.post(t, "/api/v1/partner/links", object{
		"programId": d.program, "destinationUrl": "https://shop.example/" + strings.Repeat("w", 200), "subId": sub, "utm": object{"source": text("source", 255)},
	}).wantStatus(http.StatusCreated)
	d.merchant.post(t, d.programPath()+"/promo-codes", object{
		"participantId": d.participant, "code": strings.Repeat("W", 90) + uniqueName(""), "discountType": "percentage", "discountValue": 10,
	}).wantStatus(http.StatusCreated)
	d.merchant.post(t, d.programPath()+"/announcements", object{"title": text("announcement", 120), "body": text("news", 5000)}).wantStatus(http.StatusCreated)

	payOut := func(action string, body object) string {
		id := d.merchant.get(t, "/api/v1/payouts?batchId="+d.sendPayouts(t)).wantStatus(http.StatusOK).text("data.0.id")
		d.merchant.patch(t, "/api/v1/payouts/"+id+"/"+action, body).wantStatus(http.StatusOK)
		return id
	}
	d.earned = d.reportSale(t, d.click(t), object{"sub_id": sub}).text("commission.id")
	d.paid = payOut("mark-paid", object{"reference": text("reference", 200)})
	d.bounced = payOut("mark-failed", object{"reason": text("failure", 500)})
	d.rejected = d.earnCommission(t)
	d.merchant.patch(t, d.commissionPath(d.rejected)+"/reject", object{"code": "other", "reason": text("rejection", 500)}).wantStatus(http.StatusOK)
	d.lost = d.loseSale(t)
	return d
}

// portal returns the portal with its pages by their routes.
func (d portalData) portal(p *tab) app {
	p.Helper()
	return app{"/portal/test", "../../web/src/portal/Portal.tsx", map[string]appPage{
		"/":                    {data: []string{""}, empty: []string{""}},
		"/links":               {data: []string{"/links"}, empty: []string{"/links"}},
		"/commissions":         {data: []string{"/commissions", "/commissions?status=rejected"}, empty: []string{"/commissions", "/commissions?status=paid"}},
		"/commissions/:id":     {data: []string{"/commissions/" + d.earned, "/commissions/" + d.rejected}, empty: []string{"/commissions/unknown"}},
		"/commissions/lookup":  {data: []string{"/commissions/lookup?order=" + d.lost, "/commissions/lookup?" + d.today(p)}, empty: []string{"/commissions/lookup", "/commissions/lookup?show=day", "/commissions/lookup?order=x"}},
		"/payouts":             {data: []string{"/payouts"}, empty: []string{"/payouts"}},
		"/payouts/:id":         {data: []string{"/payouts/" + d.paid, "/payouts/" + d.bounced}, empty: []string{"/payouts/unknown"}},
		"/payouts/method":      {data: []string{"/payouts/method"}, isStatic: true},
		"/programs":            {data: []string{"/programs"}, empty: []string{"/programs", "/programs?show=public&search=nobody-has-this"}},
		"/programs/:id":        {data: []string{"/programs/" + d.program}, empty: []string{"/programs/" + d.program, "/programs/unknown"}},
		"/notifications":       {data: []string{"/notifications", "/notifications?show=preferences"}, empty: []string{"/notifications"}},
		"/settings":            {data: []string{"/settings", "/settings?show=security", "/settings?show=privacy"}},
		"/login":               {data: []string{"/login"}, isPublic: true, isStatic: true},
		"/register":            {data: []string{"/register"}, isPublic: true, isStatic: true},
		"/forgot-password":     {data: []string{"/forgot-password"}, isPublic: true, isStatic: true},
		"/reset-password":      {data: []string{"/reset-password#token=x"}, empty: []string{"/reset-password"}, isPublic: true, isStatic: true},
		"/verify-email":        {data: []string{"/verify-email#token=x"}, empty: []string{"/verify-email"}, isPublic: true, isStatic: true},
		"/unsubscribe":         {data: []string{"/unsubscribe?token=x"}, empty: []string{"/unsubscribe"}, isPublic: true, isStatic: true},
		"/accept-invite":       {data: []string{"/accept-invite#kind=partner&token=x", "/accept-invite#kind=merchant&token=x"}, empty: []string{"/accept-invite"}, isPublic: true},
		"/:workspace/:program": {data: []string{strings.TrimPrefix(d.page, "/portal/test")}, empty: []string{"/nobody/friends"}, failing: "/nobody/friends", isPublic: true},
	}}
}

// TestPortal_EveryPage opens every page of the portal.
func TestPortal_EveryPage(t *testing.T) {
	t.Parallel()
	sys, ctx := start(t, setup{}), browsertest.Start(t)
	d := sys.newPortalData(t, func(name string, _ int) string { return name })
	portal := d.portal(newTab(ctx, t, sys, browsertest.Phone))
	portal.wantAllRoutes(t)
	portal.wantEveryPage(ctx, t, sys, d.partner, sys.newPartner(t))
	t.Run("hostile texts", func(t *testing.T) { testPortalShowsHostileTexts(ctx, t, sys) })
}

// testPortalShowsHostileTexts opens all pages with hostile texts of the maximum length.
func testPortalShowsHostileTexts(ctx context.Context, t *testing.T, sys *system) {
	t.Helper()
	pgtest.Slow(t)
	// Only the merchant sees these texts, or they are shown in a form.
	hidden := []string{"rejection", "source", "company", "question", "option", "terms"}
	var names []string
	d := sys.newPortalData(t, func(name string, length int) string {
		names = append(names, name)
		return hostileText(name, length)
	})
	public := newTab(ctx, t, sys, browsertest.Phone)
	portal := d.portal(public)
	p := newPortalTab(ctx, t, sys, browsertest.Phone, d.partner)
	shown := portal.wantHostileTexts(t, p, public)
	for _, name := range names {
		if !slices.Contains(hidden, name) && !strings.Contains(shown, "=1+1<b data-hostile>"+name+"</b>") {
			t.Errorf("no page shows the text %q", name)
		}
	}
	p.open("/portal/test/commissions")
	if csv := p.savedBy("Export as CSV"); strings.Count(csv, "=1+1") == 0 || strings.Count(csv, "=1+1") != strings.Count(csv, "'=1+1") {
		t.Errorf("the saved file contains a formula: %q", csv)
	}
}
