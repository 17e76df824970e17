package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// buyThroughThePortal copies the partner's link in the portal, buys in the demo shop through it, and
// looks at the commission in the portal: with the mouse, with the keyboard, and on a phone.
func buyThroughThePortal(t *testing.T, values map[string]string) {
	t.Helper()
	if page := get(t, values[programPageName]); !strings.Contains(page, "<title>Demo programme · Demo shop</title>") {
		t.Errorf("GET %s does not return the page of the demo's programme:\n%s", values[programPageName], page)
	}
	for _, u := range browsertest.Users() {
		t.Run(u.Name, func(t *testing.T) {
			p := browsertest.NewTab(browsertest.Start(t), t, u, demoOrigins(values)...)
			window := browsertest.Command(p, target.GetTargetInfo, target.GetTargetInfoParams{}).TargetInfo.BrowserContextID
			for _, permission := range []string{"clipboard-write", "clipboard-read"} {
				browsertest.Command(p, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
					Permission: &cdpbrowser.PermissionDescriptor{Name: permission}, Setting: cdpbrowser.PermissionSettingGranted,
					BrowserContextID: window,
				})
			}
			p.Do(chromedp.Navigate(values["TRIBUTARY_API_URL"] + "/portal/test"))
			p.Fill("E-mail address", values[partnerEmailName])
			p.Fill("Password", values[partnerPasswordName])
			p.Press("button", "Log in")
			p.Press("link", "Links")
			p.Press("button", "Copy")
			p.Find("button", "Copied")
			p.Do(chromedp.Navigate(browsertest.Evaluate[string](p, `navigator.clipboard.readText()`)))
			p.WaitFor("the shop knows the click", `document.getElementById("click")`)
			p.Press("button", "Buy")
			waitForElement(p, "#commission", "9.80 USD")

			var newest struct {
				Data []struct{ ID, Explanation string } `json:"data"`
			}
			partner := loginAs(t, values, "partner", values[partnerEmailName], values[partnerPasswordName]).withMode("test")
			if err := partner.call(t.Context(), http.MethodGet, "/api/v1/partner/commissions?pageSize=1", nil, &newest); err != nil || len(newest.Data) != 1 {
				t.Fatalf("GET /partner/commissions returned %v, %v; want the newest commission", newest, err)
			}
			p.Do(chromedp.Navigate(values["TRIBUTARY_API_URL"] + "/portal/test"))
			p.Press("link", "Commissions")
			p.WaitFor("the list has the commission", `document.querySelector("td a")?.href.endsWith("/`+newest.Data[0].ID+`")`)
			p.Press("link", browsertest.Evaluate[string](p, `document.querySelector("td a").innerText`))
			p.WaitForText("20% of $49.00 = $9.80")
			p.WaitForText(newest.Data[0].Explanation)
		})
	}
}

// demoOrigins returns the origins of the demo's pages. The shop has two: its Payment Link is at
// another name of the host.
func demoOrigins(values map[string]string) []string {
	shop := values["TRIBUTARY_SHOP_URL"]
	return []string{
		values["TRIBUTARY_API_URL"], values["TRIBUTARY_COLLECTOR_URL"], values["TRIBUTARY_LANDING_URL"],
		shop, "http://" + otherName(strings.TrimPrefix(shop, "http://")),
	}
}

// waitForElement waits until an element contains a text, and returns its content.
func waitForElement(p *browsertest.Tab, selector, want string) string {
	p.Helper()
	content := fmt.Sprintf(`(document.querySelector(%q)?.textContent ?? "")`, selector)
	p.WaitFor(fmt.Sprintf("%s contains %q", selector, want), fmt.Sprintf("%s.includes(%q)", content, want))
	return browsertest.Evaluate[string](p, content)
}
