package snippet_test

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/directory"
)

// useFirstClickModel changes the attribution model of the programme to first_click, for
// the given codes. It takes the ids of the programme and the participant from the stored
// click, so exactly one click must be stored.
func (f *fixture) useFirstClickModel(codes ...string) {
	f.t.Helper()
	writer := directory.NewWriter(f.client)
	known := f.waitStored(1)[0]
	workspace, _ := affiliate.IDFromBytes[affiliate.WorkspaceID](known.WorkspaceId)
	for _, code := range codes {
		check(f.t, put(f.t.Context(), writer, func(b *directory.Batch) {
			b.PutReferralCode(2, affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeTest}, code, &edgev1.ReferralCodeEntry{
				ProgramId: known.ProgramId, ParticipantId: known.ParticipantId, Active: true,
				AttributionWindowDays: windowDays, AttributionModel: "first_click",
			})
		}))
	}
}

// In a programme with the model first_click, later clicks are registered but do not
// replace the cookie. A click id in the address does not replace the cookie either.
func TestFirstClickModel_LaterClicksDoNotReplaceCookie(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	b.waitCookie()
	f.useFirstClickModel("anna", "ben")
	b = f.visit(f.shop + "/?via=anna")
	first := b.waitCookie()
	f.waitStored(2)
	for range 2 { // The second visit sends no further click.
		b.visit(f.shop + "/?via=ben")
		f.waitStored(3)
		js[string](b, `window.__tributary.whenClickId()`)
		b.settle()
		if b.id() != first || b.cookie() != first || b.clicks() != 2 {
			t.Errorf("after a later click: id %q, cookie %q and %d clicks; want %q, %q and 2", b.id(), b.cookie(), b.clicks(), first, first)
		}
	}
	b.visit(f.shop + "/?aff_click_id=" + affiliate.NewID[affiliate.ClickID](time.Now()).String())
	b.settle()
	if b.id() != first || b.cookie() != first {
		t.Errorf("after an address with another id: id %q, cookie %q, want %q", b.id(), b.cookie(), first)
	}
}

// A router removes the code from the address before the script is loaded.
func TestScript_FindsCodeRemovedByRouter(t *testing.T) {
	f := newFixture(t)
	f.page("/p", page{head: `<script>history.replaceState(null, "", "/home")</script>`})
	b := f.visit(f.shop + "/p?via=anna&sub_id=s-1")
	b.waitCookie()
	b.settle()
	if got := f.waitStored(1)[0]; got.LandingUrl != f.shop+"/p" || got.SubId != "s-1" || b.clicks() != 1 {
		t.Errorf("stored %v after %d clicks, want the address %s/p and sub_id s-1 after one click", got, b.clicks(), f.shop)
	}
}

// The test runs the stub from docs/merchant/script.md. A page can use the methods of the
// stub before the script is loaded.
func TestDocumentedStub_QueuesCalls(t *testing.T) {
	guide, err := os.ReadFile("../../docs/merchant/script.md")
	check(t, err)
	stub := regexp.MustCompile(`(?s)<script>\n.*?</script>`).Find(guide)
	if stub == nil {
		t.Fatal("docs/merchant/script.md has no stub")
	}
	f := newFixture(t)
	f.page("/", page{attrs: `data-consent="required"`, head: string(stub) + `<script>
		const early = window.__tributary;
		window.results = [early.getClickId()];
		early.consent("granted");
		early.ready(id => results.push(id));
		early.whenClickId().then(id => results.push(id));
		const address = "https://other.example/x", link = document.createElement("a");
		link.href = address;
		window.decorated = [early.decorate(address) === address, early.decorate(link) === link];
		window.link = link</script>`})
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	b.wait(`results.length === 3`)
	if got := js[bool](b, `results[0] === null && results[1] === "`+id+`" && results[2] === "`+id+`" && early.getClickId() === "`+id+`"`); !got || f.waitClicks(1)[0].body["consent"] != "granted" {
		t.Errorf("results %v and sent click %s; want [null, %s, %s] and granted consent", js[[]any](b, `results`), f.clicks()[0].text, id, id)
	}
	if got := js[[]bool](b, `decorated`); !slices.Equal(got, []bool{true, true}) {
		t.Errorf("before the script was loaded, decorate returned its argument: %v, want [true true]", got)
	}
	b.wait(`link.search === "?aff_click_id=` + id + `"`)

	f.page("/", page{head: string(stub) + `<script>window.__tributary.reset()</script>`})
	b.visit(f.shop + "/")
	b.settle()
	if got := b.storage(); got != emptyStorage {
		t.Errorf("stored after a queued reset: %s, want nothing", got)
	}
}

// Stripe's Payment Links may use a domain of the merchant.
func TestDecoration_PaymentLinksOnMerchantDomain(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{
		attrs: `data-checkout="pay.shop.example, *.checkouts.example"`,
		body:  `<a href="https://pay.shop.example/x">1</a><a href="https://a.checkouts.example/x">2</a><a href="https://checkouts.example/x">3</a>`,
	})
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	b.wait(`document.querySelectorAll("a")[1].search`)
	for n, want := range []string{"?client_reference_id=" + id, "?client_reference_id=" + id, ""} {
		if got := js[string](b, `document.querySelectorAll("a")[`+string(rune('0'+n))+`].search`); got != want {
			t.Errorf("the query of link %d is %q, want %q", n+1, got, want)
		}
	}
}

