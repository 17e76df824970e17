package snippet_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

func TestLanding_RegistersOneClickAndSetsCookie(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	id := b.waitCookie()
	b.settle()

	sent := w.waitClicks(1)
	if len(sent) != 1 || b.clicks() != 1 || slices.ContainsFunc(w.requests(), func(r request) bool { return r.method == http.MethodOptions }) {
		t.Fatalf("want one request and no preflight: %+v", w.requests())
	}
	click := sent[0]
	if click.method != http.MethodPost || !strings.HasPrefix(click.header.Get("Content-Type"), "text/plain") || click.header.Get("Cookie") != "" ||
		click.header.Get("Authorization") != "" || len(click.setCookie) != 0 || click.body["public_key"] != w.key.Reveal() || click.body["referral_code"] != "anna" {
		t.Errorf("%v %s", click.header, click.text)
	}
	if proposed, ok := affiliate.ParseID[affiliate.Click](click.clickID()); !ok || proposed.Version() != 7 || click.clickID() != id {
		t.Errorf("proposed %q, kept %q", click.clickID(), id)
	}
	stored := w.waitStored(1)
	if got := stored[0]; idOf(got) != id || got.ReferralCode != "anna" || got.LandingUrl != w.shop+"/" || got.Consent == edgev1.Consent_CONSENT_DENIED || got.Language == "" {
		t.Errorf("stored %v", got)
	}

	cookies := b.cookies()
	at := slices.IndexFunc(cookies, func(c *network.Cookie) bool { return c.Name == cookieName })
	if at < 0 {
		t.Fatalf("%v", cookies)
	}
	cookie := cookies[at]
	life := time.Until(time.UnixMilli(int64(cookie.Expires * 1000)))
	if cookie.Value != id || cookie.Path != "/" || cookie.SameSite != network.CookieSameSiteLax || cookie.Secure || cookie.HTTPOnly || cookie.Domain != ".shop.example" ||
		math.Abs((life-windowDays*24*time.Hour).Minutes()) > 2 {
		t.Errorf("cookie %+v, for %s", cookie, life)
	}
}

// The script sets the cookie on the widest domain that the browser accepts.
func TestCookie_UsesRegistrableDomain(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ name, host, attrs, domain string }{
		{"a subdomain of a shop", "eu.www.shop.example", "", ".shop.example"},
		{"the shop's apex", "shop.example", "", ".shop.example"},
		{"a public suffix of two labels", "www.shop.co.uk", "", ".shop.co.uk"},
		{"a host that gives subdomains to other parties", "foo.github.io", "", "foo.github.io"},
		{"a name of one label", "localhost", "", "localhost"},
		{"the domain in data-cookie-domain", "a.b.shop.example", `data-cookie-domain="b.shop.example"`, ".b.shop.example"},
	} {
		w.page("/", page{attrs: c.attrs})
		b := w.visit(w.origin(c.host) + "/?via=anna")
		id := b.waitCookie()
		cookies := b.cookies()
		if len(cookies) != 1 || cookies[0].Name != cookieName || cookies[0].Value != id {
			t.Errorf("%s: %d cookies, want only the script's cookie", c.name, len(cookies))
			continue
		}
		// Ignore the leading dot. For these hosts a cookie with the Domain attribute and
		// one without it have the same scope.
		if got := cookies[0].Domain; strings.TrimPrefix(got, ".") != strings.TrimPrefix(c.domain, ".") {
			t.Errorf("%s: the cookie of %s has the domain %q, want %q", c.name, c.host, got, c.domain)
		}
	}
}

func TestCookie_IsReadOnEverySubdomain(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	id := b.waitCookie()
	b.visit(w.apex + "/")
	b.settle()
	if got := b.id(); got != id || b.clicks() != 1 {
		t.Errorf("the apex has the id %q, want %q; %d clicks", got, id, b.clicks())
	}
}

func TestCookie_IsRestoredFromLocalStorage(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	id := b.waitCookie()
	if !strings.Contains(js[string](b, `JSON.stringify(localStorage)`), id) {
		t.Errorf("localStorage contains %s", js[string](b, `JSON.stringify(localStorage)`))
	}
	b.deleteCookies()
	b.visit(w.shop + "/")
	if got := b.waitCookie(); got != id || b.cookie() != id {
		t.Errorf("getClickId %q, cookie %q, want %q", got, b.cookie(), id)
	}
	// A lost note in localStorage is restored from the cookie.
	b.do(`localStorage.clear()`)
	b.visit(w.shop + "/")
	b.settle()
	if !strings.Contains(js[string](b, `JSON.stringify(localStorage)`), id) {
		t.Errorf("localStorage contains %s", js[string](b, `JSON.stringify(localStorage)`))
	}
	if n := b.clicks(); n != 1 {
		t.Errorf("%d clicks", n)
	}
}

