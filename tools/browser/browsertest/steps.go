package browsertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Do runs actions in the tab.
func (p *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.Page, actions...); err != nil {
		p.Fatal(err)
	}
}

// Command sends a command of the DevTools protocol to the tab, and returns its result.
func Command[P, R any](p *Tab, c cdp.Command[P, R], params P) R {
	p.Helper()
	result, err := chromedp.Run(p.Page, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) })
	if err != nil {
		p.Fatal(err)
	}
	return result
}

// Evaluate returns the value of a JavaScript expression in the page. If the value is a promise,
// it waits for it.
func Evaluate[T any](p *Tab, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.Page, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatal(err)
	}
	return value
}

// Call calls a JavaScript function with an element as this, and returns its result.
func Call[T any](p *Tab, node cdp.BackendNodeID, function string) T {
	p.Helper()
	value, err := call[T](p, node, function)
	if err != nil {
		p.Fatal(err)
	}
	return value
}

func call[T any](p *Tab, node cdp.BackendNodeID, function string) (T, error) {
	return chromedp.Run(p.Page, func(ctx context.Context, t *chromedp.Target) (value T, err error) {
		resolved, err := cdp.Call(ctx, t, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: node})
		if err != nil {
			return value, err
		}
		result, err := cdp.Call(ctx, t, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			ObjectID: resolved.Object.ObjectID, FunctionDeclaration: function, ReturnByValue: new(true), AwaitPromise: new(true),
		})
		if err != nil {
			return value, err
		}
		if result.ExceptionDetails != nil {
			return value, &chromedp.ExceptionError{ExceptionDetails: result.ExceptionDetails}
		}
		return value, json.Unmarshal(result.Result.Value, &value)
	})
}

// Query returns the elements with a role and a name. An empty name matches all names.
func (p *Tab) Query(role, name string) ([]cdp.BackendNodeID, error) {
	return chromedp.Run(p.Page, func(ctx context.Context, t *chromedp.Target) ([]cdp.BackendNodeID, error) {
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

// Find waits for the element with a role and a name, and returns it.
func (p *Tab) Find(role, name string) cdp.BackendNodeID {
	p.Helper()
	var found cdp.BackendNodeID
	p.Eventually(fmt.Sprintf("the page has a %s %q", role, name), func() error {
		nodes, err := p.Query(role, name)
		if err != nil {
			return err
		}
		if len(nodes) == 0 {
			return p.shown()
		}
		found = nodes[0]
		return nil
	})
	return found
}

// shown returns an error that says what the page shows.
func (p *Tab) shown() error {
	shown, err := chromedp.Run(p.Page, chromedp.Evaluate[string](`location.pathname + " shows:\n" + document.body.innerText`))
	if err != nil {
		return err
	}
	return errors.New(shown)
}

// WaitFor waits until a JavaScript expression is true. The expression may fail while the browser
// loads a page.
func (p *Tab) WaitFor(description, expression string) {
	p.Helper()
	p.Eventually(description, func() error {
		ok, err := chromedp.Run(p.Page, chromedp.Evaluate[bool](fmt.Sprintf("Boolean(%s)", expression)))
		if err == nil && !ok {
			err = p.shown()
		}
		return err
	})
}

// WaitForText waits until the page shows a text.
func (p *Tab) WaitForText(want string) {
	p.Helper()
	quoted, err := json.Marshal(want)
	if err != nil {
		p.Fatal(err)
	}
	p.WaitFor(fmt.Sprintf("the page shows %q", want), fmt.Sprintf("document.body.innerText.includes(%s)", quoted))
}

// Press activates a button, link, tab, menu item or option: with a click, or with the keyboard
// by moving the focus to it and pressing a key.
func (p *Tab) Press(role, name string) {
	p.Helper()
	if !p.User.Keyboard {
		p.click(role, name)
		return
	}
	switch role {
	case "menuitem", "option":
		p.moveTo(role, name, kb.ArrowDown)
	case "radio":
		p.moveTo(role, name, kb.ArrowDown)
		p.Do(chromedp.KeyEvent(" "))
		return
	default:
		p.moveTo(role, name, kb.Tab)
	}
	// The focus moves when an option is chosen, and the browser sends the rest of Enter to the
	// element that gets it.
	if role == "checkbox" || role == "switch" || role == "option" {
		p.Do(chromedp.KeyEvent(" "))
		return
	}
	p.Do(chromedp.KeyEvent(kb.Enter))
}

// middle is a function of JavaScript that returns the middle of an element, or of its first line.
// It throws if the element moves, as it does while the page is being loaded, or is gone.
const middle = `async function() {
	const find = () => {
		this.scrollIntoView({block: "center", behavior: "instant"});
		const box = (this.closest("label") ?? this).getClientRects()[0];
		return [box.x + box.width / 2, box.y + box.height / 2];
	};
	const before = find();
	await new Promise((done) => setTimeout(done, 20));
	const now = find();
	if (now.join() !== before.join()) throw new Error("it moves");
	return now;
}`

// click clicks the middle of the element with a role and a name.
func (p *Tab) click(role, name string) {
	p.Helper()
	var at []float64
	p.Eventually(fmt.Sprintf("the %s %q can be clicked", role, name), func() (err error) {
		at, err = call[[]float64](p, p.Find(role, name), middle)
		return err
	})
	p.Do(chromedp.MouseClickXY(at[0], at[1]))
}

// moveTo presses a key until the element with a role and a name has the focus.
func (p *Tab) moveTo(role, name, key string) {
	p.Helper()
	node := p.Find(role, name)
	if role == "radio" {
		// The group has one stop of the tab key.
		p.pressUntil(node, kb.Tab, `function() { return document.activeElement.name === this.name; }`)
	}
	p.pressUntil(node, key, `function() { return document.activeElement === this || (this.tagName === "LABEL" && this.contains(document.activeElement)); }`)
}

// pressUntil presses a key until a function of an element returns true.
func (p *Tab) pressUntil(node cdp.BackendNodeID, key, reached string) {
	p.Helper()
	const maxSteps = 150
	for range maxSteps {
		if Call[bool](p, node, reached) {
			return
		}
		p.Do(chromedp.KeyEvent(key))
	}
	p.Fatalf("%d times %q did not move the focus to %s, but to %s", maxSteps, key,
		Call[string](p, node, `function() { return this.outerHTML; }`), Evaluate[string](p, `document.activeElement.outerHTML`))
}

// Fill replaces the text of a field.
func (p *Tab) Fill(name, text string) {
	p.Helper()
	if p.User.Keyboard {
		p.moveTo("textbox", name, kb.Tab)
	} else {
		p.click("textbox", name)
	}
	Call[bool](p, p.Find("textbox", name), `function() { this.select(); return true; }`)
	p.Do(chromedp.KeyEvent(kb.Delete))
	if text != "" {
		Command(p, input.InsertText, input.InsertTextParams{Text: text})
	}
}

// Choose types a text into a field that finds records, and chooses the only record that it offers.
func (p *Tab) Choose(name, text string) {
	p.Helper()
	if p.User.Keyboard {
		p.moveTo("combobox", name, kb.Tab)
	} else {
		p.click("combobox", name)
	}
	Command(p, input.InsertText, input.InsertTextParams{Text: text})
	p.Eventually(fmt.Sprintf("the field %q offers one record", name), func() error {
		options, err := p.Query("option", "")
		if err == nil && len(options) != 1 {
			err = fmt.Errorf("it offers %d", len(options))
		}
		return err
	})
	p.Do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
}
