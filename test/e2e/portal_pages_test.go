package e2e_test

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// portalPage is a page of the portal with the addresses below /portal/test at which the test
// opens it.
type portalPage struct {
	// The pages at data show records. A partner without programmes opens those at empty, which
	// say that there are no records.
	data, empty []string
	// isPublic means that the page needs no login.
	isPublic bool
	// isStatic means that the page loads nothing, so it shows no error if the API fails.
	isStatic bool
	// failing is the address to open without the API, if the HTML of the page contains its data.
	failing string
}

// portalRoutes returns the routes of the portal, as its source code has them.
func portalRoutes(t *testing.T) (found []string) {
	t.Helper()
	source := read(t, "../../web/src/portal/Portal.tsx")
	for _, list := range regexp.MustCompile(`(?s)const (?:open|areas): Record<string, ComponentType> = \{(.*?)\n\};`).FindAllStringSubmatch(source, -1) {
		for _, key := range regexp.MustCompile(`(?m)^  "([^"]+)":`).FindAllStringSubmatch(list[1], -1) {
			found = append(found, key[1])
		}
	}
	for _, element := range regexp.MustCompile(`<Route path="([^"]+)"`).FindAllStringSubmatch(source, -1) {
		found = append(found, element[1])
	}
	slices.Sort(found)
	return found
}

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

// pages returns the pages of the portal by their routes.
func (d portalData) pages(p *tab) map[string]portalPage {
	p.Helper()
	return map[string]portalPage{
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
	}
}

// TestPortal_EveryPage opens every page of the portal with data, without data, and while the API
// cannot be reached. The short test opens each page once, with data, in the dark on a phone.
func TestPortal_EveryPage(t *testing.T) {
	t.Parallel()
	sys, ctx, phone := start(t, setup{}), browsertest.Start(t), browsertest.Phone
	d := sys.newPortalData(t, func(name string, _ int) string { return name })
	pages := d.pages(newTab(ctx, t, sys, phone))
	if tested := slices.Sorted(maps.Keys(pages)); !slices.Equal(tested, portalRoutes(t)) {
		t.Fatalf("the portal has the routes %q, and the test has the addresses of %q", portalRoutes(t), tested)
	}
	sizes, schemes := []browsertest.User{phone, browsertest.Mouse}, []string{"dark", "light"}
	if testing.Short() {
		sizes, schemes = sizes[:1], schemes[:1]
	}
	// each opens the pages in two tabs: one in which the partner is logged in, and one for the public pages.
	each := func(t *testing.T, partner caller, prepare func(*tab), check func(*tab, portalPage)) {
		t.Helper()
		tabs := map[bool]*tab{false: newPortalTab(ctx, t, sys, phone, partner), true: newTab(ctx, t, sys, phone)}
		for _, p := range tabs {
			prepare(p)
		}
		for _, route := range slices.Sorted(maps.Keys(pages)) {
			check(tabs[pages[route].isPublic], pages[route])
		}
	}
	open := func(p *tab, addresses []string) {
		p.Helper()
		for _, address := range addresses {
			p.wantPage(address, sizes, schemes)
		}
	}
	t.Run("data", func(t *testing.T) {
		each(t, d.partner, func(*tab) {}, func(p *tab, page portalPage) { open(p, page.data) })
	})
	t.Run("hostile texts", func(t *testing.T) { testPagesShowHostileTexts(ctx, t, sys, phone) })
	t.Run("empty", func(t *testing.T) {
		pgtest.Slow(t)
		each(t, sys.newPartner(t), func(*tab) {}, func(p *tab, page portalPage) { open(p, page.empty) })
	})
	t.Run("error", func(t *testing.T) {
		pgtest.Slow(t)
		each(t, d.partner, (*tab).breakAPI, func(p *tab, page portalPage) {
			address := cmp.Or(page.failing, page.data[0])
			open(p, []string{address})
			if alerts := browsertest.Evaluate[int](p.Tab, `document.querySelectorAll("main [role=alert]").length`); (alerts == 0) != page.isStatic {
				p.Errorf("%s shows %d errors while the API cannot be reached", address, alerts)
			}
		})
	})
}

// testPagesShowHostileTexts opens all pages with texts of the maximum length that contain
// markup, a formula and a mark that reverses the direction.
func testPagesShowHostileTexts(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	t.Helper()
	pgtest.Slow(t)
	// Only the merchant sees these texts, or they are shown in a form.
	hidden := []string{"rejection", "source", "company", "question", "option", "terms"}
	// Names cannot contain marks that change the direction of text.
	plain := []string{"programme", "merchant", "partner", "company", "announcement"}
	var names []string
	d := sys.newPortalData(t, func(name string, length int) string {
		names = append(names, name)
		text := "=1+1<b data-hostile>" + name + "</b>"
		if !slices.Contains(plain, name) {
			text += "\u202e"
		}
		return text + strings.Repeat("W", min(length-len([]rune(text)), 200))
	})
	p, public := newPortalTab(ctx, t, sys, u, d.partner), newTab(ctx, t, sys, u)
	var shown strings.Builder
	for _, page := range d.pages(p) {
		p := p
		if page.isPublic {
			p = public
		}
		for _, address := range page.data {
			p.open("/portal/test" + address)
			shown.WriteString(browsertest.Evaluate[string](p.Tab, `document.body.innerText`))
			if n := browsertest.Evaluate[int](p.Tab, `document.querySelectorAll("[data-hostile]").length`); n > 0 {
				t.Errorf("%s contains %d elements from the texts of users", address, n)
			}
		}
	}
	for _, name := range names {
		if !slices.Contains(hidden, name) && !strings.Contains(shown.String(), "=1+1<b data-hostile>"+name+"</b>") {
			t.Errorf("no page shows the text %q", name)
		}
	}
	p.open("/portal/test/commissions")
	if csv := p.savedBy("Export as CSV"); strings.Count(csv, "=1+1") == 0 || strings.Count(csv, "=1+1") != strings.Count(csv, "'=1+1") {
		t.Errorf("the saved file contains a formula: %q", csv)
	}
}

// wantPage opens a page and checks it at the widths of the users and with light and dark colours:
// it is loaded, has a title and a heading, fits, and axe finds nothing.
func (p *tab) wantPage(address string, sizes []browsertest.User, schemes []string) {
	p.Helper()
	p.open("/portal/test" + address)
	if got := browsertest.Evaluate[string](p.Tab, `document.title + (document.querySelector("main h1") === null ? ", no heading" : "")`); !strings.Contains(got, " · ") || strings.HasSuffix(got, ", no heading") {
		p.Errorf("%s has the title %q", address, got)
	}
	for _, p.User = range append(slices.Clone(sizes), browsertest.User{Width: 320}) {
		p.Do(chromedp.EmulateViewport(p.User.Width, 800))
		p.wantFits()
		if p.User.Width == 320 {
			continue
		}
		for _, scheme := range schemes {
			p.wantAccessibleIn(scheme)
		}
	}
}

// breakAPI makes all requests of the tab to the API fail. The page waits only a twentieth of the
// time before it repeats them.
func (p *tab) breakAPI() {
	p.Helper()
	p.block("/api/v1/*")
	const hurry = `{ const wait = setTimeout; window.setTimeout = (then, ms, ...rest) => wait(then, ms / 20, ...rest); }`
	browsertest.Command(p.Tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: hurry})
}

// block makes requests of the tab fail before they are sent.
func (p *tab) block(paths string) {
	p.Helper()
	blocked := []*network.BlockPattern{{URLPattern: p.system.api + paths, Block: true}}
	browsertest.Command(p.Tab, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: blocked})
}
