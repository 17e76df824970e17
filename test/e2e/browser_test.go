package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tributary-hq/tributary/tools/browser"
)

// user says how a test uses the pages: with the mouse, only with the keyboard, or on the
// screen of a phone.
type user struct {
	name     string
	width    int64
	keyboard bool
	axe      bool // whether a task also checks its pages with axe, which is slow
}

// users are all the ways in which people use the pages.
var users = []user{{name: "mouse", width: 1280, axe: true}, {name: "keyboard", width: 1280, keyboard: true}, {name: "phone", width: 360, axe: true}}

// tasks are what people do on the pages, by name.
type tasks []struct {
	name string
	do   func(ctx context.Context, t *testing.T, sys *system, u user)
}

// run does each task in each of the ways in which people use the pages. With -short it does each task
// in one way, by turns, and checks it with axe.
func (list tasks) run(ctx context.Context, t *testing.T, sys *system) {
	t.Helper()
	for i, task := range list {
		ways := users
		if testing.Short() {
			only := users[i%len(users)]
			only.axe = true
			ways = []user{only}
		}
		for _, u := range ways {
			t.Run(task.name+"/"+u.name, func(t *testing.T) { task.do(ctx, t, sys, u) })
		}
	}
}

// tab is a tab of the browser that shows one of the pages. It finds elements as screen readers
// do, by their role and their name. It fails the test if the page reports an error, breaks its
// Content-Security-Policy, requests another host, or is wider than the screen.
type tab struct {
	*testing.T
	ctx    context.Context
	user   user
	system *system

	mu     sync.Mutex
	faults []string
}

// startBrowser starts a browser for the test.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	ctx, stop, err := browser.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return ctx
}

// newTab opens an empty tab without the cookies of other tabs.
func newTab(ctx context.Context, t *testing.T, sys *system, u user) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return prepareTab(ctx, t, sys, u)
}

func prepareTab(ctx context.Context, t *testing.T, sys *system, u user) *tab {
	t.Helper()
	p := &tab{T: t, ctx: ctx, user: u, system: sys}
	err := chromedp.Listen(ctx, func(event any) {
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			p.fault("exception: %s", event.ExceptionDetails.Text)
		case *cdplog.EventEntryAdded:
			// The browser reports refused requests as errors. Pages cause them on purpose.
			if event.Entry.Level == cdplog.EntryLevelError && event.Entry.Source != cdplog.EntrySourceNetwork {
				p.fault("console: %s", event.Entry.Text)
			}
		case *network.EventRequestWillBeSent:
			if url := event.Request.URL; !strings.HasPrefix(url, sys.api+"/") && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") {
				p.fault("request to another host: %s", url)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.EmulateViewport(u.width, 800))
	command(p, cdplog.Enable, cdp.Empty{})
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, fault := range p.faults {
			t.Error(fault)
		}
	})
	return p
}

func (p *tab) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// open loads an address of the system.
func (p *tab) open(path string) {
	p.Helper()
	// The empty page in between makes the browser load an address again that differs only
	// in its fragment.
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.system.api+path))
	p.find("heading", "")
	eventually(p.T, waitTimeout, "the page is loaded", func() error {
		// The element is hidden at first, so it has no role.
		if loading := evaluate[int](p, `document.querySelectorAll("[role=status][aria-label=Loading]").length`); loading > 0 {
			return fmt.Errorf("%d parts are being loaded", loading)
		}
		return nil
	})
	p.wantFits()
}

// wantFits checks that the page is not wider than the screen.
func (p *tab) wantFits() {
	p.Helper()
	if width := evaluate[int64](p, `document.documentElement.scrollWidth`); width > p.user.width {
		widest := evaluate[[]string](p, `[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.outerHTML.slice(0, 150))`)
		p.Errorf("%s has a width of %d pixels, want at most %d, because of %q", evaluate[string](p, `location.pathname`), width, p.user.width, widest)
	}
	p.screenshot()
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// command sends a command of the DevTools protocol to the tab, and returns its result.
func command[P, R any](p *tab, c cdp.Command[P, R], params P) R {
	p.Helper()
	result, err := chromedp.Run(p.ctx, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) })
	if err != nil {
		p.Fatal(err)
	}
	return result
}

