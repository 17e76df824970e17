package snippet_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	devtools "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/tools/browser"
)

// sharedBrowser is the browser of all tests. The first test that needs the browser starts
// it.
var sharedBrowser struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func startBrowser() {
	sharedBrowser.ctx, sharedBrowser.stop, sharedBrowser.err = browser.Start(context.Background()) //nolint:fatcontext // set once for all tests
}

func TestMain(m *testing.M) {
	code := m.Run()
	if sharedBrowser.stop != nil {
		sharedBrowser.stop()
	}
	os.Exit(code)
}

// visitor is a browser profile with its own cookies and storage. The test fails if a page
// in a tab of the visitor throws an error.
type visitor struct {
	f           *fixture
	ctx         context.Context // context of the first tab
	close       func()
	tabs        int
	initScripts []string // JavaScript that runs before any script of a page
}

// visitor opens a new browser profile. It closes the previous profile, because every tab
// needs processes of the browser.
func (f *fixture) visitor(initScripts ...string) *visitor {
	f.t.Helper()
	sharedBrowser.once.Do(startBrowser)
	if sharedBrowser.err != nil {
		f.t.Fatalf("starting the browser: %v", sharedBrowser.err)
	}
	if f.lastVisitor != nil {
		f.lastVisitor.close()
	}
	ctx, closeProfile := chromedp.NewContext(sharedBrowser.ctx, chromedp.WithNewBrowserContext())
	f.t.Cleanup(closeProfile)
	f.lastVisitor = &visitor{f: f, ctx: ctx, close: closeProfile, initScripts: append(initScripts, extendTimeout)}
	if f.keepRealTimeout {
		f.lastVisitor.initScripts = initScripts
	}
	return f.lastVisitor
}

// extendTimeout extends the script's response timeout from 3 s to 60 s, because the
// machine that runs the tests may be slow.
const extendTimeout = `{ const wait = setTimeout; window.setTimeout = (run, ms, ...rest) => wait(run, ms === 3000 ? 60000 : ms, ...rest) }`

// tab is one tab of a visitor. Its methods must not be called concurrently.
type tab struct {
	f   *fixture
	ctx context.Context

	mu     sync.Mutex
	sent   []string // method and URL of every request, in the order in which they began
	thrown []string
}

// tab opens a tab. A new profile already has a tab, so the first call returns that tab.
func (v *visitor) tab() *tab {
	t := v.f.t
	t.Helper()
	b := &tab{f: v.f, ctx: v.ctx}
	if v.tabs++; v.tabs > 1 {
		var closeTab func()
		b.ctx, closeTab = chromedp.NewContext(v.ctx)
		t.Cleanup(closeTab)
	}
	t.Cleanup(func() {
		for _, text := range b.exceptions() {
			t.Errorf("a page threw an error: %s", text)
		}
	})
	check(t, chromedp.Listen(b.ctx, b.watch))
	_, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{})
	check(t, err)
	// Without focus, the browser slows down timers in the tab.
	_, err = chromedp.Call(b.ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	check(t, err)
	for _, source := range v.initScripts {
		_, err := chromedp.Call(b.ctx, devtools.AddScriptToEvaluateOnNewDocument, devtools.AddScriptToEvaluateOnNewDocumentParams{Source: source})
		check(t, err)
	}
	return b
}

// visit opens a page in a tab of a new visitor.
func (f *fixture) visit(url string, initScripts ...string) *tab {
	f.t.Helper()
	b := f.visitor(initScripts...).tab()
	b.visit(url)
	return b
}

func (b *tab) watch(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		b.sent = append(b.sent, ev.Request.Method+" "+ev.Request.URL)
	case *runtime.EventExceptionThrown:
		text := ev.ExceptionDetails.Text
		if ev.ExceptionDetails.Exception != nil {
			text += " " + ev.ExceptionDetails.Exception.Description
		}
		b.thrown = append(b.thrown, text)
	}
}

// visit opens a page in the tab. It returns after the load event, so the script has run.
func (b *tab) visit(url string) {
	b.f.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		b.f.t.Fatalf("opening %s: %v", url, err)
	}
}

