package snippet_test

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

const noStorage = `for (const name of ["localStorage", "sessionStorage"])
	Object.defineProperty(window, name, {get() { throw new DOMException("blocked", "SecurityError") }})`

func TestBlockedStorage_KeepsIDInMemory(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{body: `<a href="https://buy.stripe.com/x">buy</a>`})
	b := w.visitor(noStorage).tab()
	_, err := chromedp.Call(b.ctx, emulation.SetDocumentCookieDisabled, emulation.SetDocumentCookieDisabledParams{Disabled: true})
	check(t, err)
	b.visit(w.shop + "/?via=anna")
	id := b.waitID()
	b.wait(`document.querySelector("a").href === "https://buy.stripe.com/x?client_reference_id=` + id + `"`)
	if stored := w.waitStored(1); idOf(stored[0]) != id {
		t.Errorf("stored %s, want %s", idOf(stored[0]), id)
	}
	if cookies := b.cookies(); len(cookies) != 0 {
		t.Errorf("%v", cookies)
	}
}

func TestBlockedLocalStorage_CookieIsEnough(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop+"/?via=anna", noStorage)
	id := b.waitCookie()
	b.visit(w.shop + "/")
	b.settle()
	if b.id() != id {
		t.Errorf("the next page has the id %q, want %q", b.id(), id)
	}
}

// In a sandboxed frame, the browser throws on access to cookies and on access to storage.
func TestSandboxedFrame_RegistersClick(t *testing.T) {
	w := newWorld(t)
	w.page("/frame", page{body: `<script>addEventListener("load", () => window.__tributary.whenClickId().then(id => parent.postMessage(id, "*")))</script>`})
	w.page("/", page{
		script: "none", head: `<script>addEventListener("message", e => window.received = e.data)</script>`,
		body: `<iframe sandbox="allow-scripts" src="/frame?via=anna"></iframe>`,
	})
	b := w.visit(w.shop + "/")
	b.wait(`window.received`)
	if stored := w.waitStored(1); idOf(stored[0]) != js[string](b, `window.received`) {
		t.Errorf("stored %s, the frame has %s", idOf(stored[0]), js[string](b, `window.received`))
	}
}

const watchPolicy = `window.violations = []; addEventListener("securitypolicyviolation", e => violations.push(e.violatedDirective + " " + e.blockedURI))`

func TestStrictContentSecurityPolicy_IsNotViolated(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{
		csp:   "default-src 'none'; script-src " + w.cdn + "; connect-src " + w.cdn + "; img-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
		attrs: `data-domains="www.checkout.example"`,
		body:  `<a href="https://buy.stripe.com/x">buy</a><form data-aff></form><stripe-buy-button></stripe-buy-button>`,
	})
	b := w.visit(w.shop+"/?via=anna", watchPolicy)
	id := b.waitCookie()
	b.wait(`document.querySelector("a").href === "https://buy.stripe.com/x?client_reference_id=` + id + `"`)
	b.do(`document.querySelector("a").dispatchEvent(new PointerEvent("pointerdown", {bubbles: true})); history.pushState(null, "", "/p")`)
	// Violations are reported in order. This request is the test's own violation, so no
	// earlier one may be in the list.
	b.do(`fetch("/probe").catch(() => {})`)
	b.wait(`violations.length`)
	if got := js[[]string](b, `violations`); len(got) != 1 || got[0] != "connect-src "+w.shop+"/probe" {
		t.Errorf("violations %q", got)
	}
	w.waitStored(1)
}

// Some pages change built-in objects. The script must still work or do nothing. The test
// fails if it throws into the page.
func TestHostilePage_ScriptDoesNotThrow(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		hostility string
		tracks    bool // whether a click is expected
	}{
		"Array.prototype is extended": {`Array.prototype.extra = function () { throw new Error("extra") }; Array.prototype.first = 1; Object.prototype.inherited = "x"`, true},
		"another library's old Array.from": {
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
		"the global is in use":        {`window.__tributary = 42`, false},
		"the global is frozen":        {`Object.defineProperty(window, "__tributary", {value: Object.freeze({}), writable: false})`, false},
	} {
		w.page("/", page{body: `<a href="https://buy.stripe.com/x">buy</a>`, head: `<script>` + c.hostility + `</script>`})
		b := w.visit(w.shop + "/?via=anna")
		if c.tracks {
			b.waitID()
		}
		b.do(`try { history.pushState(null, "", "/p?via=ben") } catch { /* frozen by the page */ } document.querySelector("a").dispatchEvent(new PointerEvent("pointerdown", {bubbles: true}))`)
		b.wait(`document.readyState === "complete"`)
		js[bool](b, `new Promise(done => setTimeout(() => setTimeout(() => done(true))))`)
		if got := b.exceptions(); len(got) != 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestMethods_NeverThrow(t *testing.T) {
	w := newWorld(t)
	for _, query := range []string{"", "?via=anna"} {
		b := w.visit(w.shop + "/" + query)
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
			t.Errorf("%q", got)
		}
		b.settle()
	}
}

func TestReadyAndWhenClickId_WorkBeforeAndAfterClick(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	// The first call may come before the response to the click, the second comes after
	// it.
	for range 2 {
		id := js[string](b, `window.__tributary.whenClickId()`)
		if id == "" || id != b.id() {
			t.Errorf("whenClickId %q, getClickId %q", id, b.id())
		}
		js[bool](b, `new Promise(done => window.__tributary.ready(() => done(true)))`)
	}
	// A callback that throws does not stop the other callbacks.
	b = w.visit(w.shop + "/?via=anna")
	js[bool](b, `new Promise(done => {
		window.__tributary.ready(() => { throw new Error("the page's own") });
		window.__tributary.ready(() => done(true));
	})`)
}
