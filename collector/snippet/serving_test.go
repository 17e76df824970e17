package snippet_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// scriptInfo is the content of /v1/script.json.
type scriptInfo struct {
	URL       string `json:"url"`
	Integrity string `json:"integrity"`
}

// scriptInfo reads /v1/script.json from a page of the shop.
func (f *fixture) scriptInfo() scriptInfo {
	f.t.Helper()
	f.page("/info", page{script: "none"})
	b := f.visit(f.shop + "/info")
	return js[scriptInfo](b, `fetch("`+f.cdn+`/v1/script.json").then(r => r.json())`)
}

// element returns the HTML of a script element with an integrity attribute.
func (f *fixture) element(src, integrity string) string {
	return fmt.Sprintf(`<script async src="%s" integrity="%s" crossorigin="anonymous" data-merchant="%s"></script>`, src, integrity, f.key.Reveal())
}

func TestScript_LoadsFromEveryAddress(t *testing.T) {
	f := newFixture(t)
	info := f.scriptInfo()
	for n, src := range []string{"/v1/script.js", "/v1/", info.URL} {
		f.page("/", page{src: f.cdn + src})
		b := f.visit(f.shop + "/?via=anna")
		b.waitCookie()
		f.waitStored(n + 1)
	}
}

func TestScript_RunsOnlyWithMatchingIntegrity(t *testing.T) {
	f := newFixture(t)
	info := f.scriptInfo()
	if !strings.HasPrefix(info.Integrity, "sha384-") {
		t.Fatalf("/v1/script.json contains %+v, want an integrity that begins with sha384-", info)
	}
	f.page("/", page{script: f.element(f.cdn+info.URL, info.Integrity)})
	b := f.visit(f.shop + "/?via=anna")
	b.waitCookie()

	f.page("/", page{script: f.element(f.cdn+info.URL, "sha384-"+strings.Repeat("A", 64))})
	b = f.visit(f.shop + "/?via=anna")
	b.settle()
	if got := js[string](b, `typeof window.__tributary`); got != "undefined" || b.clicks() != 0 || b.storage() != emptyStorage {
		t.Errorf("with a wrong integrity: the global is %s, %d clicks sent, stored %s; want undefined, 0 and nothing", got, b.clicks(), b.storage())
	}
}

// The script runs the calls that the page queued before the script was loaded.
func TestScript_RunsQueuedCalls(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{head: `<script>
		window.results = [];
		window.__tributary = {q: [
			["ready", id => results.push("ready " + id)],
			["nonsense", 1], ["ready", null], ["ready", () => { throw new Error("the page's own") }],
			["ready", id => results.push("again " + id)],
		]}</script>`})
	b := f.visit(f.shop + "/?via=anna")
	b.wait(`results.length === 2`)
	id := b.id()
	if got := js[[]string](b, `results`); !slices.Equal(got, []string{"ready " + id, "again " + id}) {
		t.Errorf("results of the queued calls: %q, want ready and again with the id %q", got, id)
	}
	b.exceptions() // Discard the error of the page's own callback.

	f.page("/", page{attrs: `data-consent="required"`, head: `<script>window.__tributary = {q: [["consent", "granted"]]}</script>`})
	b = f.visit(f.shop + "/?via=anna")
	b.waitCookie()
	for _, click := range f.waitClicks(2)[1:] {
		if click.body["consent"] != "granted" {
			t.Errorf("the script sent %s, want granted consent", click.text)
		}
	}
}

func TestScript_SecondCopyDoesNothing(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{body: `<script async src="` + f.cdn + `/v1/" data-merchant="` + f.key.Reveal() + `"></script>`})
	b := f.visit(f.shop + "/?via=anna")
	b.waitCookie()
	b.settle()
	b.do(`history.pushState(null, "", "/p?via=ben")`)
	f.waitStored(2)
	b.settle()
	if n := b.clicks(); n != 2 {
		t.Errorf("%d clicks sent, want 2", n)
	}
}

// A tag manager inserts the script after the page has loaded. document.currentScript is
// then null.
func TestScript_InsertedByTagManager(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{script: "none"})
	b := f.visit(f.shop + "/?via=anna")
	b.do(`const s = document.createElement("script"); s.src = "` + f.cdn + `/v1/script.js"; s.dataset.merchant = "` + f.key.Reveal() + `"; document.head.append(s)`)
	b.waitCookie()
	f.waitStored(1)
}

// If the script uses a first-party proxy, the collector sets the cookie itself, because
// some browsers delete a cookie after a few days if a script has set it. The collector
// recognises requests through a first-party proxy by their Fetch Metadata headers.
// Browsers send these headers only to trustworthy origins such as *.localhost.
func TestFirstPartyProxy_ServerSetsCookie(t *testing.T) {
	f := newFixture(t)
	shop := f.origin("www.shop.localhost")
	f.page("/", page{src: "/t/v1/script.js", attrs: `data-api="/t"`})
	b := f.visitor().tab()
	_, err := chromedp.Call(b.ctx, emulation.SetDocumentCookieDisabled, emulation.SetDocumentCookieDisabledParams{Disabled: true})
	check(t, err)
	b.visit(shop + "/?via=anna")
	id := b.waitID()
	cookies := b.cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d cookies, want 1; the response has the headers Set-Cookie %q", len(cookies), f.clicks()[0].setCookie)
	}
	cookie := cookies[0]
	remaining := time.Until(time.UnixMilli(int64(cookie.Expires * 1000)))
	if cookie.Name != cookieName || cookie.Value != id || cookie.Path != "/" || cookie.SameSite != network.CookieSameSiteLax || cookie.Domain != ".shop.localhost" ||
		math.Abs((remaining-windowDays*24*time.Hour).Minutes()) > 2 {
		t.Errorf("cookie %+v that expires in %s, want the id %s on .shop.localhost for %d days", cookie, remaining, id, windowDays)
	}
	for _, line := range b.requests() {
		if !strings.Contains(line, " "+shop+"/") {
			t.Errorf("the page sent the request %q, want requests only to %s", line, shop)
		}
	}

	// If the script can set a cookie too, the browser still has only one cookie.
	b = f.visit(shop + "/?via=anna")
	id = b.waitCookie()
	if cookies := b.cookies(); len(cookies) != 1 || cookies[0].Value != id {
		t.Errorf("cookies %v, want one with the id %s", cookies, id)
	}

	b = f.visit(shop+"/?via=anna", privacyControl)
	b.waitID()
	b.settle()
	if cookies := b.cookies(); len(cookies) != 0 {
		t.Errorf("a visitor without consent has the cookies %v, want none", cookies)
	}
}
