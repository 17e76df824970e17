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

// firstClick makes a programme that has one click one that keeps the first.
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

// A programme that keeps the first click: later ones are registered and do not
// take the cookie, whether they come by a code or by a hand-over.
func TestAFirstClickStays(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	b.landed()
	w.firstClick("anna", "ben")
	b = w.visit(w.shop + "/?via=anna")
	first := b.landed()
	w.waitStored(2)
	for range 2 { // a reload is no further click
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

// A router tidies the address before the script is there.
func TestACodeThatTheRouterTookIsFound(t *testing.T) {
	w := newWorld(t)
	w.page("/p", page{head: `<script>history.replaceState(null, "", "/home")</script>`})
	b := w.visit(w.shop + "/p?via=anna&sub_id=s-1")
	b.landed()
	b.settle()
	if got := w.waitStored(1)[0]; got.LandingUrl != w.shop+"/p" || got.SubId != "s-1" || b.clicks() != 1 {
		t.Errorf("%v, %d clicks", got, b.clicks())
	}
}

// The stub that docs/merchant/script.md gives to merchants.
func TestTheDocumentedStub(t *testing.T) {
	guide, err := os.ReadFile("../../docs/merchant/script.md")
	check(t, err)
	stub := regexp.MustCompile(`(?s)<script>\n.*?</script>`).Find(guide)
	if stub == nil {
		t.Fatal("docs/merchant/script.md has no stub")
	}
	w := newWorld(t)
	w.page("/", page{attrs: `data-consent="required"`, head: string(stub) + `<script>
		const early = window.__tributary;
		window.told = [early.getClickId()];
		early.consent("granted");
		early.ready(id => told.push(id));
		early.whenClickId().then(id => told.push(id))</script>`})
	b := w.visit(w.shop + "/?via=anna")
	id := b.landed()
	b.wait(`told.length === 3`)
	if got := js[bool](b, `told[0] === null && told[1] === "`+id+`" && told[2] === "`+id+`" && early.getClickId() === "`+id+`"`); !got || w.waitClicks(1)[0].body["consent"] != "granted" {
		t.Errorf("told %v, sent %s", js[[]any](b, `told`), w.clicks()[0].text)
	}
}

// Payment Links may be on a domain of the merchant's.
func TestPaymentLinksOfAnotherDomain(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{
		attrs: `data-checkout="pay.shop.example, *.checkouts.example"`,
		body:  `<a href="https://pay.shop.example/x">1</a><a href="https://a.checkouts.example/x">2</a><a href="https://checkouts.example/x">3</a>`,
	})
	b := w.visit(w.shop + "/?via=anna")
	id := b.landed()
	b.wait(`document.querySelectorAll("a")[1].search`)
	for n, want := range []string{"?client_reference_id=" + id, "?client_reference_id=" + id, ""} {
		if got := js[string](b, `document.querySelectorAll("a")[`+string(rune('0'+n))+`].search`); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// A click without consent is kept once Google's consent mode grants it.
func TestConsentModeThatComesLater(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "denied"})</script>`})
	b := w.visit(w.shop + "/?via=anna")
	id := b.waitID()
	if got := b.kept(); got != nothingKept {
		t.Fatalf("kept %s", got)
	}
	b.do(`gtag("consent", "update", {ad_storage: "granted"}); document.body.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true}))`)
	if b.cookie() != id || b.clicks() != 1 {
		t.Errorf("cookie %q, want %q; %d clicks", b.cookie(), id, b.clicks())
	}
}

// Anybody can write an address with an id in it: in a programme that keeps the
// first click it does not take the place of one that this browser registers.
func TestAHandedOverClickIsNeverTheFirst(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	b.landed()
	w.firstClick("anna", "ben")
	handed := affiliate.NewID[affiliate.Click](time.Now()).String()
	b = w.visit(w.shop + "/?aff_click_id=" + handed)
	if got := b.landed(); got != handed {
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
		t.Errorf("a later click took the place: %q, want %q", got, first)
	}
}

// A collector that cannot ask for the programme does not know which click counts.
func TestABlindCollectorReplacesNoClick(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	id := b.landed()
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
	// It is no first click for that, and makes way for the next.
	w.setFault(nil)
	b.visit(w.shop + "/?via=anna")
	if got := js[string](b, `window.__tributary.whenClickId()`); got == id || got != b.cookie() {
		t.Errorf("id %q, cookie %q", got, b.cookie())
	}
	// Where nothing is kept it is better than nothing.
	w.setFault(func(_ int, out http.ResponseWriter, _ *http.Request) bool {
		out.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = out.Write([]byte(`{"click_id":"` + id + `","cookie_max_age":2592000,"attribution_model":null}`))
		return true
	})
	b = w.visit(w.shop + "/?via=ben")
	if got := b.landed(); got != id {
		t.Errorf("kept %q, want %q", got, id)
	}
}

// A page that is rendered before anybody looks at it.
func TestAPrerenderedPageWaitsForItsVisitor(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{head: `<script>
		window.told = [];
		window.__tributary = {q: [["ready", id => told.push(id)]]}</script>`})
	b := w.visit(w.shop+"/?via=anna", `window.hidden = true; Object.defineProperty(document, "prerendering", {get: () => window.hidden})`)
	b.do(`window.__tributary.whenClickId().then(id => told.push(id))`)
	b.settle()
	if b.clicks() != 0 || js[int](b, `told.length`) != 0 || b.kept() != nothingKept {
		t.Fatalf("before it is seen: %d clicks, told %v, kept %s", b.clicks(), js[[]any](b, `told`), b.kept())
	}
	b.do(`hidden = false; document.dispatchEvent(new Event("prerenderingchange", {bubbles: true}))`)
	id := b.landed()
	b.wait(`told.length === 2`)
	if got := js[bool](b, `told[0] === "`+id+`" && told[1] === "`+id+`"`); !got || idOf(w.waitStored(1)[0]) != id {
		t.Errorf("told %v, want %s", js[[]any](b, `told`), id)
	}
}
