package snippet_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestSend_LeavingPageSendsClickAgain(t *testing.T) {
	f := newFixture(t)
	f.page("/next", page{script: "none"})
	release := make(chan struct{})
	f.setFault(func(nth int, _ http.ResponseWriter, _ *http.Request) bool {
		if nth == 1 {
			f.waitUntil(release)
		}
		return false
	})
	b := f.visit(f.shop + "/?via=anna")
	f.waitClicks(1)
	b.visit(f.shop + "/next")
	sent := f.waitClicks(2)
	close(release)
	if sent[0].clickID() == "" || sent[0].clickID() != sent[1].clickID() {
		t.Errorf("the two requests have the ids %q and %q, want the same id", sent[0].clickID(), sent[1].clickID())
	}
	// Both requests get a response, and the collector stores one click.
	waitFor(t, "the responses to both requests", func() bool { sent := f.clicks(); return sent[0].status != 0 && sent[1].status != 0 })
	b.settle()
	if stored := f.waitStored(1); idOf(stored[0]) != sent[0].clickID() {
		t.Errorf("stored click %s, want %s", idOf(stored[0]), sent[0].clickID())
	}
	if sent := f.clicks(); len(sent) != 2 {
		t.Errorf("%d requests to register a click, want 2", len(sent))
	}
}

func TestSend_LeavingPageSendsAllPendingClicksAgain(t *testing.T) {
	f := newFixture(t)
	f.page("/next", page{script: "none"})
	release := make(chan struct{})
	f.setFault(func(nth int, _ http.ResponseWriter, _ *http.Request) bool {
		if nth <= 2 {
			f.waitUntil(release)
		}
		return false
	})
	b := f.visit(f.shop + "/?via=anna")
	f.waitClicks(1)
	b.do(`history.pushState(null, "", "/p?via=ben")`)
	f.waitClicks(2)
	b.visit(f.shop + "/next")
	sent := f.waitClicks(4)
	close(release)
	ids := map[string]int{}
	for _, click := range sent {
		ids[click.clickID()]++
	}
	if len(sent) != 4 || ids[sent[0].clickID()] != 2 || ids[sent[1].clickID()] != 2 || len(ids) != 2 {
		t.Errorf("number of requests by click id: %v, want two requests for each of two ids", ids)
	}
}

// The script sets its cookie on the domain .shop.example. The browser could therefore
// send the cookie to www.shop.example, the origin of the page, and to api.shop.example.
// The script must let the browser send it only to the origin of the page.
func TestSend_CookiesGoOnlyToOwnOrigin(t *testing.T) {
	f := newFixture(t)
	f.page("/next", page{script: "none"})
	for _, c := range []struct {
		name, api  string
		sendCookie bool
	}{
		{"the page's own origin", "/t", true},
		{"another origin of the same site", f.origin("api.shop.example") + "/t", false},
	} {
		f.page("/", page{attrs: `data-api="` + c.api + `"`})
		b := f.visit(f.shop + "/?via=anna")
		b.waitCookie()
		before, release := len(f.clicks()), make(chan struct{})
		f.setFault(func(nth int, _ http.ResponseWriter, _ *http.Request) bool {
			if nth == before+1 {
				f.waitUntil(release)
			}
			return false
		})
		b.visit(f.shop + "/?via=ben")
		f.waitClicks(before + 1)
		b.visit(f.shop + "/next") // When the visitor leaves the page, the script sends the click again.
		for _, click := range f.waitClicks(before + 2)[before:] {
			if sent := strings.Contains(click.header.Get("Cookie"), cookieName+"="); sent != c.sendCookie {
				t.Errorf("%s: the request has the cookies %q, want the script's cookie: %t", c.name, click.header.Get("Cookie"), c.sendCookie)
			}
		}
		close(release)
	}
}

func TestSend_LeavingPageAfterResponseSendsNothing(t *testing.T) {
	f := newFixture(t)
	f.page("/next", page{script: "none"})
	b := f.visit(f.shop + "/?via=anna")
	b.waitCookie()
	b.visit(f.shop + "/next")
	b.settle()
	if sent := f.clicks(); len(sent) != 1 {
		t.Errorf("%d requests to register a click, want 1", len(sent))
	}
}

