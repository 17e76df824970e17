package processor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

func wantSales(t *testing.T, f *fixture, want ...string) {
	t.Helper()
	if got := f.sales(); !slices.Equal(got, want) {
		t.Errorf("sales\n%q\nwant\n%q", got, want)
	}
}

func wantOutcome(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("outcome %s, want %s", got, want)
	}
}

func TestApply_CheckoutSession(t *testing.T) {
	f := newFixture(t)
	f.connect()
	f.NewPromoCode(f.ada, "spring")
	click := f.click()
	session := func(id string, overrides object) string {
		defaults := object{"created": f.ago(0), "amount_total": 4_900, "currency": "usd", "payment_intent": "pi_" + id}
		for name, value := range overrides {
			defaults[name] = value
		}
		f.put(stripeserver.NewSession("cs_"+id, defaults))
		return f.apply(f.event("checkout.session.completed", "cs_"+id))
	}
	for name, tc := range map[string]struct {
		session object
		outcome string
		want    string // without the external id; empty: no conversion
	}{
		"metadata":             {object{"metadata": object{"aff_click_id": click}}, "applied", "purchase 4900 USD CLICK_MATCHED"},
		"reference":            {object{"client_reference_id": click}, "applied", "purchase 4900 USD CLICK_MATCHED"},
		"reference of another": {object{"client_reference_id": "user-17"}, "applied", "purchase 4900 USD NO_ATTRIBUTION_SIGNAL nothing"},
		"bad metadata":         {object{"metadata": object{"aff_click_id": "x"}, "client_reference_id": click}, "applied", "purchase 4900 USD CLICK_MATCHED"},
		"promotion code": {
			object{"discounts": []any{object{"promotion_code": "promo_spring"}}}, "applied", "purchase 4900 USD PROMO_CODE_MATCHED",
		},
		"zero-decimal currency": {object{"currency": "jpy", "client_reference_id": click}, "applied", "purchase 4900 JPY CLICK_MATCHED"},
		"unpaid":                {object{"payment_status": "unpaid", "client_reference_id": click}, "applied", ""},
		"nothing to pay":        {object{"payment_status": "no_payment_required", "amount_total": 0, "client_reference_id": click}, "applied", "trial 0 USD RULE_NOT_APPLICABLE nothing"},
		"setup":                 {object{"mode": "setup", "amount_total": nil, "currency": nil, "payment_status": "no_payment_required", "payment_intent": nil}, "ignored:no_sale", ""},
		"open":                  {object{"status": "open", "client_reference_id": click}, "ignored:not_completed", ""},
	} {
		f.put(stripeserver.NewPromotionCode("promo_spring", object{"code": "SPRING"}))
		f.Exec(`truncate conversions, commissions, attribution_decisions, conversion_aliases, processor_events cascade`)
		id := "a"
		if got := session(id, tc.session); got != tc.outcome {
			t.Errorf("%s: outcome %s, want %s", name, got, tc.outcome)
		}
		var want []string
		if tc.want != "" {
			want = []string{"pi_a " + tc.want}
		}
		got := f.sales()
		if len(got) == 1 && len(want) == 1 && len(got[0]) > len(want[0]) {
			got[0] = got[0][:len(want[0])] // commissions in other currencies depend on exchange rates
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: sales %q, want %q", name, got, want)
		}
	}
}

