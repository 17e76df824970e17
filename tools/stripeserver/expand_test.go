package stripeserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stripe/stripe-go/v85"
)

// putSale stores a sale whose objects have the same last part of the id.
func (r running) putSale(last string) {
	r.Put(NewSession("cs_"+last, nil))
	r.Put(NewPaymentIntent("pi_"+last, nil))
	r.Put(NewCharge("ch_"+last, nil))
	r.Put(NewBalanceTransaction("txn_"+last, nil))
	r.Put(NewInvoice("in_"+last, nil))
	r.Put(NewInvoicePayment("inpay_"+last, nil))
	r.Put(NewRefund("re_"+last, nil))
	r.Put(NewDispute("dp_"+last, nil))
}

func TestExpand_ReplacesIDs(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putSale("a")
	for path, test := range map[string]struct {
		field string // a path to a field that only an expanded object has
		want  any
	}{
		"checkout/sessions/cs_a?expand[]=payment_intent":                                   {"payment_intent.latest_charge", "ch_a"},
		"checkout/sessions/cs_a?expand[]=payment_intent.latest_charge":                     {"payment_intent.latest_charge.balance_transaction", "txn_a"},
		"checkout/sessions/cs_a?expand[]=payment_intent.latest_charge.balance_transaction": {"payment_intent.latest_charge.balance_transaction.fee", 175.0},
		"checkout/sessions?expand[]=data.payment_intent.latest_charge":                     {"data.0.payment_intent.latest_charge.id", "ch_a"},
		"payment_intents/pi_a?expand[]=latest_charge":                                      {"latest_charge.amount", 5000.0},
		"charges/ch_a?expand[]=balance_transaction&expand[]=payment_intent":                {"balance_transaction.net", 4825.0},
		"charges/ch_a?expand[]=refunds":                                                    {"refunds.data.0.id", "re_a"},
		"refunds/re_a?expand[0]=charge.payment_intent":                                     {"charge.payment_intent.id", "pi_a"},
		"disputes/dp_a?expand[]=charge.balance_transaction":                                {"charge.balance_transaction.id", "txn_a"},
		"invoices/in_a?expand[]=payments":                                                  {"payments.data.0.payment.payment_intent", "pi_a"},
		"invoices/in_a?expand[]=payments.data.payment.payment_intent":                      {"payments.data.0.payment.payment_intent.latest_charge", "ch_a"},
		"invoices?expand[]=data.payments":                                                  {"data.0.payments.data.0.id", "inpay_a"},
		"invoice_payments?expand[]=data.invoice&expand[]=data.payment.payment_intent":      {"data.0.payment.payment_intent.id", "pi_a"},
	} {
		got := s.get(t, "/v1/"+path)
		var value any = got.object
		for _, field := range strings.Split(test.field, ".") {
			if array, ok := value.([]any); ok && field == "0" && len(array) > 0 {
				value = array[0]
				continue
			}
			object, _ := value.(map[string]any)
			value = object[field]
		}
		if got.status != http.StatusOK || value != test.want {
			t.Errorf("GET /v1/%s returned %d with %s = %v, want %v", path, got.status, test.field, value, test.want)
		}
	}
}

func TestExpand_LeavesOtherValues(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Put(NewSession("cs_a", map[string]any{"invoice": nil, "customer": map[string]any{"id": "cus_a", "object": "customer"}}))
	got := s.get(t, "/v1/checkout/sessions/cs_a?expand[]=payment_intent.latest_charge&expand[]=invoice.payments")
	if got.object["payment_intent"] != "pi_a" || got.object["invoice"] != nil {
		t.Errorf("the session is %v, want the id of the payment intent that is not stored and no invoice", got.object)
	}
	if customer, _ := got.object["customer"].(map[string]any); customer["id"] != "cus_a" {
		t.Errorf("the customer is %v, want the stored object", got.object["customer"])
	}
	if stored, _ := s.Object("cs_a"); stored["payment_intent"] != "pi_a" {
		t.Errorf("expand changed the stored session to %v", stored)
	}
}

func TestExpand_DoesNotChangeStoredObjects(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putSale("a")
	s.get(t, "/v1/checkout/sessions?expand[]=data.payment_intent.latest_charge")
	s.get(t, "/v1/invoices/in_a?expand[]=payments.data.payment.payment_intent")
	for id, field := range map[string]string{"cs_a": "payment_intent", "pi_a": "latest_charge"} {
		if object, _ := s.Object(id); idOf(object[field]) != object[field] {
			t.Errorf("the stored object %s contains the object %v, want its id", id, object[field])
		}
	}
	invoice, _ := s.Object("in_a")
	if _, exists := invoice["payments"]; exists {
		t.Error("the stored invoice contains its payments")
	}
}

func TestExpand_IncludedListHasFirstPage(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Put(NewInvoice("in_a", nil))
	for i := range 11 {
		s.Put(NewInvoicePayment(fmt.Sprintf("inpay_%d", i), map[string]any{"invoice": "in_a"}))
	}
	params := &stripe.InvoiceRetrieveParams{}
	params.AddExpand("payments")
	invoice, err := s.client(testKey, 0).V1Invoices.Retrieve(t.Context(), "in_a", params)
	if err != nil || len(invoice.Payments.Data) != 10 || !invoice.Payments.HasMore {
		t.Errorf("the payments are %+v and the error is %v, want 10 with more", invoice.Payments, err)
	}
}

func TestExpand_RejectsWrongPaths(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putSale("a")
	for path, want := range map[string]string{
		"charges/ch_a?expand[]=metadata":                                         "This property cannot be expanded (metadata).",
		"charges/ch_a?expand[]=invoice":                                          "This property cannot be expanded (invoice).",
		"invoices/in_a?expand[]=payment_intent":                                  "This property cannot be expanded (payment_intent).",
		"invoices?expand[]=payments":                                             "This property cannot be expanded (payments).",
		"invoices?expand[]=data":                                                 "This property cannot be expanded (data).",
		"invoices?expand[]=data.charge":                                          "This property cannot be expanded (data.charge).",
		"charges/ch_a?expand[]=payment_intent.latest_charge.refunds.data.charge": "You cannot expand more than 4 levels of a property. Property: payment_intent.latest_charge.refunds.data.charge",
		"invoices?expand[]=data.payments.data.payment.payment_intent":            "You cannot expand more than 4 levels of a property. Property: data.payments.data.payment.payment_intent",
		"charges/ch_a?expand=payment_intent":                                     "Request validation error",
	} {
		got := s.get(t, "/v1/"+path)
		if got.status != http.StatusBadRequest || !strings.HasPrefix(got.errorField("message"), want) {
			t.Errorf("GET /v1/%s returned %d %v, want 400 with %q", path, got.status, got.object, want)
		}
	}
	got := s.get(t, "/v1/invoices?expand[]=data.payments.data.payment.payment_intent")
	if code := got.errorField("code"); code != "property_expansion_max_depth" {
		t.Errorf("the code of a path that is too deep is %q", code)
	}
}
