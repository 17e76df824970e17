package stripe_test

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	processorservice "github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

func TestRead_Charge(t *testing.T) {
	f := newFixture(t)
	f.put(
		stripeserver.NewCharge("ch_1", object{"currency": "eur", "amount_refunded": 4_711}),
		stripeserver.NewRefund("re_1", object{"amount": 700, "currency": "eur"}),
		stripeserver.NewRefund("re_2", object{"amount": 300, "currency": "eur", "charge": "ch_1", "status": "pending"}),
		stripeserver.NewRefund("re_3", object{"amount": 100, "currency": "eur", "charge": "ch_1", "status": "failed"}),
		stripeserver.NewRefund("re_4", object{"amount": 100, "currency": "eur", "charge": "ch_1", "status": "canceled"}),
		stripeserver.NewDispute("dp_1", object{"currency": "eur", "status": "lost"}),
		stripeserver.NewDispute("dp_2", object{"currency": "usd", "charge": "ch_1"}),
		stripeserver.NewInvoicePayment("inpay_1", nil),
		stripeserver.NewInvoicePayment("inpay_2", object{"payment": object{"payment_intent": "pi_1"}}),
		stripeserver.NewInvoicePayment("inpay_3", nil),
		stripeserver.NewSession("cs_1", nil),
		stripeserver.NewSession("cs_2", nil),
	)
	want := processor.Facts{Charge: &processor.Charge{
		ID: "ch_1", Aliases: []string{"ch_1", "cs_1", "in_1", "in_2", "pi_1"}, Currency: "EUR", AmountCents: 5_000, RefundedCents: ptr(int64(1_000)),
		Disputes: []conversion.ProcessorDispute{
			{ID: "dp_1", Status: commission.DisputeLost, AmountCents: ptr(int64(5_000))},
			{ID: "dp_2", Status: commission.DisputeOpen},
		},
	}}
	for _, source := range []struct{ eventType, id string }{
		{"charge.refunded", "ch_1"},
		{"refund.created", "re_1"},
		{"refund.updated", "re_2"},
		{"refund.failed", "re_3"},
		{"charge.dispute.created", "dp_1"},
		{"charge.dispute.closed", "dp_2"},
	} {
		for name, option := range map[string]func(*processorservice.ReadRequest){"event": since(0), "read again": readAgain} {
			facts := f.read(t, source.eventType, source.id, option)
			slices.Sort(facts.Charge.Aliases)
			if !reflect.DeepEqual(facts, want) {
				t.Errorf("%s, %s: the charge is\n%+v, want\n%+v", source.eventType, name, facts.Charge, want.Charge)
			}
		}
	}
}

func TestRead_RefundedAmount(t *testing.T) {
	refund := func(status string) object {
		return stripeserver.NewRefund("re_1", object{"amount": 700, "status": status})
	}
	for name, test := range map[string]struct {
		eventType string
		object    object
		exists    bool // whether Stripe still has the charge
		want      *int64
	}{
		"charge event, no refunds":         {"charge.refunded", stripeserver.NewCharge("ch_1", object{"amount_refunded": 900}), true, ptr(int64(900))},
		"charge event, deleted":            {"charge.refunded", stripeserver.NewCharge("ch_1", object{"amount_refunded": 900}), false, ptr(int64(900))},
		"refund event, deleted":            {"refund.created", refund("succeeded"), false, ptr(int64(700))},
		"refund event, refund deleted":     {"refund.created", refund("succeeded"), true, ptr(int64(700))},
		"failed refund, deleted":           {"refund.failed", refund("failed"), false, nil},
		"failed refund, refund deleted":    {"refund.failed", refund("failed"), true, ptr(int64(0))},
		"canceled refund, refund deleted":  {"refund.updated", refund("canceled"), true, ptr(int64(0))},
		"dispute event, no refunds":        {"charge.dispute.created", stripeserver.NewDispute("dp_1", nil), true, ptr(int64(0))},
		"dispute event, charge deleted":    {"charge.dispute.created", stripeserver.NewDispute("dp_1", nil), false, nil},
		"charge event in another currency": {"charge.refunded", stripeserver.NewCharge("ch_1", object{"amount_refunded": 900, "currency": "isk"}), false, ptr(int64(9))},
		"refund with an expanded charge":   {"refund.created", stripeserver.NewRefund("re_1", object{"charge": stripeserver.NewCharge("ch_1", nil)}), false, ptr(int64(5_000))},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(test.object)
			id, _ := test.object["id"].(string)
			body := f.Event(test.eventType, id)
			f.Delete(id)
			if test.exists {
				f.put(stripeserver.NewCharge("ch_1", nil))
			}
			for optionName, option := range map[string]func(*processorservice.ReadRequest){"event": since(0), "read again": readAgain} {
				got := f.readBody(t, body, option).Charge
				if got == nil || !reflect.DeepEqual(got.RefundedCents, test.want) {
					t.Errorf("%s: the charge is %+v, want the refunded amount %s", optionName, got, show(test.want))
				}
			}
		})
	}
}