func TestLanding_SendsSameCodeOnlyOnceInHalfHour(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	first := b.waitCookie()
	b.visit(w.shop + "/?via=anna")
	b.settle()
	// Codes are compared without regard to upper and lower case.
	b.visit(w.shop + "/?ref=ANNA")
	b.settle()
	if n := b.clicks(); n != 1 || b.id() != first {
		t.Fatalf("%d clicks after two reloads, id %q", n, b.id())
	}
	b.visit(w.shop + "/?via=ben")
	w.waitClicks(2)
	b.wait(`window.__tributary.getClickId() !== "` + first + `"`)
	b.settle()
	second := b.id()
	if clicks := w.waitStored(2); clicks[1].ReferralCode != "ben" || idOf(clicks[1]) != second || b.cookie() != second {
		t.Errorf("stored %v, id %q, cookie %q", clicks[1], second, b.cookie())
	}
}

func TestLanding_UnknownCodeStoresNothing(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?ref=somebody-elses")
	until(t, "the refusal", func() bool { sent := w.clicks(); return len(sent) > 0 && sent[0].status != 0 })
	b.settle()
	if sent := w.clicks(); b.clicks() != 1 || sent[0].status != http.StatusNotFound {
		t.Errorf("%+v", sent)
	}
	if got := b.storage(); got != emptyStorage || b.id() != "" {
		t.Errorf("kept %q, id %q", got, b.id())
	}
}

func TestLanding_UnknownCodeKeepsExistingClick(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	id := b.waitCookie()
	b.visit(w.shop + "/?ref=somebody-elses")
	until(t, "the refusal", func() bool { sent := w.clicks(); return len(sent) > 1 && sent[1].status == http.StatusNotFound })
	b.settle()
	if b.id() != id || b.cookie() != id {
		t.Errorf("id %q, cookie %q, want %q", b.id(), b.cookie(), id)
	}
}

func TestLanding_WithoutCodeDoesNothing(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?utm_source=mail&gclid=abc#via=anna")
	b.settle()
	b.do(`history.pushState(null, "", "/p?q=1"); document.body.insertAdjacentHTML("beforeend", "<a href='https://buy.stripe.com/x'>buy</a>")`)
	b.settle()
	want := []string{"GET " + w.shop + "/?utm_source=mail&gclid=abc", "GET " + w.cdn + "/v1/script.js"}
	if got := b.requests(); !slices.Equal(got, want) {
		t.Errorf("requests %q", got)
	}
	if got := b.storage(); got != emptyStorage || b.id() != "" {
		t.Errorf("kept %q, id %q", got, b.id())
	}
	if got := js[string](b, `document.querySelector("a").href`); got != "https://buy.stripe.com/x" {
		t.Errorf("the link became %s", got)
	}
}

func TestLanding_SendsRequestsOnlyToCollector(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	b.waitCookie()
	b.settle()
	want := []string{"GET " + w.shop + "/?via=anna", "GET " + w.cdn + "/v1/script.js", "POST " + w.cdn + clicksPath}
	if got := b.requests(); !slices.Equal(got, want) {
		t.Errorf("requests %q", got)
	}
}

// The click must not contain personal data from the page's address.
func TestLanding_SendsNoPersonalData(t *testing.T) {
	w := newWorld(t)
	w.page("/from", page{script: "none", body: `<a href="` + w.shop + `/p/shoes?via=anna&email=eve@mail.example&token=s3cret&utm_source=news&utm_medium=mail&utm_campaign=spring&utm_term=t&utm_content=c&sub_id=s-1&gclid=Cj0secret&fbclid=IwARsecret#frag-secret">x</a>`})
	w.page("/p/shoes", page{})
	b := w.visit(w.other + "/from?query=secret")
	b.do(`document.querySelector("a").click()`)
	b.waitCookie()
	click := w.waitClicks(1)[0]
	for _, private := range []string{"eve", "secret", "s3cret", "Cj0", "IwAR", "frag", "email", "token"} {
		if strings.Contains(click.text, private) {
			t.Errorf("%q was sent: %s", private, click.text)
		}
	}
	utm, _ := json.Marshal(click.body["utm"])
	if click.body["sub_id"] != "s-1" || string(utm) != `{"campaign":"spring","content":"c","medium":"mail","source":"news","term":"t"}` {
		t.Errorf("%s", click.text)
	}
	// The click contains the names of ad click ids, but not their values.
	if got, _ := click.body["url"].(string); !regexp.MustCompile(`^` + regexp.QuoteMeta(w.shop) + `/p/shoes\?(gclid=1&fbclid=1|fbclid=1&gclid=1)$`).MatchString(got) {
		t.Errorf("url %q", got)
	}
	if got := w.waitStored(1)[0]; got.ReferrerDomain != "www.checkout.example" || got.SubId != "s-1" || got.UtmCampaign != "spring" || got.LandingUrl != w.shop+"/p/shoes" {
		t.Errorf("%v", got)
	}
}