// query returns the elements with a role and a name. An empty name matches all names.
func (p *tab) query(role, name string) ([]cdp.BackendNodeID, error) {
	return chromedp.Run(p.ctx, func(ctx context.Context, t *chromedp.Target) ([]cdp.BackendNodeID, error) {
		document, err := cdp.Call(ctx, t, dom.GetDocument, dom.GetDocumentParams{})
		if err != nil {
			return nil, err
		}
		found, err := cdp.Call(ctx, t, accessibility.QueryAXTree, accessibility.QueryAXTreeParams{
			BackendNodeID: document.Root.BackendNodeID, Role: role, AccessibleName: name,
		})
		if err != nil {
			return nil, err
		}
		var nodes []cdp.BackendNodeID
		for _, node := range found.Nodes {
			if !node.Ignored {
				nodes = append(nodes, node.BackendDOMNodeID)
			}
		}
		return nodes, nil
	})
}

// find waits for the element with a role and a name, and returns it.
func (p *tab) find(role, name string) cdp.BackendNodeID {
	p.Helper()
	var found cdp.BackendNodeID
	eventually(p.T, waitTimeout, fmt.Sprintf("the page has a %s %q", role, name), func() error {
		nodes, err := p.query(role, name)
		if err != nil {
			return err
		}
		if len(nodes) == 0 {
			return fmt.Errorf("the page %s shows:\n%s", evaluate[string](p, `location.pathname`), evaluate[string](p, `document.body.innerText`))
		}
		found = nodes[0]
		return nil
	})
	return found
}

// call calls a JavaScript function with an element as this, and returns its result.
func call[T any](p *tab, node cdp.BackendNodeID, function string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, func(ctx context.Context, t *chromedp.Target) (value T, err error) {
		resolved, err := cdp.Call(ctx, t, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: node})
		if err != nil {
			return value, err
		}
		result, err := cdp.Call(ctx, t, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			ObjectID: resolved.Object.ObjectID, FunctionDeclaration: function, ReturnByValue: new(true),
		})
		if err != nil {
			return value, err
		}
		return value, json.Unmarshal(result.Result.Value, &value)
	})
	if err != nil {
		p.Fatal(err)
	}
	return value
}

// press activates a button, link, tab, menu item or option: with a click, or with the keyboard
// by moving the focus to it and pressing a key.
func (p *tab) press(role, name string) {
	p.Helper()
	node := p.find(role, name)
	if !p.user.keyboard {
		p.click(node)
		return
	}
	switch role {
	case "menuitem", "option":
		p.moveTo(node, kb.ArrowDown)
	case "radio":
		p.moveTo(node, kb.ArrowDown)
		p.do(chromedp.KeyEvent(" "))
		return
	default:
		p.moveTo(node, kb.Tab)
	}
	// The focus moves when an option is chosen, and the browser sends the rest of Enter to the
	// element that gets it.
	if role == "checkbox" || role == "switch" || role == "option" {
		p.do(chromedp.KeyEvent(" "))
		return
	}
	p.do(chromedp.KeyEvent(kb.Enter))
}

// click clicks the middle of an element.
func (p *tab) click(node cdp.BackendNodeID) {
	p.Helper()
	at := call[[]float64](p, node, `function() {
		this.scrollIntoView({block: "center", behavior: "instant"});
		const box = (this.closest("label") ?? this).getBoundingClientRect();
		return [box.x + box.width / 2, box.y + box.height / 2];
	}`)
	p.do(chromedp.MouseClickXY(at[0], at[1]))
}

// maxSteps is the maximum number of keys that lead to an element.
const maxSteps = 150

// moveTo presses a key until an element has the focus.
func (p *tab) moveTo(node cdp.BackendNodeID, key string) {
	p.Helper()
	const hasFocus = `function() { return document.activeElement === this || (this.tagName === "LABEL" && this.contains(document.activeElement)); }`
	if key == kb.ArrowDown && call[string](p, node, `function() { return this.type ?? ""; }`) == "radio" {
		// The group has one stop of the tab key.
		p.tabUntil(node, `function() { return document.activeElement.name === this.name; }`)
	}
	for range maxSteps {
		if call[bool](p, node, hasFocus) {
			return
		}
		p.do(chromedp.KeyEvent(key))
	}
	p.Fatalf("%d times %q did not move the focus to the element", maxSteps, key)
}

