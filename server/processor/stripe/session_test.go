package stripe_test

import (
	"errors"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	processorservice "github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

const (
	completed = "checkout.session.completed"
	succeeded = "checkout.session.async_payment_succeeded"
)

func TestRead_Session(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewSession("cs_1", object{
		"created": monday, "amount_total": 11_900, "currency": "eur", "client_reference_id": "order 7",
		"metadata": object{"aff_click_id": "click-1"}, "payment_intent": "pi_1", "customer_email": "other@example.com",
		"total_details": object{"amount_tax": 1_900, "amount_shipping": 500, "amount_discount": 250},
		"discounts":     []any{object{"coupon": nil, "promotion_code": "promo_spring"}, object{"coupon": "c", "promotion_code": nil}},
	}), stripeserver.NewPromotionCode("promo_spring", nil))
	want := processor.Sale{
		ID:            "pi_1",
		IDs:           conversion.ProcessorIDs{Name: conversion.Stripe, Session: "cs_1", PaymentIntent: "pi_1"},
		Aliases:       []string{"pi_1", "cs_1"},
		EventType:     affiliate.Purchase,
		OccurredAt:    time.Unix(monday, 0).UTC(),
		Sale:          attribution.Sale{Money: affiliate.Money{Cents: 11_900, Currency: "EUR"}, TaxCents: 1_900, ShippingCents: 500},
		DiscountCents: 250, FeeKnown: true, Click: "click-1", Reference: "order 7",
		PromotionCodes: []processor.PromotionCode{{ID: "promo_spring", Text: "SPRING"}},
		CustomerEmail:  "buyer@example.com",
	}
	for _, eventType := range []string{completed, succeeded} {
		if got := only(t, f.read(t, eventType, "cs_1")); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is the sale\n%+v, want\n%+v", eventType, got, want)
		}
	}
}

func TestRead_SessionOutcomes(t *testing.T) {
	subscription := object{"mode": "subscription", "subscription": "sub_1", "invoice": "in_1", "payment_intent": nil}
	setup := object{"mode": "setup", "amount_total": nil, "amount_subtotal": nil, "currency": nil, "payment_intent": nil, "payment_status": "no_payment_required"}
	for name, test := range map[string]struct {
		session object
		// want is the event type, binds, or the reason why the event is ignored.
		want string
		id   string
	}{
		"paid":                           {object{}, "purchase", "pi_1"},
		"paid with an invoice":           {object{"invoice": "in_1"}, "purchase", "in_1"},
		"paid without payment intent":    {object{"payment_intent": nil}, "purchase", "cs_1"},
		"unpaid":                         {object{"payment_status": "unpaid"}, "binds", "pi_1"},
		"nothing to pay":                 {object{"payment_status": "no_payment_required"}, "trial", "pi_1"},
		"amount 0":                       {object{"amount_total": 0}, "trial", "pi_1"},
		"open":                           {object{"status": "open", "payment_status": "unpaid"}, "not_completed", ""},
		"expired":                        {object{"status": "expired", "payment_status": "unpaid"}, "not_completed", ""},
		"unknown currency":               {object{"currency": "xxx"}, "currency", ""},
		"no currency":                    {object{"currency": nil}, "currency", ""},
		"subscription paid":              {subscription, "binds", "in_1"},
		"subscription unpaid":            {with(subscription, object{"payment_status": "unpaid"}), "binds", "in_1"},
		"subscription with a trial":      {with(subscription, object{"payment_status": "no_payment_required", "amount_total": 0}), "binds", "in_1"},
		"subscription of 0":              {with(subscription, object{"amount_total": 0}), "binds", "in_1"},
		"subscription without invoice":   {with(subscription, object{"payment_status": "no_payment_required", "invoice": nil}), "trial", "cs_1"},
		"setup":                          {setup, "no_sale", ""},
		"setup with a click":             {with(setup, object{"metadata": object{"aff_click_id": "c"}}), "trial", "cs_1"},
		"setup with a reference":         {with(setup, object{"client_reference_id": "r"}), "trial", "cs_1"},
		"setup with a promotion code":    {with(setup, object{"discounts": []any{object{"coupon": nil, "promotion_code": "promo_1"}}}), "trial", "cs_1"},
		"no currency and nothing to pay": {object{"amount_total": nil, "currency": nil, "payment_status": "no_payment_required"}, "trial", "pi_1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(stripeserver.NewSession("cs_1", test.session))
			facts := f.read(t, completed, "cs_1")
			if test.id == "" {
				if string(facts.Ignored) != test.want || facts.Sales != nil {
					t.Errorf("Read returned %+v, want to ignore it as %s", facts, test.want)
				}
				return
			}
			sale := only(t, facts)
			got := string(sale.EventType)
			if sale.Binds {
				got = "binds"
			}
			if got != test.want || sale.ID != test.id {
				t.Errorf("the sale is %s %s, want %s %s", got, sale.ID, test.want, test.id)
			}
			if got == "trial" && sale.Sale.Cents != 0 {
				t.Errorf("the trial has the amount %d, want 0", sale.Sale.Cents)
			}
		})
	}
}