func TestSend_RetriesOnceWithSameID(t *testing.T) {
	f := newFixture(t)
	f.keepRealTimeout = true
	for name, fail := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"the response is 503": func(out http.ResponseWriter, _ *http.Request) bool {
			out.Header().Set("Access-Control-Allow-Origin", "*")
			out.WriteHeader(http.StatusServiceUnavailable)
			return true
		},
		"the response is 429": func(out http.ResponseWriter, _ *http.Request) bool {
			out.Header().Set("Access-Control-Allow-Origin", "*")
			out.WriteHeader(http.StatusTooManyRequests)
			return true
		},
		// An error page of a proxy has no CORS headers.
		"a proxy responds with 502": func(out http.ResponseWriter, _ *http.Request) bool {
			out.WriteHeader(http.StatusBadGateway)
			return true
		},
		"the connection is closed": func(out http.ResponseWriter, _ *http.Request) bool { return closeConnection(out) },
		"there is no response for 3 s": func(_ http.ResponseWriter, r *http.Request) bool {
			f.waitUntil(r.Context().Done()) // The script cancels the request.
			return true
		},
	} {
		before, stored := len(f.clicks()), len(f.storedClicks())
		f.setFault(func(nth int, out http.ResponseWriter, r *http.Request) bool { return nth == before+1 && fail(out, r) })
		b := f.visit(f.shop + "/?via=anna")
		id := b.waitCookie()
		b.settle()
		sent := f.clicks()[before:]
		if len(sent) != 2 || sent[0].clickID() != id || sent[1].clickID() != id {
			t.Errorf("%s: the script sent %+v, want two requests with the id %s", name, sent, id)
		}
		if got := f.waitStored(stored + 1); idOf(got[stored]) != id {
			t.Errorf("%s: stored click %s, want %s", name, idOf(got[stored]), id)
		}
	}
}

func TestSend_StopsAfterSecondFailure(t *testing.T) {
	f := newFixture(t)
	f.page("/next", page{script: "none"})
	f.setFault(func(_ int, out http.ResponseWriter, _ *http.Request) bool { return closeConnection(out) })
	b := f.visit(f.shop + "/?via=anna")
	f.waitClicks(2)
	b.settle()
	b.do(`history.pushState(null, "", "/p"); document.body.insertAdjacentHTML("beforeend", "<a href='https://buy.stripe.com/x'>buy</a>")`)
	b.settle()
	if n := b.clicks(); n != 2 || b.storage() != emptyStorage {
		t.Errorf("after two failures: %d clicks sent, stored %s; want 2 and nothing", n, b.storage())
	}
	// If a later address contains the code, the script sends the click again.
	f.setFault(nil)
	b.do(`history.pushState(null, "", "/q?via=anna")`)
	b.waitCookie()
	f.waitStored(1)
}

func TestSend_DoesNotRetryRefusedClick(t *testing.T) {
	f := newFixture(t)
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden} {
		f.setFault(func(_ int, out http.ResponseWriter, _ *http.Request) bool {
			out.Header().Set("Access-Control-Allow-Origin", "*")
			out.Header().Set("Content-Type", "application/json")
			out.WriteHeader(status)
			_, _ = out.Write([]byte(`{"code":"X","statusCode":0,"message":""}`))
			return true
		})
		b := f.visit(f.shop + "/?via=anna")
		b.wait(`performance.getEntriesByName("` + f.cdn + clicksPath + `").length`) // Wait for the response.
		b.settle()
		if n := b.clicks(); n != 1 || b.storage() != emptyStorage {
			t.Errorf("after the status %d: %d clicks sent, stored %s; want 1 and nothing", status, n, b.storage())
		}
	}
}

func TestSend_IgnoresResponseThatIsNotJSON(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{body: `<p>shop</p>`})
	f.setFault(func(_ int, out http.ResponseWriter, _ *http.Request) bool {
		out.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = out.Write([]byte(`<html>log in to the hotel's network</html>`))
		return true
	})
	b := f.visit(f.shop + "/?via=anna")
	f.waitClicks(1)
	b.settle()
	if n := b.clicks(); n > 2 {
		t.Errorf("%d clicks sent, want at most 2", n)
	}
}
