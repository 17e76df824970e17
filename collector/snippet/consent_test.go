package snippet_test

import (
	"slices"
	"testing"

	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

const (
	privacyControl = `Object.defineProperty(Navigator.prototype, "globalPrivacyControl", {get: () => true})`
	consentMode    = `<script>window.dataLayer = [{event: "x"}, null]; function gtag() { dataLayer.push(arguments) }</script>`
)

func TestConsentDenied_RegistersClickAndStoresNothing(t *testing.T) {
	w := newWorld(t)
	for n, c := range []struct {
		name    string
		page    page
		initial []string
	}{
		{name: "Global Privacy Control", initial: []string{privacyControl}},
		{name: "Google's consent mode", page: page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "denied"})</script>`}},
		{name: "consent mode, withdrawn", page: page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "granted"}); gtag("consent", "update", {ad_storage: "denied"})</script>`}},
	} {
		c.page.body = `<a href="https://buy.stripe.com/x">buy</a>`
		w.page("/", c.page)
		b := w.visit(w.shop+"/?via=anna", c.initial...)
		id := b.waitID()
		b.settle()
		sent := w.waitClicks(n + 1)[n]
		if sent.body["consent"] != "denied" || sent.clickID() != id {
			t.Errorf("%s: id %q, sent %s", c.name, id, sent.text)
		}
		if got := b.storage(); got != emptyStorage {
			t.Errorf("%s: kept %s", c.name, got)
		}
		if got := js[string](b, `document.querySelector("a").href`); got != "https://buy.stripe.com/x?client_reference_id="+id {
			t.Errorf("%s: link %s", c.name, got)
		}
		stored := w.waitStored(n + 1)
		at := slices.IndexFunc(stored, func(c *edgev1.Click) bool { return idOf(c) == id })
		if at < 0 || stored[at].Consent != edgev1.Consent_CONSENT_DENIED || stored[at].IpHash != nil || stored[at].UaHash != nil || stored[at].IpPrefix != "" {
			t.Errorf("%s: stored %v", c.name, stored)
		}
		b.visit(w.shop + "/")
		b.settle()
		if b.id() != "" {
			t.Errorf("%s: the next page has the id %q", c.name, b.id())
		}
	}
}