func TestRead_SessionIsReadAnew(t *testing.T) {
	unpaid := object{"payment_status": "unpaid"}
	for name, test := range map[string]struct {
		inEvent, atStripe object // atStripe is nil if the object was deleted
		options           []stripeserver.EventOption
		readAgain         bool
		want              string
		requests          int
	}{
		"final":                    {object{}, unpaid, nil, false, "purchase pi_1", 0},
		"unpaid, then paid":        {unpaid, object{}, nil, false, "purchase pi_1", 1},
		"unpaid, then deleted":     {unpaid, nil, nil, false, "binding cs_1", 1},
		"read again":               {object{}, unpaid, nil, true, "binding cs_1", 1},
		"read again, deleted":      {object{}, nil, nil, true, "purchase pi_1", 1},
		"another version":          {object{}, unpaid, []stripeserver.EventOption{stripeserver.EventAPIVersion("2020-08-27")}, false, "binding cs_1", 1},
		"another version, deleted": {object{}, nil, []stripeserver.EventOption{stripeserver.EventAPIVersion("2020-08-27")}, false, "purchase pi_1", 1},
		"a field has another type": {object{"metadata": []any{1}}, unpaid, nil, false, "binding cs_1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(stripeserver.NewSession("cs_1", test.inEvent))
			body := f.Event(completed, "cs_1", test.options...)
			f.Delete("cs_1")
			if test.atStripe != nil {
				f.put(stripeserver.NewSession("cs_1", test.atStripe))
			}
			var options []func(*processorservice.ReadRequest)
			if test.readAgain {
				options = append(options, readAgain)
			}
			facts := f.readBody(t, body, options...)
			if got := summary(facts.Sales); got != test.want {
				t.Errorf("the sale is %q, want %q", got, test.want)
			}
			if n := f.requested(http.MethodGet, "/v1/checkout/sessions/cs_1"); n != test.requests {
				t.Errorf("the session was read %d times, want %d", n, test.requests)
			}
		})
	}
}

func TestRead_ObjectWithAnotherTypeThatWasDeleted(t *testing.T) {
	f := newFixture(t)
	for eventType, o := range map[string]object{
		completed:      stripeserver.NewSession("cs_1", object{"metadata": []any{1}}),
		"invoice.paid": stripeserver.NewInvoice("in_1", object{"metadata": []any{1}}),
	} {
		f.put(o)
		id, _ := o["id"].(string)
		body := f.Event(eventType, id)
		f.Delete(id)
		if _, err := f.client.Read(t.Context(), key, processorservice.ReadRequest{Body: body}); err == nil || errors.Is(err, processorservice.ErrUnavailable) {
			t.Errorf("Read of %s returned the error %v, want that the event is malformed", eventType, err)
		}
	}
}

func TestRead_PromotionCodes(t *testing.T) {
	for name, test := range map[string]struct {
		code any
		deny bool
		put  bool
		want processor.PromotionCode
	}{
		"id":            {"promo_a", false, true, processor.PromotionCode{ID: "promo_a", Text: "A"}},
		"unknown id":    {"promo_a", false, false, processor.PromotionCode{ID: "promo_a"}},
		"no permission": {"promo_a", true, true, processor.PromotionCode{ID: "promo_a"}},
		"expanded":      {stripeserver.NewPromotionCode("promo_a", object{"code": "X"}), true, false, processor.PromotionCode{ID: "promo_a", Text: "X"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if test.put {
				f.put(stripeserver.NewPromotionCode("promo_a", nil))
			}
			if test.deny {
				f.Deny(key, "rak_promotion_code_read")
			}
			f.put(stripeserver.NewSession("cs_1", object{"discounts": []any{object{"coupon": nil, "promotion_code": test.code}}}))
			codes := only(t, f.read(t, completed, "cs_1")).PromotionCodes
			if len(codes) != 1 || codes[0] != test.want {
				t.Errorf("the promotion codes are %+v, want %+v", codes, test.want)
			}
		})
	}
}

func TestRead_IgnoresOtherEvents(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewSession("cs_1", nil), stripeserver.NewCharge("ch_1", nil))
	for eventType, want := range map[string]processor.Ignored{
		"checkout.session.async_payment_failed": processor.IgnoredUnfinished,
		"checkout.session.expired":              processor.IgnoredType,
		"customer.created":                      processor.IgnoredType,
		"charge.succeeded":                      processor.IgnoredType,
	} {
		if facts := f.read(t, eventType, "cs_1"); !reflect.DeepEqual(facts, processor.Facts{Ignored: want}) {
			t.Errorf("Read of %s returned %+v, want to ignore it as %s", eventType, facts, want)
		}
	}
	if n := len(f.Requests()); n != 0 {
		t.Errorf("%d requests were sent, want none", n)
	}
}

func TestRead_Currencies(t *testing.T) {
	for currency, want := range map[string]attribution.Sale{
		"jpy": {Money: affiliate.Money{Cents: 5_000, Currency: "JPY"}, TaxCents: 400},
		"isk": {Money: affiliate.Money{Cents: 50, Currency: "ISK"}, TaxCents: 4},
		"mga": {Money: affiliate.Money{Cents: 500_000, Currency: "MGA"}, TaxCents: 40_000},
		"kwd": {Money: affiliate.Money{Cents: 5_000, Currency: "KWD"}, TaxCents: 400},
	} {
		f := newFixture(t)
		f.put(stripeserver.NewSession("cs_1", object{"currency": currency, "total_details": object{"amount_tax": 400}}))
		if got := only(t, f.read(t, completed, "cs_1")).Sale; got != want {
			t.Errorf("the sale in %s is %+v, want %+v", currency, got, want)
		}
	}
}