func TestLanding_ReadsCodeFromConfiguredParameters(t *testing.T) {
	w := newWorld(t)
	want := 0
	for _, c := range []struct {
		attrs, query, code string // without a code, no click must be sent
	}{
		{"", "via=anna", "anna"},
		{"", "ref=anna", "anna"},
		{"", "aff=anna", "anna"},
		{"", "fpr=anna", "anna"},
		{"", "fp_ref=anna", "anna"},
		{"", "x=1&via=%61nna", "anna"},
		{"", "partner=anna", ""},
		{"", "via=", ""},
		{"", "via=%20", ""},
		{"", "previa=anna", ""},
		{`data-param="partner"`, "partner=anna", "anna"},
		{`data-param="partner"`, "via=anna", ""},
		{`data-params="partner, p"`, "p=anna", "anna"},
		{`data-params="partner, p"`, "via=anna", "anna"},
	} {
		w.page("/", page{attrs: c.attrs})
		b := w.visit(w.shop + "/?" + c.query)
		b.settle()
		if c.code != "" {
			want++
			if b.clicks() != 1 {
				t.Errorf("%s ?%s: %d clicks", c.attrs, c.query, b.clicks())
				continue
			}
			sent := w.waitClicks(want)
			if got := sent[want-1].body["referral_code"]; got != c.code {
				t.Errorf("%s ?%s: sent %q", c.attrs, c.query, got)
			}
		} else if b.clicks() != 0 {
			t.Errorf("%s ?%s: sent a click", c.attrs, c.query)
		}
	}
}

// A link on one site of the merchant passes the click id to another site in the address.
func TestHandOver_AdoptsIDWithoutRequest(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	id := b.waitCookie()
	b.visit(w.other + "/?aff_click_id=" + id)
	if got := b.waitCookie(); got != id || b.cookie() != id {
		t.Errorf("adopted %q, cookie %q, want %q", got, b.cookie(), id)
	}
	b.settle()
	b.visit(w.other + "/")
	b.settle()
	if got := b.id(); got != id || b.clicks() != 1 {
		t.Errorf("the next page has the id %q, %d clicks", got, b.clicks())
	}
	for _, junk := range []string{
		"x", "%3Cscript%3E", id + "0", strings.Repeat("a", 36), "",
		"6f1a3a52-9c0b-4d6e-8f00-0123456789ab", "00000000-0000-0000-0000-000000000000",
	} {
		b := w.visit(w.other + "/?aff_click_id=" + junk)
		b.settle()
		if got := b.storage(); got != emptyStorage || b.id() != "" || b.clicks() != 0 {
			t.Errorf("adopted %q: %q, %d clicks", junk, got, b.clicks())
		}
	}
}

// A short link redirects to an address with the code and the click id. A visitor may
// share or bookmark this address. The id is therefore accepted only for an hour. Later
// visitors get a new click for the code.
func TestHandOver_AdoptsIDNextToCodeForOneHour(t *testing.T) {
	w := newWorld(t)
	fresh := affiliate.NewID[affiliate.Click](time.Now()).String()
	b := w.visit(w.shop + "/?via=anna&aff_click_id=" + fresh)
	if got := b.waitCookie(); got != fresh || b.clicks() != 0 {
		t.Errorf("adopted %q, want %q; %d clicks", got, fresh, b.clicks())
	}
	for n, stale := range []string{
		affiliate.NewID[affiliate.Click](time.Now().Add(-61 * time.Minute)).String(),
		affiliate.NewID[affiliate.Click](time.Now().Add(61 * time.Minute)).String(),
		"6f1a3a52-9c0b-4d6e-8f00-0123456789ab",
		"00000000-0000-0000-0000-000000000000",
	} {
		b := w.visit(w.shop + "/?via=ben&aff_click_id=" + stale)
		id := b.waitCookie()
		if stored := w.waitStored(n + 1)[n]; id == stale || idOf(stored) != id || stored.ReferralCode != "ben" {
			t.Errorf("%s: kept %s, stored %v", stale, id, stored)
		}
	}
}

