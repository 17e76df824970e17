package snippet_test

import (
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/directory"
)

// firstClick changes the programme of the only stored click to the first_click model.
func (w *world) firstClick(codes ...string) {
	w.t.Helper()
	writer := directory.NewWriter(w.client)
	known := w.waitStored(1)[0]
	workspace, _ := affiliate.IDFromBytes[affiliate.Workspace](known.WorkspaceId)
	for _, code := range codes {
		check(w.t, writer.PutReferralCode(w.t.Context(), 2, affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeTest}, code, &edgev1.ReferralCodeEntry{
			ProgramId: known.ProgramId, ParticipantId: known.ParticipantId, Active: true,
			AttributionWindowDays: windowDays, AttributionModel: "first_click",
		}))
	}
}

// In a programme with the first_click model, later clicks are registered but do not
// replace the cookie. This also holds for a click id that was handed over in the address.
func TestFirstClickModel_LaterClicksDoNotReplaceCookie(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	b.waitCookie()
	w.firstClick("anna", "ben")
	b = w.visit(w.shop + "/?via=anna")
	first := b.waitCookie()
	w.waitStored(2)
	for range 2 { // a reload sends no further click
		b.visit(w.shop + "/?via=ben")
		w.waitStored(3)
		js[string](b, `window.__tributary.whenClickId()`)
		b.settle()
		if b.id() != first || b.cookie() != first || b.clicks() != 2 {
			t.Errorf("id %q, cookie %q, want %q; %d clicks", b.id(), b.cookie(), first, b.clicks())
		}
	}
	b.visit(w.shop + "/?aff_click_id=" + affiliate.NewID[affiliate.Click](time.Now()).String())
	b.settle()
	if b.id() != first || b.cookie() != first {
		t.Errorf("after a hand-over: id %q, cookie %q, want %q", b.id(), b.cookie(), first)
	}
}

// A router removes the code from the address before the script is loaded.
func TestScript_FindsCodeRemovedByRouter(t *testing.T) {
	w := newWorld(t)
	w.page("/p", page{head: `<script>history.replaceState(null, "", "/home")</script>`})
	b := w.visit(w.shop + "/p?via=anna&sub_id=s-1")
	b.waitCookie()
	b.settle()
	if got := w.waitStored(1)[0]; got.LandingUrl != w.shop+"/p" || got.SubId != "s-1" || b.clicks() != 1 {
		t.Errorf("%v, %d clicks", got, b.clicks())
	}
}

// The test runs the stub from docs/merchant/script.md.
func TestDocumentedStub_QueuesCalls(t *testing.T) {
	guide, err := os.ReadFile("../../docs/merchant/script.md")
	check(t, err)
	stub := regexp.MustCompile(`(?s)<script>\n.*?</script>`).Find(guide)
	if stub == nil {
		t.Fatal("docs/merchant/script.md has no stub")
	}
	w := newWorld(t)
	w.page("/", page{attrs: `data-consent="required"`, head: string(stub) + `<script>
		const early = window.__tributary;
		window.results = [early.getClickId()];
		early.consent("granted");
		early.ready(id => results.push(id));
		early.whenClickId().then(id => results.push(id))</script>`})
	b := w.visit(w.shop + "/?via=anna")
	id := b.waitCookie()
	b.wait(`results.length === 3`)
	if got := js[bool](b, `results[0] === null && results[1] === "`+id+`" && results[2] === "`+id+`" && early.getClickId() === "`+id+`"`); !got || w.waitClicks(1)[0].body["consent"] != "granted" {
		t.Errorf("results %v, sent %s", js[[]any](b, `results`), w.clicks()[0].text)
	}
}

