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

// started is the browser that all tests share. The first test that needs it starts it.
var started struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func start() {
	started.ctx, started.stop, started.err = browser.Start(context.Background()) //nolint:fatcontext // set once for all tests
}

func TestMain(m *testing.M) {
	code := m.Run()
	if started.stop != nil {
		started.stop()
	}
	os.Exit(code)
}

// visitor is a browser profile with its own cookies and storage. A test fails if a page
// in one of its tabs throws an error.
type visitor struct {
	w           *world
	ctx         context.Context // context of the first tab
	close       func()
	tabs        int
	initScripts []string // JavaScript that runs before any script of a page
}

// visitor opens a new browser profile and closes the previous one, because every tab
// needs processes of the browser.
func (w *world) visitor(initial ...string) *visitor {
	w.t.Helper()
	started.once.Do(start)
	if started.err != nil {
		w.t.Fatal(started.err)
	}
	if w.last != nil {
		w.last.close()
	}
	ctx, closeProfile := chromedp.NewContext(started.ctx, chromedp.WithNewBrowserContext())
	w.t.Cleanup(closeProfile)
	w.last = &visitor{w: w, ctx: ctx, close: closeProfile, initScripts: append(initial, extendTimeout)}
	if w.realTimeout {
		w.last.initScripts = initial
	}
	return w.last
}

// extendTimeout extends the script's response timeout from 3 s to 60 s, because the
// machine that runs the tests may be slow.
const extendTimeout = `{ const wait = setTimeout; window.setTimeout = (run, ms, ...rest) => wait(run, ms === 3000 ? 60000 : ms, ...rest) }`

// tab is one tab of a visitor. Its methods must not be called concurrently.
type tab struct {
	w   *world
	ctx context.Context

	mu     sync.Mutex
	sent   []string // method and URL of every request, in the order of their start
	thrown []string
}

func (v *visitor) tab() *tab {
	t := v.w.t
	t.Helper()
	b := &tab{w: v.w, ctx: v.ctx}
	if v.tabs++; v.tabs > 1 {
		var closeTab func()
		b.ctx, closeTab = chromedp.NewContext(v.ctx)
		t.Cleanup(closeTab)
	}
	t.Cleanup(func() {
		for _, text := range b.exceptions() {
			t.Errorf("a page threw: %s", text)
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
func (w *world) visit(url string, initial ...string) *tab {
	w.t.Helper()
	b := w.visitor(initial...).tab()
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

// visit returns after the load event, so the script has run.
func (b *tab) visit(url string) {
	b.w.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitTimeout)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		b.w.t.Fatalf("%s: %v", url, err)
	}
}

// requests returns the requests that pages of this tab have started. It omits the test's
// own probes and the browser's requests for the favicon.
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

// clicks returns the number of clicks that pages of this tab have started to send. In
// contrast to world.clicks, it also counts requests that have not reached the server.
// It therefore needs no wait after settle.
func (b *tab) clicks() int {
	n := 0
	for _, line := range b.requests() {
		if strings.HasPrefix(line, "POST ") && strings.HasSuffix(line, clicksPath) {
			n++
		}
	}
	return n
}

// exceptions returns the uncaught exceptions of pages of this tab since its last call.
func (b *tab) exceptions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	thrown := b.thrown
	b.thrown = nil
	return thrown
}

// js evaluates an expression. If the result is a promise, it waits for it.
func js[T any](b *tab, expression string) T {
	b.w.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, waitTimeout)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.w.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// do runs statements.
func (b *tab) do(statements string) {
	b.w.t.Helper()
	js[bool](b, "(() => {"+statements+"; return true})()")
}

// wait waits until an expression is true, across navigations.
func (b *tab) wait(expression string) {
	b.w.t.Helper()
	until(b.w.t, expression, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, waitTimeout)
		defer cancel()
		value, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && value
	})
}

// settle waits until the page has loaded and its timers have run. Then it sends a request
// of its own and waits for the response. Every request that the script sends when the
// page loads has started by then.
func (b *tab) settle() {
	b.w.t.Helper()
	js[bool](b, `new Promise(done => {
		const later = () => setTimeout(() => setTimeout(() => fetch("/probe", {cache: "no-store"}).then(() => done(true))));
		document.readyState === "complete" ? later() : addEventListener("load", later);
	})`)
}

// id returns the click id that the page gets from the script, or "".
func (b *tab) id() string {
	b.w.t.Helper()
	return js[string](b, `window.__tributary.getClickId() || ""`)
}

// waitID waits until the script has a click id and returns it.
func (b *tab) waitID() string {
	b.w.t.Helper()
	b.wait(`window.__tributary && window.__tributary.getClickId && window.__tributary.getClickId()`)
	return b.id()
}

// waitCookie waits until the script's cookie is set and returns the click id.
func (b *tab) waitCookie() string {
	b.w.t.Helper()
	b.wait(`document.cookie.includes("` + cookieName + `=")`)
	return b.id()
}

// cookie returns the value of the script's cookie, read by the page, or "".
func (b *tab) cookie() string {
	b.w.t.Helper()
	return js[string](b, `(document.cookie.split("; ").find(c => c.startsWith("`+cookieName+`=")) || "").slice(`+strconv.Itoa(len(cookieName)+1)+`)`)
}

// cookies returns all cookies that the browser has for the page of the tab.
func (b *tab) cookies() []*network.Cookie {
	b.w.t.Helper()
	got, err := chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{})
	check(b.w.t, err)
	return got.Cookies
}

// storage returns the page's cookies, local storage and session storage as one text.
func (b *tab) storage() string {
	b.w.t.Helper()
	return js[string](b, `[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join(" ")`)
}

const emptyStorage = " {} {}"

// deleteCookies deletes all cookies of the page, as a visitor can do in the browser.
func (b *tab) deleteCookies() {
	b.w.t.Helper()
	for _, cookie := range b.cookies() {
		_, err := chromedp.Call(b.ctx, network.DeleteCookies, network.DeleteCookiesParams{Name: cookie.Name, Domain: cookie.Domain, Path: cookie.Path})
		check(b.w.t, err)
	}
	if left := b.cookies(); len(left) != 0 {
		b.w.t.Fatalf("cookies left: %v", left)
	}
}
