package snippet_test

import (
	"testing"
)

func TestHistory_CodeInNewAddressRegistersClick(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/")
	b.do(`history.pushState({n: 1}, "", "/p?via=anna")`)
	first := b.waitCookie()
	if got := f.waitClicks(1)[0].body["url"]; got != f.shop+"/p" {
		t.Errorf("the click has the url %q, want %s/p", got, f.shop)
	}
	b.do(`history.replaceState({n: 2}, "", "/q?via=ben")`)
	b.wait(`window.__tributary.getClickId() !== "` + first + `"`)
	if clicks := f.waitStored(2); clicks[0].ReferralCode != "anna" || clicks[1].ReferralCode != "ben" || clicks[1].LandingUrl != f.shop+"/q" {
		t.Errorf("stored %v, want a click of anna and a click of ben at %s/q", clicks, f.shop)
	}
	// The methods of history must still work as before.
	if got, want := js[string](b, `JSON.stringify([history.state, location.pathname, history.length])`), `[{"n":2},"/q",3]`; got != want {
		t.Errorf("state, path and length of the history: %s, want %s", got, want)
	}
	if got := js[string](b, `(() => { try { history.pushState(null, "", "https://elsewhere.example/"); return "" } catch (e) { return e.name } })()`); got != "SecurityError" {
		t.Errorf("pushState with another origin throws %q, want SecurityError", got)
	}
	if got := js[string](b, `typeof history.pushState({n: 3}, "")`); got != "undefined" {
		t.Errorf("pushState returns a value of the type %s, want undefined", got)
	}
}

func TestHistory_ReadsEachAddressOnce(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/")
	// Use an unknown code, because the script would not send a known code twice within
	// half an hour.
	b.do(`for (let i = 0; i < 5; i++) history.pushState({i}, "", "/p?via=nobody"); history.replaceState(null, "", "/p?via=nobody")`)
	f.waitClicks(1)
	b.settle()
	b.do(`history.replaceState({i: 9}, "", location.href); dispatchEvent(new PopStateEvent("popstate"))`)
	b.settle()
	if n := b.clicks(); n != 1 {
		t.Errorf("%d clicks sent, want 1", n)
	}
}

func TestHistory_BackButtonRegistersClick(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{head: `<script>history.replaceState(null, "", "/was?via=anna"); history.pushState(null, "", "/now")</script>`})
	b := f.visit(f.shop + "/")
	b.settle()
	if n := b.clicks(); n != 0 {
		t.Fatalf("before the address has a code: %d clicks sent, want 0", n)
	}
	b.do(`history.back()`)
	b.waitCookie()
	if got := f.waitStored(1)[0].LandingUrl; got != f.shop+"/was" {
		t.Errorf("the stored click has the address %q, want %s/was", got, f.shop)
	}
}

// A single-page application replaces the page content. Links in the new content are
// decorated too.
func TestHistory_NewViewIsDecorated(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	b.do(`history.pushState(null, "", "/cart"); document.body.innerHTML = "<main><a href='https://buy.stripe.com/x'>buy</a></main>"`)
	b.wait(`document.querySelector("a").href === "https://buy.stripe.com/x?client_reference_id=` + id + `"`)
	b.settle()
	if n := b.clicks(); n != 1 {
		t.Errorf("%d clicks sent, want 1", n)
	}
}
