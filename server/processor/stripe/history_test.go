package stripe_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// subscriber stores a subscription of the customer cus_1: a session, its first invoice and
// two renewals.
func subscriber(t *testing.T) fixture {
	t.Helper()
	f := newFixture(t)
	f.put(stripeserver.NewSession("cs_1", object{
		"mode": "subscription", "created": monday, "customer": "cus_1", "invoice": "in_1", "subscription": "sub_1", "payment_intent": nil,
		"metadata": object{"aff_click_id": "click-1"}, "client_reference_id": "ref", "discounts": []any{object{"coupon": nil, "promotion_code": "promo_a"}},
	}), stripeserver.NewPromotionCode("promo_a", nil))
	for i, reason := range []string{"subscription_create", "subscription_cycle", "subscription_cycle"} {
		f.put(stripeserver.NewInvoice(fmt.Sprintf("in_%d", i+1), object{
			"created": monday + int64(i)*1_000, "customer": "cus_1", "billing_reason": reason, "parent": subscription(nil),
		}), stripeserver.NewInvoicePayment(fmt.Sprintf("inpay_%d", i+1), nil))
	}
	return f
}

// The account was connected between the start of the checkout and its payment.
func TestRead_HistoryOfSessionBeforeConnection(t *testing.T) {
	f := subscriber(t)
	f.put(stripeserver.NewInvoice("in_1", object{
		"created": monday + 20, "customer": "cus_1", "billing_reason": "subscription_create", "parent": subscription(nil),
	}))
	facts := f.read(t, paid, "in_1", since(monday+10))
	if sale := only(t, facts); sale.IDs.Session != "cs_1" || sale.Click != "click-1" {
		t.Errorf("the sale is %+v, want the session and its click", sale)
	}
}

func TestRead_History(t *testing.T) {
	for name, test := range map[string]struct{ eventType, id, want string }{
		"session":        {completed, "cs_1", "binding cs_1, purchase in_1"},
		"first invoice":  {paid, "in_1", "binding cs_1, purchase in_1"},
		"second invoice": {paid, "in_2", "binding cs_1, purchase in_1, renewal in_2"},
		"third invoice":  {paid, "in_3", "binding cs_1, purchase in_1, renewal in_2, renewal in_3"},
	} {
		t.Run(name, func(t *testing.T) {
			f := subscriber(t)
			facts := f.read(t, test.eventType, test.id)
			if got := summary(facts.Sales); got != test.want {
				t.Fatalf("the sales are %q, want %q", got, test.want)
			}
			codes := []processor.PromotionCode{{ID: "promo_a", Text: "A"}}
			first := facts.Sales[1]
			if first.IDs.Session != "cs_1" || !slices.Contains(first.Aliases, "cs_1") || !slices.Contains(first.Aliases, "pi_1") ||
				first.Click != "click-1" || first.Reference != "ref" || !slices.Equal(first.PromotionCodes, codes) {
				t.Errorf("the first invoice is %+v, want what its session says", first)
			}
			for _, renewal := range facts.Sales[2:] {
				if renewal.IDs.Session != "" || renewal.Click != "" {
					t.Errorf("the renewal is %+v, want nothing of the session", renewal)
				}
			}
			if n := f.requested(http.MethodGet, "/v1/promotion_codes/promo_a"); n != 1 {
				t.Errorf("the promotion code was read %d times, want once", n)
			}
		})
	}
}

func TestRead_HistoryKeepsWhatTheInvoiceSays(t *testing.T) {
	f := subscriber(t)
	f.put(stripeserver.NewInvoice("in_1", object{
		"created": monday, "customer": "cus_1", "billing_reason": "subscription_create", "parent": subscription(object{"aff_click_id": "click-2"}),
	}))
	facts := f.read(t, paid, "in_1")
	if sale := facts.Sales[len(facts.Sales)-1]; sale.Click != "click-2" || sale.Reference != "ref" {
		t.Errorf("the click is %q and the reference %q, want click-2 and ref", sale.Click, sale.Reference)
	}
}

func TestRead_HistoryOfPaymentWithInvoice(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewSession("cs_1", object{"created": monday, "customer": "cus_1", "invoice": "in_1"}),
		stripeserver.NewInvoice("in_1", object{"created": monday + 5, "billing_reason": "manual"}), stripeserver.NewInvoicePayment("inpay_1", nil))
	for eventType, test := range map[string]struct{ id, want string }{
		completed: {"cs_1", "purchase in_1"},
		paid:      {"in_1", "purchase in_1, purchase in_1"},
	} {
		facts := f.read(t, eventType, test.id)
		if got := summary(facts.Sales); got != test.want || facts.Sales[0].IDs.Session != "cs_1" {
			t.Errorf("the sales of %s are %q, want %q, the session first", eventType, got, test.want)
		}
	}
}

