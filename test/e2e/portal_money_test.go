package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// TestPortalMoney does what partners do about their money and their account, with the mouse,
// with the keyboard and on a phone. The results are checked through the API.
func TestPortalMoney(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	tasks{
		{"create a link, share it and see what it earns", testCreateLink},
		{"see a commission and its reason", testSeeCommission},
		{"find a sale that was not credited", testFindSale},
		{"set a payout method with the second factor", testSetPayoutMethod},
		{"confirm a proposed payout method", testConfirmProposal},
		{"read the statement of a payout", testReadStatement},
		{"end other sessions", testEndSessions},
		{"change the password", testChangePassword},
		{"choose the language", testChooseLanguage},
	}.run(browsertest.Start(t), t, sys)
}

func testCreateLink(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", nil)
	p := newPortalTab(ctx, t, sys, u, f.partner)
	p.open("/portal/test/links")
	p.Press("button", "Create a link")
	p.Fill("Leads to", "https://another.example/")
	p.Press("button", "Save")
	p.wantFault("Leads to", "allowed")
	p.Fill("Leads to", "https://shop.example/spades")
	p.Fill("Sub-ID (Optional)", "newsletter-7")
	p.Press("button", "Save")
	address := browsertest.Call[string](p.Tab, p.Find("textbox", "Address to share"), `function() { return this.value; }`)
	p.wantFits()
	created := f.partner.get(t, "/api/v1/partner/links?programId="+f.program).wantStatus(http.StatusOK)
	created.wantFields(object{"data.0.destinationUrl": "https://shop.example/spades", "data.0.subId": "newsletter-7", "data.0.shortUrl": address})
	f.code = created.text("data.0.code")
	p.Press("button", "Edit link")
	p.Fill("Sub-ID (Optional)", "newsletter-8")
	p.Press("button", "Save")
	p.Find("heading", "Link with the code "+f.code)
	p.Press("button", "Close")
	p.wantText("newsletter-8")
	f.earnCommission(t)
	eventually(t, waitTimeout, "the list shows what the link has earned", func() error {
		p.open("/portal/test/links")
		if row := browsertest.Evaluate[string](p.Tab, `[...document.querySelectorAll("tr")].map((row) => row.innerText).join("\n")`); !strings.Contains(row, "$20.00") {
			return errors.New(row)
		}
		return nil
	})
	p.Press("button", "Show: "+f.code)
	p.Press("button", "Delete")
	p.Find("heading", "Delete this link?")
	p.Press("button", "Delete")
	p.wantText("No further links yet")
	f.partner.get(t, "/api/v1/partner/links?programId="+f.program).wantStatus(http.StatusOK).wantFields(object{"total": 1})
}

func testSeeCommission(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", nil)
	id := f.earnCommission(t)
	p := newPortalTab(ctx, t, sys, u, f.partner)
	p.open("/portal/test/commissions")
	p.pressFirstRow()
	p.wantPath("/portal/test/commissions/" + id)
	for _, text := range []string{
		"20% of $100.00 = $20.00", "In this time, the customer can return the purchase.", f.code,
		f.partner.get(t, "/api/v1/partner/commissions").wantStatus(http.StatusOK).text("data.0.explanation"),
	} {
		p.wantText(text)
	}
	if element := browsertest.Evaluate[string](p.Tab, `document.activeElement.tagName`); element != "H1" {
		t.Errorf("after the navigation, the element %s has the focus, want H1", element)
	}

	f.merchant.patch(t, f.commissionPath(id)+"/reject", object{"code": "duplicate"}).wantStatus(http.StatusOK)
	p.open("/portal/test/commissions/" + id)
	p.wantText("The sale was reported twice.")
	f.partner.get(t, "/api/v1/partner/commissions?status=rejected").wantFields(object{"total": 1, "data.0.id": id})

	f.earnCommission(t)
	p.open("/portal/test/commissions?status=rejected")
	p.Find("button", "Export as CSV")
	want := f.partner.get(t, "/api/v1/partner/commissions/export?status=rejected").wantStatus(http.StatusOK).body
	if got := p.savedBy("Export as CSV"); got != want {
		t.Errorf("the saved file is %q, want %q", got, want)
	}
}

func testFindSale(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", nil)
	lost := f.loseSale(t)
	p := newPortalTab(ctx, t, sys, u, f.partner)
	p.open("/portal/test/commissions")
	p.Press("link", "Where is my sale?")
	p.Press("button", "Search")
	p.wantFault("Order number", "Fill in this field.")
	p.Fill("Order number", lost)
	p.Press("button", "Search")
	p.wantText("The sale is not credited to you")
	p.wantText("Too much time passed between the click on your link and the purchase.")
	f.partner.get(t, "/api/v1/partner/conversions/lookup?externalTransactionId="+url.QueryEscape(lost)).wantFields(object{"data.0.reason": "click_expired"})
	p.Fill("Order number", "unknown & 1")
	p.Press("button", "Search")
	p.wantText("No such sale is connected with you")
	if search := browsertest.Evaluate[string](p.Tab, `new URLSearchParams(location.search).get("order")`); search != "unknown & 1" {
		t.Errorf("the address has the order number %q", search)
	}

	sale := f.reportSale(t, f.click(t), nil)
	p.open("/portal/test/commissions/lookup?" + f.today(p))
	p.wantText("The sale is not credited to you")
	p.wantText("The sale is credited to you")
	p.Press("link", "See the commission")
	p.wantPath("/portal/test/commissions/" + sale.text("commission.id"))
}

