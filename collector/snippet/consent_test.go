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
	f := newFixture(t)
	for n, c := range []struct {
		name        string
		page        page
		initScripts []string
	}{
		{name: "Global Privacy Control", initScripts: []string{privacyControl}},
		{name: "Google's consent mode", page: page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "denied"})</script>`}},
		{name: "Google's consent mode, granted and then denied", page: page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "granted"}); gtag("consent", "update", {ad_storage: "denied"})</script>`}},
	} {
		c.page.body = `<a href="https://buy.stripe.com/x">buy</a>`
		f.page("/", c.page)
		b := f.visit(f.shop+"/?via=anna", c.initScripts...)
		id := b.waitID()
		b.settle()
		sent := f.waitClicks(n + 1)[n]
		if sent.body["consent"] != "denied" || sent.clickID() != id {
			t.Errorf("%s: the script sent %s, want denied consent and the id %q", c.name, sent.text, id)
		}
		if got := b.storage(); got != emptyStorage {
			t.Errorf("%s: the script stored %s, want nothing", c.name, got)
		}
		if got, want := js[string](b, `document.querySelector("a").href`), "https://buy.stripe.com/x?client_reference_id="+id; got != want {
			t.Errorf("%s: the link is %s, want %s", c.name, got, want)
		}
		stored := f.waitStored(n + 1)
		i := slices.IndexFunc(stored, func(c *edgev1.Click) bool { return idOf(c) == id })
		if i < 0 || stored[i].Consent != edgev1.Consent_CONSENT_DENIED || stored[i].IpHash != nil || stored[i].UaHash != nil || stored[i].IpPrefix != "" {
			t.Errorf("%s: the collector stored %v; want the click %s with denied consent and without hashes", c.name, stored, id)
		}
		b.visit(f.shop + "/")
		b.settle()
		if b.id() != "" {
			t.Errorf("%s: the next page has the id %q, want none", c.name, b.id())
		}
	}
}

