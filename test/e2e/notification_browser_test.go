package e2e_test

import (
	"context"
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

	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/tools/browser"
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
type streamTab struct {
	*tab
	close context.CancelFunc
}

// openStreamTab opens the page and runs an example.
func openStreamTab(ctx context.Context, t *testing.T, origin, api, token, example string) streamTab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := streamTab{&tab{T: t, ctx: ctx}, cancel}
	p.do(chromedp.Navigate(origin))
	eventually(t, waitTimeout, "the page has loaded", func() error {
		if !evaluate[bool](p.tab, `"run" in window`) {
			return fmt.Errorf("the module has not run")
		}
		return nil
	})
	evaluate[bool](p.tab, fmt.Sprintf(`window.api = %q, window.token = %q, run(%q)`, api, token, example))
	return p
}

// received returns the ids of the notifications that the page has received, and how many
// events of another name.
func (p streamTab) received(name string) (notifications []string, others int) {
	p.Helper()
	var events []struct{ Name, Notification string }
	if err := json.Unmarshal([]byte(evaluate[string](p.tab, `JSON.stringify(events)`)), &events); err != nil {
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
	eventually(p.T, waitTimeout, "the stream of the page is ready", func() error {
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
	eventually(p.T, waitTimeout, "the page receives all notifications", func() error {
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
	ctx, stop, err := browser.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	origin := servePage(t)
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_CORS_ORIGINS": origin}})

	t.Run("a stream continues after lost connections and expired tokens", func(t *testing.T) {
		f := sys.newFixture(t, "live", object{})
		api, proxy := startProxy(t, sys.api)
		p := openStreamTab(ctx, t, origin, api, f.merchant.access, "streamNotifications")
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
		evaluate[string](p.tab, fmt.Sprintf(`window.token = %q`, f.merchant.access))
		p.wantNotifications(ids...)
	})
	t.Run("tabs share a stream", func(t *testing.T) {
		f := sys.newFixture(t, "live", object{})
		first := openStreamTab(ctx, t, origin, sys.api, f.merchant.access, "shareNotifications")
		first.awaitReady(1)
		second := openStreamTab(ctx, t, origin, sys.api, f.merchant.access, "shareNotifications")
		ids := []string{f.newest(t)}
		first.wantNotifications(ids...)
		second.wantNotifications(ids...)
		if n := sys.count(t, "select count(*) from notification_streams where user_id = $1", f.merchant.id); n != 1 {
			t.Errorf("the two tabs have %d streams, want 1", n)
		}
		first.close()
		ids = append(ids, f.newest(t))
		second.wantNotifications(ids...)
	})
}
