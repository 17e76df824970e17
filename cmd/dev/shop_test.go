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

// screenshotName makes the test write README's picture of the shop.
const screenshotName = "UPDATE_SCREENSHOT"

// shopWithin limits one step. Other tests run at the same time.
const shopWithin = 30 * time.Second

// buyInTheShop opens the partner's link in a browser, buys, and checks that the page shows
// the commission.
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
	// shows waits for a text on the page.
	shows := func(selector, wanted string) string {
		t.Helper()
		script := fmt.Sprintf("(document.querySelector(%q) || {}).textContent || ''", selector)
		for deadline := time.Now().Add(shopWithin); ; time.Sleep(20 * time.Millisecond) {
			// During a navigation there is no document to query.
			text, err := chromedp.Run(tab, chromedp.Evaluate[string](script))
			if err == nil && text != "" && strings.Contains(text, wanted) {
				return text
			}
			if time.Now().After(deadline) {
				t.Fatalf("the shop does not show %q at %s: %q, %v", wanted, selector, text, err)
			}
		}
	}

	step(chromedp.EmulateViewport(820, 700))
	step(chromedp.Navigate(values["TRIBUTARY_SHOP_URL"] + "/"))
	shows("#visitor", "Nobody sent you")
	step(chromedp.Navigate(values["TRIBUTARY_SHOP_URL"] + "/?via=" + values[referralCodeName]))
	click := shows("#click", "-")
	step(chromedp.Click(chromedp.CSS("#buy")))
	shows("#commission", "9.80 USD")
	if again := shows("#click", "-"); again != click {
		t.Errorf("the click was %s when the visitor landed and is %s after the purchase", click, again)
	}
	picture, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
	if err != nil || len(picture) == 0 {
		t.Fatalf("a picture of %d bytes: %v", len(picture), err)
	}
	if os.Getenv(screenshotName) == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(root, "docs", "shop.png"), picture, 0o644); err != nil { //nolint:gosec // a document
		t.Fatal(err)
	}
}