func TestConsentMode_GrantedStoresClick(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "denied"}); gtag("consent", "update", {ad_storage: "granted"})</script>`})
	b := w.visit(w.shop + "/?via=anna")
	b.waitCookie()
	if got := w.waitClicks(1)[0].body["consent"]; got != "granted" {
		t.Errorf("sent %q", got)
	}
	if got := w.waitStored(1)[0]; got.Consent != edgev1.Consent_CONSENT_GRANTED || got.IpHash == nil {
		t.Errorf("%v", got)
	}
}

func TestConsentRequired_StoresNothingUntilGranted(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{attrs: `data-consent="required"`})
	b := w.visit(w.shop + "/?via=anna")
	b.settle()
	if got := b.storage(); got != emptyStorage {
		t.Fatalf("kept %s", got)
	}
	for _, click := range w.clicks() {
		if click.body["consent"] != "denied" {
			t.Errorf("sent before consent was granted: %s", click.text)
		}
	}
	b.do(`window.__tributary.consent("granted")`)
	id := b.waitCookie()
	if b.cookie() != id || !slices.ContainsFunc(w.stored(), func(c *edgev1.Click) bool { return idOf(c) == id }) {
		t.Errorf("cookie %q, id %q, %d stored", b.cookie(), id, len(w.stored()))
	}
	// The page must call consent on each load. Before the call, the script neither
	// deletes nor changes the stored click.
	b.visit(w.shop + "/")
	b.do(`window.__tributary.consent("granted")`)
	b.settle()
	if b.id() != id || b.cookie() != id {
		t.Errorf("the next page has the id %q, cookie %q, want %q", b.id(), b.cookie(), id)
	}
}

func TestConsentRequired_DeniedRegistersDeniedClick(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{attrs: `data-consent="required"`})
	b := w.visit(w.shop + "/?via=anna")
	b.do(`window.__tributary.consent("denied")`)
	id := b.waitID()
	b.settle()
	if got := b.storage(); got != emptyStorage {
		t.Errorf("kept %s", got)
	}
	if stored := w.waitStored(1); idOf(stored[0]) != id || stored[0].Consent != edgev1.Consent_CONSENT_DENIED {
		t.Errorf("%v", stored)
	}
}

func TestConsentDenied_LaterDeletesStoredClick(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	b.waitCookie()
	b.do(`window.__tributary.consent("denied")`)
	b.settle()
	if got := b.storage(); got != emptyStorage {
		t.Errorf("kept %s", got)
	}
	if cookies := b.cookies(); len(cookies) != 0 {
		t.Errorf("%v", cookies)
	}
	b.visit(w.shop + "/")
	b.settle()
	if b.id() != "" || b.storage() != emptyStorage {
		t.Errorf("the next page has the id %q and keeps %s", b.id(), b.storage())
	}
}

func TestReset_DeletesClick(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	first := b.waitCookie()
	b.do(`window.__tributary.reset()`)
	if b.id() != "" || b.storage() != emptyStorage {
		t.Errorf("id %q, kept %s", b.id(), b.storage())
	}
	b.visit(w.shop + "/?via=anna")
	if second := b.waitCookie(); second == first {
		t.Error("a visit after reset has the old click")
	}
}

// When the click is deleted, the script removes the ids that it wrote into the page. It
// does not change ids that the page wrote.
func TestDeletedClick_IsRemovedFromPage(t *testing.T) {
	w := newWorld(t)
	body := `<a href="https://buy.stripe.com/x?a=%40+b#top">1</a><a href="https://buy.stripe.com/x?client_reference_id=order-7">2</a>` +
		`<stripe-buy-button></stripe-buy-button><stripe-pricing-table client-reference-id="order-7"></stripe-pricing-table>` +
		`<form data-aff="" action="/thanks"><input name="q" value="1"></form>`
	w.page("/", page{attrs: `data-domains="www.checkout.example"`, head: preventNavigation, body: body + `<p></p>`})
	w.page("/thanks", page{})
	for _, call := range []string{`reset()`, `consent("denied")`} {
		b := w.visit(w.shop + "/?via=anna")
		id := b.waitCookie()
		b.wait(`document.querySelectorAll("[href*='` + id + `'],[client-reference-id='` + id + `'],[name=aff_click_id]").length === 3`)
		b.do(`document.querySelector("p").innerHTML = "<a id='sibling' href='` + w.other + `/'>3</a>"; sibling.click()`)
		b.wait(`sibling.href.includes("` + id + `")`)
		b.do(`window.__tributary.` + call)
		if b.id() != "" || b.storage() != emptyStorage {
			t.Errorf("%s: id %q, kept %s", call, b.id(), b.storage())
		}
		b.do(`sibling.click()`)
		if got := js[string](b, `sibling.href`); got != w.other+"/" {
			t.Errorf("%s: the link to the other site is %s", call, got)
		}
		b.do(`document.querySelector("p").remove()`)
		if got := js[bool](b, `document.body.innerHTML.includes("`+id+`")`); got {
			t.Errorf("%s: the page still contains the id: %s", call, js[string](b, `document.body.innerHTML`))
		}
		if got := js[[]string](b, `[...document.querySelectorAll("a")].map(a => a.href).concat(document.querySelector("stripe-pricing-table").getAttribute("client-reference-id"))`); !slices.Equal(got, []string{
			"https://buy.stripe.com/x?a=%40+b#top", "https://buy.stripe.com/x?client_reference_id=order-7", "order-7",
		}) {
			t.Errorf("%s: %q", call, got)
		}
		if js[bool](b, `document.querySelector("stripe-buy-button").hasAttribute("client-reference-id")`) {
			t.Errorf("%s: the button still has a reference", call)
		}
		b.do(`document.querySelector("form").requestSubmit()`)
		b.wait(`location.pathname === "/thanks"`)
		if got := js[string](b, `location.search`); got != "?q=1" {
			t.Errorf("%s: the form sent %s", call, got)
		}
	}
}

// If the browser rejects the cookie, the script does not try again on each user event, as
// long as consent does not change.
func TestRejectedCookie_IsTriedOncePerConsent(t *testing.T) {
	w := newWorld(t)
	count := `window.tries = 0; { const cookie = Object.getOwnPropertyDescriptor(Document.prototype, "cookie");
		Object.defineProperty(Document.prototype, "cookie", {get: cookie.get, set() { tries++ }, configurable: true}) }` // the browser rejects all cookies
	for _, refuse := range []string{"", `window.__tributary.consent("denied");`} {
		b := w.visit(w.shop+"/?via=anna", count)
		b.waitID()
		got := js[[]int](b, `(() => { `+refuse+` const before = tries;
			for (let i = 0; i < 5; i++) for (const type of ["keydown", "pointerdown", "click"]) document.body.dispatchEvent(new Event(type, {bubbles: true}));
			return [before, tries] })()`)
		if got[0] == 0 || got[1] != got[0] {
			t.Errorf("%q: %d tries, then %d", refuse, got[0], got[1])
		}
	}
}
