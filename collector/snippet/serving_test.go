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

func (w *world) scriptInfo() scriptInfo {
	w.t.Helper()
	w.page("/info", page{script: "none"})
	b := w.visit(w.shop + "/info")
	return js[scriptInfo](b, `fetch("`+w.cdn+`/v1/script.json").then(r => r.json())`)
}

func (w *world) element(src, integrity string) string {
	return fmt.Sprintf(`<script async src="%s" integrity="%s" crossorigin="anonymous" data-merchant="%s"></script>`, src, integrity, w.key.Reveal())
}

func TestScript_LoadsFromEveryAddress(t *testing.T) {
	w := newWorld(t)
	info := w.scriptInfo()
	for n, src := range []string{"/v1/script.js", "/v1/", info.URL} {
		w.page("/", page{src: w.cdn + src})
		b := w.visit(w.shop + "/?via=anna")
		b.waitCookie()
		w.waitStored(n + 1)
	}
}

func TestScript_RunsOnlyWithMatchingIntegrity(t *testing.T) {
	w := newWorld(t)
	info := w.scriptInfo()
	if !strings.HasPrefix(info.Integrity, "sha384-") {
		t.Fatalf("%+v", info)
	}
	w.page("/", page{script: w.element(w.cdn+info.URL, info.Integrity)})
	b := w.visit(w.shop + "/?via=anna")
	b.waitCookie()

	w.page("/", page{script: w.element(w.cdn+info.URL, "sha384-"+strings.Repeat("A", 64))})
	b = w.visit(w.shop + "/?via=anna")
	b.settle()
	if got := js[string](b, `typeof window.__tributary`); got != "undefined" || b.clicks() != 0 || b.storage() != emptyStorage {
		t.Errorf("the global is %s, %d clicks, kept %s", got, b.clicks(), b.storage())
	}
}

// The script runs the calls that the page queued before the script was loaded.
func TestScript_RunsQueuedCalls(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{head: `<script>
		window.results = [];
		window.__tributary = {q: [
			["ready", id => results.push("ready " + id)],
			["nonsense", 1], ["ready", null], ["ready", () => { throw new Error("the page's own") }],
			["ready", id => results.push("again " + id)],
		]}</script>`})
	b := w.visit(w.shop + "/?via=anna")
	b.wait(`results.length === 2`)
	id := b.id()
	if got := js[[]string](b, `results`); !slices.Equal(got, []string{"ready " + id, "again " + id}) {
		t.Errorf("results %q, id %q", got, id)
	}
	b.exceptions() // a callback's error may be reported, but stops no other callback

	w.page("/", page{attrs: `data-consent="required"`, head: `<script>window.__tributary = {q: [["consent", "granted"]]}</script>`})
	b = w.visit(w.shop + "/?via=anna")
	b.waitCookie()
	for _, click := range w.waitClicks(2)[1:] {
		if click.body["consent"] != "granted" {
			t.Errorf("sent %s", click.text)
		}
	}
}

func TestScript_SecondCopyDoesNothing(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{body: `<script async src="` + w.cdn + `/v1/" data-merchant="` + w.key.Reveal() + `"></script>`})
	b := w.visit(w.shop + "/?via=anna")
	b.waitCookie()
	b.settle()
	b.do(`history.pushState(null, "", "/p?via=ben")`)
	w.waitStored(2)
	b.settle()
	if n := b.clicks(); n != 2 {
		t.Errorf("%d clicks", n)
	}
}

// A tag manager inserts the script after the page has loaded. document.currentScript is
// then null.
func TestScript_InsertedByTagManager(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{script: "none"})
	b := w.visit(w.shop + "/?via=anna")
	b.do(`const s = document.createElement("script"); s.src = "` + w.cdn + `/v1/script.js"; s.dataset.merchant = "` + w.key.Reveal() + `"; document.head.append(s)`)
	b.waitCookie()
	w.waitStored(1)
}

// Behind the merchant's own host the collector sets the cookie itself, because browsers
// shorten the life of cookies that scripts set. The collector recognizes such requests by
// their Fetch Metadata headers. Browsers send them only to trustworthy origins such as
// *.localhost.
func TestFirstPartyProxy_ServerSetsCookie(t *testing.T) {
	w := newWorld(t)
	shop := w.origin("www.shop.localhost")
	w.page("/", page{src: "/t/v1/script.js", attrs: `data-api="/t"`})
	b := w.visitor().tab()
	_, err := chromedp.Call(b.ctx, emulation.SetDocumentCookieDisabled, emulation.SetDocumentCookieDisabledParams{Disabled: true})
	check(t, err)
	b.visit(shop + "/?via=anna")
	id := b.waitID()
	cookies := b.cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d cookies; the response set %q", len(cookies), w.clicks()[0].setCookie)
	}
	cookie := cookies[0]
	life := time.Until(time.UnixMilli(int64(cookie.Expires * 1000)))
	if cookie.Name != cookieName || cookie.Value != id || cookie.Path != "/" || cookie.SameSite != network.CookieSameSiteLax || cookie.Domain != ".shop.localhost" ||
		math.Abs((life-windowDays*24*time.Hour).Minutes()) > 2 {
		t.Errorf("cookie %+v, for %s", cookie, life)
	}
	for _, line := range b.requests() {
		if !strings.Contains(line, " "+shop+"/") {
			t.Errorf("a request to a third party: %s", line)
		}
	}

	// If the script can set cookies too, there is still only one cookie.
	b = w.visit(shop + "/?via=anna")
	id = b.waitCookie()
	if cookies := b.cookies(); len(cookies) != 1 || cookies[0].Value != id {
		t.Errorf("%d cookies", len(cookies))
	}

	b = w.visit(shop+"/?via=anna", privacyControl)
	b.waitID()
	b.settle()
	if cookies := b.cookies(); len(cookies) != 0 {
		t.Errorf("a cookie for a visitor without consent: %v", cookies)
	}
}