func TestApply_SubscriptionBindsAndInvoicesConvert(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	click := f.click()
	f.put(
		stripeserver.NewSession("cs_a", object{
			"mode": "subscription", "customer": "cus_a", "subscription": "sub_a", "invoice": "in_1", "payment_intent": nil,
			"client_reference_id": click, "created": f.ago(0), "amount_total": 2_000, "currency": "usd",
		}),
		stripeserver.NewInvoice("in_1", object{
			"customer": "cus_a", "billing_reason": "subscription_create", "amount_paid": 2_000, "currency": "usd", "created": f.ago(0),
			"status_transitions": object{"paid_at": f.ago(-time.Second)},
		}),
		stripeserver.NewInvoicePayment("inpay_1", object{"invoice": "in_1", "payment": object{"type": "payment_intent", "payment_intent": "pi_1"}}),
		stripeserver.NewInvoice("in_2", object{
			"customer": "cus_a", "billing_reason": "subscription_cycle", "amount_paid": 2_500, "currency": "usd", "created": f.ago(-minutes(5)),
			"status_transitions": object{"paid_at": f.ago(-minutes(5))},
		}),
		stripeserver.NewInvoicePayment("inpay_2", object{"invoice": "in_2", "payment": object{"type": "payment_intent", "payment_intent": "pi_2"}}),
	)
	f.clock.Advance(minutes(10))
	// The events arrive in the wrong order, and the first invoice's event is lost.
	wantOutcome(t, f.apply(f.event("invoice.paid", "in_2")), "applied")
	wantOutcome(t, f.apply(f.event("checkout.session.completed", "cs_a")), "applied")
	wantSales(t, f,
		"in_1 purchase 2000 USD CLICK_MATCHED pending 600",
		"in_2 renewal 2500 USD CUSTOMER_BOUND pending 750",
	)
	wantOutcome(t, f.apply(f.event("invoice.paid", "in_1")), "applied")
	wantSales(t, f,
		"in_1 purchase 2000 USD CLICK_MATCHED pending 600",
		"in_2 renewal 2500 USD CUSTOMER_BOUND pending 750",
	)
	if indexes := f.Texts(`select recurring_index::text from conversions order by occurred_at`); !slices.Equal(indexes, []string{"1", "2"}) {
		t.Errorf("the payments have the numbers %q, want 1 and 2", indexes)
	}
}

func TestApply_FirstInvoiceWaitsForItsCheckout(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	click := f.click()
	f.clock.Advance(minutes(2))
	f.put(
		stripeserver.NewInvoice("in_1", object{
			"customer": "cus_a", "billing_reason": "subscription_create", "amount_paid": 2_000, "currency": "usd", "created": f.ago(0),
			"status_transitions": object{"paid_at": f.ago(0)},
		}),
		stripeserver.NewInvoicePayment("inpay_1", object{"invoice": "in_1", "payment": object{"type": "payment_intent", "payment_intent": "pi_1"}}),
	)
	paid := f.event("invoice.paid", "in_1")
	wantOutcome(t, f.apply(paid), "parked:waits_for_checkout")
	f.put(stripeserver.NewSession("cs_a", object{
		"mode": "subscription", "customer": "cus_a", "subscription": "sub_a", "invoice": "in_1", "payment_intent": nil,
		"client_reference_id": click, "created": f.ago(minutes(1)), "amount_total": 2_000, "currency": "usd",
	}))
	wantOutcome(t, f.run(paid), "applied")
	wantSales(t, f, "in_1 purchase 2000 USD CLICK_MATCHED pending 600")

	// Without a checkout, the sale is recorded after five minutes.
	f.put(
		stripeserver.NewInvoice("in_9", object{
			"customer": "cus_b", "billing_reason": "subscription_create", "amount_paid": 2_000, "currency": "usd", "created": f.ago(0),
			"status_transitions": object{"paid_at": f.ago(0)},
		}),
		stripeserver.NewInvoicePayment("inpay_9", object{"invoice": "in_9", "payment": object{"type": "payment_intent", "payment_intent": "pi_9"}}),
	)
	paid = f.event("invoice.paid", "in_9")
	wantOutcome(t, f.apply(paid), "parked:waits_for_checkout")
	f.clock.Advance(processor.CheckoutWait)
	wantOutcome(t, f.run(paid), "applied")
	wantSales(t, f, "in_1 purchase 2000 USD CLICK_MATCHED pending 600", "in_9 purchase 2000 USD NO_ATTRIBUTION_SIGNAL nothing")
}

// The ids of a sale belong to one conversion, even if the merchant reports it first.
func TestApply_SaleReportedByTheMerchantToo(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	click := f.click()
	f.put(stripeserver.NewSession("cs_a", object{
		"created": f.ago(0), "amount_total": 4_900, "currency": "usd", "payment_intent": "pi_a", "client_reference_id": click, "customer": "cus_a",
	}))
	reported := f.NewConversion(f.Scope, func(c *conversion.Conversion) { c.ExternalTransactionID = "cs_a" })
	wantOutcome(t, f.apply(f.event("checkout.session.completed", "cs_a")), "applied")
	wantSales(t, f, "cs_a purchase 1000 EUR CLICK_UNKNOWN nothing")
	if ids := f.Texts(`select processor::text from conversions where id = $1`, reported.ID); len(ids) != 1 ||
		ids[0] != `{"name": "stripe", "session_id": "cs_a", "customer_id": "cus_a", "payment_intent_id": "pi_a"}` {
		t.Errorf("the ids of the processor are %q", ids)
	}
}