// requests returns the requests that pages of this tab have started. It omits requests of
// the test itself (to /probe) and the browser's requests for the favicon.
func (b *tab) requests() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var requests []string
	for _, line := range b.sent {
		if !strings.HasSuffix(line, "/probe") && !strings.HasSuffix(line, "/favicon.ico") {
			requests = append(requests, line)
		}
	}
	return requests
}

// clicks returns the number of clicks that pages of this tab have started to send. Unlike
// fixture.clicks, it also counts requests that have not reached the server yet. After
// settle, a test can therefore call clicks without waiting for the server.
func (b *tab) clicks() int {
	n := 0
	for _, line := range b.requests() {
		if strings.HasPrefix(line, "POST ") && strings.HasSuffix(line, clicksPath) {
			n++
		}
	}
	return n
}

// exceptions returns the uncaught exceptions of pages of this tab since the last call of
// exceptions.
func (b *tab) exceptions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	thrown := b.thrown
	b.thrown = nil
	return thrown
}

// js evaluates a JavaScript expression. If the value is a promise, js waits for the
// result of the promise.
func js[T any](b *tab, expression string) T {
	b.f.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitTimeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.f.t.Fatalf("evaluating %s: %v", expression, err)
	}
	return value
}

// do runs JavaScript statements.
func (b *tab) do(statements string) {
	b.f.t.Helper()
	js[bool](b, "(() => {"+statements+"; return true})()")
}

// wait waits until a JavaScript expression is true. The tab may navigate to other pages
// during the wait.
func (b *tab) wait(expression string) {
	b.f.t.Helper()
	waitFor(b.f.t, expression, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, waitTimeout)
		defer cancel()
		value, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && value
	})
}

// settle waits until the page has loaded and its timers have run. Then it sends a request
// of its own and waits for the response. When settle returns, every request that the
// script sends when the page loads has started.
func (b *tab) settle() {
	b.f.t.Helper()
	js[bool](b, `new Promise(done => {
		const later = () => setTimeout(() => setTimeout(() => fetch("/probe", {cache: "no-store"}).then(() => done(true))));
		document.readyState === "complete" ? later() : addEventListener("load", later);
	})`)
}

// id returns the click id that the script's method getClickId returns, or "".
func (b *tab) id() string {
	b.f.t.Helper()
	return js[string](b, `window.__tributary.getClickId() || ""`)
}

// waitID waits until the script has a click id and returns it.
func (b *tab) waitID() string {
	b.f.t.Helper()
	b.wait(`window.__tributary && window.__tributary.getClickId && window.__tributary.getClickId()`)
	return b.id()
}

// waitCookie waits until the page has the script and its cookie, which another tab may set
// before this page loads the script. It returns the click id that the script's method
// getClickId returns.
func (b *tab) waitCookie() string {
	b.f.t.Helper()
	b.wait(`window.__tributary && window.__tributary.getClickId && document.cookie.includes("` + cookieName + `=")`)
	return b.id()
}

// cookie returns the value of the script's cookie as the page reads it, or "".
func (b *tab) cookie() string {
	b.f.t.Helper()
	return js[string](b, `(document.cookie.split("; ").find(c => c.startsWith("`+cookieName+`=")) || "").slice(`+strconv.Itoa(len(cookieName)+1)+`)`)
}

// cookies returns all cookies that the browser has for the page of the tab.
func (b *tab) cookies() []*network.Cookie {
	b.f.t.Helper()
	got, err := chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{})
	check(b.f.t, err)
	return got.Cookies
}

// storage returns the page's cookies, local storage and session storage as one text.
func (b *tab) storage() string {
	b.f.t.Helper()
	return js[string](b, `[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join(" ")`)
}

const emptyStorage = " {} {}"

// deleteCookies deletes all cookies of the page, as a visitor can do in the browser.
func (b *tab) deleteCookies() {
	b.f.t.Helper()
	for _, cookie := range b.cookies() {
		_, err := chromedp.Call(b.ctx, network.DeleteCookies, network.DeleteCookiesParams{Name: cookie.Name, Domain: cookie.Domain, Path: cookie.Path})
		check(b.f.t, err)
	}
	if left := b.cookies(); len(left) != 0 {
		b.f.t.Fatalf("cookies after the deletion: %v, want none", left)
	}
}
