//go:build paint

package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"

	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// TestPaint measures when the largest element of the pages for visitors is visible (Largest
// Contentful Paint), with an empty cache, a network of 1.6 Mbit/s and 150 ms, and a processor that
// is slowed four times. It prints the median of five loads, and asserts no time.
func TestPaint(t *testing.T) {
	sys, ctx := start(t, setup{}), browsertest.Start(t)
	_, program := sys.newPublicProgram(t, nil)
	for _, address := range []string{"/portal/login", program} {
		var paints []time.Duration
		for range 5 {
			p := newTab(ctx, t, sys, browsertest.Phone)
			browsertest.Command(p.Tab, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
				MatchedNetworkConditions: []*network.Conditions{{Latency: 150, DownloadThroughput: 1_600_000 / 8, UploadThroughput: 750_000 / 8}},
			})
			browsertest.Command(p.Tab, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: 4})
			browsertest.Command(p.Tab, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
				Source: `new PerformanceObserver((list) => (window.painted = list.getEntries().at(-1).startTime)).observe({ type: "largest-contentful-paint", buffered: true })`,
			})
			p.open(address)
			paints = append(paints, time.Duration(browsertest.Evaluate[float64](p.Tab, `new Promise((done) => setTimeout(() => done(painted), 1000))`)*float64(time.Millisecond)))
			browsertest.Command(p.Tab, page.Close, cdp.Empty{})
		}
		slices.Sort(paints)
		t.Logf("%-40s %v (from %v to %v)", address, paints[2].Round(10*time.Millisecond), paints[0].Round(10*time.Millisecond), paints[4].Round(10*time.Millisecond))
	}
}