// The merchant knows the sale by its charge, which the checkout session does not name.
func TestApply_SaleReportedByItsCharge(t *testing.T) {
	for name, create := range map[string]bool{"conversions on": true, "conversions off": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, pgtest.Row{"currency": "USD"})
			f.connect(func(r *affiliatev1.ConnectProcessorRequest) { r.CreateConversions = &create })
			f.put(
				stripeserver.NewSession("cs_a", object{"created": f.ago(0), "amount_total": 4_900, "currency": "usd", "payment_intent": "pi_a"}),
				stripeserver.NewPaymentIntent("pi_a", object{"latest_charge": "ch_a"}),
			)
			reported := f.NewConversion(f.Scope, func(c *conversion.Conversion) { c.ExternalTransactionID = "ch_a" })
			wantOutcome(t, f.apply(f.event("checkout.session.completed", "cs_a")), "applied")
			wantSales(t, f, "ch_a purchase 1000 EUR CLICK_UNKNOWN nothing")
			if ids := f.Texts(`select processor->>'charge_id' from conversions where id = $1`, reported.ID); !slices.Equal(ids, []string{"ch_a"}) {
				t.Errorf("the charge of the conversion is %q, want ch_a", ids)
			}
		})
	}
}

// The merchant reports the subscription under the id of its checkout, with its own id of the
// customer. The checkout, its invoice, the renewal and the refund lead to the right
// conversions, in any order.
func TestApply_SubscriptionReportedByItsCheckout(t *testing.T) {
	for name, create := range map[string]bool{"conversions on": true, "conversions off": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, pgtest.Row{"currency": "USD"})
			f.connect(func(r *affiliatev1.ConnectProcessorRequest) { r.CreateConversions = &create })
			click := f.click()
			f.clock.Advance(minutes(2))
			details := object{"type": "subscription_details", "subscription_details": object{"subscription": "sub_a", "metadata": object{"aff_click_id": click}}}
			invoice := func(id, reason string, paidAt int64) object {
				return stripeserver.NewInvoice(id, object{
					"customer": "cus_a", "billing_reason": reason, "amount_paid": 1_000, "currency": "usd", "created": paidAt, "parent": details,
					"status_transitions": object{"paid_at": paidAt},
				})
			}
			f.put(
				invoice("in_1", "subscription_create", f.ago(0)),
				stripeserver.NewInvoicePayment("inpay_1", object{"invoice": "in_1", "payment": object{"type": "payment_intent", "payment_intent": "pi_1"}}),
			)
			paid := f.event("invoice.paid", "in_1")
			if create {
				wantOutcome(t, f.apply(paid), "parked:waits_for_checkout") // also if the sale has a click
			}
			f.put(stripeserver.NewSession("cs_a", object{
				"mode": "subscription", "customer": "cus_a", "subscription": "sub_a", "invoice": "in_1", "payment_intent": nil,
				"client_reference_id": click, "created": f.ago(minutes(1)), "amount_total": 1_000, "currency": "usd",
			}))
			reported := f.NewConversion(f.Scope, func(c *conversion.Conversion) { c.ExternalTransactionID = "cs_a" })
			f.put(
				stripeserver.NewCharge("ch_1", object{"payment_intent": "pi_1", "amount": 1_000, "currency": "eur"}),
				stripeserver.NewRefund("re_1", object{"charge": "ch_1", "payment_intent": "pi_1", "amount": 400, "currency": "eur", "status": "succeeded"}),
			)
			wantOutcome(t, f.apply(f.event("refund.created", "re_1")), "applied")
			wantOutcome(t, f.apply(f.event("checkout.session.completed", "cs_a")), "applied")
			wantOutcome(t, f.apply(paid), "applied")
			if got := f.Texts(`select format('%s %s %s', external_transaction_id, status, refunded_amount_cents) from conversions`); !slices.Equal(got, []string{"cs_a partially_refunded 400"}) {
				t.Errorf("the conversions are %q, want one, partially refunded", got)
			}
			if aliases := f.Texts(`select id from conversion_aliases where conversion_id = $1 order by id`, reported.ID); !containsAll(aliases, []string{"cs_a", "in_1", "pi_1"}) {
				t.Errorf("the aliases are %q, want the checkout, the invoice and the payment", aliases)
			}
			if !create {
				return
			}
			f.clock.Advance(time.Hour)
			renewal := invoice("in_2", "subscription_cycle", f.ago(0))
			renewal["parent"] = nil
			f.put(renewal, stripeserver.NewInvoicePayment("inpay_2", object{"invoice": "in_2", "payment": object{"type": "payment_intent", "payment_intent": "pi_2"}}))
			wantOutcome(t, f.apply(f.event("invoice.paid", "in_2")), "applied")
			if got := f.Texts(`select reason_code from conversions where external_transaction_id = 'in_2'`); !slices.Equal(got, []string{"CUSTOMER_BOUND"}) {
				t.Errorf("the renewal has the reason %q, want CUSTOMER_BOUND", got)
			}
		})
	}
}

