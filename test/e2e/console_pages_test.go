package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// consoleData is a workspace with records for all pages of the console.
type consoleData struct {
	portalData
	conversion     string // of the commission earned
	batch, webhook string
}

// newConsoleData creates the data, with an application and an invitation too. text returns the texts of
// users as newPortalData describes it.
func (sys *system) newConsoleData(t *testing.T, text func(name string, length int) string) consoleData {
	t.Helper()
	d := consoleData{portalData: sys.newPortalData(t, text)}
	d.conversion = d.merchant.get(t, "/api/v1/commissions/"+d.earned).wantStatus(http.StatusOK).text("conversionId")
	d.merchant.patch(t, d.programPath(), object{"autoApprovePartners": false}).wantStatus(http.StatusOK)
	applicant := sys.newPartner(t).inMode("test")
	applicant.post(t, d.applyPath(), object{"answers": object{"a": text("option", 100)}, "acceptTerms": true, "termsVersion": 1}).wantStatus(http.StatusCreated)
	d.merchant.post(t, d.programPath()+"/partners/invite", object{"email": uniqueName("invited") + "@example.com"}).wantStatus(http.StatusCreated)
	d.batch = d.merchant.get(t, "/api/v1/payouts/"+d.paid).wantStatus(http.StatusOK).text("batchId")
	d.webhook = d.merchant.createEndpoint(t, "https://127.0.0.1/hooks", nil).wantStatus(http.StatusCreated).text("id")
	d.merchant.post(t, d.programPath()+"/partners/"+d.participant+"/ledger", object{"type": "bonus", "amountCents": 500, "reason": text("bonus", 500)}).wantStatus(http.StatusCreated)
	return d
}

// console returns the console with its pages by their routes.
func (d consoleData) console() app {
	partner := "/programs/" + d.program + "/partners/" + d.participant
	programTabs := []string{"/programs/" + d.program}
	for _, show := range []string{"rules", "groups", "links", "codes", "page", "announcements", "fraud"} {
		programTabs = append(programTabs, programTabs[0]+"?show="+show)
	}
	return app{"/console/test", "../../web/src/console/Console.tsx", map[string]appPage{
		"/":                               {data: []string{""}, empty: []string{""}},
		"/analytics":                      {data: []string{"/analytics", "/analytics?show=breakdown", "/analytics?show=breakdown&by=promo_code", "/analytics?show=funnel", "/analytics?show=cohorts"}, empty: []string{"/analytics", "/analytics?show=breakdown", "/analytics?show=cohorts"}},
		"/commissions":                    {data: []string{"/commissions?show=rejected", "/commissions?show=paid&open=" + d.earned}, empty: []string{"/commissions", "/commissions?show=paid&search=x"}},
		"/commissions/:id":                {data: []string{"/commissions/" + d.earned, "/commissions/" + d.rejected}, empty: []string{"/commissions/unknown"}},
		"/conversions":                    {data: []string{"/conversions"}, empty: []string{"/conversions", "/conversions?credited=false"}},
		"/conversions/:id":                {data: []string{"/conversions/" + d.conversion}, empty: []string{"/conversions/unknown"}},
		"/partners":                       {data: []string{"/partners", "/partners?show=applications", "/partners?show=invitations"}, empty: []string{"/partners"}},
		"/partners/:id":                   {data: []string{"/partners/" + d.participant}, empty: []string{"/partners/unknown"}},
		"/programs/:program/partners/:id": {data: []string{partner, partner + "?show=links", partner + "?show=ledger", partner + "?show=data"}, empty: []string{"/programs/unknown/partners/unknown"}},
		"/fraud":                          {data: []string{"/fraud"}, empty: []string{"/fraud", "/fraud?show=dismissed"}},
		"/payouts":                        {data: []string{"/payouts", "/payouts?show=payouts", "/payouts?show=balances"}, empty: []string{"/payouts", "/payouts?show=payouts", "/payouts?show=balances"}},
		"/payouts/new":                    {data: []string{"/payouts/new"}, empty: []string{"/payouts/new"}},
		"/payouts/batches/:id":            {data: []string{"/payouts/batches/" + d.batch}, empty: []string{"/payouts/batches/unknown"}},
		"/payouts/:id":                    {data: []string{"/payouts/" + d.paid, "/payouts/" + d.bounced}, empty: []string{"/payouts/unknown"}},
		"/programs":                       {data: []string{"/programs"}, empty: []string{"/programs", "/programs?search=nobody-has-this"}},
		"/programs/new":                   {data: []string{"/programs/new"}, isStatic: true},
		"/programs/:id":                   {data: programTabs, empty: []string{"/programs/unknown"}},
		"/setup":                          {data: []string{"/setup"}, isPublic: true, isStatic: true},
		"/settings/tracking":              {data: []string{"/settings/tracking", "/settings/tracking?show=conversions", "/settings/tracking?show=stripe"}},
		"/settings/api-keys":              {data: []string{"/settings/api-keys"}},
		"/settings/workspace":             {data: []string{"/settings/workspace"}},
		"/settings/members":               {data: []string{"/settings/members", "/settings/members?show=invitations"}, empty: []string{"/settings/members?show=invitations"}},
		"/settings/branding":              {data: []string{"/settings/branding"}},
		"/settings/service-tokens":        {data: []string{"/settings/service-tokens"}, empty: []string{"/settings/service-tokens"}},
		"/settings/mail-log":              {data: []string{"/settings/mail-log"}, empty: []string{"/settings/mail-log?recipient=nobody"}},
		"/settings/audit-log":             {data: []string{"/settings/audit-log"}, empty: []string{"/settings/audit-log?type=promo_code"}},
		"/settings/privacy":               {data: []string{"/settings/privacy"}, empty: []string{"/settings/privacy?erasure=unknown"}, isStatic: true},
		"/settings/test-data":             {data: []string{"/settings/test-data"}, isStatic: true},
		"/webhooks":                       {data: []string{"/webhooks"}, empty: []string{"/webhooks"}},
		"/webhooks/:id":                   {data: []string{"/webhooks/" + d.webhook}, empty: []string{"/webhooks/unknown"}},
		"/notifications":                  {data: []string{"/notifications", "/notifications?show=preferences"}, empty: []string{"/notifications"}},
		"/settings/account":               {data: []string{"/settings/account", "/settings/account?show=security", "/settings/account?show=privacy"}, isStatic: true},
		"/login":                          {data: []string{"/login"}, isPublic: true, isStatic: true},
		"/register":                       {data: []string{"/register"}, isPublic: true, isStatic: true},
		"/forgot-password":                {data: []string{"/forgot-password"}, isPublic: true, isStatic: true},
		"/reset-password":                 {data: []string{"/reset-password#token=x"}, empty: []string{"/reset-password"}, isPublic: true, isStatic: true},
		"/verify-email":                   {data: []string{"/verify-email#token=x"}, empty: []string{"/verify-email"}, isPublic: true, isStatic: true},
		"/unsubscribe":                    {data: []string{"/unsubscribe?token=x"}, empty: []string{"/unsubscribe"}, isPublic: true, isStatic: true},
		// This page leads to /accept-invite at once, which the test of the portal opens.
		"/accept-invite": {data: []string{"/login"}, isPublic: true, isStatic: true},
	}}
}

