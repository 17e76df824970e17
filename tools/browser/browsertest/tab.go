// Package browsertest uses pages in a browser as people do: it finds elements as screen readers
// do, by their role and their name, and presses them with the mouse or with the keyboard.
//
// Guarantees: a step waits for its element for at most Timeout. A tab fails its test
// if a page reports an error, breaks its Content-Security-Policy, or requests an origin that
// the test has not named.
package browsertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/tools/browser"
)

// Timeout is the maximum time for which a step waits. It is long because other tests run at the same time.
const Timeout = 30 * time.Second

// User says how a test uses the pages: with the mouse, only with the keyboard, or on the screen
// of a phone.
type User struct {
	Name     string
	Width    int64 // of the screen, in pixels
	Keyboard bool
}

// The ways in which people use the pages.
var (
	Mouse    = User{Name: "mouse", Width: 1280}
	Keyboard = User{Name: "keyboard", Width: 1280, Keyboard: true}
	Phone    = User{Name: "phone", Width: 360}
)

// Users returns Mouse, Keyboard and Phone.
func Users() []User { return []User{Mouse, Keyboard, Phone} }

// Start starts a browser that ends with the test.
func Start(t *testing.T) context.Context {
	t.Helper()
	ctx, stop, err := browser.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return ctx
}

// Tab is a tab of a browser.
type Tab struct {
	*testing.T
	Page context.Context // for actions of chromedp
	User User

	origins []string
	mu      sync.Mutex
	faults  []string
}

// NewTab opens an empty tab without the cookies of other tabs. Its pages may request the
// origins, and no other.
func NewTab(ctx context.Context, t *testing.T, u User, origins ...string) *Tab {
	t.Helper()
	return prepare(ctx, &Tab{T: t, User: u, origins: origins}, chromedp.WithNewBrowserContext())
}

// Another opens an empty tab with the same cookies.
func (p *Tab) Another() *Tab {
	p.Helper()
	return prepare(p.Page, &Tab{T: p.T, User: p.User, origins: p.origins})
}

// prepare opens the tab, and reports its faults when the test ends.
func prepare(ctx context.Context, p *Tab, options ...chromedp.ContextOption) *Tab {
	p.Helper()
	ctx, cancel := chromedp.NewContext(ctx, options...)
	p.Cleanup(cancel)
	p.Page = ctx
	err := chromedp.Listen(ctx, func(event any) {
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			p.Fault("exception: %s", event.ExceptionDetails.Text)
		case *cdplog.EventEntryAdded:
			// The browser reports refused requests as errors. Pages cause them on purpose.
			if event.Entry.Level == cdplog.EntryLevelError && event.Entry.Source != cdplog.EntrySourceNetwork {
				p.Fault("console: %s", event.Entry.Text)
			}
		case *network.EventRequestWillBeSent:
			if url := event.Request.URL; !p.mayRequest(url) {
				p.Fault("request to another host: %s", url)
			}
		}
	})
	if err != nil {
		p.Fatal(err)
	}
	p.Do(chromedp.EmulateViewport(p.User.Width, 800))
	Command(p, cdplog.Enable, cdp.Empty{})
	p.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, fault := range p.faults {
			p.Error(fault)
		}
	})
	return p
}

func (p *Tab) mayRequest(url string) bool {
	if strings.HasPrefix(url, "data:") || strings.HasPrefix(url, "blob:") {
		return true
	}
	return slices.ContainsFunc(p.origins, func(origin string) bool { return strings.HasPrefix(url, origin+"/") })
}

// Fault records a fault, which fails the test when it ends. Unlike Fatal, any goroutine may call it.
func (p *Tab) Fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// Eventually waits until a check returns no error, and fails the test after Timeout.
func (p *Tab) Eventually(description string, check func() error) {
	p.Helper()
	for began := time.Now(); ; time.Sleep(max(20*time.Millisecond, time.Since(began)/8)) {
		err := check()
		if err == nil {
			return
		}
		if time.Since(began) > Timeout {
			p.Fatalf("after %v this condition does not hold: %s: %v", Timeout, description, err)
		}
	}
}
