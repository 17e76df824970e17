package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// browserExample matches a code block of the documentation that runs in a browser.
var browserExample = regexp.MustCompile("(?ms)^```js browser\n(.*?)^```$")

// streamPage is a page that runs the examples of docs/merchant/notifications.md. It
// collects the events in an array. The test sets the address of the API and the access
// token in the page.
const streamPage = `<!doctype html><title>Notifications</title><script type="module">
import * as examples from "/examples.js";
const events = [];
const request = async (path) => {
	const response = await fetch(window.api + path, {method: "POST", headers: {Authorization: "Bearer " + window.token}});
	if (!response.ok) throw new Error("status " + response.status);
	return response.json();
};
const onEvent = (name, data, id) => events.push({name, id, notification: data.notification?.id ?? ""});
Object.assign(window, {events, run: (example) => { examples[example]({api: window.api, request, onEvent}); return true; }});
</script>`

// servePage serves the page with the examples and returns its origin. The name localhost
// makes it a secure context, without HTTPS.
func servePage(t *testing.T) string {
	t.Helper()
	var module strings.Builder
	for _, block := range browserExample.FindAllStringSubmatch(read(t, "../../docs/merchant/notifications.md"), -1) {
		module.WriteString(block[1])
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/examples.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(module.String()))
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(streamPage))
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return "http://app.localhost:" + u.Port()
}

// streamTab is a tab of the browser that shows streamPage.
type streamTab struct{ *browsertest.Tab }

// runExample opens the page in a tab and runs an example.
func runExample(tab *browsertest.Tab, origin, api, token, example string) streamTab {
	tab.Helper()
	tab.Do(chromedp.Navigate(origin))
	tab.WaitFor("the page has loaded", `"run" in window`)
	browsertest.Evaluate[bool](tab, fmt.Sprintf(`window.api = %q, window.token = %q, run(%q)`, api, token, example))
	return streamTab{tab}
}

// received returns the ids of the notifications that the page has received, and how many
// events of another name.
func (p streamTab) received(name string) (notifications []string, others int) {
	p.Helper()
	var events []struct{ Name, Notification string }
	if err := json.Unmarshal([]byte(browsertest.Evaluate[string](p.Tab, `JSON.stringify(events)`)), &events); err != nil {
		p.Fatal(err)
	}
	for _, e := range events {
		switch e.Name {
		case "notification":
			notifications = append(notifications, e.Notification)
		case name:
			others++
		}
	}
	return notifications, others
}

func (p streamTab) awaitReady(count int) {
	p.Helper()
	p.Eventually("the stream of the page is ready", func() error {
		if _, ready := p.received("ready"); ready < count {
			return fmt.Errorf("it was ready %d times, want %d", ready, count)
		}
		return nil
	})
}

// wantNotifications waits until the page has received the notifications, each of them
// once. It must not have received resync.
func (p streamTab) wantNotifications(want ...string) {
	p.Helper()
	p.Eventually("the page receives all notifications", func() error {
		if got, _ := p.received(""); !slices.Equal(got, want) {
			return fmt.Errorf("it has received %q, want %q", got, want)
		}
		return nil
	})
	if _, resyncs := p.received("resync"); resyncs > 0 {
		p.Errorf("the page has received resync %d times", resyncs)
	}
}

// newest lets a new partner apply to the programme, and returns the id of the
// notification about it.
func (f fixture) newest(t *testing.T) string {
	t.Helper()
	f.applyAsNewPartner(t)
	return f.merchant.get(t, "/api/v1/notifications?category=partner_applications&pageSize=1").wantStatus(http.StatusOK).text("data.0.id")
}

// The examples of the documentation work in a browser, on a page of another origin, while
// connections are lost and tokens expire.
func TestNotificationStream_ExamplesInBrowser(t *testing.T) {
	t.Parallel()
	ctx := browsertest.Start(t)
	origin := servePage(t)
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_CORS_ORIGINS": origin}})

	t.Run("a stream continues after lost connections and expired tokens", func(t *testing.T) {
		f := sys.newFixture(t, "live", object{})
		api, proxy := startProxy(t, sys.api)
		p := runExample(browsertest.NewTab(ctx, t, browsertest.Mouse, origin, api), origin, api, f.merchant.access, "streamNotifications")
		p.awaitReady(1)
		ids := []string{f.newest(t)}
		p.wantNotifications(ids...)

		proxy.interrupt() // EventSource reconnects with the same ticket
		ids = append(ids, f.newest(t), f.newest(t))
		proxy.restore()
		p.wantNotifications(ids...)

		sys.clock.advance(15 * time.Minute) // the access token and the ticket expire
		f.merchant = f.merchant.login(t)
		ids = append(ids, f.newest(t))
		browsertest.Evaluate[string](p.Tab, fmt.Sprintf(`window.token = %q`, f.merchant.access))
		p.wantNotifications(ids...)
	})
	t.Run("tabs share a stream", func(t *testing.T) {
		f := sys.newFixture(t, "live", object{})
		first := runExample(browsertest.NewTab(ctx, t, browsertest.Mouse, origin, sys.api), origin, sys.api, f.merchant.access, "shareNotifications")
		first.awaitReady(1)
		second := runExample(first.Another(), origin, sys.api, f.merchant.access, "shareNotifications")
		ids := []string{f.newest(t)}
		first.wantNotifications(ids...)
		second.wantNotifications(ids...)
		if n := sys.count(t, "select count(*) from notification_streams where user_id = $1", f.merchant.id); n != 1 {
			t.Errorf("the two tabs have %d streams, want 1", n)
		}
		browsertest.Command(first.Tab, page.Close, cdp.Empty{})
		ids = append(ids, f.newest(t))
		second.wantNotifications(ids...)
	})
}