func TestConsentMode_GrantedStoresClick(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "denied"}); gtag("consent", "update", {ad_storage: "granted"})</script>`})
	b := f.visit(f.shop + "/?via=anna")
	b.waitCookie()
	if got := f.waitClicks(1)[0].body["consent"]; got != "granted" {
		t.Errorf("the script sent the consent %q, want granted", got)
	}
	if got := f.waitStored(1)[0]; got.Consent != edgev1.Consent_CONSENT_GRANTED || got.IpHash == nil {
		t.Errorf("the collector stored %v, want granted consent and a hash of the address", got)
	}
}

func TestConsentRequired_StoresNothingUntilGranted(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{attrs: `data-consent="required"`})
	b := f.visit(f.shop + "/?via=anna")
	b.settle()
	if got := b.storage(); got != emptyStorage {
		t.Fatalf("before consent was granted: the script stored %s, want nothing", got)
	}
	for _, click := range f.clicks() {
		if click.body["consent"] != "denied" {
			t.Errorf("before consent was granted: the script sent %s, want denied consent", click.text)
		}
	}
	b.do(`window.__tributary.consent("granted")`)
	id := b.waitCookie()
	if b.cookie() != id || !slices.ContainsFunc(f.storedClicks(), func(c *edgev1.Click) bool { return idOf(c) == id }) {
		t.Errorf("after consent was granted: cookie %q and %d clicks at the collector, want the id %q in both", b.cookie(), len(f.storedClicks()), id)
	}
	// The page must call consent on each load. Before the call, the script neither
	// deletes nor changes the stored click.
	b.visit(f.shop + "/")
	b.do(`window.__tributary.consent("granted")`)
	b.settle()
	if b.id() != id || b.cookie() != id {
		t.Errorf("the next page has the id %q and the cookie %q, want %q", b.id(), b.cookie(), id)
	}
}

func TestConsentRequired_DeniedRegistersDeniedClick(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{attrs: `data-consent="required"`})
	b := f.visit(f.shop + "/?via=anna")
	b.do(`window.__tributary.consent("denied")`)
	id := b.waitID()
	b.settle()
	if got := b.storage(); got != emptyStorage {
		t.Errorf("the script stored %s, want nothing", got)
	}
	if stored := f.waitStored(1)[0]; idOf(stored) != id || stored.Consent != edgev1.Consent_CONSENT_DENIED {
		t.Errorf("the collector stored %v, want the click %s with denied consent", stored, id)
	}
}

func TestConsentWithdrawn_DeletesStoredClick(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	b.waitCookie()
	b.do(`window.__tributary.consent("denied")`)
	b.settle()
	if got := b.storage(); got != emptyStorage {
		t.Errorf("after consent was denied: the script still stores %s, want nothing", got)
	}
	if cookies := b.cookies(); len(cookies) != 0 {
		t.Errorf("after consent was denied: cookies %v, want none", cookies)
	}
	b.visit(f.shop + "/")
	b.settle()
	if b.id() != "" || b.storage() != emptyStorage {
		t.Errorf("the next page has the id %q and stores %s, want neither", b.id(), b.storage())
	}
}

func TestReset_DeletesClick(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	first := b.waitCookie()
	b.do(`window.__tributary.reset()`)
	if b.id() != "" || b.storage() != emptyStorage {
		t.Errorf("after reset: id %q, stored %s; want neither", b.id(), b.storage())
	}
	b.visit(f.shop + "/?via=anna")
	if second := b.waitCookie(); second == first {
		t.Errorf("a visit after reset has the id %q of the deleted click, want a new id", second)
	}
}

// When the click is deleted, the script removes the ids that it wrote into the page. It
// does not change ids that the page wrote.
func TestDeletedClick_IsRemovedFromPage(t *testing.T) {
	f := newFixture(t)
	body := `<a href="https://buy.stripe.com/x?a=%40+b#top">1</a><a href="https://buy.stripe.com/x?client_reference_id=order-7">2</a>` +
		`<stripe-buy-button></stripe-buy-button><stripe-pricing-table client-reference-id="order-7"></stripe-pricing-table>` +
		`<form data-aff="" action="/thanks"><input name="q" value="1"></form>`
	f.page("/", page{attrs: `data-domains="www.checkout.example"`, head: preventNavigation, body: body + `<p></p>`})
	f.page("/thanks", page{})
	for _, call := range []string{`reset()`, `consent("denied")`} {
		b := f.visit(f.shop + "/?via=anna")
		id := b.waitCookie()
		b.wait(`document.querySelectorAll("[href*='` + id + `'],[client-reference-id='` + id + `'],[name=aff_click_id]").length === 3`)
		b.do(`document.querySelector("p").innerHTML = "<a id='sibling' href='` + f.other + `/'>3</a>"; sibling.click()`)
		b.wait(`sibling.href.includes("` + id + `")`)
		b.do(`window.__tributary.` + call)
		if b.id() != "" || b.storage() != emptyStorage {
			t.Errorf("after %s: id %q, stored %s; want neither", call, b.id(), b.storage())
		}
		b.do(`sibling.click()`)
		if got := js[string](b, `sibling.href`); got != f.other+"/" {
			t.Errorf("after %s: the link to the other site is %s, want %s/", call, got, f.other)
		}
		b.do(`document.querySelector("p").remove()`)
		if got := js[bool](b, `document.body.innerHTML.includes("`+id+`")`); got {
			t.Errorf("after %s: the page still contains the id: %s", call, js[string](b, `document.body.innerHTML`))
		}
		if got := js[[]string](b, `[...document.querySelectorAll("a")].map(a => a.href).concat(document.querySelector("stripe-pricing-table").getAttribute("client-reference-id"))`); !slices.Equal(got, []string{
			"https://buy.stripe.com/x?a=%40+b#top", "https://buy.stripe.com/x?client_reference_id=order-7", "order-7",
		}) {
			t.Errorf("after %s: links and reference %q, want those that the page wrote", call, got)
		}
		if js[bool](b, `document.querySelector("stripe-buy-button").hasAttribute("client-reference-id")`) {
			t.Errorf("after %s: the button still has a reference", call)
		}
		b.do(`document.querySelector("form").requestSubmit()`)
		b.wait(`location.pathname === "/thanks"`)
		if got := js[string](b, `location.search`); got != "?q=1" {
			t.Errorf("after %s: the form sent %s, want ?q=1", call, got)
		}
	}
}

// If the browser rejects the cookie, the script does not try to set it again at each user
// event. It tries again only after a change of consent.
func TestRejectedCookie_IsTriedOncePerConsent(t *testing.T) {
	f := newFixture(t)
	rejectCookies := `window.tries = 0; { const cookie = Object.getOwnPropertyDescriptor(Document.prototype, "cookie");
		Object.defineProperty(Document.prototype, "cookie", {get: cookie.get, set() { tries++ }, configurable: true}) }`
	for _, deny := range []string{"", `window.__tributary.consent("denied");`} {
		b := f.visit(f.shop+"/?via=anna", rejectCookies)
		b.waitID()
		got := js[[]int](b, `(() => { `+deny+` const before = tries;
			for (let i = 0; i < 5; i++) for (const type of ["keydown", "pointerdown", "click"]) document.body.dispatchEvent(new Event(type, {bubbles: true}));
			return [before, tries] })()`)
		if got[0] == 0 || got[1] != got[0] {
			t.Errorf("after %q: %d tries to set the cookie before the user events and %d after them, want the same number above 0", deny, got[0], got[1])
		}
	}
}
