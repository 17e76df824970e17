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

// started is the one browser of this run. It starts with the first test that
// needs it.
var started struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func start() {
	started.ctx, started.stop, started.err = browser.Start(context.Background()) //nolint:fatcontext // once, for all tests
}

func TestMain(m *testing.M) {
	code := m.Run()
	if started.stop != nil {
		started.stop()
	}
	os.Exit(code)
}

// visitor is a person with cookies and storage of her own. What goes on in her
// tabs is watched: no page may throw.
type visitor struct {
	w     *world
	ctx   context.Context // of her first tab
	leave func()
	tabs  int
	set   []string // run before any script of a page
}

// visitor makes a new one. The one before has left by then: every tab costs the
// browser processes.
func (w *world) visitor(initial ...string) *visitor {
	w.t.Helper()
	started.once.Do(start)
	if started.err != nil {
		w.t.Fatal(started.err)
	}
	if w.last != nil {
		w.last.leave()
	}
	ctx, leave := chromedp.NewContext(started.ctx, chromedp.WithNewBrowserContext())
	w.t.Cleanup(leave)
	w.last = &visitor{w: w, ctx: ctx, leave: leave, set: append(initial, patient)}
	if w.impatient {
		w.last.set = initial
	}
	return w.last
}

// patient stretches the script's 3 s: the tests' machine may be busier than any
// network is slow.
const patient = `{ const wait = setTimeout; window.setTimeout = (run, ms, ...rest) => wait(run, ms === 3000 ? 60000 : ms, ...rest) }`

// tab is one tab of a visitor. A test calls its methods one at a time.
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
	// Tabs that nobody looks at are slowed down by the browser.
	_, err = chromedp.Call(b.ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	check(t, err)
	for _, source := range v.set {
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
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		b.w.t.Fatalf("%s: %v", url, err)
	}
}

// requests are those that pages of this tab have begun since its start, besides
// the test's own probes and the icon that a browser asks for by itself.
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

// clicks counts the clicks that pages of this tab have begun to send. Beside
// world.clicks it needs no wait: what began before settle ends is counted.
func (b *tab) clicks() int {
	n := 0
	for _, line := range b.requests() {
		if strings.HasPrefix(line, "POST ") && strings.HasSuffix(line, clicksPath) {
			n++
		}
	}
	return n
}

// exceptions are what pages of this tab threw and nobody caught, since the last
// call.
func (b *tab) exceptions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	thrown := b.thrown
	b.thrown = nil
	return thrown
}

// js evaluates an expression, and awaits it when it is a promise.
func js[T any](b *tab, expression string) T {
	b.w.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
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
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		value, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		return err == nil && value
	})
}

// settle returns when the page has loaded, what it had to do has been done, and a
// request of the test's own that started after that has been answered: whatever
// the script sends on landing has started before.
func (b *tab) settle() {
	b.w.t.Helper()
	js[bool](b, `new Promise(done => {
		const later = () => setTimeout(() => setTimeout(() => fetch("/probe", {cache: "no-store"}).then(() => done(true))));
		document.readyState === "complete" ? later() : addEventListener("load", later);
	})`)
}

// id is what the page's own code gets from the script.
func (b *tab) id() string {
	b.w.t.Helper()
	return js[string](b, `window.__tributary.getClickId() || ""`)
}

// waitID waits for the click's answer.
func (b *tab) waitID() string {
	b.w.t.Helper()
	b.wait(`window.__tributary && window.__tributary.getClickId && window.__tributary.getClickId()`)
	return b.id()
}

// landed waits until a click is answered and kept.
func (b *tab) landed() string {
	b.w.t.Helper()
	b.wait(`document.cookie.includes("` + cookieName + `=")`)
	return b.id()
}

// cookie is the script's cookie as a page sees it, "" when there is none.
func (b *tab) cookie() string {
	b.w.t.Helper()
	return js[string](b, `(document.cookie.split("; ").find(c => c.startsWith("`+cookieName+`=")) || "").slice(`+strconv.Itoa(len(cookieName)+1)+`)`)
}

// cookies are all that the browser keeps for the tab's page.
func (b *tab) cookies() []*network.Cookie {
	b.w.t.Helper()
	got, err := chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{})
	check(b.w.t, err)
	return got.Cookies
}

// kept says whether the page keeps anything: cookies, local or session storage.
func (b *tab) kept() string {
	b.w.t.Helper()
	return js[string](b, `[document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)].join(" ")`)
}

const nothingKept = " {} {}"

// forgetCookies deletes what the visitor's browser keeps, as a person does.
func (b *tab) forgetCookies() {
	b.w.t.Helper()
	for _, cookie := range b.cookies() {
		_, err := chromedp.Call(b.ctx, network.DeleteCookies, network.DeleteCookiesParams{Name: cookie.Name, Domain: cookie.Domain, Path: cookie.Path})
		check(b.w.t, err)
	}
	if left := b.cookies(); len(left) != 0 {
		b.w.t.Fatalf("cookies left: %v", left)
	}
}