// Payment Links may use a domain of the merchant.
func TestDecoration_PaymentLinksOnMerchantDomain(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{
		attrs: `data-checkout="pay.shop.example, *.checkouts.example"`,
		body:  `<a href="https://pay.shop.example/x">1</a><a href="https://a.checkouts.example/x">2</a><a href="https://checkouts.example/x">3</a>`,
	})
	b := w.visit(w.shop + "/?via=anna")
	id := b.waitCookie()
	b.wait(`document.querySelectorAll("a")[1].search`)
	for n, want := range []string{"?client_reference_id=" + id, "?client_reference_id=" + id, ""} {
		if got := js[string](b, `document.querySelectorAll("a")[`+string(rune('0'+n))+`].search`); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// The script stores a click when Google's consent mode grants consent later.
func TestConsentMode_LaterGrantStoresClick(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "denied"})</script>`})
	b := w.visit(w.shop + "/?via=anna")
	id := b.waitID()
	if got := b.storage(); got != emptyStorage {
		t.Fatalf("kept %s", got)
	}
	b.do(`gtag("consent", "update", {ad_storage: "granted"}); document.body.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true}))`)
	if b.cookie() != id || b.clicks() != 1 {
		t.Errorf("cookie %q, want %q; %d clicks", b.cookie(), id, b.clicks())
	}
}

// Anyone can write an address with a click id. In a programme with the first_click model,
// a click that this browser registers therefore replaces a handed-over click.
func TestFirstClickModel_RegisteredClickReplacesHandedOver(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	b.waitCookie()
	w.firstClick("anna", "ben")
	handed := affiliate.NewID[affiliate.Click](time.Now()).String()
	b = w.visit(w.shop + "/?aff_click_id=" + handed)
	if got := b.waitCookie(); got != handed {
		t.Fatalf("adopted %q, want %q", got, handed)
	}
	b.visit(w.shop + "/?via=anna")
	first := js[string](b, `window.__tributary.whenClickId()`)
	if stored := w.waitStored(2)[1]; idOf(stored) != first || first == handed || b.cookie() != first {
		t.Fatalf("id %q, cookie %q, handed over %q, stored %s", first, b.cookie(), handed, idOf(stored))
	}
	b.visit(w.shop + "/?via=ben")
	w.waitStored(3)
	if got := js[string](b, `window.__tributary.whenClickId()`); got != first {
		t.Errorf("a later click replaced the first: %q, want %q", got, first)
	}
}

// A collector that cannot look up the programme returns no attribution model. The script
// then keeps the existing click.
func TestUnknownModel_DoesNotReplaceClick(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	id := b.waitCookie()
	w.setFault(func(_ int, out http.ResponseWriter, _ *http.Request) bool {
		out.Header().Set("Access-Control-Allow-Origin", "*")
		out.Header().Set("Content-Type", "application/json")
		_, _ = out.Write([]byte(`{"click_id":"` + affiliate.NewID[affiliate.Click](time.Now()).String() + `","cookie_max_age":2592000,"attribution_model":null}`))
		return true
	})
	b.visit(w.shop + "/?via=ben")
	if got := js[string](b, `window.__tributary.whenClickId()`); got != id || b.cookie() != id || b.clicks() != 2 {
		t.Errorf("id %q, cookie %q, want %q; %d clicks", got, b.cookie(), id, b.clicks())
	}
	// The existing click does not become a first click. The next click replaces it.
	w.setFault(nil)
	b.visit(w.shop + "/?via=anna")
	if got := js[string](b, `window.__tributary.whenClickId()`); got == id || got != b.cookie() {
		t.Errorf("id %q, cookie %q", got, b.cookie())
	}
	// Without an existing click, the new one is stored.
	w.setFault(func(_ int, out http.ResponseWriter, _ *http.Request) bool {
		out.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = out.Write([]byte(`{"click_id":"` + id + `","cookie_max_age":2592000,"attribution_model":null}`))
		return true
	})
	b = w.visit(w.shop + "/?via=ben")
	if got := b.waitCookie(); got != id {
		t.Errorf("kept %q, want %q", got, id)
	}
}

// A prerendered page sends no click until the visitor opens it.
func TestPrerenderedPage_WaitsUntilVisible(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{head: `<script>
		window.results = [];
		window.__tributary = {q: [["ready", id => results.push(id)]]}</script>`})
	b := w.visit(w.shop+"/?via=anna", `window.hidden = true; Object.defineProperty(document, "prerendering", {get: () => window.hidden})`)
	b.do(`window.__tributary.whenClickId().then(id => results.push(id))`)
	b.settle()
	if b.clicks() != 0 || js[int](b, `results.length`) != 0 || b.storage() != emptyStorage {
		t.Fatalf("before the page is visible: %d clicks, results %v, kept %s", b.clicks(), js[[]any](b, `results`), b.storage())
	}
	b.do(`hidden = false; document.dispatchEvent(new Event("prerenderingchange", {bubbles: true}))`)
	id := b.waitCookie()
	b.wait(`results.length === 2`)
	if got := js[bool](b, `results[0] === "`+id+`" && results[1] === "`+id+`"`); !got || idOf(w.waitStored(1)[0]) != id {
		t.Errorf("results %v, want %s", js[[]any](b, `results`), id)
	}
}