func (p *tab) tabUntil(node cdp.BackendNodeID, reached string) {
	p.Helper()
	for range maxSteps {
		if call[bool](p, node, reached) {
			return
		}
		p.do(chromedp.KeyEvent(kb.Tab))
	}
	p.Fatalf("the tab key does not reach the element")
}

// fill replaces the text of a field.
func (p *tab) fill(name, text string) {
	p.Helper()
	node := p.find("textbox", name)
	if p.user.keyboard {
		p.moveTo(node, kb.Tab)
	} else {
		p.click(node)
	}
	call[bool](p, node, `function() { this.select(); return true; }`)
	p.do(chromedp.KeyEvent(kb.Delete))
	if text != "" {
		command(p, input.InsertText, input.InsertTextParams{Text: text})
	}
}

// wantText waits until the page shows a text.
func (p *tab) wantText(want string) {
	p.Helper()
	eventually(p.T, waitTimeout, fmt.Sprintf("the page shows %q", want), func() error {
		if text := evaluate[string](p, `document.body.innerText`); !strings.Contains(text, want) {
			return fmt.Errorf("the page %s shows:\n%s", evaluate[string](p, `location.pathname`), text)
		}
		return nil
	})
	p.wantFits()
}

// wantFault waits until a field has a fault that contains a text.
func (p *tab) wantFault(name, want string) {
	p.Helper()
	eventually(p.T, waitTimeout, fmt.Sprintf("the field %q has the fault %q", name, want), func() error {
		nodes, err := p.query("textbox", name)
		if err != nil {
			return err
		}
		if len(nodes) == 0 {
			return errors.New("there is no such field")
		}
		got := call[string](p, nodes[0], `function() {
			const ids = (this.getAttribute("aria-describedby") ?? "").split(" ");
			return this.getAttribute("aria-invalid") + ": " + ids.map((id) => document.getElementById(id)?.innerText ?? "").join(" ");
		}`)
		if !strings.HasPrefix(got, "true: ") || !strings.Contains(got, want) {
			return fmt.Errorf("aria-invalid and the descriptions are %q", got)
		}
		return nil
	})
}

// wantPath waits until the page has an address.
func (p *tab) wantPath(want string) {
	p.Helper()
	eventually(p.T, waitTimeout, "the address is "+want, func() error {
		if path := evaluate[string](p, `location.pathname`); path != want {
			return fmt.Errorf("the address is %s", path)
		}
		return nil
	})
}

// setAppearance makes the browser prefer light or dark.
func (p *tab) setAppearance(scheme string) {
	p.Helper()
	command(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// wantAccessible checks the page with axe, in light and dark.
func (p *tab) wantAccessible() {
	p.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.wantAccessibleIn(scheme)
	}
}

// wantAccessibleTask checks the page with axe if the user does.
func (p *tab) wantAccessibleTask() {
	p.Helper()
	if p.user.axe {
		p.wantAccessible()
	}
}

func (p *tab) wantAccessibleIn(scheme string) {
	p.Helper()
	p.setAppearance(scheme)
	if !evaluate[bool](p, `"axe" in window`) {
		evaluate[bool](p, read(p.T, "../../web/node_modules/axe-core/axe.min.js")+"; true")
	}
	// React Aria reads changes aloud in an element that keeps references to elements that are gone.
	violations := evaluate[[]string](p, `axe.run({exclude: [["[data-live-announcer]"]]}).then(({violations}) => violations.flatMap(
		({id, nodes}) => nodes.map((node) => id + ": " + node.html + " " + node.failureSummary)))`)
	for _, violation := range violations {
		p.Errorf("%s, %s, %d px: %s", evaluate[string](p, `location.pathname`), scheme, p.user.width, violation)
	}
}

// screenshot writes a picture of the page to the folder in PAGE_PICTURES, if it is set.
func (p *tab) screenshot() {
	p.Helper()
	folder := os.Getenv("PAGE_PICTURES")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.Fatal(err)
	}
	name := fmt.Sprintf("%s-%d.png", strings.ReplaceAll(p.Name(), "/", "-"), uniqueCounter.Add(1))
	if err := os.WriteFile(filepath.Join(folder, name), picture, 0o600); err != nil {
		p.Fatal(err)
	}
}

// evaluate returns the value of a JavaScript expression in the page. If the value is a promise,
// it waits for it.
func evaluate[T any](p *tab, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatal(err)
	}
	return value
}
