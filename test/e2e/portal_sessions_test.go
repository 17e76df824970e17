package e2e_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/evanw/esbuild/pkg/api"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// TestPortal_Session checks that partners stay logged in until they log out.
func TestPortal_Session(t *testing.T) {
	t.Parallel()
	sys, ctx := start(t, setup{}), browsertest.Start(t)
	desktop := browsertest.Mouse
	t.Run("many renewals in five tabs", func(t *testing.T) { testManyRenewals(ctx, t, sys, desktop) })
	t.Run("the response to a renewal is lost", func(t *testing.T) {
		p := newPortalTab(ctx, t, sys, desktop, sys.newPartner(t))
		p.loseNextResponse("/session/partner/renew")
		p.open("/portal/test/payouts")
		p.wantText("The service does not respond.")
		p.Press("button", "Try again")
		p.wantText("No payouts yet")
		p.open("/portal/test")
		p.wantText("You take part in no programme")
	})
	t.Run("twenty minutes of sleep", func(t *testing.T) {
		p := newPortalTab(ctx, t, sys, desktop, sys.newPartner(t))
		sys.clock.advance(20 * time.Minute)
		browsertest.Evaluate[bool](p.Tab, `((now) => { Date.now = () => now() + 20 * 60_000; return true; })(Date.now)`)
		p.Press("link", "Payouts")
		p.wantText("No payouts yet")
		// The clock of a computer can be wrong, so that the page does not know that the token has expired.
		sys.clock.advance(20 * time.Minute)
		p.Press("link", "Commissions")
		p.wantText("No commissions")
	})
	t.Run("a logout ends the session in all tabs", func(t *testing.T) {
		p := newPortalTab(ctx, t, sys, desktop, sys.newPartner(t))
		other := p.another()
		other.open("/portal/test/settings")
		other.block("/*") // only the first tab can tell it, not the service
		stolen := p.session()
		stolen.post(t, "renew").wantStatus(http.StatusOK)
		p.Press("button", "Your account")
		p.Press("menuitem", "Log out")
		for _, tab := range []*tab{p, other} {
			tab.wantPath("/portal/test/login")
		}
		stolen.wantEnded(t)
	})
}

// testManyRenewals renews the session 40 times at once in each of five tabs, with the code of the
// portal. The first renewal of a tab is enough for the others of the tab.
func testManyRenewals(ctx context.Context, t *testing.T, sys *system, u browsertest.User) {
	t.Helper()
	built := api.Build(api.BuildOptions{EntryPoints: []string{"../../web/src/app/session.ts"}, Bundle: true, Format: api.FormatIIFE, GlobalName: "source"})
	if len(built.Errors) > 0 {
		t.Fatal(built.Errors)
	}
	tabs := []*tab{newPortalTab(ctx, t, sys, u, sys.newPartner(t))}
	for range 4 {
		another := tabs[0].another()
		another.open("/portal/test")
		tabs = append(tabs, another)
	}
	for _, p := range tabs {
		browsertest.Evaluate[bool](p.Tab, string(built.OutputFiles[0].Contents)+`; window.session = new source.BrowserSession("partner"); session.resume().then(() => true)`)
	}
	sys.clock.stop()
	defer sys.clock.resume()
	b := tabs[0].session()
	before := b.post(t, "renew").remaining()
	for _, p := range tabs {
		browsertest.Evaluate[bool](p.Tab, `(window.renewals = Promise.all(Array.from({length: 40}, () => session.token(true))), true)`)
	}
	for _, p := range tabs {
		tokens := browsertest.Evaluate[[]string](p.Tab, `renewals`)
		b.profile(t, tokens[len(tokens)-1]).wantStatus(http.StatusOK)
	}
	if renewals := before - b.post(t, "renew").remaining() - 1; renewals < 1 || renewals > len(tabs) {
		t.Errorf("the gateway received %d renewals, want 1 to %d", renewals, len(tabs))
	}
	for _, p := range tabs {
		p.open("/portal/test")
		p.wantText("You take part in no programme")
	}
}

// TestPortal_Restart replaces the whole service, except its database and its Redis, while a partner
// is logged in.
func TestPortal_Restart(t *testing.T) {
	t.Parallel()
	servers := setup{database: pgtest.New(t), redis: redistest.New(t)}
	first := start(t, servers)
	target, address := startGatewayProxy(t)
	target.Store(parseURL(t, first.api))
	proxied := *first
	proxied.api = address
	p := newPortalTab(browsertest.Start(t), t, &proxied, browsertest.Mouse, first.newPartner(t))
	first.stop()
	second := start(t, servers)
	target.Store(parseURL(t, second.api))
	p.Press("link", "Payouts")
	p.wantText("No payouts yet")
	p.open("/portal/test")
	p.wantText("You take part in no programme")
}

// startGatewayProxy starts a server that forwards requests to a gateway that can be replaced.
func startGatewayProxy(t *testing.T) (target *atomic.Pointer[url.URL], address string) {
	t.Helper()
	target = &atomic.Pointer[url.URL]{}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target.Load())
			r.Out.Host = r.In.Host
		},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // requests fail during the restart
	})
	t.Cleanup(server.Close)
	return target, server.URL
}

func parseURL(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// another opens an empty tab with the same cookies.
func (p *tab) another() *tab {
	p.Helper()
	return &tab{p.Another(), p.system}
}

// session returns the session of the tab, as somebody has it who steals its cookie.
func (p *tab) session() browserSession {
	p.Helper()
	found := browsertest.Command(p.Tab, network.GetCookies, network.GetCookiesParams{}).Cookies
	if len(found) != 1 {
		p.Fatalf("the tab has %d cookies, want one", len(found))
	}
	return browserSession{p.system.page().withHeader("Cookie", found[0].Name+"="+found[0].Value), "partner"}
}

// loseNextResponse makes the next request to a path fail after the service has handled it.
func (p *tab) loseNextResponse(path string) {
	p.Helper()
	paused := make(chan fetch.RequestID, 1)
	err := chromedp.Listen(p.Page, func(event any) {
		if event, ok := event.(*fetch.EventRequestPaused); ok {
			paused <- event.RequestID
		}
	})
	if err != nil {
		p.Fatal(err)
	}
	pattern := &fetch.RequestPattern{URLPattern: "*" + path, RequestStage: fetch.RequestStageResponse}
	browsertest.Command(p.Tab, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{pattern}})
	go func() {
		select {
		case id := <-paused:
			err := chromedp.Do(p.Page, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
				if _, err := cdp.Call(ctx, t, fetch.FailRequest, fetch.FailRequestParams{RequestID: id, ErrorReason: network.ErrorReasonConnectionReset}); err != nil {
					return err
				}
				_, err := cdp.Call(ctx, t, fetch.Disable, cdp.Empty{})
				return err
			}))
			if err != nil {
				p.Fault("lose a response: %v", err)
			}
		case <-p.Page.Done():
		}
	}()
}
