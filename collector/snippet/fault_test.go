package snippet_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestSend_LeavingPageSendsClickAgain(t *testing.T) {
	w := newWorld(t)
	w.page("/next", page{script: "none"})
	release := make(chan struct{})
	w.setFault(func(nth int, _ http.ResponseWriter, _ *http.Request) bool {
		if nth == 1 {
			w.hold(release)
		}
		return false
	})
	b := w.visit(w.shop + "/?via=anna")
	w.waitClicks(1)
	b.visit(w.shop + "/next")
	sent := w.waitClicks(2)
	close(release)
	if sent[0].clickID() == "" || sent[0].clickID() != sent[1].clickID() {
		t.Errorf("ids %q and %q", sent[0].clickID(), sent[1].clickID())
	}
	// Both requests get a response, and the collector stores one click.
	until(t, "both responses", func() bool { sent := w.clicks(); return sent[0].status != 0 && sent[1].status != 0 })
	b.settle()
	if stored := w.waitStored(1); idOf(stored[0]) != sent[0].clickID() {
		t.Errorf("stored %s", idOf(stored[0]))
	}
	if sent := w.clicks(); len(sent) != 2 {
		t.Errorf("%d requests", len(sent))
	}
}

func TestSend_LeavingPageSendsAllPendingClicksAgain(t *testing.T) {
	w := newWorld(t)
	w.page("/next", page{script: "none"})
	release := make(chan struct{})
	w.setFault(func(nth int, _ http.ResponseWriter, _ *http.Request) bool {
		if nth <= 2 {
			w.hold(release)
		}
		return false
	})
	b := w.visit(w.shop + "/?via=anna")
	w.waitClicks(1)
	b.do(`history.pushState(null, "", "/p?via=ben")`)
	w.waitClicks(2)
	b.visit(w.shop + "/next")
	sent := w.waitClicks(4)
	close(release)
	ids := map[string]int{}
	for _, click := range sent {
		ids[click.clickID()]++
	}
	if len(sent) != 4 || ids[sent[0].clickID()] != 2 || ids[sent[1].clickID()] != 2 || len(ids) != 2 {
		t.Errorf("sent %v", ids)
	}
}

// The cookie's domain is .shop.example, so the browser could send it to both origins.
func TestSend_CookiesGoOnlyToOwnOrigin(t *testing.T) {
	w := newWorld(t)
	w.page("/next", page{script: "none"})
	for _, c := range []struct {
		name, api string
		sent      bool
	}{
		{"the page's own origin", "/t", true},
		{"another origin of the same site", w.origin("api.shop.example") + "/t", false},
	} {
		w.page("/", page{attrs: `data-api="` + c.api + `"`})
		b := w.visit(w.shop + "/?via=anna")
		b.waitCookie()
		before, release := len(w.clicks()), make(chan struct{})
		w.setFault(func(nth int, _ http.ResponseWriter, _ *http.Request) bool {
			if nth == before+1 {
				w.hold(release)
			}
			return false
		})
		b.visit(w.shop + "/?via=ben")
		w.waitClicks(before + 1)
		b.visit(w.shop + "/next") // sends the click once more
		for _, click := range w.waitClicks(before + 2)[before:] {
			if sent := strings.Contains(click.header.Get("Cookie"), cookieName+"="); sent != c.sent {
				t.Errorf("%s: the request's cookies are %q", c.name, click.header.Get("Cookie"))
			}
		}
		close(release)
	}
}

func TestSend_LeavingPageAfterResponseSendsNothing(t *testing.T) {
	w := newWorld(t)
	w.page("/next", page{script: "none"})
	b := w.visit(w.shop + "/?via=anna")
	b.waitCookie()
	b.visit(w.shop + "/next")
	b.settle()
	if sent := w.clicks(); len(sent) != 1 {
		t.Errorf("%d requests", len(sent))
	}
}

func TestSend_RetriesOnceWithSameID(t *testing.T) {
	w := newWorld(t)
	w.realTimeout = true
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
			w.hold(r.Context().Done()) // until the script cancels the request
			return true
		},
	} {
		before, stored := len(w.clicks()), len(w.stored())
		w.setFault(func(nth int, out http.ResponseWriter, r *http.Request) bool { return nth == before+1 && fail(out, r) })
		b := w.visit(w.shop + "/?via=anna")
		id := b.waitCookie()
		b.settle()
		sent := w.clicks()[before:]
		if len(sent) != 2 || sent[0].clickID() != id || sent[1].clickID() != id {
			t.Errorf("%s: id %s, sent %+v", name, id, sent)
		}
		if got := w.waitStored(stored + 1); idOf(got[stored]) != id {
			t.Errorf("%s: stored %s, want %s", name, idOf(got[stored]), id)
		}
	}
}

func TestSend_StopsAfterSecondFailure(t *testing.T) {
	w := newWorld(t)
	w.page("/next", page{script: "none"})
	w.setFault(func(_ int, out http.ResponseWriter, _ *http.Request) bool { return closeConnection(out) })
	b := w.visit(w.shop + "/?via=anna")
	w.waitClicks(2)
	b.settle()
	b.do(`history.pushState(null, "", "/p"); document.body.insertAdjacentHTML("beforeend", "<a href='https://buy.stripe.com/x'>buy</a>")`)
	b.settle()
	if n := b.clicks(); n != 2 || b.storage() != emptyStorage {
		t.Errorf("%d clicks, kept %s", n, b.storage())
	}
	// A later address with the code causes a new attempt.
	w.setFault(nil)
	b.do(`history.pushState(null, "", "/q?via=anna")`)
	b.waitCookie()
	w.waitStored(1)
}

func TestSend_DoesNotRetryRefusedClick(t *testing.T) {
	w := newWorld(t)
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden} {
		w.setFault(func(_ int, out http.ResponseWriter, _ *http.Request) bool {
			out.Header().Set("Access-Control-Allow-Origin", "*")
			out.Header().Set("Content-Type", "application/json")
			out.WriteHeader(status)
			_, _ = out.Write([]byte(`{"code":"X","statusCode":0,"message":""}`))
			return true
		})
		b := w.visit(w.shop + "/?via=anna")
		b.wait(`performance.getEntriesByName("` + w.cdn + clicksPath + `").length`) // the response has arrived
		b.settle()
		if n := b.clicks(); n != 1 || b.storage() != emptyStorage {
			t.Errorf("%d: %d clicks, kept %s", status, n, b.storage())
		}
	}
}

func TestSend_IgnoresResponseThatIsNotJSON(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{body: `<p>shop</p>`})
	w.setFault(func(_ int, out http.ResponseWriter, _ *http.Request) bool {
		out.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = out.Write([]byte(`<html>log in to the hotel's network</html>`))
		return true
	})
	b := w.visit(w.shop + "/?via=anna")
	w.waitClicks(1)
	b.settle()
	if n := b.clicks(); n > 2 {
		t.Errorf("%d clicks", n)
	}
}