func testSetPayoutMethod(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "live", rules(object{"holdPeriodDays": 0}))
	f.earnCommission(t)
	recovery := f.partner.enableFactor(t)
	p := newTab(ctx, t, sys, u)
	p.open("/portal/login?next=/payouts")
	p.logIn(f.partner.email, password)
	p.Fill("Code", recovery[0])
	p.Press("button", "Continue")
	p.Find("link", "Set payout method")
	p.open("/portal")
	p.wantText("Ready to be paid: $20.00.")
	p.Press("link", "Set payout method")
	p.Fill("E-mail address of your PayPal account", "pia@example.com")
	const code = "Confirm that it is you: Code"
	p.Fill(code, recovery[0])
	p.Press("button", "Save")
	p.wantFault(code, "The code is wrong or was used before.")
	p.Fill(code, recovery[1])
	p.Press("button", "Save")
	p.wantText("New payouts leave you out until")
	p.wantPath("/portal/payouts")
	f.partner.get(t, "/api/v1/partner/profile").wantFields(object{"payoutMethod.method": "paypal", "payoutMethod.accountHint": "p***@example.com"}).instant("payoutMethod.heldUntil")
}

func testConfirmProposal(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", nil)
	path := f.participantPath() + "/payout-method-proposal"
	propose := func(account string) response {
		t.Helper()
		return f.merchant.do(t, http.MethodPut, path, object{"method": "paypal", "account": account}).wantStatus(http.StatusOK)
	}
	propose("old@example.com")
	p := newPortalTab(ctx, t, sys, u, f.partner)
	p.open("/portal/test/payouts")
	p.wantText("old@example.com")
	propose("pia@example.com") // the page still shows the first proposal
	const proof = "Confirm that it is you: Password"
	p.Fill(proof, password)
	p.Press("button", "Use this method")
	p.wantText("This proposal does not exist any more.")
	f.partner.get(t, "/api/v1/partner/profile").wantFields(object{"payoutMethod": nil})
	p.wantText("pia@example.com")
	p.Fill(proof, "a wrong password")
	p.Press("button", "Use this method")
	p.wantFault(proof, "The password is wrong.")
	p.Fill(proof, password)
	p.Press("button", "Use this method")
	p.wantText("This is now your payout method.")
	f.partner.get(t, "/api/v1/partner/profile").wantFields(object{"payoutMethod.method": "paypal", "payoutMethod.accountHint": "p***@example.com"})
	f.partner.get(t, "/api/v1/partner/payout-method/proposals").wantFields(object{"data": []object{}})

	propose("other@example.com")
	p.open("/portal/test/payouts")
	p.Press("button", "Decline")
	p.wantText("You have declined the proposal.")
	f.partner.get(t, "/api/v1/partner/profile").wantFields(object{"payoutMethod.accountHint": "p***@example.com"})
	f.merchant.do(t, http.MethodDelete, path, nil).wantOutcome(notFound)
}

func testReadStatement(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0}))
	commission := f.earnCommission(t)
	f.partner.get(t, "/api/v1/partner/commissions/"+commission).wantFields(object{"payoutId": nil})
	payout := f.payOut(t)
	f.partner.get(t, "/api/v1/partner/commissions/"+commission).wantFields(object{"payoutId": payout})
	p := newPortalTab(ctx, t, sys, u, f.partner)
	p.open("/portal/test/payouts")
	p.pressFirstRow()
	p.wantPath("/portal/test/payouts/" + payout)
	p.open("/portal/test/commissions/" + commission)
	p.Press("link", "See the payout")
	p.wantPath("/portal/test/payouts/" + payout)
	for _, text := range []string{"The merchant has paid the amount.", "tx-7", "p***@example.com", f.partner.email, "$20.00", "$5.00", "$25.00"} {
		p.wantText(text)
	}
	f.partner.get(t, "/api/v1/partner/payouts/"+payout).wantFields(object{"status": "paid", "amountCents": 2500, "commissions.0.commissionId": commission})
	if csv := p.savedBy("Export as CSV"); !containsAll(csv, commission, ",2000,USD\r\n", "adjustment,,500,USD\r\n") {
		t.Errorf("the saved file is %q, want the commission and the bonus", csv)
	}
	browsertest.Evaluate[bool](p.Tab, `(window.print = () => { window.printed = true; }, true)`)
	p.Press("button", "Print or save as PDF")
	p.WaitFor("the page is printed", `window.printed`)
	p.setMedia("print")
	if shown := browsertest.Evaluate[[]string](p.Tab, `[...document.querySelectorAll("nav, header, button")].filter((e) => e.checkVisibility()).map((e) => e.innerText)`); len(shown) > 0 {
		t.Errorf("the printed statement has %q", shown)
	}
	p.setMedia("")
	p.pressFirstRow()
	p.wantPath("/portal/test/commissions/" + commission)
}

