package snippet_test

import (
	"slices"
	"testing"

	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

const (
	privacyControl = `Object.defineProperty(Navigator.prototype, "globalPrivacyControl", {get: () => true})`
	consentMode    = `<script>window.dataLayer = [{event: "x"}, null]; function gtag() { dataLayer.push(arguments) }</script>`
)

func TestADeniedClickIsCountedAndKeptNowhere(t *testing.T) {
	w := newWorld(t)
	for n, c := range []struct {
		name    string
		page    page
		initial []string
	}{
		{name: "Global Privacy Control", initial: []string{privacyControl}},
		{name: "Google's consent mode", page: page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "denied"})</script>`}},
		{name: "consent mode, withdrawn", page: page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "granted"}); gtag("consent", "update", {ad_storage: "denied"})</script>`}},
	} {
		c.page.body = `<a href="https://buy.stripe.com/x">buy</a>`
		w.page("/", c.page)
		b := w.visit(w.shop+"/?via=anna", c.initial...)
		id := b.waitID()
		b.settle()
		sent := w.waitClicks(n + 1)[n]
		if sent.body["consent"] != "denied" || sent.id() != id {
			t.Errorf("%s: id %q, sent %s", c.name, id, sent.text)
		}
		if got := b.kept(); got != nothingKept {
			t.Errorf("%s: kept %s", c.name, got)
		}
		if got := js[string](b, `document.querySelector("a").href`); got != "https://buy.stripe.com/x?client_reference_id="+id {
			t.Errorf("%s: link %s", c.name, got)
		}
		stored := w.waitStored(n + 1)
		at := slices.IndexFunc(stored, func(c *edgev1.Click) bool { return idOf(c) == id })
		if at < 0 || stored[at].Consent != edgev1.Consent_CONSENT_DENIED || stored[at].IpHash != nil || stored[at].UaHash != nil || stored[at].IpPrefix != "" {
			t.Errorf("%s: stored %v", c.name, stored)
		}
		b.visit(w.shop + "/")
		b.settle()
		if b.id() != "" {
			t.Errorf("%s: the next page knows %q", c.name, b.id())
		}
	}
}

func TestGrantedConsentModeIsAnOrdinaryVisit(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{head: consentMode + `<script>gtag("consent", "default", {ad_storage: "denied"}); gtag("consent", "update", {ad_storage: "granted"})</script>`})
	b := w.visit(w.shop + "/?via=anna")
	b.landed()
	if got := w.waitClicks(1)[0].body["consent"]; got != "granted" {
		t.Errorf("sent %q", got)
	}
	if got := w.waitStored(1)[0]; got.Consent != edgev1.Consent_CONSENT_GRANTED || got.IpHash == nil {
		t.Errorf("%v", got)
	}
}

func TestRequiredConsentKeepsNothingBeforeItIsGiven(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{attrs: `data-consent="required"`})
	b := w.visit(w.shop + "/?via=anna")
	b.settle()
	if got := b.kept(); got != nothingKept {
		t.Fatalf("kept %s", got)
	}
	for _, click := range w.clicks() {
		if click.body["consent"] != "denied" {
			t.Errorf("sent before the answer: %s", click.text)
		}
	}
	b.do(`window.__tributary.consent("granted")`)
	id := b.landed()
	if b.cookie() != id || !slices.ContainsFunc(w.stored(), func(c *edgev1.Click) bool { return idOf(c) == id }) {
		t.Errorf("cookie %q, id %q, %d stored", b.cookie(), id, len(w.stored()))
	}
	// The page says so again on each load; until it does, nothing is touched.
	b.visit(w.shop + "/")
	b.do(`window.__tributary.consent("granted")`)
	b.settle()
	if b.id() != id || b.cookie() != id {
		t.Errorf("the next page knows %q, cookie %q, want %q", b.id(), b.cookie(), id)
	}
}

func TestARefusalOfRequiredConsentIsADeniedClick(t *testing.T) {
	w := newWorld(t)
	w.page("/", page{attrs: `data-consent="required"`})
	b := w.visit(w.shop + "/?via=anna")
	b.do(`window.__tributary.consent("denied")`)
	id := b.waitID()
	b.settle()
	if got := b.kept(); got != nothingKept {
		t.Errorf("kept %s", got)
	}
	if stored := w.waitStored(1); idOf(stored[0]) != id || stored[0].Consent != edgev1.Consent_CONSENT_DENIED {
		t.Errorf("%v", stored)
	}
}

func TestALaterRefusalRemovesWhatWasKept(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	b.landed()
	b.do(`window.__tributary.consent("denied")`)
	b.settle()
	if got := b.kept(); got != nothingKept {
		t.Errorf("kept %s", got)
	}
	if cookies := b.cookies(); len(cookies) != 0 {
		t.Errorf("%v", cookies)
	}
	b.visit(w.shop + "/")
	b.settle()
	if b.id() != "" || b.kept() != nothingKept {
		t.Errorf("the next page knows %q and keeps %s", b.id(), b.kept())
	}
}

func TestResetForgetsTheClick(t *testing.T) {
	w := newWorld(t)
	b := w.visit(w.shop + "/?via=anna")
	first := b.landed()
	b.do(`window.__tributary.reset()`)
	if b.id() != "" || b.kept() != nothingKept {
		t.Errorf("id %q, kept %s", b.id(), b.kept())
	}
	b.visit(w.shop + "/?via=anna")
	if second := b.landed(); second == first {
		t.Error("a visit after reset has the old click")
	}
}
