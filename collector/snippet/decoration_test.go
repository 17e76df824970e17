package snippet_test

import (
	"net/http"
	"strings"
	"testing"
)

// preventNavigation is HTML that keeps the browser on the page after clicks on links.
const preventNavigation = `<script>addEventListener("click", e => e.preventDefault())</script>`

func TestDecoration_AddsIDToStripeElements(t *testing.T) {
	f := newFixture(t)
	release := make(chan struct{})
	f.setFault(func(int, http.ResponseWriter, *http.Request) bool { f.waitUntil(release); return false })
	f.page("/", page{body: `
		<a id="plain" href="https://buy.stripe.com/test_1">buy</a>
		<a id="query" href="https://buy.stripe.com/test_1?prefilled_email=a%40b.example&locale=de#top">buy</a>
		<a id="own" href="https://buy.stripe.com/test_1?client_reference_id=order-7">buy</a>
		<a id="elsewhere" href="https://buy.stripe.com.elsewhere.example/x">x</a>
		<a id="stripe" href="https://stripe.com/pricing">x</a>
		<a id="mention" href="/go?to=https://buy.stripe.com/x">x</a>
		<a id="none">x</a>
		<stripe-buy-button id="button" buy-button-id="b"></stripe-buy-button>
		<stripe-buy-button id="owned" client-reference-id="order-7"></stripe-buy-button>
		<stripe-pricing-table id="table"></stripe-pricing-table>`})
	b := f.visit(f.shop + "/?via=anna")
	f.waitClicks(1)
	before := js[string](b, `document.body.innerHTML`)
	if strings.Count(before, "client_reference_id=") != 1 || strings.Count(before, "client-reference-id=") != 1 {
		t.Errorf("before there is an id: body %s, want only the references of the page itself", before)
	}
	close(release)
	id := b.waitCookie()
	reference := "client_reference_id=" + id
	for element, want := range map[string]string{
		"plain": "https://buy.stripe.com/test_1?" + reference,
		"query": "https://buy.stripe.com/test_1?prefilled_email=a%40b.example&locale=de&" + reference + "#top",
	} {
		b.wait(`document.getElementById("` + element + `").getAttribute("href") === "` + want + `"`)
	}
	for _, element := range []string{"button", "table"} {
		b.wait(`document.getElementById("` + element + `").getAttribute("client-reference-id") === "` + id + `"`)
	}
	for element, want := range map[string]string{
		"own":       "https://buy.stripe.com/test_1?client_reference_id=order-7",
		"elsewhere": "https://buy.stripe.com.elsewhere.example/x",
		"stripe":    "https://stripe.com/pricing",
		"mention":   "/go?to=https://buy.stripe.com/x",
		"none":      "",
	} {
		if got := js[string](b, `document.getElementById("`+element+`").getAttribute("href") || ""`); got != want {
			t.Errorf("the element %s has the href %q, want %q", element, got, want)
		}
	}
	if got := js[string](b, `document.getElementById("owned").getAttribute("client-reference-id")`); got != "order-7" {
		t.Errorf("the merchant's own reference became %q, want order-7", got)
	}
}

func TestDecoration_AddsIDToElementsInsertedLater(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	b.do(`const box = document.createElement("section");
		box.innerHTML = "<p><a href='https://buy.stripe.com/x'>buy</a></p><stripe-buy-button></stripe-buy-button><stripe-pricing-table></stripe-pricing-table>";
		document.body.append(box)`)
	b.wait(`document.querySelector("a").href === "https://buy.stripe.com/x?client_reference_id=` + id + `"`)
	b.wait(`document.querySelector("stripe-buy-button").getAttribute("client-reference-id") === "` + id + `"`)
	b.wait(`document.querySelector("stripe-pricing-table").getAttribute("client-reference-id") === "` + id + `"`)
}

// A framework may change the address of a link that is already in the page. The script
// decorates such a link at the next user event. The test sets the address and sends the
// event in one task of the browser, so that only the event can cause the decoration.
func TestDecoration_RunsOnUserEvent(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{head: preventNavigation, body: `<a><b>buy</b></a>`})
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	for _, event := range []string{
		`new PointerEvent("pointerdown", {bubbles: true, composed: true})`,
		`new KeyboardEvent("keydown", {bubbles: true, composed: true, key: "Enter"})`,
		`new MouseEvent("auxclick", {bubbles: true, composed: true, button: 1})`,
	} {
		got := js[string](b, `(() => { const a = document.querySelector("a"); a.href = "https://buy.stripe.com/x"; a.firstChild.dispatchEvent(`+event+`); return a.href })()`)
		if want := "https://buy.stripe.com/x?client_reference_id=" + id; got != want {
			t.Errorf("after %s: the link is %s, want %s", event, got, want)
		}
	}
}

func TestDecoration_WritesIDOnce(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{head: preventNavigation, body: `<a href="https://buy.stripe.com/x">buy</a>`})
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	for range 3 {
		b.do(`const a = document.querySelector("a"); a.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true})); document.body.append(a); window.__tributary.decorate(a)`)
		b.settle()
	}
	if got, want := js[string](b, `document.querySelector("a").href`), "https://buy.stripe.com/x?client_reference_id="+id; got != want {
		t.Errorf("the link is %s, want %s", got, want)
	}
}

