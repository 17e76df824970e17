package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// tasks are what people do on the pages, by name.
type tasks []struct {
	name string
	do   func(ctx context.Context, t *testing.T, sys *system, u browsertest.User)
}

// run does each task in each of the ways in which people use the pages. With -short it does each task
// in one way, by turns.
func (list tasks) run(ctx context.Context, t *testing.T, sys *system) {
	t.Helper()
	for i, task := range list {
		ways := browsertest.Users()
		if testing.Short() {
			ways = ways[i%len(ways):][:1]
		}
		for _, u := range ways {
			t.Run(task.name+"/"+u.Name, func(t *testing.T) { task.do(ctx, t, sys, u) })
		}
	}
}

// tab is a tab of the browser that shows pages of the system. It fails the test if a page is wider
// than the screen.
type tab struct {
	*browsertest.Tab
	system *system
}

// newTab opens an empty tab without the cookies of other tabs.
func newTab(ctx context.Context, t *testing.T, sys *system, u browsertest.User) *tab {
	t.Helper()
	return &tab{browsertest.NewTab(ctx, t, u, sys.api), sys}
}

// open loads an address of the system.
func (p *tab) open(path string) {
	p.Helper()
	// The empty page in between makes the browser load an address again that differs only
	// in its fragment.
	p.Do(chromedp.Navigate("about:blank"), chromedp.Navigate(p.system.api+path))
	p.Find("heading", "")
	// The element is hidden at first, so it has no role.
	p.WaitFor("the page is loaded", `document.querySelectorAll("[role=status][aria-label=Loading]").length === 0`)
	p.wantFits()
}

// wantFits waits until the page is not wider than the screen. The chart follows a new width of the
// screen in the next frames.
func (p *tab) wantFits() {
	p.Helper()
	p.Eventually("the page fits on the screen", func() error {
		width := browsertest.Evaluate[int64](p.Tab, `document.documentElement.scrollWidth`)
		if width <= p.User.Width {
			return nil
		}
		widest := browsertest.Evaluate[[]string](p.Tab, `[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.outerHTML.slice(0, 150))`)
		return fmt.Errorf("%s has a width of %d pixels, want at most %d, because of %q", p.path(), width, p.User.Width, widest)
	})
	p.screenshot()
}

// path returns the path of the page.
func (p *tab) path() string {
	p.Helper()
	return browsertest.Evaluate[string](p.Tab, `location.pathname`)
}

// wantText waits until the page shows a text, and checks that it fits.
func (p *tab) wantText(want string) {
	p.Helper()
	p.WaitForText(want)
	p.wantFits()
}

// wantFault waits until a field has a fault that contains a text.
func (p *tab) wantFault(name, want string) {
	p.Helper()
	p.Eventually(fmt.Sprintf("the field %q has the fault %q", name, want), func() error {
		nodes, err := p.Query("textbox", name)
		if err != nil {
			return err
		}
		if len(nodes) == 0 {
			return errors.New("there is no such field")
		}
		got := browsertest.Call[string](p.Tab, nodes[0], `function() {
			const ids = (this.getAttribute("aria-describedby") ?? "").split(" ");
			return this.getAttribute("aria-invalid") + ": " + ids.map((id) => document.getElementById(id)?.innerText ?? "").join(" ");
		}`)
		if !strings.HasPrefix(got, "true: ") || !strings.Contains(got, want) {
			return fmt.Errorf("aria-invalid and the descriptions are %q", got)
		}
		return nil
	})
}

// wantPath waits until the page has an address.
func (p *tab) wantPath(want string) {
	p.Helper()
	p.WaitFor("the address is "+want, fmt.Sprintf("location.pathname === %q", want))
}

// setAppearance makes the browser prefer light or dark.
func (p *tab) setAppearance(scheme string) {
	p.Helper()
	browsertest.Command(p.Tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// wantAccessible checks the page with axe, in light and dark.
func (p *tab) wantAccessible() {
	p.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.wantAccessibleIn(scheme)
	}
}

// wantAccessibleTask checks the page of a task with axe, which is slow. It skips the keyboard if the
// task is also done with the mouse, because the page is the same.
func (p *tab) wantAccessibleTask() {
	p.Helper()
	if testing.Short() || !p.User.Keyboard {
		p.wantAccessible()
	}
}

// wantAccessibleIn checks the page with axe while the browser prefers light or dark.
func (p *tab) wantAccessibleIn(scheme string) {
	p.Helper()
	p.setAppearance(scheme)
	if !browsertest.Evaluate[bool](p.Tab, `"axe" in window`) {
		browsertest.Evaluate[bool](p.Tab, read(p.T, "../../web/node_modules/axe-core/axe.min.js")+"; true")
	}
	// React Aria reads changes aloud in an element that keeps references to elements that are gone.
	violations := browsertest.Evaluate[[]string](p.Tab, `axe.run({exclude: [["[data-live-announcer]"]]}).then(({violations}) => violations.flatMap(
		({id, nodes}) => nodes.map((node) => id + ": " + node.html + " " + node.failureSummary)))`)
	for _, violation := range violations {
		p.Errorf("%s, %s, %d px: %s", p.path(), scheme, p.User.Width, violation)
	}
}

// screenshot writes a picture of the page to the folder in PAGE_PICTURES, if it is set.
func (p *tab) screenshot() {
	p.Helper()
	folder := os.Getenv("PAGE_PICTURES")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(p.Page, chromedp.FullScreenshot(100))
	if err != nil {
		p.Fatal(err)
	}
	name := fmt.Sprintf("%s-%d.png", strings.ReplaceAll(p.Name(), "/", "-"), uniqueCounter.Add(1))
	if err := os.WriteFile(filepath.Join(folder, name), picture, 0o600); err != nil {
		p.Fatal(err)
	}
}
