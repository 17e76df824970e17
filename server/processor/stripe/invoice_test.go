package stripe_test

import (
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	processorservice "github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

const paid = "invoice.paid"

// subscription returns the field parent of the invoice of a subscription.
func subscription(metadata object) object {
	return object{"type": "subscription_details", "subscription_details": object{"subscription": "sub_1", "metadata": metadata}}
}

func TestRead_Invoice(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewInvoice("in_1", object{
		"created": monday - 60, "amount_paid": 11_900, "currency": "eur", "customer": nil,
		"billing_reason": "subscription_create", "parent": subscription(object{"aff_click_id": "click-1"}),
		"metadata":               object{"aff_click_id": "click-2"},
		"status_transitions":     object{"paid_at": monday},
		"total_taxes":            []any{object{"amount": 1_000}, object{"amount": 900}},
		"total_discount_amounts": []any{object{"amount": 200, "discount": "di_1"}, object{"amount": 50, "discount": "di_2"}},
		"shipping_cost":          object{"amount_total": 500, "amount_subtotal": 420, "amount_tax": 80},
		"discounts":              []any{"di_1", "di_2"},
	}),
		stripeserver.NewInvoicePayment("inpay_1", nil),
		stripeserver.NewInvoicePayment("inpay_2", object{"invoice": "in_1", "created": monday, "payment": object{"type": "charge", "payment_intent": nil, "charge": "ch_2"}}),
		stripeserver.NewInvoicePayment("inpay_3", object{"invoice": "in_1", "status": "canceled"}),
		stripeserver.NewInvoicePayment("inpay_4", object{"invoice": "in_other"}),
	)
	want := processor.Sale{
		ID:      "in_1",
		IDs:     conversion.ProcessorIDs{Name: conversion.Stripe, Invoice: "in_1", Charge: "ch_2", Subscription: "sub_1"},
		Aliases: []string{"in_1", "ch_2", "pi_1"}, EventType: affiliate.Purchase, OccurredAt: time.Unix(monday, 0).UTC(),
		Sale:          attribution.Sale{Money: affiliate.Money{Cents: 11_900, Currency: "EUR"}, TaxCents: 1_900, ShippingCents: 500},
		DiscountCents: 250, FeeKnown: true, IsRecurring: true, First: true, Click: "click-1", CustomerEmail: "buyer@example.com",
	}
	if got := only(t, f.read(t, paid, "in_1")); !reflect.DeepEqual(got, want) {
		t.Errorf("the sale is\n%+v, want\n%+v", got, want)
	}
}

func TestRead_InvoiceOutcomes(t *testing.T) {
	zero := object{"amount_paid": 0}
	for name, test := range map[string]struct {
		invoice   object
		want      string // the event type, or the reason why the event is ignored
		recurring bool
		first     bool
	}{
		"manual":                 {object{"billing_reason": "manual"}, "purchase", false, false},
		"first of subscription":  {object{"billing_reason": "subscription_create", "parent": subscription(nil)}, "purchase", true, true},
		"cycle":                  {object{"billing_reason": "subscription_cycle", "parent": subscription(nil)}, "renewal", true, false},
		"update":                 {object{"billing_reason": "subscription_update", "parent": subscription(nil)}, "renewal", true, false},
		"threshold":              {object{"billing_reason": "subscription_threshold", "parent": subscription(nil)}, "renewal", true, false},
		"quote":                  {object{"billing_reason": "quote_accept"}, "purchase", false, false},
		"no reason":              {object{"billing_reason": nil}, "purchase", false, false},
		"0, manual":              {with(zero, object{"billing_reason": "manual"}), "trial", false, false},
		"0, no reason":           {with(zero, object{"billing_reason": nil}), "trial", false, false},
		"0, first":               {with(zero, object{"billing_reason": "subscription_create", "parent": subscription(nil)}), "trial", true, true},
		"0, cycle":               {with(zero, object{"billing_reason": "subscription_cycle", "parent": subscription(nil)}), "zero_amount", false, false},
		"0, update":              {with(zero, object{"billing_reason": "subscription_update", "parent": subscription(nil)}), "zero_amount", false, false},
		"open":                   {object{"status": "open"}, "not_completed", false, false},
		"void":                   {object{"status": "void"}, "not_completed", false, false},
		"unknown currency":       {object{"currency": "xxx"}, "currency", false, false},
		"unknown currency and 0": {with(zero, object{"currency": "xxx"}), "currency", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(stripeserver.NewInvoice("in_1", with(object{"customer": nil}, test.invoice)), stripeserver.NewInvoicePayment("inpay_1", nil))
			facts := f.read(t, paid, "in_1")
			if len(facts.Sales) == 0 {
				if string(facts.Ignored) != test.want {
					t.Errorf("the event is ignored as %s, want %s", facts.Ignored, test.want)
				}
				return
			}
			sale := only(t, facts)
			if string(sale.EventType) != test.want || sale.IsRecurring != test.recurring || sale.First != test.first || sale.Binds {
				t.Errorf("the sale is %+v, want %s, recurring %v, first %v", sale, test.want, test.recurring, test.first)
			}
		})
	}
}