// TestConsole_EveryPage opens every page of the console.
func TestConsole_EveryPage(t *testing.T) {
	t.Parallel()
	sys, ctx := start(t, setup{}), browsertest.Start(t)
	d := sys.newConsoleData(t, func(name string, _ int) string { return name })
	console := d.console()
	console.wantAllRoutes(t)
	console.wantEveryPage(ctx, t, sys, d.merchant, sys.newMerchant(t).inMode("test"))
	t.Run("hostile texts", func(t *testing.T) { testConsoleShowsHostileTexts(ctx, t, sys) })
	t.Run("roles", func(t *testing.T) { testConsolePagesOfRoles(ctx, t, sys, d) })
}

// testConsoleShowsHostileTexts opens all pages with hostile texts of the maximum length.
func testConsoleShowsHostileTexts(ctx context.Context, t *testing.T, sys *system) {
	t.Helper()
	pgtest.Slow(t)
	d := sys.newConsoleData(t, hostileText)
	p, public := newLoggedInTab(ctx, t, sys, browsertest.Phone, "/console/test", d.merchant), newTab(ctx, t, sys, browsertest.Phone)
	shown := d.console().wantHostileTexts(t, p, public)
	for _, name := range []string{"programme", "partner", "rejection", "question", "option", "bonus", "sub id"} {
		if !strings.Contains(shown, "=1+1<b data-hostile>"+name+"</b>") {
			t.Errorf("no page shows the text %q", name)
		}
	}
	p.open("/console/test/commissions?show=rejected")
	if csv := p.exportedBy("Export as CSV"); strings.Count(csv, "=1+1") == 0 || strings.Count(csv, "=1+1") != strings.Count(csv, "'=1+1") {
		t.Errorf("the saved file contains a formula: %q", csv)
	}
}

// exportedBy presses a button that opens the address of an export, and returns what the address returns.
func (p *tab) exportedBy(button string) string {
	p.Helper()
	browsertest.Evaluate[bool](p.Tab, `(HTMLAnchorElement.prototype.click = function() { window.exported = this.href; }, true)`)
	p.Press("button", button)
	p.WaitFor("the page opens an address", `window.exported`)
	return browsertest.Evaluate[string](p.Tab, `fetch(window.exported).then((response) => response.text())`)
}

// testConsolePagesOfRoles opens all pages as a member with each role. A request that the service
// refuses is an error in the console of the browser, which fails the test. Only the roles that may
// decide see buttons for it.
func testConsolePagesOfRoles(ctx context.Context, t *testing.T, sys *system, d consoleData) {
	t.Helper()
	roles := []affiliate.Role{
		affiliate.RoleViewer, affiliate.RoleDeveloper, affiliate.RoleFinance, affiliate.RoleManager, affiliate.RoleAdmin,
	}
	if testing.Short() {
		roles = roles[:1]
	}
	pending := d.earnCommission(t)
	for _, role := range roles {
		p := newLoggedInTab(ctx, t, sys, browsertest.Mouse, "/console/test", d.merchant.addMember(t, string(role)))
		for _, page := range d.console().pages {
			if page.isPublic {
				continue
			}
			for _, address := range page.data {
				p.open("/console/test" + address)
			}
		}
		p.open("/console/test/commissions/" + pending)
		buttons, err := p.Query("button", "Reject")
		if err != nil {
			t.Fatal(err)
		}
		if mayDecide := slices.Contains([]affiliate.Role{affiliate.RoleAdmin, affiliate.RoleManager, affiliate.RoleFinance}, role); mayDecide != (len(buttons) > 0) {
			t.Errorf("a member with the role %s sees %d buttons to reject a commission", role, len(buttons))
		}
	}
}