// Without a code, the handed-over id may be as old as the cookie of the other site.
func TestHandOver_AdoptsOldIDWithoutCode(t *testing.T) {
	w := newWorld(t)
	id := affiliate.NewID[affiliate.Click](time.Now().AddDate(0, 0, -3)).String()
	b := w.visit(w.other + "/?aff_click_id=" + id)
	if got := b.waitCookie(); got != id {
		t.Errorf("adopted %q, want %q", got, id)
	}
}

// Other services use the same parameter names. The script tries each code in the address
// until the collector accepts one.
func TestLanding_TriesNextCodeAfterUnknownCode(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?ref=producthunt&aff=producthunt&fpr=ben&fp_ref=anna")
	b.waitCookie()
	b.settle()
	sent := w.waitClicks(2)
	if len(sent) != 2 || sent[0].body["referral_code"] != "producthunt" || sent[1].body["referral_code"] != "ben" || sent[0].clickID() == sent[1].clickID() {
		t.Errorf("sent %+v", sent)
	}
	if stored := w.waitStored(1)[0]; stored.ReferralCode != "ben" || idOf(stored) != js[string](b, `window.__tributary.whenClickId()`) {
		t.Errorf("stored %v", stored)
	}
}

// Two links that are opened at the same time may cause two clicks. The tabs may use
// different clicks at first, but from the next page on they use the same click.
func TestLanding_ConcurrentTabsAgreeOnOneClick(t *testing.T) {
	w := newWorld(t)
	v := w.visitor()
	tabs := []*tab{v.tab(), v.tab()}
	for _, b := range tabs { // start both without waiting for the pages
		b.do(`setTimeout(() => location = "` + w.shop + `/?via=anna")`)
	}
	for _, b := range tabs {
		b.waitCookie()
		if id := js[string](b, `window.__tributary.whenClickId()`); !slices.ContainsFunc(w.stored(), func(c *edgev1.Click) bool { return idOf(c) == id }) {
			t.Errorf("a tab has the id %q, which is not among %d stored clicks", id, len(w.stored()))
		}
	}
	again := func() int {
		for _, b := range tabs {
			b.visit(w.shop + "/?via=anna")
			b.settle()
		}
		return tabs[0].clicks() + tabs[1].clicks()
	}
	sent := again()
	if n := again(); n != sent {
		t.Errorf("%d clicks, then %d", sent, n)
	}
	kept := tabs[0].cookie()
	for _, b := range tabs {
		if b.id() != kept || b.cookie() != kept || !slices.ContainsFunc(w.stored(), func(c *edgev1.Click) bool { return idOf(c) == kept }) {
			t.Errorf("id %q, cookie %q, want %q", b.id(), b.cookie(), kept)
		}
	}
}

// shiftClock is JavaScript that shifts the page's clock by one hour. Its argument is "+"
// or "-".
const shiftClock = `{ const now = Date.now; Date.now = () => now() %s 3600000 }`

func TestLanding_SendsSameCodeAgainAfterHalfHour(t *testing.T) {
	w := newWorld(t)
	v := w.visitor()
	first := v.tab()
	first.visit(w.shop + "/?via=anna")
	before := first.waitCookie()
	v.initScripts = append(v.initScripts, fmt.Sprintf(shiftClock, "+"))
	b := v.tab()
	b.visit(w.shop + "/?via=anna")
	b.wait(`window.__tributary.getClickId() !== "` + before + `"`)
	if stored := w.waitStored(2); idOf(stored[1]) != b.id() || b.cookie() != b.id() {
		t.Errorf("stored %s, id %q, cookie %q", idOf(stored[1]), b.id(), b.cookie())
	}
}

// The collector rejects a proposed id with a wrong time and returns an id of its own. The
// script must use the returned id.
func TestLanding_UsesIDFromResponse(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop+"/?via=anna", fmt.Sprintf(shiftClock, "-"))
	id := b.waitCookie()
	if proposed := w.waitClicks(1)[0].clickID(); proposed == "" || proposed == id {
		t.Errorf("proposed %q, kept %q", proposed, id)
	}
	if stored := w.waitStored(1); idOf(stored[0]) != id || b.cookie() != id {
		t.Errorf("stored %s, id %q, cookie %q", idOf(stored[0]), id, b.cookie())
	}
}
