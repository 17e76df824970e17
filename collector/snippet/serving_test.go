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

// facts are what /v1/script.json says of the script.
type facts struct {
	URL       string `json:"url"`
	Integrity string `json:"integrity"`
}

func (w *world) facts() facts {
	w.t.Helper()
	w.page("/facts", page{script: "none"})
	b := w.visit(w.shop + "/facts")
	return js[facts](b, `fetch("`+w.cdn+`/v1/script.json").then(r => r.json())`)
}

func (w *world) element(src, integrity string) string {
	return fmt.Sprintf(`<script async src="%s" integrity="%s" crossorigin="anonymous" data-merchant="%s"></script>`, src, integrity, w.key.Reveal())
}

func TestEveryNameOfTheScriptWorks(t *testing.T) {
	w := newWorld(t)
	f := w.facts()
	for n, src := range []string{"/v1/script.js", "/v1/", f.URL} {
		w.page("/", page{src: w.cdn + src})
		b := w.visit(w.shop + "/?via=anna")
		b.landed()
		w.waitStored(n + 1)
	}
}

func TestAPinnedScriptRunsAndAChangedOneDoesNot(t *testing.T) {
	w := newWorld(t)
	f := w.facts()
	if !strings.HasPrefix(f.Integrity, "sha384-") {
		t.Fatalf("%+v", f)
	}
	w.page("/", page{script: w.element(w.cdn+f.URL, f.Integrity)})
	b := w.visit(w.shop + "/?via=anna")
	b.landed()

	w.page("/", page{script: w.element(w.cdn+f.URL, "sha384-"+strings.Repeat("A", 64))})
	b = w.visit(w.shop + "/?via=anna")
	b.settle()
	if got := js[string](b, `typeof window.__tributary`); got != "undefined" || b.clicks() != 0 || b.kept() != nothingKept {
		t.Errorf("the global is %s, %d clicks, kept %s", got, b.clicks(), b.kept())
	}
}

// What a page calls before the script is there is done when it comes.
func TestCallsBeforeTheLoadAreQueued(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{head: `<script>
		window.told = [];
		window.__tributary = {q: [
			["ready", id => told.push("ready " + id)],
			["nonsense", 1], ["ready", null], ["ready", () => { throw new Error("the page's own") }],
			["ready", id => told.push("again " + id)],
		]}</script>`})
	b := w.visit(w.shop + "/?via=anna")
	b.wait(`told.length === 2`)
	id := b.id()
	if got := js[[]string](b, `told`); !slices.Equal(got, []string{"ready " + id, "again " + id}) {
		t.Errorf("told %q, id %q", got, id)
	}
	b.exceptions() // a callback's fault may be shown, and stops nobody

	w.page("/", page{attrs: `data-consent="required"`, head: `<script>window.__tributary = {q: [["consent", "granted"]]}</script>`})
	b = w.visit(w.shop + "/?via=anna")
	b.landed()
	for _, click := range w.waitClicks(2)[1:] {
		if click.body["consent"] != "granted" {
			t.Errorf("sent %s", click.text)
		}
	}
}

func TestASecondCopyOfTheScriptKeepsQuiet(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{body: `<script async src="` + w.cdn + `/v1/" data-merchant="` + w.key.Reveal() + `"></script>`})
	b := w.visit(w.shop + "/?via=anna")
	b.landed()
	b.settle()
	b.do(`history.pushState(null, "", "/p?via=ben")`)
	w.waitStored(2)
	b.settle()
	if n := b.clicks(); n != 2 {
		t.Errorf("%d clicks", n)
	}
}

// A tag manager inserts the script after the load, and with no current script.
func TestAnInsertedScript(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{script: "none"})
	b := w.visit(w.shop + "/?via=anna")
	b.do(`const s = document.createElement("script"); s.src = "` + w.cdn + `/v1/script.js"; s.dataset.merchant = "` + w.key.Reveal() + `"; document.head.append(s)`)
	b.landed()
	w.waitStored(1)
}

// Behind the merchant's own host the server itself sets the cookie: browsers
// give it the whole window. Fetch metadata, by which it knows, comes with
// trustworthy origins only, and *.localhost is one.
func TestThroughAFirstPartyProxyTheServerSetsTheCookie(t *testing.T) {
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
		t.Fatalf("%d cookies; the answer set %q", len(cookies), w.clicks()[0].setCookie)
	}
	cookie := cookies[0]
	life := time.Until(time.UnixMilli(int64(cookie.Expires * 1000)))
	if cookie.Name != cookieName || cookie.Value != id || cookie.Path != "/" || cookie.SameSite != network.CookieSameSiteLax || cookie.Domain != ".shop.localhost" ||
		math.Abs((life-windowDays*24*time.Hour).Minutes()) > 2 {
		t.Errorf("cookie %+v, for %s", cookie, life)
	}
	for _, line := range b.requests() {
		if !strings.Contains(line, " "+shop+"/") {
			t.Errorf("a third party: %s", line)
		}
	}

	// Where the script can, both agree on one cookie.
	b = w.visit(shop + "/?via=anna")
	id = b.landed()
	if cookies := b.cookies(); len(cookies) != 1 || cookies[0].Value != id {
		t.Errorf("%d cookies", len(cookies))
	}

	b = w.visit(shop+"/?via=anna", privacyControl)
	b.waitID()
	b.settle()
	if cookies := b.cookies(); len(cookies) != 0 {
		t.Errorf("a cookie for one who refuses: %v", cookies)
	}
}
