package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// TestConsole_SetsUpAnInstallation goes from an empty installation to the first conversion. All that the
// merchant, the partner and the shop need comes from the pages.
func TestConsole_SetsUpAnInstallation(t *testing.T) {
	t.Parallel()
	tasks{{"set up", testSetUpInstallation}}.run(browsertest.Start(t), t, nil)
}

func testSetUpInstallation(ctx context.Context, t *testing.T, _ *system, u browsertest.User) {
	var snippet string
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><h1>Shop</h1>%s`, snippet)
	}))
	t.Cleanup(shop.Close)
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_REGISTRATION_MERCHANT": "closed"}})
	sys.recordMails(t)

	p := newTab(ctx, t, sys, u)
	p.open("/console")
	p.wantPath("/console/setup")
	email := uniqueName("mia") + "@shop.example"
	p.Fill("Name of your company or shop", "Corner Shop")
	p.Fill("Name", "Mia")
	p.Fill("E-mail address", email)
	p.Fill("Password", password)
	p.Fill("Set-up code", "AAAA-AAAA-AAAA-AAAA")
	p.Press("button", "Create account")
	p.wantFault("Set-up code", "the code that the core has logged")
	p.wantAccessibleTask()
	p.Fill("Set-up code", sys.setupCode(t))
	p.Press("button", "Create account")
	p.wantText("Set up your programme")
	merchant := caller{apiClient: sys.client(), kind: "merchant", email: email}.login(t)

	p.Press("link", "Open: Create a programme and activate it")
	p.Press("link", "Create a programme")
	p.Fill("Name", "Friends")
	p.Fill("Website", shop.URL)
	p.Press("button", "Create a programme")
	p.Press("button", "Activate")
	p.Find("heading", "Activate Friends?")
	p.Press("button", "Activate")
	p.wantText("The programme is active.")

	p.open("/console/settings/tracking")
	snippet = strings.ReplaceAll(browsertest.Evaluate[string](p.Tab, `document.querySelector("pre").innerText`), "https://go.example", sys.edge)
	p.open("/console/settings/api-keys")
	p.Press("button", "Create a secret key")
	p.Fill("Name", "Shop server")
	p.Press("button", "Create a secret key")
	p.Find("heading", "Your new secret key")
	secret := browsertest.Evaluate[string](p.Tab, `document.querySelector("[role=dialog] code").innerText`)
	p.Press("button", "I have stored it")

	p.open("/console/partners")
	p.Press("button", "Invite a partner")
	p.Fill("E-mail address", "pia@blog.example")
	p.Press("button", "Invite a partner")
	invitation := browsertest.Call[string](p.Tab, p.Find("textbox", "Link of the invitation"), `function() { return this.value; }`)
	partner := newTab(ctx, t, sys, u)
	partner.open(strings.TrimPrefix(invitation, sys.api))
	partner.Press("button", "Create account")
	partner.register("pia@blog.example")
	partner.Press("button", "Accept invitation")
	link := browsertest.Call[string](partner.Tab, partner.Find("textbox", "Your link"), `function() { return this.value; }`)

	// A visitor follows the link to the shop, whose server reports the purchase.
	visitor := browsertest.NewTab(ctx, t, u, sys.edge, shop.URL)
	visitor.Do(chromedp.Navigate(strings.Replace(link, "https://go.example", sys.edge, 1)))
	visitor.WaitFor("the script stores the click", `document.cookie.includes("aff_click_id=")`)
	click := browsertest.Evaluate[string](visitor, `document.cookie.match(/aff_click_id=([^;]*)/)[1]`)
	p.open("/console/settings/tracking")
	p.wantText("Clicks in the last 10 minutes: 1.")
	sys.client().withCredential(secret).post(t, "/api/v1/conversions", purchase(click)).wantStatus(http.StatusCreated).wantFields(object{
		"attributed": true, "commission.amount_cents": 2000,
	})
	p.open("/console")
	p.wantText("$100.00")
	merchant.get(t, "/api/v1/commissions").wantStatus(http.StatusOK).wantFields(object{"total": 1, "data.0.amountCents": 2000, "data.0.partnerName": "Pia New"})
}

func testRollKey(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", nil)
	p := openConsole(ctx, t, sys, u, f.merchant, "/settings/api-keys")
	name := f.merchant.get(t, "/api/v1/api-keys").wantStatus(http.StatusOK).text("secretKeys.0.name")
	p.Press("button", "Roll: "+name)
	p.Find("heading", "Replace the key "+name+"?")
	p.wantAccessibleTask()
	p.Press("button", "After 24 hours The old key stops")
	p.Press("option", "At once")
	p.Press("button", "Roll")
	p.Find("heading", "Your new secret key")
	secret := browsertest.Evaluate[string](p.Tab, `document.querySelector("[role=dialog] code").innerText`)
	p.Press("button", "I have stored it")
	sys.client().withCredential(secret).post(t, "/api/v1/conversions", purchase(f.click(t))).wantStatus(http.StatusCreated)
	sys.client().withCredential(f.secretKey).post(t, "/api/v1/conversions", purchase(f.click(t))).wantError(http.StatusUnauthorized, "INVALID_API_KEY")
}

func testReplayDeliveries(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", nil)
	h := f.merchant.startEndpoint(t, nil)
	f.updateProgram(t)
	f.updateProgram(t)
	h.awaitRequests(t, 2)
	sent := map[string]bool{}
	for _, request := range h.awaitRequests(t, 2) {
		sent[request.id()] = true
	}
	p := openConsole(ctx, t, sys, u, f.merchant, "/webhooks/"+h.id)
	p.Press("button", "Send a period again")
	from := sys.clock.now().Add(-time.Hour)
	browsertest.Call[bool](p.Tab, p.Find("DateTime", "From"), fmt.Sprintf(`function() {
		Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(this, %q);
		return this.dispatchEvent(new Event("input", {bubbles: true}));
	}`, from.Format("2006-01-02T15:04")))
	p.Press("checkbox", "Delivered")
	p.wantAccessibleTask()
	p.Press("button", "Send again")
	p.wantText("Deliveries that are sent again: 2.")
	for _, request := range h.awaitRequests(t, 4)[2:] {
		if !sent[request.id()] {
			t.Errorf("the event %s was sent for the first time", request.id())
		}
	}
}

// testPayOut pays many partners: from the preview to the last recorded result.
func testPayOut(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	count := 400
	if testing.Short() {
		count = 12
	}
	f := sys.newFixture(t, "test", nil)
	f.payMany(t, count)
	p := openConsole(ctx, t, sys, u, f.merchant, "/payouts")
	p.Press("link", "New batch")
	total := fmt.Sprintf("$%d.00", 5*count)
	p.wantText(fmt.Sprintf("Payable (%d)", count))
	p.wantText(total)
	p.Press("button", "Create batch")
	p.Press("button", "Confirm")
	p.Find("heading", fmt.Sprintf("Confirm %d payouts (%s)?", count, total))
	p.Press("button", "Confirm")
	p.wantText("The batch is confirmed: " + total)
	p.Press("button", "Start the payment")
	p.Find("heading", fmt.Sprintf("Start the payment of %d payouts (%s)?", count, total))
	p.Press("button", "Start the payment")
	p.wantText("Send the money now.")
	p.wantAccessibleTask()
	p.Press("button", "CSV for a bank or a spreadsheet Format")
	p.Press("option", "PayPal")
	lines := strings.Split(strings.TrimSpace(p.savedBy("Download")), "\n")
	if len(lines) != count+1 {
		t.Errorf("PayPal's file has %d lines, want the header and one for each of %d partners", len(lines), count)
	}
	batch := p.path()[strings.LastIndex(p.path(), "/")+1:]
	p.chooseFile("results.csv", f.resultsOf(t, batch))
	p.Press("button", fmt.Sprintf("Apply %d rows", count))
	p.wantText(fmt.Sprintf("Applied: %d.", count))
	f.merchant.get(t, batchesPath+"/"+batch).wantStatus(http.StatusOK).wantFields(object{
		"status": "partially_failed", "byStatus.paid": count - 1, "byStatus.failed": 1,
	})
}

// payMany makes partners with a PayPal account and a bonus of 5.00 USD each.
func (f fixture) payMany(t *testing.T, count int) {
	t.Helper()
	for range count {
		partner := f.sys.newPartner(t).inMode("test")
		id := partner.post(t, f.applyPath(), nil).wantStatus(http.StatusCreated).text("id")
		partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": partner.email, "password": password}).wantStatus(http.StatusOK)
		f.merchant.patch(t, f.programPath()+"/partners/"+id+"/approve", nil).wantStatus(http.StatusOK)
		f.merchant.post(t, f.programPath()+"/partners/"+id+"/ledger", object{"type": "bonus", "amountCents": 500, "reason": "A good start"}).wantStatus(http.StatusCreated)
	}
}

// resultsOf returns a result file for the payouts of a batch, of which one has failed.
func (f fixture) resultsOf(t *testing.T, batch string) string {
	t.Helper()
	var file strings.Builder
	file.WriteString("Payout id,Status,Transaction id,Reason\n")
	for page, total := 1, 1; (page-1)*100 < total; page++ {
		list := f.merchant.get(t, fmt.Sprintf("/api/v1/payouts?batchId=%s&pageSize=100&page=%d", batch, page)).wantStatus(http.StatusOK)
		total = int(list.number("total"))
		for i := range list.length("data") {
			result := "success,tx-" + strconv.Itoa(i) + ","
			if page == 1 && i == 0 {
				result = "failed,,The account is closed."
			}
			file.WriteString(list.text(fmt.Sprintf("data.%d.id", i)) + "," + result + "\n")
		}
	}
	return file.String()
}

// chooseFile gives the page a file that the user has chosen.
func (p *tab) chooseFile(name, content string) {
	p.Helper()
	browsertest.Evaluate[bool](p.Tab, fmt.Sprintf(`(() => {
		const field = document.querySelector("input[type=file]"), chosen = new DataTransfer();
		chosen.items.add(new File([%q], %q));
		field.files = chosen.files;
		return field.dispatchEvent(new Event("change", {bubbles: true}));
	})()`, content, name))
}

// testAddMember adds a member who may not pay, and looks at the payouts as this member.
func testAddMember(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", nil)
	f.payMany(t, 1)
	batch := f.createBatch(t, object{}).wantStatus(http.StatusCreated).text("id")
	email := uniqueName("max") + "@shop.example"
	p := openConsole(ctx, t, sys, u, f.merchant, "/settings/members")
	p.Press("button", "Invite a member")
	p.Fill("E-mail address", email)
	p.Press("radio", "Manager Runs programmes and partners, and decides about applications and commissions.")
	p.wantAccessibleTask()
	p.Press("button", "Send invitation")
	p.Find("heading", email+" is invited")
	invitation := browsertest.Evaluate[string](p.Tab, `document.querySelector("[role=dialog] input[readonly], [role=dialog] code").value ?? document.querySelector("[role=dialog] code").innerText`)

	member := newTab(ctx, t, sys, u)
	member.open(strings.TrimPrefix(invitation, sys.api))
	member.Fill("Name", "Max Manager")
	member.Fill("Password", password)
	member.Press("button", "Accept invitation")
	member.Press("link", "Go to your start page")
	member.Find("heading", "Overview")
	member.open("/console/test/payouts/batches/" + batch)
	member.wantText("Check the payouts below.")
	for _, name := range []string{"Confirm", "Cancel batch"} {
		if buttons, err := member.Query("button", name); err != nil || len(buttons) > 0 {
			t.Errorf("a manager sees the button %q (%v)", name, err)
		}
	}
	f.merchant.get(t, "/api/v1/workspace/members").wantStatus(http.StatusOK).wantFields(object{"total": 2, "data.1.name": "Max Manager", "data.1.role": "manager"})
	manager := caller{apiClient: sys.client(), kind: "merchant", email: email}.login(t).inMode("test")
	manager.post(t, batchesPath+"/"+batch+"/confirm", object{}).wantError(http.StatusForbidden, "FORBIDDEN")
}

func testEraseBuyer(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", nil)
	sale := f.reportSale(t, f.click(t), object{"metadata": object{"note": "for Bob"}})
	p := openConsole(ctx, t, sys, u, f.merchant, "/settings/privacy")
	p.Press("button", "Erase")
	p.Press("radio", "Transaction id The id of one of the buyer’s sales, or Stripe’s id of it.")
	p.Fill("Transaction id", sale.text("external_transaction_id"))
	p.Fill("Type DELETE to confirm", "delete")
	p.Press("button", "Erase")
	p.wantText("Type DELETE, in capital letters.")
	p.wantAccessibleTask()
	p.Fill("Type DELETE to confirm", "DELETE")
	p.Press("button", "Erase")
	p.wantText("The data of the buyer is erased.")
	erased := f.merchant.get(t, "/api/v1/conversions/"+sale.text("id")).wantStatus(http.StatusOK)
	if strings.Contains(erased.body, "Bob") || strings.Contains(erased.body, sale.text("external_transaction_id")) {
		t.Errorf("the sale is %s after the erasure of the buyer", erased.body)
	}
}

func testFindPartner(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	f := sys.newFixture(t, "test", nil)
	p := openConsole(ctx, t, sys, u, f.merchant, "/fraud")
	if u.Keyboard {
		p.Do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	} else {
		p.Press("button", "Search (Ctrl K)")
	}
	p.WaitFor("the field has the focus", `document.activeElement.type === "search"`)
	browsertest.Command(p.Tab, input.InsertText, input.InsertTextParams{Text: f.partner.email})
	p.wantText("Pia Partner " + f.partner.email)
	p.wantAccessibleTask()
	if u.Keyboard {
		p.Do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	} else {
		p.Press("menuitem", "Pia Partner "+f.partner.email)
	}
	p.wantPath("/console/test" + strings.TrimPrefix(f.participantPath(), "/api/v1"))
	p.Find("heading", "Pia Partner")
}
