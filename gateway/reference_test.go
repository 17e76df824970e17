package gateway

import (
	"compress/gzip"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/gen/openapi"
	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

const referencePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

func TestReferencePage_IsServedWithItsPolicy(t *testing.T) {
	f := newFixture(t, nil)
	page := f.do("GET", "/docs", "")
	if page.status != 200 || page.header.Get("Content-Type") != "text/html; charset=utf-8" || page.header.Get("Content-Security-Policy") != referencePolicy {
		t.Fatalf("GET /docs: status %d with headers %v, want 200 with HTML and the policy", page.status, page.header)
	}
	if got := f.do("POST", "/docs", "{}"); got.status != 405 || got.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("POST /docs: status %d with Allow %q, want 405 with GET, HEAD, OPTIONS", got.status, got.header.Get("Allow"))
	}
}

func TestDocuments_AreCompressed(t *testing.T) {
	f := newFixture(t, nil)
	for _, path := range []string{"/docs", assetAddresses.FindString(f.do("GET", "/docs", "").body), contract.OpenAPIPath} {
		// The header disables the transparent decompression of the client.
		plain, compressed := f.do("GET", path, "", "Accept-Encoding", "identity"), f.do("GET", path, "", "Accept-Encoding", "gzip")
		reader, err := gzip.NewReader(strings.NewReader(compressed.body))
		if err != nil || compressed.header.Get("Content-Encoding") != "gzip" || compressed.header.Get("Content-Length") != strconv.Itoa(len(compressed.body)) {
			t.Fatalf("GET %s with gzip: error %v with the headers %v, want a body with gzip", path, err, compressed.header)
		}
		if text, err := io.ReadAll(reader); err != nil || string(text) != plain.body || plain.header.Get("Content-Encoding") != "" {
			t.Errorf("GET %s: the compressed body differs from the plain one (error %v)", path, err)
		}
		for _, got := range []httpResponse{plain, compressed} {
			if !slices.Equal(got.header.Values("Vary"), []string{"Origin", "Accept-Encoding"}) {
				t.Errorf("GET %s has Vary %q, want Origin and Accept-Encoding", path, got.header.Values("Vary"))
			}
		}
	}
	etag := f.do("GET", contract.OpenAPIPath, "").header.Get("Etag")
	if got := f.do("GET", contract.OpenAPIPath, "", "If-None-Match", etag); got.status != 304 || got.body != "" || got.header.Get("Etag") != etag || etag == "" {
		t.Errorf("GET %s with If-None-Match: status %d with the headers %v, want 304 with the same ETag", contract.OpenAPIPath, got.status, got.header)
	}
	if got := f.do("GET", "/nowhere", ""); !slices.Equal(got.header.Values("Vary"), []string{"Origin"}) {
		t.Errorf("another response has Vary %q, want Origin", got.header.Values("Vary"))
	}
}

// On a wide and on a narrow screen, the page lists every operation of the OpenAPI
// document. It requests nothing from other hosts.
func TestReferencePage_ShowsEveryOperation(t *testing.T) {
	f := newFixture(t, nil)
	ctx := browsertest.Start(t)

	var mu sync.Mutex
	requested := map[network.RequestID]string{}
	err := chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch event := event.(type) {
		case *network.EventRequestWillBeSent:
			requested[event.RequestID] = event.Request.URL
		case *network.EventLoadingFailed:
			// The policy blocks the logo of Redoc, so the browser does not send this
			// request.
			if event.BlockedReason == network.BlockedReasonCsp {
				delete(requested, event.RequestID)
			}
		}
	})
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	// Rendering the page takes seconds, so the narrow screen shows the page that the wide
	// screen has loaded.
	const wide, narrow = 1440, 390
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(wide, 900), chromedp.Navigate(f.url+"/docs")); err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	for _, width := range []int64{wide, narrow} {
		t.Run(strconv.FormatInt(width, 10), func(t *testing.T) {
			if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900)); err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			for deadline := time.Now().Add(time.Minute); evaluate[int64](ctx, t, `window.innerWidth`) != width; time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("after a minute, the window does not have the width %d", width)
				}
			}
			operations := documentedOperations(t)
			var shown []string
			for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && len(shown) < len(operations); time.Sleep(50 * time.Millisecond) {
				shown = evaluate[[]string](ctx, t, `[...document.querySelectorAll("[data-section-id*='/operation/'] > * h2")].map(h => h.closest("[data-section-id]").dataset.sectionId.split("/").pop())`)
			}
			slices.Sort(shown)
			if !slices.Equal(slices.Compact(shown), operations) {
				t.Errorf("the page shows the operations:\ngot  %q\nwant %q", shown, operations)
			}
			if got := evaluate[int64](ctx, t, `document.documentElement.scrollWidth`); got > width {
				t.Errorf("the page has a width of %d pixels, want at most the %d of the screen", got, width)
			}
		})
	}
	mu.Lock()
	defer mu.Unlock()
	for _, url := range requested {
		if !strings.HasPrefix(url, f.url) && !strings.HasPrefix(url, "data:") && !strings.HasPrefix(url, "blob:") {
			t.Errorf("the page requested %s, want requests only to %s", url, f.url)
		}
	}
}

// evaluate returns the value of a JavaScript expression in the page.
func evaluate[T any](ctx context.Context, t *testing.T, expression string) T {
	t.Helper()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
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
