package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/tributary-hq/tributary/tools/browser"
)

// buyThroughThePortal copies the partner's link in the portal, buys in the demo shop through it, and
// looks at the commission in the portal: with the mouse, with the keyboard, and on a phone.
func buyThroughThePortal(t *testing.T, values map[string]string) {
	t.Helper()
	if page := get(t, values[programPageName]); !strings.Contains(page, "<title>Demo programme · Demo shop</title>") {
		t.Errorf("GET %s does not return the page of the demo's programme:\n%s", values[programPageName], page)
	}
	for _, v := range []visitor{{name: "mouse", width: 1280}, {name: "keyboard", width: 1280, keyboard: true}, {name: "phone", width: 360}} {
		t.Run(v.name, func(t *testing.T) {
			ctx, stop, err := browser.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			tab, leave := chromedp.NewContext(ctx)
			defer leave()
			v.T, v.tab = t, tab
			v.buy(values)
		})
	}
}

// buy buys through the link of the portal, and looks at the commission.
func (v visitor) buy(values map[string]string) {
	v.Helper()
	v.do(chromedp.EmulateViewport(v.width, 800))
	v.allow("clipboard-write")
	v.allow("clipboard-read")
	v.do(chromedp.Navigate(values["TRIBUTARY_API_URL"] + "/portal/test"))
	v.fill("E-mail address", values[partnerEmailName])
	v.fill("Password", values[partnerPasswordName])
	v.press("Log in")
	v.press("Links")
	v.press("Copy")
	v.waitFor("the link is copied", `find("Copied")`)
	v.do(chromedp.Navigate(v.value(`navigator.clipboard.readText()`)))
	v.waitFor("the shop knows the click", `document.getElementById("click")`)
	v.press("Buy")
	v.waitFor("the purchase has a commission", `document.getElementById("commission").textContent.includes("9.80 USD")`)

	var newest struct {
		Data []struct{ ID, Explanation string } `json:"data"`
	}
	partner := loginAs(v.T, values, "partner", values[partnerEmailName], values[partnerPasswordName]).withMode("test")
	if err := partner.call(v.Context(), http.MethodGet, "/api/v1/partner/commissions?pageSize=1", nil, &newest); err != nil || len(newest.Data) != 1 {
		v.Fatalf("GET /partner/commissions returned %v, %v; want the newest commission", newest, err)
	}
	v.do(chromedp.Navigate(values["TRIBUTARY_API_URL"] + "/portal/test"))
	v.press("Commissions")
	v.waitFor("the list has the commission", `document.querySelector("td a")?.href.endsWith("/`+newest.Data[0].ID+`")`)
	v.press(v.value(`document.querySelector("td a").innerText`))
	v.waitFor("the calculation is shown", `document.body.innerText.includes("20% of $49.00 = $9.80")`)
	reason, _ := json.Marshal(newest.Data[0].Explanation)
	v.waitFor("the explanation is shown", fmt.Sprintf(`document.body.innerText.includes(%s)`, reason))
}

// visitor uses a page in one way.
type visitor struct {
	*testing.T
	name     string
	tab      context.Context
	width    int64
	keyboard bool
}

// find is a function of JavaScript that returns the visible control with a name.
const find = `const find = (name) => [...document.querySelectorAll("a, button, input")].find((element) => element.checkVisibility() &&
	[element.ariaLabel, element.labels?.[0]?.innerText, element.innerText].some((text) => text?.trim() === name));`

func (v visitor) do(action chromedp.Action[chromedp.Void]) {
	v.Helper()
	if err := chromedp.Do(v.tab, action); err != nil {
		v.Fatalf("%s: %v", v.name, err)
	}
}

// allow gives all pages a permission that a person would be asked for.
func (v visitor) allow(permission string) {
	v.Helper()
	params := cdpbrowser.SetPermissionParams{
		Permission: &cdpbrowser.PermissionDescriptor{Name: permission}, Setting: cdpbrowser.PermissionSettingGranted,
	}
	if _, err := chromedp.Run(v.tab, func(ctx context.Context, t *chromedp.Target) (cdp.Empty, error) {
		return cdp.Call(ctx, t, cdpbrowser.SetPermission, params)
	}); err != nil {
		v.Fatalf("%s: %v", v.name, err)
	}
}

// waitFor waits until an expression is true. The expression fails while the browser loads a page.
func (v visitor) waitFor(what, expression string) {
	v.Helper()
	for deadline := time.Now().Add(shopTimeout); ; time.Sleep(20 * time.Millisecond) {
		ok, err := chromedp.Run(v.tab, chromedp.Evaluate[bool](fmt.Sprintf("(() => { %s return Boolean(%s); })()", find, expression)))
		if err == nil && ok {
			return
		}
		if time.Now().After(deadline) {
			v.Fatalf("%s: not after %s: %s (error %v); the page shows:\n%s", v.name, shopTimeout, what, err, v.value(`document.body.innerText`))
		}
	}
}

func (v visitor) value(expression string) string {
	v.Helper()
	value, err := chromedp.Run(v.tab, chromedp.Evaluate[string](fmt.Sprintf("(() => { %s return %s; })()", find, expression), chromedp.EvalAwaitPromise))
	if err != nil {
		v.Fatalf("%s: %s: %v", v.name, expression, err)
	}
	return value
}

// reach clicks the control with a name, or moves the focus to it with the tab key.
func (v visitor) reach(name string) {
	v.Helper()
	quoted, _ := json.Marshal(name)
	v.waitFor("there is "+name, fmt.Sprintf("find(%s)", quoted))
	if !v.keyboard {
		var at [2]float64
		// The page may still move while it is being loaded.
		for box, before := "", "-"; box != before; time.Sleep(20 * time.Millisecond) {
			before = box
			box = v.value(fmt.Sprintf(`(() => {
				const element = find(%s);
				element.scrollIntoView({ block: "center", behavior: "instant" });
				const box = element.getBoundingClientRect();
				return JSON.stringify([box.x + box.width / 2, box.y + box.height / 2]);
			})()`, quoted))
			if err := json.Unmarshal([]byte(box), &at); err != nil {
				v.Fatal(err)
			}
		}
		v.do(chromedp.MouseClickXY(at[0], at[1]))
		return
	}
	var passed []string
	for range 100 {
		if v.value(fmt.Sprintf(`String(document.activeElement === find(%s))`, quoted)) == "true" {
			return
		}
		v.do(chromedp.KeyEvent(kb.Tab))
		passed = append(passed, v.value(`document.activeElement.innerText`))
	}
	v.Fatalf("the tab key does not reach %s, but only %s", name, strings.Join(passed, ", "))
}

func (v visitor) press(name string) {
	v.Helper()
	v.reach(name)
	if v.keyboard {
		v.do(chromedp.KeyEvent(kb.Enter))
	}
}

func (v visitor) fill(name, text string) {
	v.Helper()
	v.reach(name)
	v.do(chromedp.KeyEvent(text))
}