func TestRead_InvoiceIsReadAnew(t *testing.T) {
	for name, test := range map[string]struct {
		inEvent, atStripe object
		options           []stripeserver.EventOption
		readAgain         bool
		want              string
		requests          int
	}{
		"paid":                     {object{}, object{"status": "void"}, nil, false, "purchase in_1", 0},
		"open, then paid":          {object{"status": "open"}, object{}, nil, false, "purchase in_1", 1},
		"open, then deleted":       {object{"status": "open"}, nil, nil, false, "", 1},
		"read again":               {object{}, object{"status": "void"}, nil, true, "", 1},
		"read again, deleted":      {object{}, nil, nil, true, "purchase in_1", 1},
		"another version":          {object{}, object{"billing_reason": "subscription_cycle"}, []stripeserver.EventOption{stripeserver.EventAPIVersion("2020-08-27")}, false, "renewal in_1", 1},
		"another version, deleted": {object{}, nil, []stripeserver.EventOption{stripeserver.EventAPIVersion("2020-08-27")}, false, "purchase in_1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			customer := object{"customer": nil}
			f.put(stripeserver.NewInvoice("in_1", with(customer, test.inEvent)), stripeserver.NewInvoicePayment("inpay_1", nil))
			body := f.Event(paid, "in_1", test.options...)
			f.Delete("in_1")
			if test.atStripe != nil {
				f.put(stripeserver.NewInvoice("in_1", with(customer, test.atStripe)))
			}
			var options []func(*processorservice.ReadRequest)
			if test.readAgain {
				options = append(options, readAgain)
			}
			facts := f.readBody(t, body, options...)
			if got := summary(facts.Sales); got != test.want || got == "" && facts.Ignored != processor.IgnoredUnfinished {
				t.Errorf("Read returned %+v, want %q", facts, test.want)
			}
			if n := f.requested(http.MethodGet, "/v1/invoices/in_1"); n != test.requests {
				t.Errorf("the invoice was read %d times, want %d", n, test.requests)
			}
		})
	}
}

func TestRead_OutOfBand(t *testing.T) {
	for name, test := range map[string]struct {
		payments  []object
		outOfBand bool
		deleted   bool
		amount    int
		sale      bool
	}{
		"payment intent":                   {[]object{stripeserver.NewInvoicePayment("inpay_1", nil)}, false, false, 5_000, true},
		"no payment":                       {nil, false, false, 5_000, false},
		"no payment, included":             {nil, true, false, 5_000, true},
		"no payment, amount 0":             {nil, false, false, 0, true},
		"no payment, deleted":              {nil, false, true, 5_000, true},
		"payment of another invoice":       {[]object{stripeserver.NewInvoicePayment("inpay_1", object{"invoice": "in_2"})}, false, false, 5_000, false},
		"canceled payment":                 {[]object{stripeserver.NewInvoicePayment("inpay_1", object{"status": "canceled"})}, false, false, 5_000, false},
		"payment record":                   {[]object{stripeserver.NewInvoicePayment("inpay_1", object{"payment": object{"type": "payment_record", "payment_record": "pr_1", "payment_intent": nil}})}, false, false, 5_000, false},
		"payment record, included":         {[]object{stripeserver.NewInvoicePayment("inpay_1", object{"payment": object{"type": "payment_record", "payment_record": "pr_1", "payment_intent": nil}})}, true, false, 5_000, true},
		"payment record and a real charge": {[]object{stripeserver.NewInvoicePayment("inpay_1", object{"payment": object{"type": "charge", "charge": "ch_1", "payment_intent": nil}})}, false, false, 5_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(stripeserver.NewInvoice("in_1", object{"customer": nil, "amount_paid": test.amount}))
			f.put(test.payments...)
			body := f.Event(paid, "in_1")
			if test.deleted {
				f.Delete("in_1")
			}
			var options []func(*processorservice.ReadRequest)
			if test.outOfBand {
				options = append(options, outOfBand)
			}
			facts := f.readBody(t, body, options...)
			if (len(facts.Sales) == 1) != test.sale || !test.sale && facts.Ignored != processor.IgnoredOutOfBand {
				t.Errorf("Read returned %+v, want a sale: %v", facts, test.sale)
			}
		})
	}
}

