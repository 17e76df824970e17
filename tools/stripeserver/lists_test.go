package stripeserver

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stripe/stripe-go/v85"
)

func TestList_EmptyWithoutObjects(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, r := range resources {
		got := s.get(t, r.path())
		if data, ok := got.object["data"].([]any); !ok || len(data) != 0 || got.object["has_more"] != false ||
			got.object["object"] != "list" || got.object["url"] != r.path() {
			t.Errorf("GET %s returned %d %v, want an empty list", r.path(), got.status, got.object)
		}
	}
}

func TestList_Filters(t *testing.T) {
	t.Parallel()
	s := start(t)
	subscription := map[string]any{"type": "subscription_details", "subscription_details": map[string]any{"subscription": "sub_a"}}
	for _, object := range []map[string]any{
		NewSession("cs_a", map[string]any{"created": 100, "customer": "cus_a", "subscription": "sub_a"}),
		NewSession("cs_b", map[string]any{"created": 200, "customer": map[string]any{"id": "cus_b"}, "status": "open", "payment_intent": nil}),
		NewInvoice("in_a", map[string]any{"created": 100, "parent": subscription}),
		NewInvoice("in_b", map[string]any{"created": 200, "status": "open", "customer": "cus_b"}),
		NewInvoicePayment("inpay_a", map[string]any{"created": 100}),
		NewInvoicePayment("inpay_b", map[string]any{"created": 200, "status": "open", "payment": map[string]any{"type": "charge", "charge": "ch_b", "payment_intent": nil}}),
		NewCharge("ch_a", map[string]any{"created": 100, "customer": "cus_a"}),
		NewCharge("ch_b", map[string]any{"created": 200, "customer": "cus_b"}),
		NewRefund("re_a", map[string]any{"created": 100}),
		NewRefund("re_b", map[string]any{"created": 200}),
		NewDispute("dp_a", map[string]any{"created": 100}),
		NewDispute("dp_b", map[string]any{"created": 200}),
		NewPaymentIntent("pi_a", map[string]any{"created": 100, "customer": "cus_a"}),
		NewPaymentIntent("pi_b", map[string]any{"created": 200}),
		NewBalanceTransaction("txn_a", map[string]any{"created": 100}),
		NewBalanceTransaction("txn_b", map[string]any{"created": 200, "type": "refund"}),
		NewPromotionCode("promo_a", map[string]any{"created": 100, "code": "SPRING"}),
		NewPromotionCode("promo_b", map[string]any{"created": 200, "active": false}),
		{"id": "evt_a", "object": "event", "created": 100, "type": "charge.refunded"},
		{"id": "evt_b", "object": "event", "created": 200, "type": "charge.dispute.created"},
		{"id": "evt_c", "object": "event", "created": 300, "type": "invoice.paid"},
	} {
		s.Put(object)
	}
	for path, want := range map[string]string{
		"checkout/sessions":                                                          "cs_b cs_a",
		"checkout/sessions?customer=cus_a":                                           "cs_a",
		"checkout/sessions?customer=cus_b":                                           "cs_b",
		"checkout/sessions?customer=cus_c":                                           "",
		"checkout/sessions?payment_intent=pi_a":                                      "cs_a",
		"checkout/sessions?subscription=sub_a":                                       "cs_a",
		"checkout/sessions?status=open":                                              "cs_b",
		"checkout/sessions?status=open&customer=cus_a":                               "",
		"checkout/sessions?created[gte]=200":                                         "cs_b",
		"checkout/sessions?created[gt]=100":                                          "cs_b",
		"checkout/sessions?created[lte]=100":                                         "cs_a",
		"checkout/sessions?created[lt]=100":                                          "",
		"checkout/sessions?created[gte]=100&created[lt]=200":                         "cs_a",
		"checkout/sessions?created=200":                                              "cs_b",
		"invoices?customer=cus_a":                                                    "in_a",
		"invoices?subscription=sub_a":                                                "in_a",
		"invoices?status=open":                                                       "in_b",
		"invoices?created[gt]=100":                                                   "in_b",
		"invoice_payments?invoice=in_a":                                              "inpay_a",
		"invoice_payments?status=open":                                               "inpay_b",
		"invoice_payments?payment[type]=payment_intent":                              "inpay_a",
		"invoice_payments?payment[type]=payment_intent&payment[payment_intent]=pi_b": "",
		"invoice_payments?payment[type]=payment_intent&payment[payment_intent]=pi_a": "inpay_a",
		"charges?customer=cus_b":                                                     "ch_b",
		"charges?payment_intent=pi_a":                                                "ch_a",
		"refunds?charge=ch_a":                                                        "re_a",
		"refunds?payment_intent=pi_b":                                                "re_b",
		"disputes?charge=ch_a":                                                       "dp_a",
		"disputes?payment_intent=pi_b":                                               "dp_b",
		"payment_intents?customer=cus_a":                                             "pi_a",
		"balance_transactions?source=ch_a":                                           "txn_a",
		"balance_transactions?type=refund":                                           "txn_b",
		"promotion_codes?code=spring":                                                "promo_a",
		"promotion_codes?active=true":                                                "promo_a",
		"promotion_codes?active=false":                                               "promo_b",
		"promotion_codes?coupon=coupon_b":                                            "promo_b",
		"events?type=invoice.paid":                                                   "evt_c",
		"events?type=charge.*":                                                       "evt_b evt_a",
		"events?types[]=invoice.paid&types[]=charge.refunded":                        "evt_c evt_a",
		"events?types[0]=invoice.paid&types[1]=charge.refunded":                      "evt_c evt_a",
		"events?created[gte]=200&types[]=charge.refunded":                            "",
		"events?created[gte]=200&types[]=charge.dispute.created":                     "evt_b",
	} {
		if got := s.get(t, "/v1/"+path); got.status != http.StatusOK || strings.Join(got.ids(), " ") != want {
			t.Errorf("GET /v1/%s returned %d %v, want %q", path, got.status, got.ids(), want)
		}
	}
}

