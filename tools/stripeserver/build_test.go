package stripeserver

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/stripe/stripe-go/v85"
)

// builders has the functions that return objects, with an id for each.
var builders = map[string]func(string, map[string]any) map[string]any{
	"cs_a": NewSession, "pi_a": NewPaymentIntent, "ch_a": NewCharge, "txn_a": NewBalanceTransaction, "re_a": NewRefund,
	"dp_a": NewDispute, "in_a": NewInvoice, "inpay_a": NewInvoicePayment, "promo_a": NewPromotionCode,
}

func TestBuild_HasTheFieldsOfStripesDocument(t *testing.T) {
	t.Parallel()
	for id, newObject := range builders {
		object := newObject(id, nil)
		name := text(object, "object")
		schema := mustLoad().schemas[name]
		for _, field := range schema.Required {
			if _, exists := object[field]; !exists {
				t.Errorf("%s has no field %s, which is required", name, field)
			}
		}
		for field, value := range object {
			property := schema.Properties[field]
			switch {
			case property == nil:
				t.Errorf("%s has the field %s, which is unknown", name, field)
			case value == nil && !property.Nullable:
				t.Errorf("%s has null in the field %s, which is not nullable", name, field)
			case len(property.Enum) > 0 && value != nil && !slices.Contains(property.Enum, value):
				t.Errorf("%s has the value %v in the field %s, want one of %v", name, value, field, property.Enum)
			}
		}
		if object["id"] != id {
			t.Errorf("%s has the id %v, want %s", name, object["id"], id)
		}
	}
}

// Stripe removed these fields from version basil of its API.
func TestBuild_HasNoFieldsOfOldVersions(t *testing.T) {
	t.Parallel()
	for field, object := range map[string]map[string]any{
		"charge": NewInvoice("in_a", nil), "payment_intent": NewInvoice("in_a", nil), "subscription": NewInvoice("in_a", nil),
		"paid": NewInvoice("in_a", nil), "tax": NewInvoice("in_a", nil), "payments": NewInvoice("in_a", nil),
		"invoice": NewCharge("ch_a", nil), "refunds": NewCharge("ch_a", nil), "source": NewCharge("ch_a", nil),
		"charges": NewPaymentIntent("pi_a", nil), "coupon": NewPromotionCode("promo_a", nil),
	} {
		if value, exists := object[field]; exists {
			t.Errorf("%s has the field %s: %v", object["object"], field, value)
		}
	}
}

func TestBuild_RefersToObjectsOfTheSameSale(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putSale("a")
	client := s.client(testKey, 0)
	session, err := client.V1CheckoutSessions.Retrieve(t.Context(), "cs_a", &stripe.CheckoutSessionRetrieveParams{
		Expand: stripe.StringSlice([]string{"payment_intent.latest_charge.balance_transaction"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	charge := session.PaymentIntent.LatestCharge
	if session.AmountTotal != 5000 || session.AmountSubtotal != 5000 || session.PaymentStatus != "paid" || session.Status != "complete" ||
		session.PaymentIntent.AmountReceived != 5000 || charge.AmountCaptured != 5000 || !charge.Captured || charge.Refunded || charge.Disputed ||
		charge.BalanceTransaction.Fee != 175 || charge.BalanceTransaction.Net != 4825 {
		t.Errorf("the sale is %+v", session)
	}
	invoice, err := client.V1Invoices.Retrieve(t.Context(), "in_a", &stripe.InvoiceRetrieveParams{Expand: stripe.StringSlice([]string{"payments"})})
	if err != nil {
		t.Fatal(err)
	}
	if invoice.AmountPaid != 5000 || invoice.Total != 5000 || invoice.Status != "paid" || invoice.StatusTransitions.PaidAt != invoice.Created ||
		invoice.Parent != nil || len(invoice.Lines.Data) != 1 || invoice.Lines.Data[0].Amount != 5000 ||
		invoice.Payments.Data[0].Payment.PaymentIntent.ID != "pi_a" || invoice.Payments.Data[0].AmountPaid != 5000 {
		t.Errorf("the invoice is %+v", invoice)
	}
}

func TestBuild_Overrides(t *testing.T) {
	t.Parallel()
	overrides := map[string]any{
		"amount_total": 900, "payment_intent": nil, "created": int64(123), "mode": "subscription",
		"total_details": map[string]any{"amount_discount": 100},
		"discounts":     []map[string]any{{"promotion_code": "promo_a"}},
		"metadata":      map[string]string{"aff_click_id": "x"},
	}
	session := NewSession("cs_a", overrides)
	for field, want := range map[string]any{
		"amount_total": 900.0, "amount_subtotal": 900.0, "payment_intent": nil, "created": 123.0, "mode": "subscription",
		"total_details": map[string]any{"amount_discount": 100.0, "amount_shipping": 0.0, "amount_tax": 0.0},
		"discounts":     []any{map[string]any{"promotion_code": "promo_a"}},
		"metadata":      map[string]any{"aff_click_id": "x"},
	} {
		if !reflect.DeepEqual(session[field], want) {
			t.Errorf("the field %s is %v, want %v", field, session[field], want)
		}
	}
	if session = NewSession("cs_a", map[string]any{"amount_total": 900, "amount_subtotal": 1000}); session["amount_subtotal"] != 1000.0 {
		t.Errorf("amount_subtotal is %v, want the override", session["amount_subtotal"])
	}
}

func TestNewInvoice_OfASubscription(t *testing.T) {
	t.Parallel()
	encoded, err := json.Marshal(NewInvoice("in_a", map[string]any{
		"amount_paid": 1200, "created": 456, "billing_reason": "subscription_cycle",
		"parent": map[string]any{
			"type":                 "subscription_details",
			"subscription_details": map[string]any{"subscription": "sub_a", "metadata": map[string]any{"aff_click_id": "x"}},
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	var invoice stripe.Invoice
	if err := json.Unmarshal(encoded, &invoice); err != nil {
		t.Fatal(err)
	}
	details := invoice.Parent.SubscriptionDetails
	if details.Subscription.ID != "sub_a" || details.Metadata["aff_click_id"] != "x" || invoice.StatusTransitions.PaidAt != 456 ||
		invoice.AmountDue != 1200 || invoice.Lines.Data[0].Amount != 1200 || invoice.Lines.Data[0].Subscription.ID != "sub_a" {
		t.Errorf("the invoice is %+v", invoice)
	}
}

func TestBuild_ReturnsIndependentCopies(t *testing.T) {
	t.Parallel()
	overrides := map[string]any{"metadata": map[string]any{"a": "1"}}
	for id, newObject := range builders {
		first := newObject(id, overrides)
		first["metadata"].(map[string]any)["a"] = "changed"
		if second := newObject(id, overrides); at(second, "metadata", "a") != "1" {
			t.Errorf("%s shares its metadata with another object", id)
		}
	}
}