func TestRead_DeductionsDoNotExceedTheInvoice(t *testing.T) {
	for name, test := range map[string]struct {
		tax, shipping         int
		wantTax, wantShipping int64
	}{
		"within the amount": {1_000, 4_000, 1_000, 4_000},
		"shipping exceeds":  {1_000, 9_000, 1_000, 4_000},
		"tax exceeds":       {9_000, 1_000, 5_000, 0},
		"negative":          {-5, -5, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(stripeserver.NewInvoice("in_1", object{
				"customer": nil, "total_taxes": []any{object{"amount": test.tax}}, "shipping_cost": object{"amount_total": test.shipping},
			}), stripeserver.NewInvoicePayment("inpay_1", nil))
			sale := only(t, f.read(t, paid, "in_1")).Sale
			if sale.TaxCents != test.wantTax || sale.ShippingCents != test.wantShipping {
				t.Errorf("tax and shipping are %d and %d, want %d and %d", sale.TaxCents, sale.ShippingCents, test.wantTax, test.wantShipping)
			}
		})
	}
}

func TestRead_InvoiceWithExpandedDiscount(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewInvoice("in_1", object{
		"customer": nil, "discounts": []any{"di_1", object{"id": "di_2", "object": "discount", "promotion_code": "promo_a"}},
	}), stripeserver.NewInvoicePayment("inpay_1", nil), stripeserver.NewPromotionCode("promo_a", nil))
	codes := only(t, f.read(t, paid, "in_1")).PromotionCodes
	if want := (processor.PromotionCode{ID: "promo_a", Text: "A"}); len(codes) != 1 || codes[0] != want {
		t.Errorf("the promotion codes are %+v, want %+v", codes, want)
	}
}

func TestAddCharges(t *testing.T) {
	usd := stripeserver.NewBalanceTransaction("txn_1", nil)
	two := []object{
		stripeserver.NewInvoicePayment("inpay_1", nil),
		stripeserver.NewInvoicePayment("inpay_2", object{"invoice": "in_1", "payment": object{"type": "charge", "charge": "ch_2", "payment_intent": nil}}),
		stripeserver.NewPaymentIntent("pi_1", nil), stripeserver.NewCharge("ch_1", nil), usd, stripeserver.NewCharge("ch_2", nil),
	}
	one := []object{stripeserver.NewPaymentIntent("pi_1", nil), stripeserver.NewCharge("ch_1", nil)}
	for name, test := range map[string]struct {
		object  object
		more    []object
		deny    string
		fee     int64
		known   bool
		aliases string // the charge that is an alias of the sale
	}{
		"session":               {stripeserver.NewSession("cs_1", nil), append(one, usd), "", 175, true, "ch_1"},
		"other currency":        {stripeserver.NewSession("cs_1", object{"currency": "eur"}), append(one, stripeserver.NewBalanceTransaction("txn_1", object{"fee": 123, "exchange_rate": 1.23})), "", 100, true, "ch_1"},
		"not settled":           {stripeserver.NewSession("cs_1", nil), []object{one[0], stripeserver.NewCharge("ch_1", object{"balance_transaction": nil})}, "", 0, false, "ch_1"},
		"transaction not found": {stripeserver.NewSession("cs_1", nil), one, "", 0, false, "ch_1"},
		"no charge":             {stripeserver.NewSession("cs_1", nil), []object{stripeserver.NewPaymentIntent("pi_1", object{"latest_charge": nil})}, "", 0, false, ""},
		"intent not found":      {stripeserver.NewSession("cs_1", nil), nil, "", 0, false, ""},
		"no intent":             {stripeserver.NewSession("cs_1", object{"payment_intent": nil}), nil, "", 0, false, ""},
		"no permission":         {stripeserver.NewSession("cs_1", nil), append(one, usd), "rak_payment_intent_read", 0, false, ""},
		"two payments":          {stripeserver.NewInvoice("in_1", object{"customer": nil}), append(two, stripeserver.NewBalanceTransaction("txn_2", object{"fee": 25})), "", 200, true, "ch_1"},
		"one of two is unknown": {stripeserver.NewInvoice("in_1", object{"customer": nil}), two, "", 0, false, "ch_2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(test.object)
			f.put(test.more...)
			f.Deny(key, test.deny)
			eventType := completed
			if test.object["object"] == "invoice" {
				eventType = paid
			}
			id, _ := test.object["id"].(string)
			sale := f.withFee(t, only(t, f.read(t, eventType, id)))
			if sale.Sale.FeeCents != test.fee || sale.FeeKnown != test.known {
				t.Errorf("the fee is %d, known %v, want %d, %v", sale.Sale.FeeCents, sale.FeeKnown, test.fee, test.known)
			}
			if test.aliases != "" && !slices.Contains(sale.Aliases, test.aliases) {
				t.Errorf("the aliases %v do not contain %s", sale.Aliases, test.aliases)
			}
		})
	}
}
