package snippet_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

const annasDiscount = `{"code":"ANNA20","type":"percentage","value":20}`

func (b *tab) discount() string { return js[string](b, `JSON.stringify(__tributary.getDiscount())`) }

func (b *tab) coupon() string {
	return js[string](b, `document.querySelector("[data-aff-coupon]").value`)
}

func TestDiscount_StaysOnLaterPages(t *testing.T) {
	f := newFixture(t)
	f.page("/checkout", page{body: `<input name="coupon" data-aff-coupon>`})
	b := f.visit(f.shop + "/")
	if got := b.discount(); got != "null" {
		t.Errorf("without a click the discount is %s, want null", got)
	}
	b.visit(f.shop + "/?via=anna")
	b.waitCookie()
	if got := b.discount(); got != annasDiscount {
		t.Errorf("on the first page the discount is %s, want %s", got, annasDiscount)
	}
	b.visit(f.shop + "/checkout")
	b.settle()
	if got := b.discount(); got != annasDiscount || b.coupon() != "ANNA20" {
		t.Errorf("on the next page the discount is %s and the coupon %q, want %s and ANNA20", got, b.coupon(), annasDiscount)
	}
	b.do(`__tributary.reset()`)
	if got := b.discount(); got != "null" || b.coupon() != "" {
		t.Errorf("after reset the discount is %s and the coupon %q, want null and none", got, b.coupon())
	}
}

// A short link leads to an address with the code and the click id.
func TestDiscount_OfShortLink(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna&aff_click_id=" + affiliate.NewID[affiliate.ClickID](time.Now()).String())
	b.wait(`__tributary.getDiscount()`)
	if got := b.discount(); got != annasDiscount {
		t.Errorf("the discount is %s, want %s", got, annasDiscount)
	}
}

func TestDiscount_LaterClickReplacesIt(t *testing.T) {
	f := newFixture(t)
	b := f.visit(f.shop + "/?via=anna")
	id := b.waitCookie()
	b.visit(f.shop + "/?via=ben")
	js[string](b, `window.__tributary.whenClickId()`)
	if got := b.discount(); got != "null" || b.id() == id {
		t.Errorf("after a click of a partner without promo code the discount is %s and the id %s", got, b.id())
	}
}

func TestCoupon_KeepsTextOfVisitor(t *testing.T) {
	f := newFixture(t)
	f.page("/checkout", page{body: `<input name="coupon" data-aff-coupon value="MINE">`})
	b := f.visit(f.shop + "/?via=anna")
	b.waitCookie()
	b.visit(f.shop + "/checkout")
	b.settle()
	if got := b.coupon(); got != "MINE" {
		t.Errorf("the coupon is %q, want MINE", got)
	}
	b.do("document.body.innerHTML = `<div><input data-aff-coupon></div>`")
	b.wait(`document.querySelector("[data-aff-coupon]").value === "ANNA20"`)
}
