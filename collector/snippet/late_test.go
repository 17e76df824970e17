package snippet_test

import (
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

// The stub that docs/script.md gives to merchants.
func TestTheDocumentedStub(t *testing.T) {
	guide, err := os.ReadFile("../../docs/script.md")
	check(t, err)
	stub := regexp.MustCompile(`(?s)<script>\n.*?</script>`).Find(guide)
	if stub == nil {
		t.Fatal("docs/script.md has no stub")
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
