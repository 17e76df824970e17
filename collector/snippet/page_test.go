package snippet_test

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

const noStorage = `for (const name of ["localStorage", "sessionStorage"])
	Object.defineProperty(window, name, {get() { throw new DOMException("blocked", "SecurityError") }})`

func TestBlockedStorage_KeepsIDInMemory(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{body: `<a href="https://buy.stripe.com/x">buy</a>`})
	b := f.visitor(noStorage).tab()
	_, err := chromedp.Call(b.ctx, emulation.SetDocumentCookieDisabled, emulation.SetDocumentCookieDisabledParams{Disabled: true})
	check(t, err)
	b.visit(f.shop + "/?via=anna")
	id := b.waitID()
	b.wait(`document.querySelector("a").href === "https://buy.stripe.com/x?client_reference_id=` + id + `"`)
	if stored := f.waitStored(1); idOf(stored[0]) != id {
		t.Errorf("stored click %s, want %s", idOf(stored[0]), id)
	}
	if cookies := b.cookies(); len(cookies) != 0 {
		t.Errorf("cookies %v, want none", cookies)
	}
}

func TestBlockedLocalStorage_CookieIsEnough(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop+"/?via=anna", noStorage)
	id := b.waitCookie()
	b.visit(f.shop + "/")
	b.settle()
	if b.id() != id {
		t.Errorf("the next page has the id %q, want %q", b.id(), id)
	}
}

// In a sandboxed frame, the browser throws an error when a script uses cookies or
// storage.
func TestSandboxedFrame_RegistersClick(t *testing.T) {
	f := newFixture(t)
	f.page("/frame", page{body: `<script>addEventListener("load", () => window.__tributary.whenClickId().then(id => parent.postMessage(id, "*")))</script>`})
	f.page("/", page{
		script: "none", head: `<script>addEventListener("message", e => window.received = e.data)</script>`,
		body: `<iframe sandbox="allow-scripts" src="/frame?via=anna"></iframe>`,
	})
	b := f.visit(f.shop + "/")
	b.wait(`window.received`)
	if stored := f.waitStored(1); idOf(stored[0]) != js[string](b, `window.received`) {
		t.Errorf("stored click %s, want %s as in the frame", idOf(stored[0]), js[string](b, `window.received`))
	}
}

const watchPolicy = `window.violations = []; addEventListener("securitypolicyviolation", e => violations.push(e.violatedDirective + " " + e.blockedURI))`

func TestStrictContentSecurityPolicy_IsNotViolated(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{
		csp:   "default-src 'none'; script-src " + f.cdn + "; connect-src " + f.cdn + "; img-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
		attrs: `data-domains="www.checkout.example"`,
		body:  `<a href="https://buy.stripe.com/x">buy</a><form data-aff></form><stripe-buy-button></stripe-buy-button>`,
	})
	b := f.visit(f.shop+"/?via=anna", watchPolicy)
	id := b.waitCookie()
	b.wait(`document.querySelector("a").href === "https://buy.stripe.com/x?client_reference_id=` + id + `"`)
	b.do(`document.querySelector("a").dispatchEvent(new PointerEvent("pointerdown", {bubbles: true})); history.pushState(null, "", "/p")`)
	// The browser reports violations in order. This request of the test violates the
	// policy, so its violation must be the first in the list.
	b.do(`fetch("/probe").catch(() => {})`)
	b.wait(`violations.length`)
	if got := js[[]string](b, `violations`); len(got) != 1 || got[0] != "connect-src "+f.shop+"/probe" {
		t.Errorf("violations %q, want only the violation by the test's own request", got)
	}
	f.waitStored(1)
}

