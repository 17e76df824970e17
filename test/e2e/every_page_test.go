package e2e_test

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// appPage is a page of an application with the addresses below that of the application at which
// the test opens it.
type appPage struct {
	// The pages at data show records. A user without records opens those at empty, which say that
	// there are none.
	data, empty []string
	// isPublic means that the page needs no login.
	isPublic bool
	// isStatic means that the page loads nothing, so it shows no error if the API fails.
	isStatic bool
	// failing is the address to open without the API, if the HTML of the page contains its data.
	failing string
}

// app is the portal or the console, in test mode.
type app struct {
	base string
	// source is the file with the routes.
	source string
	pages  map[string]appPage
}

// wantAllRoutes checks that the test has all pages of the application.
func (a app) wantAllRoutes(t *testing.T) {
	t.Helper()
	source, found := read(t, a.source), []string(nil)
	for _, list := range regexp.MustCompile(`(?s)const (?:open|loggedOut|areas): Record<string, ComponentType> = \{(.*?)\n\};`).FindAllStringSubmatch(source, -1) {
		for _, key := range regexp.MustCompile(`(?m)^  "([^"]+)":`).FindAllStringSubmatch(list[1], -1) {
			found = append(found, key[1])
		}
	}
	slices.Sort(found)
	if tested := slices.Sorted(maps.Keys(a.pages)); !slices.Equal(tested, found) {
		t.Fatalf("%s has the routes %q, and the test has the addresses of %q", a.source, found, tested)
	}
}

// newLoggedInTab opens a tab in which a user is logged in to the application at an address. It shows
// the start page.
func newLoggedInTab(ctx context.Context, t *testing.T, sys *system, u browsertest.User, base string, user caller) *tab {
	t.Helper()
	p := newTab(ctx, t, sys, u)
	p.open(base + "/login")
	p.logIn(user.email, password)
	p.Find("navigation", "")
	return p
}

// wantEveryPage opens every page with data, without data, and while the API cannot be reached. A
// short test opens each page once, with data, in the dark on a phone.
func (a app) wantEveryPage(ctx context.Context, t *testing.T, sys *system, withData, withoutData caller) {
	t.Helper()
	phone := browsertest.Phone
	sizes, schemes := []browsertest.User{phone, browsertest.Mouse}, []string{"dark", "light"}
	if testing.Short() {
		sizes, schemes = sizes[:1], schemes[:1]
	}
	// each opens the pages in two tabs: one in which the user is logged in, and one for the public pages.
	each := func(t *testing.T, user caller, prepare func(*tab), check func(*tab, appPage)) {
		t.Helper()
		tabs := map[bool]*tab{false: newLoggedInTab(ctx, t, sys, phone, a.base, user), true: newTab(ctx, t, sys, phone)}
		for _, p := range tabs {
			prepare(p)
		}
		for _, route := range slices.Sorted(maps.Keys(a.pages)) {
			check(tabs[a.pages[route].isPublic], a.pages[route])
		}
	}
	open := func(p *tab, addresses []string) {
		p.Helper()
		for _, address := range addresses {
			p.wantPage(a.base+address, sizes, schemes)
		}
	}
	t.Run("data", func(t *testing.T) {
		each(t, withData, func(*tab) {}, func(p *tab, page appPage) { open(p, page.data) })
	})
	t.Run("empty", func(t *testing.T) {
		pgtest.Slow(t)
		each(t, withoutData, func(*tab) {}, func(p *tab, page appPage) { open(p, page.empty) })
	})
	t.Run("error", func(t *testing.T) {
		pgtest.Slow(t)
		each(t, withData, (*tab).breakAPI, func(p *tab, page appPage) {
			address := cmp.Or(page.failing, page.data[0])
			open(p, []string{address})
			if alerts := browsertest.Evaluate[int](p.Tab, `document.querySelectorAll("main [role=alert]").length`); (alerts == 0) != page.isStatic {
				p.Errorf("%s shows %d errors while the API cannot be reached", address, alerts)
			}
		})
	})
}

// wantHostileTexts opens all pages with data, and checks that texts of users stay texts. It returns what the
// pages show.
func (a app) wantHostileTexts(t *testing.T, loggedIn, public *tab) string {
	t.Helper()
	var shown strings.Builder
	for _, page := range a.pages {
		p := loggedIn
		if page.isPublic {
			p = public
		}
		for _, address := range page.data {
			p.open(a.base + address)
			shown.WriteString(browsertest.Evaluate[string](p.Tab, `document.body.innerText`))
			if n := browsertest.Evaluate[int](p.Tab, `document.querySelectorAll("[data-hostile]").length`); n > 0 {
				t.Errorf("%s contains %d elements from the texts of users", address, n)
			}
		}
	}
	return shown.String()
}

// hostileText returns a text of a maximum length with markup, a formula and a mark that reverses the
// direction. Names cannot contain marks that change the direction of text.
func hostileText(name string, length int) string {
	text := "=1+1<b data-hostile>" + name + "</b>"
	if !slices.Contains([]string{"programme", "merchant", "partner", "company", "announcement"}, name) {
		text += "\u202e"
	}
	return text + strings.Repeat("W", min(length-len([]rune(text)), 200))
}

// wantPage opens a page and checks it at the widths of the users and with light and dark colours:
// it is loaded, has a title and a heading, fits, and axe finds nothing.
func (p *tab) wantPage(address string, sizes []browsertest.User, schemes []string) {
	p.Helper()
	p.open(address)
	if got := browsertest.Evaluate[string](p.Tab, `document.title + (document.querySelector("main h1") === null ? ", no heading" : "")`); !strings.Contains(got, " · ") || strings.HasSuffix(got, ", no heading") {
		p.Errorf("%s has the title %q", address, got)
	}
	for _, p.User = range append(slices.Clone(sizes), browsertest.User{Width: 320}) {
		p.Do(chromedp.EmulateViewport(p.User.Width, 800))
		p.wantFits()
		if p.User.Width == 320 {
			continue
		}
		for _, scheme := range schemes {
			p.wantAccessibleIn(scheme)
		}
	}
}

// breakAPI makes all requests of the tab to the API fail. The page waits only a twentieth of the
// time before it repeats them.
func (p *tab) breakAPI() {
	p.Helper()
	p.block("/api/v1/*")
	const hurry = `{ const wait = setTimeout; window.setTimeout = (then, ms, ...rest) => wait(then, ms / 20, ...rest); }`
	browsertest.Command(p.Tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: hurry})
}

// block makes requests of the tab fail before they are sent.
func (p *tab) block(paths string) {
	p.Helper()
	blocked := []*network.BlockPattern{{URLPattern: p.system.api + paths, Block: true}}
	browsertest.Command(p.Tab, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: blocked})
}