// The merchant has reported one sale under two ids. A charge stays with the conversion to
// which it was assigned.
func TestApply_ChargeStaysWithItsConversion(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	refund := func(cents int) {
		f.put(
			stripeserver.NewCharge("ch_a", object{"payment_intent": "pi_a", "amount": 1_000, "currency": "eur"}),
			stripeserver.NewRefund("re_1", object{"charge": "ch_a", "payment_intent": "pi_a", "amount": cents, "currency": "eur", "status": "succeeded"}),
		)
		wantOutcome(t, f.apply(f.event("refund.updated", "re_1")), "applied")
	}
	older := f.NewConversion(f.Scope, func(c *conversion.Conversion) { c.ExternalTransactionID = "order-1" })
	f.NewConversion(f.Scope, func(c *conversion.Conversion) { c.ExternalTransactionID = "pi_a" })
	refund(300)
	f.Exec(`insert into conversion_aliases (workspace_id, mode, id, conversion_id) values ($1, $2, 'ch_a', $3)`, f.Scope.Workspace, f.Scope.Mode, older.ID)
	refund(700)
	if got := f.Texts(`select format('%s %s', external_transaction_id, refunded_amount_cents) from conversions order by 1`); !slices.Equal(got, []string{"order-1 0", "pi_a 700"}) {
		t.Errorf("the refunded amounts are %q, want 0 and 700", got)
	}
	f.wantNoViolations()
}

func TestApply_DisputeOfSaleWithoutAmount(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	f.NewConversion(f.Scope, func(c *conversion.Conversion) { c.ExternalTransactionID, c.Sale = "pi_a", attribution.Sale{} })
	for _, step := range []struct{ event, dispute, want string }{
		{"charge.dispute.created", "needs_response", "disputed"},
		{"charge.dispute.closed", "won", "recorded"},
	} {
		f.put(stripeserver.NewDispute("dp_a", object{"charge": "ch_a", "payment_intent": "pi_a", "amount": 100, "currency": "usd", "status": step.dispute}))
		wantOutcome(t, f.apply(f.event(step.event, "dp_a")), "applied")
		if got := f.Texts(`select status from conversions`); !slices.Equal(got, []string{step.want}) {
			t.Errorf("the conversion is %q, want %s", got, step.want)
		}
	}
}

