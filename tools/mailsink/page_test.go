package mailsink

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/tools/browser/browsertest"
)

// browserTimeout is the maximum time of one step. It is long because other tests run at
// the same time.
const browserTimeout = 30 * time.Second

func TestPage_EscapesHostileMail(t *testing.T) {
	t.Parallel()
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	r := start(t, 10)
	r.send(t, "ada@example.com", lines("From: "+hostile, "Subject: "+hostile, "X-Header: "+hostile, "Content-Type: multipart/alternative; boundary=b", "",
		"--b", "", "text "+hostile, "--b", "Content-Type: text/html", "", "html "+hostile, "--b--"))
	for _, path := range []string{"/", "/?to=ada@example.com", "/messages/1"} {
		got := r.request(t, http.MethodGet, path, "")
		if !strings.Contains(got.body, "&lt;script&gt;alert(1)") || strings.Contains(got.body, "<script") || strings.Contains(got.body, "<img") {
			t.Errorf("GET %s does not escape a mail:\n%s", path, got.body)
		}
		policy := got.header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script-src") {
			t.Errorf("GET %s: Content-Security-Policy is %q, want that it blocks scripts", path, policy)
		}
	}
}

func TestPage_ShowsOnlyExistingParts(t *testing.T) {
	t.Parallel()
	r := start(t, 10)
	r.send(t, "ada@example.com", lines("", "plain"))
	r.send(t, "ada@example.com", lines("Content-Type: text/html", "", "rich"))
	plain := r.request(t, http.MethodGet, "/messages/1", "").body
	rich := r.request(t, http.MethodGet, "/messages/2", "").body
	if !strings.Contains(plain, "<pre>plain") || strings.Contains(plain, "<iframe") || !strings.Contains(plain, "(no subject)") {
		t.Errorf("the page of a mail without HTML is\n%s\nwant a text, no frame and a title", plain)
	}
	const sandbox = ` sandbox="allow-popups allow-popups-to-escape-sandbox" srcdoc="`
	if strings.Contains(rich, "<pre>") || strings.Count(rich, "<iframe") != 1 || !strings.Contains(rich, sandbox) {
		t.Errorf("the page of a mail without text is\n%s\nwant only a frame with%s", rich, sandbox)
	}
}

// website is a website that records the paths of the requests that it gets.
type website struct {
	*httptest.Server
	mu    sync.Mutex
	paths []string
}

func startWebsite(t *testing.T) *website {
	t.Helper()
	w := &website{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.paths = append(w.paths, r.URL.Path)
		response.Header().Set("Content-Type", "text/html")
		_, _ = response.Write([]byte(`<script>fetch("/script-of-website")</script>`))
	}))
	t.Cleanup(w.Close)
	return w
}

// requested returns the paths, sorted and without repetitions.
func (w *website) requested() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(w.paths)))
}

// openTab starts a browser and opens a tab.
func openTab(t *testing.T) context.Context {
	t.Helper()
	tab, leave := chromedp.NewContext(browsertest.Start(t))
	t.Cleanup(leave)
	return tab
}

func TestPage_MailRunsNoScriptAndLoadsNothing(t *testing.T) {
	t.Parallel()
	site := startWebsite(t)
	mail := strings.ReplaceAll(`<!doctype html>
<html><head><base href="SITE/base/"><link rel="stylesheet" href="SITE/style"><style>@import "SITE/import";</style></head>
<body style="color: rgb(1, 2, 3)">
<script>fetch("SITE/script"); parent.document.title = "changed";</script>
<script src="SITE/script-file"></script>
<img src="data:," onerror="new Image().src = 'SITE/onerror'"><svg onload="new Image().src = 'SITE/onload'"></svg>
<img src="SITE/image"><iframe src="SITE/frame"></iframe><iframe src="javascript:fetch('SITE/javascript')"></iframe>
<object data="SITE/object"></object><embed src="SITE/embed"><video src="SITE/video"></video>
</body></html>`, "SITE", site.URL)
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(mail))
	}))
	t.Cleanup(open.Close)
	r := start(t, 10)
	r.send(t, "ada@example.com", lines("Subject: title", "Content-Type: text/html", "", mail))
	tab := openTab(t)
	load := func(url string) (title string) {
		t.Helper()
		if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil { // waits until the frame has loaded too
			t.Fatal(err)
		}
		title, err := chromedp.Run(tab, chromedp.Evaluate[string]("document.title"))
		if err != nil {
			t.Fatal(err)
		}
		return title
	}

	title := load(r.url + "/messages/1")
	if got := site.requested(); len(got) > 0 || title != "title" {
		t.Errorf("the mail requested %q and the title is %q, want no requests and an unchanged title", got, title)
	}
	load(r.url + "/")
	if got := site.requested(); len(got) > 0 {
		t.Errorf("the list requested %q, want no requests", got)
	}

	// The same document outside the sink makes these requests, so the test would notice
	// them.
	load(open.URL)
	for _, want := range []string{"/script", "/script-file", "/onerror", "/onload", "/image", "/style", "/frame"} {
		for deadline := time.Now().Add(browserTimeout); !slices.Contains(site.requested(), want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("outside the sink the mail requested %q, want %s too", site.requested(), want)
			}
		}
	}
}

func TestPage_LinksOpenInNewTab(t *testing.T) {
	t.Parallel()
	site := startWebsite(t)
	r := start(t, 10)
	r.send(t, "ada@example.com", lines("Subject: title", "Content-Type: text/html", "",
		`<a href="`+site.URL+`/link#token" style="position: fixed; inset: 0">Verify</a>`))
	tab := openTab(t)
	if err := chromedp.Do(tab, chromedp.Navigate(r.url+"/messages/1")); err != nil {
		t.Fatal(err)
	}
	frame, err := chromedp.Run(tab, chromedp.Evaluate[struct{ X, Y float64 }](`document.querySelector("iframe").getBoundingClientRect().toJSON()`))
	if err != nil {
		t.Fatal(err)
	}
	// The browser drops clicks into a frame that it has loaded but not drawn yet, so the test
	// clicks until the website gets a request. The website in the new tab is not sandboxed, so
	// its script runs.
	want := []string{"/link", "/script-of-website"}
	for deadline := time.Now().Add(browserTimeout); !slices.Equal(site.requested(), want); time.Sleep(250 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the clicks requested %q, want %q", site.requested(), want)
		}
		if len(site.requested()) > 0 {
			continue
		}
		if err := chromedp.Do(tab, chromedp.MouseClickXY(frame.X+20, frame.Y+20)); err != nil {
			t.Fatal(err)
		}
	}
	if url, err := chromedp.Run(tab, chromedp.Evaluate[string]("location.href")); err != nil || url != r.url+"/messages/1" {
		t.Errorf("after the click the first tab shows %s (error %v), want still the mail", url, err)
	}
}

func TestPage_ListRefreshes(t *testing.T) {
	t.Parallel()
	r := start(t, 10)
	tab := openTab(t)
	if err := chromedp.Do(tab, chromedp.Navigate(r.url+"/")); err != nil {
		t.Fatal(err)
	}
	r.send(t, "ada@example.com", lines("Subject: later", "", ""))
	for deadline := time.Now().Add(browserTimeout); ; time.Sleep(20 * time.Millisecond) {
		// The script fails while the browser loads the page again.
		text, err := chromedp.Run(tab, chromedp.Evaluate[string]("document.body.textContent"))
		if err == nil && strings.Contains(text, "later") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the list contains %q (error %v), want the later mail", text, err)
		}
	}
}
