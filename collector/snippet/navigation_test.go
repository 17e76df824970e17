package snippet_test

import (
	"testing"
)

func TestHistory_PushedOrReplacedCodeIsClick(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/")
	b.do(`history.pushState({n: 1}, "", "/p?via=anna")`)
	first := b.waitCookie()
	if got := w.waitClicks(1)[0].body["url"]; got != w.shop+"/p" {
		t.Errorf("url %q", got)
	}
	b.do(`history.replaceState({n: 2}, "", "/q?via=ben")`)
	b.wait(`window.__tributary.getClickId() !== "` + first + `"`)
	if clicks := w.waitStored(2); clicks[0].ReferralCode != "anna" || clicks[1].ReferralCode != "ben" || clicks[1].LandingUrl != w.shop+"/q" {
		t.Errorf("%v", clicks)
	}
	// The page can use its history as before.
	if got := js[string](b, `JSON.stringify([history.state, location.pathname, history.length])`); got != `[{"n":2},"/q",3]` {
		t.Errorf("history %s", got)
	}
	if got := js[string](b, `(() => { try { history.pushState(null, "", "https://elsewhere.example/"); return "" } catch (e) { return e.name } })()`); got != "SecurityError" {
		t.Errorf("an invalid pushState throws %q", got)
	}
	if got := js[string](b, `typeof history.pushState({n: 3}, "")`); got != "undefined" {
		t.Errorf("pushState returns %s", got)
	}
}

func TestHistory_ReadsEachAddressOnce(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/")
	// The code is unknown, because the script does not send a known code again soon.
	b.do(`for (let i = 0; i < 5; i++) history.pushState({i}, "", "/p?via=nobody"); history.replaceState(null, "", "/p?via=nobody")`)
	w.waitClicks(1)
	b.settle()
	b.do(`history.replaceState({i: 9}, "", location.href); dispatchEvent(new PopStateEvent("popstate"))`)
	b.settle()
	if n := b.clicks(); n != 1 {
		t.Errorf("%d clicks", n)
	}
}

func TestHistory_BackButtonRegistersClick(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{head: `<script>history.replaceState(null, "", "/was?via=anna"); history.pushState(null, "", "/now")</script>`})
	b := w.visit(w.shop + "/")
	b.settle()
	if b.clicks() != 0 {
		t.Fatal("a click without a code")
	}
	b.do(`history.back()`)
	b.waitCookie()
	if clicks := w.waitStored(1); clicks[0].LandingUrl != w.shop+"/was" {
		t.Errorf("%v", clicks)
	}
}

// A single-page application replaces the page content. Links in the new content are
// decorated too.
func TestHistory_NewViewIsDecorated(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	id := b.waitCookie()
	b.do(`history.pushState(null, "", "/cart"); document.body.innerHTML = "<main><a href='https://buy.stripe.com/x'>buy</a></main>"`)
	b.wait(`document.querySelector("a").href === "https://buy.stripe.com/x?client_reference_id=` + id + `"`)
	b.settle()
	if n := b.clicks(); n != 1 {
		t.Errorf("%d clicks", n)
	}
}