func TestApply_RefundsAndDisputes(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	f.connect()
	click := f.click()
	charge := func(refunded int) object {
		return stripeserver.NewCharge("ch_a", object{
			"payment_intent": "pi_a", "amount": 10_000, "amount_refunded": refunded, "currency": "usd", "created": f.ago(0),
		})
	}
	f.put(
		stripeserver.NewSession("cs_a", object{
			"created": f.ago(0), "amount_total": 10_000, "currency": "usd", "payment_intent": "pi_a", "client_reference_id": click,
		}),
		charge(2_500),
		stripeserver.NewRefund("re_1", object{"charge": "ch_a", "payment_intent": "pi_a", "amount": 2_500, "currency": "usd", "status": "succeeded"}),
	)
	// The refund arrives before the sale.
	early := f.event("charge.refunded", "ch_a")
	wantOutcome(t, f.apply(early), "parked:waits_for_sale")
	wantOutcome(t, f.apply(f.event("checkout.session.completed", "cs_a")), "applied")
	wantSales(t, f, "pi_a purchase 10000 USD CLICK_MATCHED pending 2250")
	wantOutcome(t, f.run(early), "applied")
	wantSales(t, f, "pi_a purchase 10000 USD CLICK_MATCHED pending 2250")

	// The refund fails, and its effect is undone.
	f.put(stripeserver.NewRefund("re_1", object{"charge": "ch_a", "payment_intent": "pi_a", "amount": 2_500, "currency": "usd", "status": "failed"}))
	wantOutcome(t, f.apply(f.event("refund.failed", "re_1")), "applied")
	wantSales(t, f, "pi_a purchase 10000 USD CLICK_MATCHED pending 3000")

	dispute := func(status string) object {
		return stripeserver.NewDispute("dp_a", object{"charge": "ch_a", "payment_intent": "pi_a", "amount": 10_000, "currency": "usd", "status": status})
	}
	f.put(dispute("needs_response"))
	wantOutcome(t, f.apply(f.event("charge.dispute.created", "dp_a")), "applied")
	if got := f.Texts(`select format('%s %s %s %s', c.status, m.status, m.dispute_status, m.review_reasons::text) from conversions c join commissions m on m.conversion_id = c.id`); !slices.Equal(got, []string{"disputed pending open {dispute}"}) {
		t.Errorf("disputed: %q", got)
	}
	f.put(dispute("lost"))
	wantOutcome(t, f.apply(f.event("charge.dispute.closed", "dp_a")), "applied")
	wantSales(t, f, "pi_a purchase 10000 USD CLICK_MATCHED refunded 0")
	types, _ := f.Events()
	if want := []string{"commission.disputed", "commission.dispute_resolved", "commission.refunded"}; !containsAll(types, want) {
		t.Errorf("events %q, want %q among them", types, want)
	}
	f.wantNoViolations()
}

func containsAll(all, want []string) bool {
	return !slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(all, s) })
}

// wantNoViolations reports an error if the accounts do not add up.
func (f *fixture) wantNoViolations() {
	f.Helper()
	results, err := checks.Run(f.Context(), f.DB, f.clock.Now)
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range results {
		if r.Violated > 0 {
			f.Errorf("%s: %d violations: %q", r.Name, r.Violated, r.Violations)
		}
	}
}

func TestApply_WithoutConversions(t *testing.T) {
	f := newFixture(t, pgtest.Row{"currency": "USD"})
	off := false
	f.connect(func(r *affiliatev1.ConnectProcessorRequest) { r.CreateConversions = &off })
	f.put(
		stripeserver.NewSession("cs_a", object{"created": f.ago(0), "amount_total": 10_000, "currency": "usd", "payment_intent": "pi_a"}),
		stripeserver.NewCharge("ch_a", object{"payment_intent": "pi_a", "amount": 1_000, "currency": "eur"}),
		stripeserver.NewRefund("re_1", object{"charge": "ch_a", "payment_intent": "pi_a", "amount": 500, "currency": "eur", "status": "succeeded"}),
	)
	wantOutcome(t, f.apply(f.event("checkout.session.completed", "cs_a")), "ignored:conversions_off")
	wantSales(t, f)
	refund := f.event("refund.created", "re_1")
	wantOutcome(t, f.apply(refund), "parked:waits_for_sale")
	reported := f.NewConversion(f.Scope, func(c *conversion.Conversion) { c.ExternalTransactionID = "pi_a" })
	wantOutcome(t, f.run(refund), "applied")
	if got := f.Texts(`select format('%s %s', status, refunded_amount_cents) from conversions where id = $1`, reported.ID); !slices.Equal(got, []string{"partially_refunded 500"}) {
		t.Errorf("the reported conversion is %q, want partially_refunded 500", got)
	}
}
