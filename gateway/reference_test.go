package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/gen/openapi"
	"github.com/tributary-hq/tributary/tools/browser"
)

const referencePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src blob:"

func TestReferencePage_IsServedWithItsPolicy(t *testing.T) {
	r := newRig(t, nil)
	page := r.do("GET", "/docs", "")
	if page.status != 200 || page.header.Get("Content-Type") != "text/html; charset=utf-8" || page.header.Get("Content-Security-Policy") != referencePolicy {
		t.Fatalf("got %d %v", page.status, page.header)
	}
	for _, path := range []string{"/docs/redoc-2.5.4.js", "/docs/reference.js"} {
		if !strings.Contains(page.body, `src="`+path+`"`) {
			t.Errorf("the page does not load %s: %s", path, page.body)
		}
		script := r.do("GET", path, "")
		if script.status != 200 || script.header.Get("Content-Type") != "text/javascript; charset=utf-8" || script.header.Get("Cache-Control") != "public, max-age=300" {
			t.Errorf("%s: got %d %v", path, script.status, script.header)
		}
	}
	for _, path := range []string{"/docs/", "/docs/index.html", "/docs/reference.go"} {
		if got := r.do("GET", path, ""); got.status != 404 {
			t.Errorf("%s: got status %d, want 404", path, got.status)
		}
	}
	if got := r.do("POST", "/docs", "{}"); got.status != 405 || got.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("POST /docs: got %d %v", got.status, got.header)
	}
}

// The page lists every operation of the OpenAPI document, on a wide and on a narrow
// screen, and requests nothing from other hosts.
func TestReferencePage_ShowsEveryOperation(t *testing.T) {
	r := newRig(t, nil)
	ctx, stop, err := browser.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()

	var mu sync.Mutex
	requested := map[network.RequestID]string{}
	err = chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch event := event.(type) {
		case *network.EventRequestWillBeSent:
			requested[event.RequestID] = event.Request.URL
		case *network.EventLoadingFailed:
			// The policy blocks Redoc's logo before the browser sends anything.
			if event.BlockedReason == network.BlockedReasonCsp {
				delete(requested, event.RequestID)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, width := range map[string]int64{"desktop": 1440, "phone": 390} {
		t.Run(name, func(t *testing.T) {
			if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate(r.url+"/docs")); err != nil {
				t.Fatal(err)
			}
			operations := documentedOperations(t)
			var shown []string
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && len(shown) < len(operations); time.Sleep(50 * time.Millisecond) {
				shown = evaluate[[]string](ctx, t, `[...document.querySelectorAll("[data-section-id*='/operation/'] > * h2")].map(h => h.closest("[data-section-id]").dataset.sectionId.split("/").pop())`)
			}
			slices.Sort(shown)
			if !slices.Equal(slices.Compact(shown), operations) {
				t.Errorf("shown: %q\nwant: %q", shown, operations)
			}
			if wide := evaluate[int64](ctx, t, `document.documentElement.scrollWidth`); wide > width {
				t.Errorf("the page is %d pixels wide on a screen of %d", wide, width)
			}
		})
	}
	mu.Lock()
	defer mu.Unlock()
	for _, url := range requested {
		if !strings.HasPrefix(url, r.url) && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") {
			t.Errorf("the page requested %s", url)
		}
	}
}

func evaluate[T any](ctx context.Context, t *testing.T, expression string) T {
	t.Helper()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// documentedOperations returns the ids of all operations, sorted.
func documentedOperations(t *testing.T) []string {
	t.Helper()
	var ids []string
	for _, verbs := range readDocument(t, openapi.Document).Paths {
		for _, operation := range verbs {
			ids = append(ids, operation.OperationID)
		}
	}
	slices.Sort(ids)
	return ids
}
