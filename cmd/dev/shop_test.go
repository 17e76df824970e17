package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/tools/browser"
)

// screenshotVariable is an environment variable. If it is set, the test writes the screenshot
// of the shop for README.md.
const screenshotVariable = "UPDATE_SCREENSHOT"

// shopTimeout is the maximum time of one step. It is long because other tests run at the
// same time.
const shopTimeout = 30 * time.Second

// buyInTheShop opens the partner's link in a browser and buys the product twice: with the
// shop's own button and through the Payment Link. It checks that the page shows the
// commissions, and that the partner's page shows them too.
func buyInTheShop(t *testing.T, values map[string]string) {
	t.Helper()
	ctx, stop, err := browser.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	tab, leave := chromedp.NewContext(ctx)
	defer leave()
	step := func(action chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(tab, action); err != nil {
			t.Fatal(err)
		}
	}
	// waitForText waits until the element contains a text, and returns the content of the
	// element.
	waitForText := func(selector, want string) string {
		t.Helper()
		script := fmt.Sprintf("(document.querySelector(%q) || {}).textContent || ''", selector)
		for deadline := time.Now().Add(shopTimeout); ; time.Sleep(20 * time.Millisecond) {
			// The script fails while the browser loads another page.
			text, err := chromedp.Run(tab, chromedp.Evaluate[string](script))
			if err == nil && text != "" && strings.Contains(text, want) {
				return text
			}
			if time.Now().After(deadline) {
				t.Fatalf("the element %s contains %q (error %v), want %q", selector, text, err, want)
			}
		}
	}

	step(chromedp.EmulateViewport(820, 700))
	step(chromedp.Navigate(values["TRIBUTARY_SHOP_URL"] + "/"))
	waitForText("#visitor", "No partner sent you")
	step(chromedp.Navigate(values["TRIBUTARY_SHOP_URL"] + "/?via=" + values[referralCodeName]))
	const partOfAnyID = "-"
	click := waitForText("#click", partOfAnyID)
	step(chromedp.Click(chromedp.CSS("#buy")))
	waitForText("#commission", "9.80 USD")
	if again := waitForText("#click", partOfAnyID); again != click {
		t.Errorf("after the purchase the page shows the click %s, want %s as before", again, click)
	}
	picture, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
	if err != nil || len(picture) == 0 {
		t.Fatalf("the screenshot has %d bytes: %v", len(picture), err)
	}
	if os.Getenv(screenshotVariable) != "" {
		if err := os.WriteFile(filepath.Join(root, "docs", "shop.png"), picture, 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}

	step(chromedp.Navigate(values["TRIBUTARY_SHOP_URL"] + "/"))
	waitForText("#click", click)
	waitForText("#note", "Nothing was bought yet")
	step(chromedp.Click(chromedp.CSS("#pay")))
	waitForText("#reference", "client_reference_id="+click)
	step(chromedp.Click(chromedp.CSS("#complete")))
	waitForText("#commission", "9.80 USD")
	waitForText("#click", click)

	// The partner's page of the merchant's app shows both commissions and creates a link.
	step(chromedp.Navigate(values["TRIBUTARY_SHOP_URL"] + "/partner"))
	waitForText("#link", "via="+values[referralCodeName])
	waitForText("#earned", "$")
	if earned := waitForText("#detail", "sales after"); strings.HasPrefix(earned, "0 sales") {
		t.Errorf("the partner's page shows %q, want the sales of the shop", earned)
	}
	waitForText("#links", "You have 1 links.")
	step(chromedp.Click(chromedp.CSS("#create")))
	waitForText("#links", "You have 2 links.")
}