func show(n *int64) string {
	if n == nil {
		return "nil"
	}
	return strconv.FormatInt(*n, 10)
}

func TestRead_Disputes(t *testing.T) {
	for status, want := range map[string]commission.DisputeStatus{
		"won": commission.DisputeWon, "warning_closed": commission.DisputeWon, "prevented": commission.DisputeWon, "lost": commission.DisputeLost,
		"needs_response": commission.DisputeOpen, "under_review": commission.DisputeOpen, "warning_needs_response": commission.DisputeOpen,
		"warning_under_review": commission.DisputeOpen, "a_later_status": commission.DisputeOpen,
	} {
		t.Run(status, func(t *testing.T) {
			f := newFixture(t)
			f.put(stripeserver.NewCharge("ch_1", nil), stripeserver.NewDispute("dp_1", object{"status": status}))
			body := f.Event("charge.dispute.created", "dp_1")
			expected := conversion.ProcessorDispute{ID: "dp_1", Status: want, AmountCents: ptr(int64(5_000))}
			if got := f.readBody(t, body).Charge.Disputes; len(got) != 1 || !reflect.DeepEqual(got[0], expected) {
				t.Errorf("the disputes are %+v, want %+v", got, expected)
			}
			f.Delete("dp_1")
			expected.Stale = true
			if got := f.readBody(t, body).Charge.Disputes; len(got) != 1 || !reflect.DeepEqual(got[0], expected) {
				t.Errorf("after the dispute was deleted, the disputes are %+v, want %+v", got, expected)
			}
			f.put(stripeserver.NewDispute("dp_1", object{"status": "won"}))
			if got := f.readBody(t, body).Charge.Disputes; len(got) != 1 || got[0].Status != commission.DisputeWon || got[0].Stale {
				t.Errorf("after the dispute was won, the disputes are %+v", got)
			}
		})
	}
}

func TestRead_ChargeAliases(t *testing.T) {
	for name, test := range map[string]struct {
		eventType, id string
		objects       []object
		want          string
		ignored       processor.Ignored
	}{
		"charge without payment intent": {"charge.refunded", "ch_1", []object{
			stripeserver.NewCharge("ch_1", object{"payment_intent": nil}), stripeserver.NewSession("cs_1", object{"payment_intent": nil}),
		}, "ch_1", ""},
		"refund of a payment intent": {"refund.created", "re_1", []object{
			stripeserver.NewRefund("re_1", object{"charge": nil}), stripeserver.NewPaymentIntent("pi_1", object{"latest_charge": "ch_9"}),
			stripeserver.NewCharge("ch_9", object{"payment_intent": "pi_1"}),
		}, "ch_9 pi_1", ""},
		"refund of a payment intent that was deleted": {"refund.created", "re_1", []object{
			stripeserver.NewRefund("re_1", object{"charge": nil}),
		}, "", processor.IgnoredType},
		"the charge knows the payment intent": {"charge.dispute.created", "dp_1", []object{
			stripeserver.NewDispute("dp_1", object{"payment_intent": nil}), stripeserver.NewCharge("ch_1", nil), stripeserver.NewSession("cs_1", nil),
		}, "ch_1 pi_1 cs_1", ""},
		"refund of a balance": {"refund.created", "re_1", []object{
			stripeserver.NewRefund("re_1", object{"charge": nil, "payment_intent": nil}),
		}, "", processor.IgnoredType},
		"unknown currency": {"charge.refunded", "ch_1", []object{stripeserver.NewCharge("ch_1", object{"currency": "xxx"})}, "", processor.IgnoredCurrency},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.put(test.objects...)
			facts := f.read(t, test.eventType, test.id)
			if test.ignored != "" {
				if facts.Ignored != test.ignored || facts.Charge != nil {
					t.Errorf("Read returned %+v, want to ignore it as %s", facts, test.ignored)
				}
				return
			}
			if got := strings.Join(facts.Charge.Aliases, " "); got != test.want {
				t.Errorf("the aliases are %s, want %s", got, test.want)
			}
		})
	}
}

// A refunded payment has a charge. If Stripe does not show it, the event is read again later.
func TestRead_RefundOfPaymentWithoutCharge(t *testing.T) {
	f := newFixture(t)
	f.put(stripeserver.NewRefund("re_1", object{"charge": nil}), stripeserver.NewPaymentIntent("pi_1", object{"latest_charge": nil}))
	_, err := f.client.Read(t.Context(), key, processorservice.ReadRequest{Body: f.Event("refund.created", "re_1")})
	if !errors.Is(err, processorservice.ErrUnavailable) {
		t.Errorf("Read returned %v, want an error that is repeated", err)
	}
}