func TestList_NewestFirstThenLastStored(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, id := range []string{"ch_a", "ch_b", "ch_c"} {
		s.Put(NewCharge(id, map[string]any{"created": 100}))
	}
	s.Put(NewCharge("ch_d", map[string]any{"created": 50}))
	s.Put(NewCharge("ch_a", map[string]any{"created": 100})) // keeps its position
	if got, want := strings.Join(s.get(t, "/v1/charges").ids(), " "), "ch_c ch_b ch_a ch_d"; got != want {
		t.Errorf("the order is %s, want %s", got, want)
	}
}

func TestList_Pages(t *testing.T) {
	t.Parallel()
	s := start(t)
	for i := range 25 {
		customer := "cus_even"
		if i%2 == 1 {
			customer = "cus_odd"
		}
		s.Put(NewCharge(fmt.Sprintf("ch_%02d", i), map[string]any{"created": 100 + i, "customer": customer}))
	}
	s.Put(NewRefund("re_1", nil))
	for path, test := range map[string]struct {
		first, last string
		length      int
		hasMore     bool
	}{
		"":                             {"ch_24", "ch_15", 10, true},
		"limit=100":                    {"ch_24", "ch_00", 25, false},
		"limit=25":                     {"ch_24", "ch_00", 25, false},
		"limit=24":                     {"ch_24", "ch_01", 24, true},
		"limit=2&starting_after=ch_20": {"ch_19", "ch_18", 2, true},
		"limit=2&starting_after=ch_02": {"ch_01", "ch_00", 2, false},
		"limit=2&starting_after=ch_00": {"", "", 0, false},
		"limit=2&ending_before=ch_20":  {"ch_22", "ch_21", 2, true},
		"limit=9&ending_before=ch_20":  {"ch_24", "ch_21", 4, false},
		"limit=2&customer=cus_even&starting_after=ch_20": {"ch_18", "ch_16", 2, true},
		"limit=2&customer=cus_even&starting_after=ch_19": {"ch_18", "ch_16", 2, true}, // the filter excludes ch_19
	} {
		got := s.get(t, "/v1/charges?"+path)
		ids := got.ids()
		first, last := "", ""
		if len(ids) > 0 {
			first, last = ids[0], ids[len(ids)-1]
		}
		if first != test.first || last != test.last || len(ids) != test.length || got.object["has_more"] != test.hasMore {
			t.Errorf("GET /v1/charges?%s returned %v with has_more %v, want %+v", path, ids, got.object["has_more"], test)
		}
	}
	for _, path := range []string{"starting_after=ch_99", "ending_before=ch_99", "starting_after=re_1"} {
		if got := s.get(t, "/v1/charges?"+path); got.status != http.StatusBadRequest || got.errorField("code") != "resource_missing" {
			t.Errorf("GET /v1/charges?%s returned %d %v, want 400 resource_missing", path, got.status, got.object)
		}
	}
	if got := s.get(t, "/v1/charges?starting_after=ch_01&ending_before=ch_02"); got.status != http.StatusBadRequest {
		t.Errorf("starting_after with ending_before returned %d, want 400", got.status)
	}
}

func TestList_IsReadByClientLibrary(t *testing.T) {
	t.Parallel()
	s := start(t)
	var want []string
	for i := range 23 {
		id := fmt.Sprintf("evt_%02d", i)
		s.Put(NewCharge("ch_1", nil))
		s.Event("charge.refunded", "ch_1", EventID(id))
		want = append(want, id)
	}
	s.Event("charge.failed", "ch_1")
	params := &stripe.EventListParams{Types: stripe.StringSlice([]string{"charge.refunded", "invoice.paid"})}
	params.Limit = stripe.Int64(7)
	var got []string
	for event, err := range s.client(testKey, 0).V1Events.List(t.Context(), params).All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, event.ID)
	}
	slices.Reverse(got)
	if !slices.Equal(got, want) {
		t.Errorf("the client library read %v, want %v", got, want)
	}
	for _, r := range s.Requests() {
		if limit := r.Query["limit"]; !slices.Equal(limit, url.Values{"limit": {"7"}}["limit"]) {
			t.Errorf("a request has the limit %v, want 7", limit)
		}
	}
}