// Some pages change built-in objects of the browser. On such pages the script must work
// or do nothing. It must not throw errors.
func TestHostilePage_ScriptDoesNotThrow(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct {
		change string // JavaScript of the page
		works  bool   // whether the script can still register a click
	}{
		"Array.prototype is extended": {`Array.prototype.extra = function () { throw new Error("extra") }; Array.prototype.first = 1; Object.prototype.inherited = "x"`, true},
		"Array.from and other functions are missing": {
			`Array.from = undefined; String.prototype.includes = undefined; Object.entries = undefined; Object.fromEntries = undefined`, true,
		},
		"toJSON of an old library":    {`Array.prototype.toJSON = function () { return "broken" }`, true},
		"JSON.parse throws":           {`JSON.parse = () => { throw new Error("parse") }`, false},
		"JSON.stringify throws":       {`JSON.stringify = () => { throw new Error("stringify") }`, false},
		"fetch is missing":            {`delete window.fetch; window.fetch = undefined`, false},
		"fetch throws":                {`window.fetch = () => { throw new Error("fetch") }`, false},
		"fetch returns nothing":       {`window.fetch = () => undefined`, false},
		"sendBeacon is missing":       {`Navigator.prototype.sendBeacon = undefined`, true},
		"crypto is missing":           {`Object.defineProperty(window, "crypto", {value: undefined})`, false},
		"MutationObserver is missing": {`window.MutationObserver = undefined`, false},
		"URL is missing":              {`window.URL = undefined; window.URLSearchParams = undefined`, false},
		"history is frozen":           {`Object.freeze(history); Object.freeze(History.prototype)`, false},
		"dataLayer is no array":       {`window.dataLayer = "nonsense"`, true},
		"dataLayer holds getters":     {`window.dataLayer = [{get 0() { throw new Error("getter") }}]`, false},
		"__tributary is a number":     {`window.__tributary = 42`, false},
		"__tributary is frozen":       {`Object.defineProperty(window, "__tributary", {value: Object.freeze({}), writable: false})`, false},
	} {
		f.page("/", page{body: `<a href="https://buy.stripe.com/x">buy</a>`, head: `<script>` + c.change + `</script>`})
		b := f.visit(f.shop + "/?via=anna")
		if c.works {
			b.waitID()
		}
		b.do(`try { history.pushState(null, "", "/p?via=ben") } catch { /* frozen by the page */ } document.querySelector("a").dispatchEvent(new PointerEvent("pointerdown", {bubbles: true}))`)
		b.wait(`document.readyState === "complete"`)
		js[bool](b, `new Promise(done => setTimeout(() => setTimeout(() => done(true))))`)
		if got := b.exceptions(); len(got) != 0 {
			t.Errorf("%s: the page has the uncaught errors %q, want none", name, got)
		}
	}
}

func TestMethods_NeverThrow(t *testing.T) {
	f := newFixture(t)
	for _, query := range []string{"", "?via=anna"} {
		b := f.visit(f.shop + "/" + query)
		b.settle()
		got := js[[]string](b, `(async () => {
			const faults = [], t = window.__tributary;
			const junk = [undefined, null, 0, -1, NaN, "", "x", "javascript:alert(1)", "https://", "http://[", {}, [], () => { throw new Error("mine") },
				Symbol("s"), 10n, document, window, document.createElement("a"), document.createElement("form"), document.createTextNode("x"),
				new Proxy({}, {get() { throw new Error("proxy") }}), Object.create(null), new Date(NaN)];
			for (const name of ["getClickId", "ready", "whenClickId", "consent", "reset", "decorate"])
				for (const value of [...junk, ...junk])
					try { t[name](value); t[name](value, value); const f = t[name]; f(value) } catch (e) { faults.push(name + ": " + e) }
			return faults;
		})()`)
		if len(got) != 0 {
			t.Errorf("methods threw the errors %q, want none", got)
		}
		b.settle()
	}
}

func TestReadyAndWhenClickId_WorkBeforeAndAfterClick(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	// The first call may run before the response to the click arrives. The second call
	// runs after the response.
	for range 2 {
		id := js[string](b, `window.__tributary.whenClickId()`)
		if id == "" || id != b.id() {
			t.Errorf("whenClickId returns %q and getClickId %q, want the same id", id, b.id())
		}
		js[bool](b, `new Promise(done => window.__tributary.ready(() => done(true)))`)
	}
	// A callback that throws does not stop the other callbacks.
	b = f.visit(f.shop + "/?via=anna")
	js[bool](b, `new Promise(done => {
		window.__tributary.ready(() => { throw new Error("the page's own") });
		window.__tributary.ready(() => done(true));
	})`)
}