func TestRead_HistoryLeavesOutOtherSales(t *testing.T) {
	f := newFixture(t)
	session := func(id string, overrides object) object {
		return stripeserver.NewSession(id, with(object{"created": monday - 100, "customer": "cus_1"}, overrides))
	}
	invoice := func(id string, overrides object) object {
		return stripeserver.NewInvoice(id, with(object{"created": monday - 90, "customer": "cus_1"}, overrides))
	}
	f.put(
		session("cs_kept", nil),
		session("cs_open", object{"status": "open"}),
		session("cs_other", object{"customer": "cus_2"}),
		session("cs_old", object{"created": monday - 1_001}),
		session("cs_later", object{"created": monday + 1}),
		session("cs_setup", object{"mode": "setup", "payment_intent": nil}),
		session("cs_currency", object{"currency": "xxx"}),
		invoice("in_kept", nil), stripeserver.NewInvoicePayment("inpay_kept", nil),
		invoice("in_trial", object{"amount_paid": 0, "billing_reason": "subscription_create"}),
		invoice("in_open", object{"status": "open"}),
		invoice("in_other", object{"customer": "cus_2"}),
		invoice("in_old", object{"created": monday - 1_001}),
		invoice("in_later", object{"created": monday - 90, "status_transitions": object{"paid_at": monday + 1}}),
		invoice("in_zero", object{"amount_paid": 0, "billing_reason": "subscription_cycle"}),
		invoice("in_outofband", nil),
		session("cs_own", object{"created": monday}),
	)
	const want = "purchase pi_kept, purchase in_kept, trial in_trial, purchase pi_own"
	if got := summary(f.read(t, completed, "cs_own", since(monday-1_000)).Sales); got != want {
		t.Errorf("the sales are %q, want %q", got, want)
	}
}

// The stand-in of this test ignores the filters of lists.
func TestRead_HistoryDoesNotTrustLists(t *testing.T) {
	server, err := stripeserver.New()
	if err != nil {
		t.Fatal(err)
	}
	f := fixtureWith(t, server, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		for _, filter := range []string{"customer", "status", "created[gte]", "invoice", "charge", "payment_intent", "payment[payment_intent]", "payment[type]"} {
			query.Del(filter)
		}
		r.URL.RawQuery = query.Encode()
		server.ServeHTTP(w, r)
	}))
	f.put(
		stripeserver.NewSession("cs_1", object{"created": monday, "customer": "cus_1"}),
		stripeserver.NewSession("cs_2", object{"created": monday - 1, "customer": "cus_2"}),
		stripeserver.NewSession("cs_3", object{"created": monday - 1, "customer": "cus_1", "status": "open"}),
		stripeserver.NewSession("cs_4", object{"created": monday - 999, "customer": "cus_1"}),
		stripeserver.NewInvoice("in_2", object{"created": monday - 1}),
		stripeserver.NewInvoicePayment("inpay_2", nil),
		stripeserver.NewCharge("ch_1", nil), stripeserver.NewRefund("re_2", nil), stripeserver.NewDispute("dp_2", nil),
	)
	if got := summary(f.read(t, completed, "cs_1", since(monday-100)).Sales); got != "purchase pi_1" {
		t.Errorf("the sales are %q, want the sale of the event", got)
	}
	charge := f.read(t, "charge.refunded", "ch_1").Charge
	if got := strings.Join(charge.Aliases, " "); got != "ch_1 pi_1 cs_1" || len(charge.Disputes) != 0 || *charge.RefundedCents != 0 {
		t.Errorf("the charge is %+v, want nothing of other charges", charge)
	}
}

func TestRead_HistoryHasAllPages(t *testing.T) {
	f := newFixture(t)
	const sessions = 1_030
	for i := range sessions {
		f.put(stripeserver.NewSession(fmt.Sprintf("cs_%d", i), object{"created": monday + int64(i), "customer": "cus_1"}))
	}
	sales := f.read(t, completed, fmt.Sprintf("cs_%d", sessions-1)).Sales
	if len(sales) != 1_000 || sales[len(sales)-1].IDs.Session != "cs_1029" || sales[0].IDs.Session != "cs_30" {
		t.Errorf("%d sales, the first is %s, want the newest 1,000", len(sales), sales[0].IDs.Session)
	}
}

func TestRead_HistoryWithoutTheOwnObject(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewInvoice("in_1", object{"created": monday, "customer": "cus_1"}), stripeserver.NewInvoicePayment("inpay_1", nil))
	body := f.Event(paid, "in_1")
	f.Delete("in_1")
	if got := summary(f.readBody(t, body).Sales); got != "purchase in_1" {
		t.Errorf("the sales are %q, want the sale of the event", got)
	}
}

// The payments of the invoices in the history come with the list of invoices.
func TestRead_HistoryNumberOfRequests(t *testing.T) {
	f := subscriber(t)
	f.read(t, paid, "in_3")
	if n := len(f.Requests()); n != 4 {
		t.Errorf("%d requests were sent, want 4: payments, sessions, promotion code, invoices: %+v", n, f.Requests())
	}
}