// The script stores a click when Google's consent mode grants consent later.
func TestConsentMode_LaterGrantStoresClick(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "denied"})</script>`})
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitID()
	if got := b.storage(); got != emptyStorage {
		t.Fatalf("stored before consent was granted: %s, want nothing", got)
	}
	b.do(`gtag("consent", "update", {ad_storage: "granted"}); document.body.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true}))`)
	if b.cookie() != id || b.clicks() != 1 {
		t.Errorf("after consent was granted: cookie %q and %d clicks, want %q and 1", b.cookie(), b.clicks(), id)
	}
}

// Anyone can write an address with a click id. Even in a programme with the model
// first_click, a click that this browser registers therefore replaces an id that came
// from the address.
func TestFirstClickModel_RegisteredClickReplacesIDFromAddress(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	b.waitCookie()
	f.useFirstClickModel("anna", "ben")
	fromAddress := affiliate.NewID[affiliate.ClickID](time.Now()).String()
	b = f.visit(f.shop + "/?aff_click_id=" + fromAddress)
	if got := b.waitCookie(); got != fromAddress {
		t.Fatalf("the script has the id %q, want %q from the address", got, fromAddress)
	}
	b.visit(f.shop + "/?via=anna")
	first := js[string](b, `window.__tributary.whenClickId()`)
	if stored := f.waitStored(2)[1]; idOf(stored) != first || first == fromAddress || b.cookie() != first {
		t.Fatalf("id %q, cookie %q, stored click %s; want the same id everywhere, and not %q from the address", first, b.cookie(), idOf(stored), fromAddress)
	}
	b.visit(f.shop + "/?via=ben")
	f.waitStored(3)
	if got := js[string](b, `window.__tributary.whenClickId()`); got != first {
		t.Errorf("after a later click: id %q, want %q", got, first)
	}
}

// A collector that cannot look up the programme returns no attribution model. The script
// then keeps the existing click.
func TestUnknownModel_DoesNotReplaceClick(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	f.setFault(func(_ int, out http.ResponseWriter, _ *http.Request) bool {
		out.Header().Set("Access-Control-Allow-Origin", "*")
		out.Header().Set("Content-Type", "application/json")
		_, _ = out.Write([]byte(`{"click_id":"` + affiliate.NewID[affiliate.ClickID](time.Now()).String() + `","cookie_max_age":2592000,"attribution_model":null}`))
		return true
	})
	b.visit(f.shop + "/?via=ben")
	if got := js[string](b, `window.__tributary.whenClickId()`); got != id || b.cookie() != id || b.clicks() != 2 {
		t.Errorf("after a click without a model: id %q, cookie %q and %d clicks; want %q, %q and 2", got, b.cookie(), b.clicks(), id, id)
	}
	// The response without a model must not change the model of the existing click, which
	// is last_click. The next click therefore replaces the existing click.
	f.setFault(nil)
	b.visit(f.shop + "/?via=anna")
	if got := js[string](b, `window.__tributary.whenClickId()`); got == id || got != b.cookie() {
		t.Errorf("after the next click: id %q, cookie %q; want the same new id instead of %q", got, b.cookie(), id)
	}
	// If there is no existing click, the new click is stored.
	f.setFault(func(_ int, out http.ResponseWriter, _ *http.Request) bool {
		out.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = out.Write([]byte(`{"click_id":"` + id + `","cookie_max_age":2592000,"attribution_model":null}`))
		return true
	})
	b = f.visit(f.shop + "/?via=ben")
	if got := b.waitCookie(); got != id {
		t.Errorf("without an existing click: id %q, want %q", got, id)
	}
}

// A page that the browser prerenders sends no click until the visitor opens the page.
func TestPrerenderedPage_WaitsUntilVisible(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{head: `<script>
		window.results = [];
		window.__tributary = {q: [["ready", id => results.push(id)]]}</script>`})
	b := f.visit(f.shop+"/?via=anna", `window.hidden = true; Object.defineProperty(document, "prerendering", {get: () => window.hidden})`)
	b.do(`window.__tributary.whenClickId().then(id => results.push(id))`)
	b.settle()
	if b.clicks() != 0 || js[int](b, `results.length`) != 0 || b.storage() != emptyStorage {
		t.Fatalf("before the visitor opens the page: %d clicks, results %v, stored %s; want none", b.clicks(), js[[]any](b, `results`), b.storage())
	}
	b.do(`hidden = false; document.dispatchEvent(new Event("prerenderingchange", {bubbles: true}))`)
	id := b.waitCookie()
	b.wait(`results.length === 2`)
	if got := js[bool](b, `results[0] === "`+id+`" && results[1] === "`+id+`"`); !got || idOf(f.waitStored(1)[0]) != id {
		t.Errorf("results %v, want twice the id %s of the stored click", js[[]any](b, `results`), id)
	}
}