func TestDecoration_LinksToListedDomains(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{
		attrs: `data-domains="www.checkout.example, *.pay.example"`, head: preventNavigation,
		body: `<a></a>`,
	})
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	for href, decorated := range map[string]bool{
		f.other + "/c?x=1#top":                 true,
		"https://eu.pay.example/":              true,
		"https://a.b.pay.example/":             true,
		"https://x.www.checkout.example/":      false,
		"https://checkout.example/":            false,
		"https://evilpay.example/":             false,
		"https://eu.pay.example.evil.example/": false,
		"https://elsewhere.example/":           false,
		"mailto:a@eu.pay.example":              false,
		f.shop + "/next":                       false,
	} {
		b.do(`const a = document.querySelector("a"); a.href = "` + href + `"; a.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true})); a.click()`)
		got := js[string](b, `document.querySelector("a").href`)
		if hasID := strings.Contains(got, "aff_click_id="+id); hasID != decorated {
			t.Errorf("the link to %s became %s, want an id: %t", href, got, decorated)
		}
		if want := f.other + "/c?x=1&aff_click_id=" + id + "#top"; decorated && strings.Contains(href, "#") && got != want {
			t.Errorf("the link to %s became %s, want %s", href, got, want)
		}
	}
}

func TestDecoration_OtherSiteHasSameClick(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{attrs: `data-domains="www.checkout.example"`, body: `<a href="` + f.other + `/cart">check out</a>`})
	f.page("/cart", page{})
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	b.do(`document.querySelector("a").click()`)
	b.wait(`location.hostname === "www.checkout.example" && document.readyState === "complete"`)
	if got := b.waitCookie(); got != id {
		t.Errorf("on the other site: id %q, want %q", got, id)
	}
	b.settle()
	if n := b.clicks(); n != 1 {
		t.Errorf("%d clicks sent, want 1", n)
	}
}

func TestDecoration_MarkedFormsSendID(t *testing.T) {
	f := newFixture(t)
	form := `<form data-aff action="/thanks"><input name="q" value="1"></form><form id="plain" action="/thanks"><input name="q" value="2"></form>`
	f.page("/", page{body: form})
	f.page("/late", page{})
	f.page("/thanks", page{})
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	b.do(`document.querySelector("form").requestSubmit()`)
	b.wait(`location.pathname === "/thanks"`)
	if got, want := js[string](b, `location.search`), "?q=1&aff_click_id="+id; got != want {
		t.Errorf("the form sent %s, want %s", got, want)
	}
	b.visit(f.shop + "/")
	b.do(`document.getElementById("plain").requestSubmit()`)
	b.wait(`location.search === "?q=2"`)

	b.visit(f.shop + "/late")
	b.do("document.body.innerHTML = `<div>" + form + "</div>`")
	b.settle()
	b.do(`document.querySelector("form").requestSubmit()`)
	b.wait(`location.pathname === "/thanks"`)
	if got, want := js[string](b, `location.search`), "?q=1&aff_click_id="+id; got != want {
		t.Errorf("a form that was inserted later sent %s, want %s", got, want)
	}
}

func TestDecoration_WithoutClickDoesNothing(t *testing.T) {
	f := newFixture(t)
	body := `<a href="https://buy.stripe.com/x">buy</a><stripe-buy-button></stripe-buy-button><form data-aff="" action="/thanks"><input name="q" value="1"></form>`
	f.page("/", page{attrs: `data-domains="www.checkout.example"`, head: preventNavigation, body: body})
	f.page("/thanks", page{})
	b := f.visit(f.shop + "/")
	b.settle()
	b.do(`const a = document.querySelector("a"); a.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true})); a.click(); window.__tributary.decorate(a)`)
	b.settle()
	if got := js[string](b, `document.body.innerHTML`); got != body {
		t.Errorf("the body became %s, want %s", got, body)
	}
	b.do(`document.querySelector("form").requestSubmit()`)
	b.wait(`location.pathname === "/thanks"`)
	if got := js[string](b, `location.search`); got != "?q=1" {
		t.Errorf("the form sent %s, want ?q=1", got)
	}
}

func TestDecorate_ReturnsAddressWithID(t *testing.T) {
	f := newFixture(t)
	f.page("/", page{attrs: `data-domains="www.checkout.example"`})
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	for url, want := range map[string]string{
		"https://buy.stripe.com/x?a=1":                    "https://buy.stripe.com/x?a=1&client_reference_id=" + id,
		"https://buy.stripe.com/x?client_reference_id=me": "https://buy.stripe.com/x?client_reference_id=me",
		f.other + "/": f.other + "/?aff_click_id=" + id,
	} {
		if got := js[string](b, `window.__tributary.decorate("`+url+`")`); got != want {
			t.Errorf("decorate(%q) = %s, want %s", url, got, want)
		}
	}
	got := js[string](b, `(() => { const a = document.createElement("a"); a.href = "https://buy.stripe.com/x"; window.__tributary.decorate(a); return a.href })()`)
	if want := "https://buy.stripe.com/x?client_reference_id=" + id; got != want {
		t.Errorf("after decorate(element): the link is %s, want %s", got, want)
	}
}
