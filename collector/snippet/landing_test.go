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
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	b.settle()

	sent := f.waitClicks(1)
	if len(sent) != 1 || b.clicks() != 1 || slices.ContainsFunc(f.requests(), func(r request) bool { return r.method == http.MethodOptions }) {
		t.Fatalf("requests %+v, want one click and no preflight", f.requests())
	}
	click := sent[0]
	if click.method != http.MethodPost || !strings.HasPrefix(click.header.Get("Content-Type"), "text/plain") || click.header.Get("Cookie") != "" ||
		click.header.Get("Authorization") != "" || len(click.setCookie) != 0 || click.body["public_key"] != f.key.Reveal() || click.body["referral_code"] != "anna" {
		t.Errorf("the script sent %s with headers %v, want a text/plain POST with the key in the body and without cookies", click.text, click.header)
	}
	if proposed, ok := affiliate.ParseID[affiliate.ClickID](click.clickID()); !ok || proposed.Version() != 7 || click.clickID() != id {
		t.Errorf("the script proposed %q and has the id %q, want the same UUIDv7", click.clickID(), id)
	}
	stored := f.waitStored(1)
	if got := stored[0]; idOf(got) != id || got.ReferralCode != "anna" || got.LandingUrl != f.shop+"/" || got.Consent == edgev1.Consent_CONSENT_DENIED || got.Language == "" {
		t.Errorf("stored %v, want the click %s of anna at %s/ with a language and without denied consent", got, id, f.shop)
	}

	cookies := b.cookies()
	i := slices.IndexFunc(cookies, func(c *network.Cookie) bool { return c.Name == cookieName })
	if i < 0 {
		t.Fatalf("cookies %v, want %s", cookies, cookieName)
	}
	cookie := cookies[i]
	remaining := time.Until(time.UnixMilli(int64(cookie.Expires * 1000)))
	if cookie.Value != id || cookie.Path != "/" || cookie.SameSite != network.CookieSameSiteLax || cookie.Secure || cookie.HTTPOnly || cookie.Domain != ".shop.example" ||
		math.Abs((remaining-windowDays*24*time.Hour).Minutes()) > 2 {
		t.Errorf("cookie %+v that expires in %s, want the id %s on .shop.example for %d days", cookie, remaining, id, windowDays)
	}
}