func testEndSessions(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	partner := sys.newPartner(t)
	p := newPortalTab(ctx, t, sys, u, partner)
	p.open("/portal/settings?show=security")
	p.wantText("This device")
	p.Press("button", "Log out: Unknown device")
	p.wantLoggedOut(partner)
	partner = partner.login(t)
	p.open("/portal/settings?show=security")
	p.Press("button", "Log out all other devices")
	p.wantLoggedOut(partner)
	partner = partner.login(t)
	partner.get(t, "/api/v1/auth/partner/sessions").wantFields(object{"total": 2})
	p.open("/portal/settings")
	p.Find("textbox", "Name")
}

func testChangePassword(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	partner := sys.newPartner(t)
	p := newPortalTab(ctx, t, sys, u, partner)
	p.open("/portal/settings?show=security")
	p.Press("button", "Change password")
	p.Fill("Current password", "a wrong password")
	p.Fill("New password", otherPassword)
	p.Press("button", "Change password")
	p.wantFault("Current password", "The password is wrong.")
	p.Fill("Current password", password)
	p.Fill("New password", "password123")
	p.Press("button", "Change password")
	p.wantFault("New password", "Must not be one of the most common passwords")
	p.Fill("New password", otherPassword)
	p.Press("button", "Change password")
	p.wantText("Your password is changed. All other devices are logged out.")
	p.wantLoggedOut(partner)
	sys.client().post(t, "/api/v1/auth/partner/login", object{"email": partner.email, "password": otherPassword}).wantStatus(http.StatusOK)
}

func testChooseLanguage(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	partner := sys.newPartner(t)
	p := newPortalTab(ctx, t, sys, u, partner)
	p.open("/portal/settings")
	p.Press("radio", "Deutsch")
	p.wantText("Einstellungen")
	eventually(t, waitTimeout, "the language is saved", func() error {
		if got := partner.get(t, "/api/v1/partner/profile").text("locale"); got != "de" {
			return errors.New("the language of the account is " + got)
		}
		return nil
	})
	another := newPortalTab(ctx, t, sys, u, partner)
	another.wantText("Hallo, ")
}

// newPortalTab opens a tab in which the partner is logged in to the portal. It shows the start page
// in test mode.
func newPortalTab(ctx context.Context, t *testing.T, sys *system, u browsertest.User, partner caller) *tab {
	t.Helper()
	return newLoggedInTab(ctx, t, sys, u, "/portal/test", partner)
}

// loseSale reports a sale after a click whose attribution window has ended. It returns the number of
// the order.
func (f fixture) loseSale(t *testing.T) string {
	t.Helper()
	click := f.click(t)
	f.sys.exec(t, `update clicks set expires_at = received_at where id = $1`, click)
	return f.reportSale(t, click, nil).text("external_transaction_id")
}

// payOut pays all that the partner is owed, and a bonus of 5.00 USD. It returns the id of the payout.
func (f fixture) payOut(t *testing.T) string {
	t.Helper()
	id := f.merchant.get(t, "/api/v1/payouts?batchId="+f.sendPayouts(t)).wantStatus(http.StatusOK).text("data.0.id")
	f.merchant.patch(t, "/api/v1/payouts/"+id+"/mark-paid", object{"reference": "tx-7"}).wantStatus(http.StatusOK)
	return id
}

// today returns the query of the page that looks up the sales of the programme today.
func (f fixture) today(p *tab) string {
	return "show=day&program=" + f.program + "&date=" + browsertest.Evaluate[string](p.Tab, `new Intl.DateTimeFormat("en-CA", {dateStyle: "short"}).format(new Date())`)
}

// pressFirstRow follows the link in the first row of the table.
func (p *tab) pressFirstRow() {
	p.Helper()
	p.Find("table", "")
	p.Press("link", browsertest.Evaluate[string](p.Tab, `document.querySelector("td a").innerText`))
}

// savedBy presses a button that saves a file, and returns the text of the file.
func (p *tab) savedBy(button string) string {
	p.Helper()
	browsertest.Evaluate[bool](p.Tab, `(() => {
		const create = URL.createObjectURL;
		window.saved = null;
		URL.createObjectURL = (data) => { window.saved = data; return create.call(URL, data); };
		return true;
	})()`)
	p.Press("button", button)
	p.WaitFor("the page saves a file", `window.saved`)
	return browsertest.Evaluate[string](p.Tab, `window.saved.text()`)
}

// wantLoggedOut waits until the session of the partner has ended.
func (p *tab) wantLoggedOut(partner caller) {
	p.Helper()
	p.Eventually("the session has ended", func() error {
		if got := partner.get(p.T, "/api/v1/partner/profile"); got.status != http.StatusUnauthorized {
			return errors.New("it is open")
		}
		return nil
	})
}

// setMedia makes the browser show the page as on a medium, for example print. An empty text means the
// screen.
func (p *tab) setMedia(medium string) {
	p.Helper()
	browsertest.Command(p.Tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium})
}
