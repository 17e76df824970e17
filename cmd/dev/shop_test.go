package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// screenshotVariable is an environment variable. If it is set, the test writes the screenshot
// of the shop for README.md.
const screenshotVariable = "UPDATE_SCREENSHOT"

// buyInTheShop opens the partner's link in a browser and buys the product twice: with the
// shop's own button and through the Payment Link. It checks that the page shows the
// commissions, and that the partner's page shows them too.
func buyInTheShop(t *testing.T, values map[string]string) {
	t.Helper()
	p := browsertest.NewTab(browsertest.Start(t), t, browsertest.User{Width: 820}, demoOrigins(values)...)
	p.Do(chromedp.EmulateViewport(820, 700))
	p.Do(chromedp.Navigate(values["TRIBUTARY_SHOP_URL"] + "/"))
	waitForElement(p, "#visitor", "No partner sent you")
	p.Do(chromedp.Navigate(values["TRIBUTARY_SHOP_URL"] + "/?via=" + values[referralCodeName]))
	const partOfAnyID = "-"
	click := waitForElement(p, "#click", partOfAnyID)
	p.Do(chromedp.Click(chromedp.CSS("#buy")))
	waitForElement(p, "#commission", "9.80 USD")
	if again := waitForElement(p, "#click", partOfAnyID); again != click {
		t.Errorf("after the purchase the page shows the click %s, want %s as before", again, click)
	}
	picture, err := chromedp.Run(p.Page, chromedp.FullScreenshot(100))
	if err != nil || len(picture) == 0 {
		t.Fatalf("the screenshot has %d bytes: %v", len(picture), err)
	}
	if os.Getenv(screenshotVariable) != "" {
		if err := os.WriteFile(filepath.Join(root, "docs", "shop.png"), picture, 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}

	p.Do(chromedp.Navigate(values["TRIBUTARY_SHOP_URL"] + "/"))
	waitForElement(p, "#click", click)
	waitForElement(p, "#note", "Nothing was bought yet")
	p.Do(chromedp.Click(chromedp.CSS("#pay")))
	waitForElement(p, "#reference", "client_reference_id="+click)
	p.Do(chromedp.Click(chromedp.CSS("#complete")))
	waitForElement(p, "#commission", "9.80 USD")
	waitForElement(p, "#click", click)

	// The partner's page of the merchant's app shows both commissions and creates a link.
	p.Do(chromedp.Navigate(values["TRIBUTARY_SHOP_URL"] + "/partner"))
	waitForElement(p, "#link", "via="+values[referralCodeName])
	waitForElement(p, "#earned", "$")
	if earned := waitForElement(p, "#detail", "sales after"); strings.HasPrefix(earned, "0 sales") {
		t.Errorf("the partner's page shows %q, want the sales of the shop", earned)
	}
	waitForElement(p, "#links", "You have 1 links.")
	p.Do(chromedp.Click(chromedp.CSS("#create")))
	waitForElement(p, "#links", "You have 2 links.")
}