// The script sets the cookie on the widest domain that the browser accepts.
func TestCookie_UsesRegistrableDomain(t *testing.T) {
	f := newFixture(t)
	for _, c := range []struct{ name, host, attrs, domain string }{
		{"a subdomain of a shop", "eu.www.shop.example", "", ".shop.example"},
		{"the shop's apex", "shop.example", "", ".shop.example"},
		{"a public suffix of two labels", "www.shop.co.uk", "", ".shop.co.uk"},
		{"a host directly below a public suffix", "foo.github.io", "", "foo.github.io"},
		{"a name of one label", "localhost", "", "localhost"},
		{"the domain in data-cookie-domain", "a.b.shop.example", `data-cookie-domain="b.shop.example"`, ".b.shop.example"},
	} {
		f.page("/", page{attrs: c.attrs})
		b := f.visit(f.origin(c.host) + "/?via=anna")
		id := b.waitCookie()
		cookies := b.cookies()
		if len(cookies) != 1 || cookies[0].Name != cookieName || cookies[0].Value != id {
			t.Errorf("%s: cookies %v, want only the script's cookie", c.name, cookies)
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
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	b.visit(f.apex + "/")
	b.settle()
	if got := b.id(); got != id || b.clicks() != 1 {
		t.Errorf("on shop.example: id %q after %d clicks, want %q after 1", got, b.clicks(), id)
	}
}

func TestCookie_IsRestoredFromLocalStorage(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	if !strings.Contains(js[string](b, `JSON.stringify(localStorage)`), id) {
		t.Errorf("localStorage contains %s, want the id %s", js[string](b, `JSON.stringify(localStorage)`), id)
	}
	b.deleteCookies()
	b.visit(f.shop + "/")
	if got := b.waitCookie(); got != id || b.cookie() != id {
		t.Errorf("after the loss of the cookie: id %q, cookie %q, want %q", got, b.cookie(), id)
	}
	// If the copy of the click in localStorage is lost, the script restores it from the
	// cookie.
	b.do(`localStorage.clear()`)
	b.visit(f.shop + "/")
	b.settle()
	if !strings.Contains(js[string](b, `JSON.stringify(localStorage)`), id) {
		t.Errorf("localStorage contains %s, want the id %s", js[string](b, `JSON.stringify(localStorage)`), id)
	}
	if n := b.clicks(); n != 1 {
		t.Errorf("%d clicks sent, want 1", n)
	}
}

func TestLanding_SendsSameCodeOnlyOnceInHalfHour(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	first := b.waitCookie()
	b.visit(f.shop + "/?via=anna")
	b.settle()
	// The script ignores upper and lower case when it compares codes.
	b.visit(f.shop + "/?ref=ANNA")
	b.settle()
	if n := b.clicks(); n != 1 || b.id() != first {
		t.Fatalf("after two more visits with the code: %d clicks sent, id %q; want 1 and %q", n, b.id(), first)
	}
	b.visit(f.shop + "/?via=ben")
	f.waitClicks(2)
	b.wait(`window.__tributary.getClickId() !== "` + first + `"`)
	b.settle()
	second := b.id()
	if clicks := f.waitStored(2); clicks[1].ReferralCode != "ben" || idOf(clicks[1]) != second || b.cookie() != second {
		t.Errorf("stored %v, id %q, cookie %q; want a click of ben whose id is in the cookie", clicks[1], second, b.cookie())
	}
}

func TestLanding_UnknownCodeStoresNothing(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?ref=somebody-elses")
	waitFor(t, "the response to the click", func() bool { sent := f.clicks(); return len(sent) > 0 && sent[0].status != 0 })
	b.settle()
	if sent := f.clicks(); b.clicks() != 1 || sent[0].status != http.StatusNotFound {
		t.Errorf("the script sent %+v, want one click with the response 404", sent)
	}
	if got := b.storage(); got != emptyStorage || b.id() != "" {
		t.Errorf("stored %q, id %q; want neither", got, b.id())
	}
}

func TestLanding_UnknownCodeKeepsExistingClick(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	b.visit(f.shop + "/?ref=somebody-elses")
	waitFor(t, "the response 404 to the second click", func() bool { sent := f.clicks(); return len(sent) > 1 && sent[1].status == http.StatusNotFound })
	b.settle()
	if b.id() != id || b.cookie() != id {
		t.Errorf("after the unknown code: id %q, cookie %q, want %q", b.id(), b.cookie(), id)
	}
}

func TestLanding_WithoutCodeDoesNothing(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?utm_source=mail&gclid=abc#via=anna")
	b.settle()
	b.do(`history.pushState(null, "", "/p?q=1"); document.body.insertAdjacentHTML("beforeend", "<a href='https://buy.stripe.com/x'>buy</a>")`)
	b.settle()
	want := []string{"GET " + f.shop + "/?utm_source=mail&gclid=abc", "GET " + f.cdn + "/v1/script.js"}
	if got := b.requests(); !slices.Equal(got, want) {
		t.Errorf("the page sent the requests %q, want %q", got, want)
	}
	if got := b.storage(); got != emptyStorage || b.id() != "" {
		t.Errorf("stored %q, id %q; want neither", got, b.id())
	}
	if got := js[string](b, `document.querySelector("a").href`); got != "https://buy.stripe.com/x" {
		t.Errorf("the link became %s, want no change", got)
	}
}

func TestLanding_SendsRequestsOnlyToCollector(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	b.waitCookie()
	b.settle()
	want := []string{"GET " + f.shop + "/?via=anna", "GET " + f.cdn + "/v1/script.js", "POST " + f.cdn + clicksPath}
	if got := b.requests(); !slices.Equal(got, want) {
		t.Errorf("the page sent the requests %q, want %q", got, want)
	}
}

// The click must not contain personal data from the page's address.
func TestLanding_SendsNoPersonalData(t *testing.T) {
	f := newFixture(t)
	f.page("/from", page{script: "none", body: `<a href="` + f.shop + `/p/shoes?via=anna&email=eve@mail.example&token=s3cret&utm_source=news&utm_medium=mail&utm_campaign=spring&utm_term=t&utm_content=c&sub_id=s-1&gclid=Cj0secret&fbclid=IwARsecret#frag-secret">x</a>`})
	f.page("/p/shoes", page{})
	b := f.visit(f.other + "/from?query=secret")
	b.do(`document.querySelector("a").click()`)
	b.waitCookie()
	click := f.waitClicks(1)[0]
	for _, private := range []string{"eve", "secret", "s3cret", "Cj0", "IwAR", "frag", "email", "token"} {
		if strings.Contains(click.text, private) {
			t.Errorf("the click contains %q: %s", private, click.text)
		}
	}
	utm, _ := json.Marshal(click.body["utm"])
	if click.body["sub_id"] != "s-1" || string(utm) != `{"campaign":"spring","content":"c","medium":"mail","source":"news","term":"t"}` {
		t.Errorf("the script sent %s, want sub_id s-1 and the five utm values", click.text)
	}
	// The click contains the names of ad click ids, but not their values.
	if got, _ := click.body["url"].(string); !regexp.MustCompile(`^` + regexp.QuoteMeta(f.shop) + `/p/shoes\?(gclid=1&fbclid=1|fbclid=1&gclid=1)$`).MatchString(got) {
		t.Errorf("the click has the url %q, want %s/p/shoes with the names of the ad parameters", got, f.shop)
	}
	if got := f.waitStored(1)[0]; got.ReferrerDomain != "www.checkout.example" || got.SubId != "s-1" || got.UtmCampaign != "spring" || got.LandingUrl != f.shop+"/p/shoes" {
		t.Errorf("stored %v, want the referrer www.checkout.example, sub_id s-1, utm_campaign spring and %s/p/shoes", got, f.shop)
	}
}

func TestLanding_ReadsCodeFromConfiguredParameters(t *testing.T) {
	f := newFixture(t)
	want := 0
	for _, c := range []struct {
		attrs, query, code string // if code is "", the script must send no click
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
		f.page("/", page{attrs: c.attrs})
		b := f.visit(f.shop + "/?" + c.query)
		b.settle()
		if c.code != "" {
			want++
			if b.clicks() != 1 {
				t.Errorf("%s ?%s: %d clicks sent, want 1", c.attrs, c.query, b.clicks())
				continue
			}
			sent := f.waitClicks(want)
			if got := sent[want-1].body["referral_code"]; got != c.code {
				t.Errorf("%s ?%s: the script sent the code %q, want %q", c.attrs, c.query, got, c.code)
			}
		} else if n := b.clicks(); n != 0 {
			t.Errorf("%s ?%s: %d clicks sent, want 0", c.attrs, c.query, n)
		}
	}
}

// A link from one site of the merchant to another site passes the click id in the
// address.
func TestIDInAddress_IsAdoptedWithoutRequest(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	b.visit(f.other + "/?aff_click_id=" + id)
	if got := b.waitCookie(); got != id || b.cookie() != id {
		t.Errorf("on the other site: id %q, cookie %q, want %q", got, b.cookie(), id)
	}
	b.settle()
	b.visit(f.other + "/")
	b.settle()
	if got := b.id(); got != id || b.clicks() != 1 {
		t.Errorf("the next page has the id %q after %d clicks, want %q after 1", got, b.clicks(), id)
	}
	for _, junk := range []string{
		"x", "%3Cscript%3E", id + "0", strings.Repeat("a", 36), "",
		"6f1a3a52-9c0b-4d6e-8f00-0123456789ab", "00000000-0000-0000-0000-000000000000",
	} {
		b := f.visit(f.other + "/?aff_click_id=" + junk)
		b.settle()
		if got := b.storage(); got != emptyStorage || b.id() != "" || b.clicks() != 0 {
			t.Errorf("after the invalid id %q: id %q, stored %q, %d clicks sent; want none", junk, b.id(), got, b.clicks())
		}
	}
}

// A short link redirects to an address with the code and the click id. A visitor may
// share or bookmark this address. The script therefore accepts the id only for one hour.
// After that, it ignores the id and registers a new click for the code. If it accepts the
// id, it registers the code with this id, once.
func TestIDInAddress_WithCodeIsAdoptedForOneHour(t *testing.T) {
	f := newFixture(t)
	fresh := affiliate.NewID[affiliate.ClickID](time.Now()).String()
	b := f.visit(f.shop + "/?via=anna&aff_click_id=" + fresh)
	// The cookie is set before the collector responds. A page that is left before the
	// response sends the click once more.
	id := js[string](b, `window.__tributary.whenClickId()`)
	b.visit(f.shop + "/?via=anna&aff_click_id=" + fresh)
	b.settle()
	if id != fresh || b.id() != fresh || b.clicks() != 1 || idOf(f.waitStored(1)[0]) != fresh {
		t.Errorf("after a recent id: ids %q and %q and %d clicks sent, want %q and 1", id, b.id(), b.clicks(), fresh)
	}
	for n, stale := range []string{
		affiliate.NewID[affiliate.ClickID](time.Now().Add(-61 * time.Minute)).String(),
		affiliate.NewID[affiliate.ClickID](time.Now().Add(61 * time.Minute)).String(),
		"6f1a3a52-9c0b-4d6e-8f00-0123456789ab",
		"00000000-0000-0000-0000-000000000000",
	} {
		b := f.visit(f.shop + "/?via=ben&aff_click_id=" + stale)
		id := b.waitCookie()
		if stored := f.waitStored(n + 2)[n+1]; id == stale || idOf(stored) != id || stored.ReferralCode != "ben" {
			t.Errorf("after the old id %s: id %s, stored %v; want a new click of ben", stale, id, stored)
		}
	}
}

// An id in an address without a code may be as old as the cookie of the merchant's other
// site.
func TestIDInAddress_WithoutCodeIsAdoptedAtAnyAge(t *testing.T) {
	f := newFixture(t)
	id := affiliate.NewID[affiliate.ClickID](time.Now().AddDate(0, 0, -3)).String()
	b := f.visit(f.other + "/?aff_click_id=" + id)
	if got := b.waitCookie(); got != id {
		t.Errorf("id %q, want %q from the address", got, id)
	}
}

// Other services use the same parameter names. The script tries each code in the address
// until the collector accepts one.
func TestLanding_TriesNextCodeAfterUnknownCode(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?ref=producthunt&aff=producthunt&fpr=ben&fp_ref=anna")
	b.waitCookie()
	b.settle()
	sent := f.waitClicks(2)
	if len(sent) != 2 || sent[0].body["referral_code"] != "producthunt" || sent[1].body["referral_code"] != "ben" || sent[0].clickID() == sent[1].clickID() {
		t.Errorf("the script sent %+v, want the codes producthunt and ben with different ids", sent)
	}
	if stored, id := f.waitStored(1)[0], js[string](b, `window.__tributary.whenClickId()`); stored.ReferralCode != "ben" || idOf(stored) != id {
		t.Errorf("stored %v, want a click of ben with the id %s", stored, id)
	}
}

// If a visitor opens a link in two tabs at the same time, the script may register two
// clicks. The tabs may have different clicks at first. From the next page on, both tabs
// have the same click.
func TestLanding_ConcurrentTabsAgreeOnOneClick(t *testing.T) {
	f := newFixture(t)
	v := f.visitor()
	tabs := []*tab{v.tab(), v.tab()}
	for _, b := range tabs { // Navigate in both tabs without waiting for the pages.
		b.do(`setTimeout(() => location = "` + f.shop + `/?via=anna")`)
	}
	for _, b := range tabs {
		b.waitCookie()
		if id := js[string](b, `window.__tributary.whenClickId()`); !slices.ContainsFunc(f.storedClicks(), func(c *edgev1.Click) bool { return idOf(c) == id }) {
			t.Errorf("a tab has the id %q, which is not the id of a stored click", id)
		}
	}
	visitInBothTabs := func() int {
		for _, b := range tabs {
			b.visit(f.shop + "/?via=anna")
			b.settle()
		}
		return tabs[0].clicks() + tabs[1].clicks()
	}
	sent := visitInBothTabs()
	if n := visitInBothTabs(); n != sent {
		t.Errorf("after the second visit in both tabs: %d clicks sent, want %d as before", n, sent)
	}
	id := tabs[0].cookie()
	for _, b := range tabs {
		if b.id() != id || b.cookie() != id || !slices.ContainsFunc(f.storedClicks(), func(c *edgev1.Click) bool { return idOf(c) == id }) {
			t.Errorf("a tab has the id %q and the cookie %q, want the id %q of a stored click", b.id(), b.cookie(), id)
		}
	}
}

// shiftClock is a format for JavaScript that shifts the page's clock by one hour. The
// argument of the format is "+" or "-".
const shiftClock = `{ const now = Date.now; Date.now = () => now() %s 3600000 }`

func TestLanding_SendsSameCodeAgainAfterHalfHour(t *testing.T) {
	f := newFixture(t)
	v := f.visitor()
	first := v.tab()
	first.visit(f.shop + "/?via=anna")
	before := first.waitCookie()
	v.initScripts = append(v.initScripts, fmt.Sprintf(shiftClock, "+"))
	b := v.tab()
	b.visit(f.shop + "/?via=anna")
	b.wait(`window.__tributary.getClickId() !== "` + before + `"`)
	if stored := f.waitStored(2); idOf(stored[1]) != b.id() || b.cookie() != b.id() {
		t.Errorf("stored click %s, id %q, cookie %q; want the same id", idOf(stored[1]), b.id(), b.cookie())
	}
}

// The collector rejects a proposed id with a wrong time and returns an id of its own. The
// script must use the returned id.
func TestLanding_UsesIDFromResponse(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop+"/?via=anna", fmt.Sprintf(shiftClock, "-"))
	id := b.waitCookie()
	if proposed := f.waitClicks(1)[0].clickID(); proposed == "" || proposed == id {
		t.Errorf("the script proposed %q and has the id %q, want different ids", proposed, id)
	}
	if stored := f.waitStored(1); idOf(stored[0]) != id || b.cookie() != id {
		t.Errorf("stored click %s, id %q, cookie %q; want the same id", idOf(stored[0]), id, b.cookie())
	}
}
