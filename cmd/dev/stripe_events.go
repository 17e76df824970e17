package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// stripeTrigger says which event the stand-in for Stripe makes.
type stripeTrigger struct {
	Type string `json:"type"`
	// Click is the click id and Code the promotion code of a new sale.
	Click string `json:"click"`
	Code  string `json:"code"`
	// Amount is in Stripe's minor units. For a refund, 0 means everything that is not
	// refunded yet.
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"` // in lower case, as at Stripe
	// Sale is the external transaction id of the sale that is refunded or disputed.
	Sale string `json:"sale"`
	// Status is the status with which a dispute is closed: won or lost.
	Status string `json:"status"`
}

// stripeEvent is an event that the stand-in has made.
type stripeEvent struct {
	ID string `json:"id"`
	// Sale is the external transaction id of the conversion.
	Sale string          `json:"sale"`
	Body json.RawMessage `json:"body"` // what Stripe sends
}

type stripeObject = map[string]any

// stripeEventMakers maps the event types that can be triggered to the functions that store the
// objects of the event. A function returns the id of the event's object and the external
// transaction id of the sale.
var stripeEventMakers = map[string]func(t stripeTrigger, s *stripeserver.Server) (object, sale string, err error){
	"checkout.session.completed": stripeTrigger.checkout,
	"invoice.paid":               stripeTrigger.invoice,
	"charge.refunded":            stripeTrigger.refund,
	"charge.dispute.created":     stripeTrigger.openDispute,
	"charge.dispute.closed":      stripeTrigger.closeDispute,
}

// stripeEventTypes returns the types of the events that can be triggered, sorted.
func stripeEventTypes() []string { return slices.Sorted(maps.Keys(stripeEventMakers)) }

// makeEvent stores the objects of an event in the stand-in and returns the event.
func (t stripeTrigger) makeEvent(s *stripeserver.Server) (stripeEvent, error) {
	maker, known := stripeEventMakers[t.Type]
	if !known {
		return stripeEvent{}, fmt.Errorf("unknown event %q: use one of %s", t.Type, strings.Join(stripeEventTypes(), ", "))
	}
	object, sale, err := maker(t, s)
	if err != nil {
		return stripeEvent{}, err
	}
	body := s.Event(t.Type, object)
	var event struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return stripeEvent{}, err
	}
	return stripeEvent{ID: event.ID, Sale: sale, Body: body}, nil
}

// checkout stores a paid checkout session, as it exists after a purchase through a Payment
// Link.
func (t stripeTrigger) checkout(s *stripeserver.Server) (object, sale string, err error) {
	suffix := newStripeSuffix()
	t.storePayment(s, suffix)
	session := stripeObject{"amount_total": t.Amount, "currency": t.Currency}
	if t.Click != "" {
		session["client_reference_id"] = t.Click
	}
	if t.Code != "" {
		promotion := "promo_" + suffix
		s.Put(stripeserver.NewPromotionCode(promotion, stripeObject{"code": t.Code}))
		session["discounts"] = []any{stripeObject{"coupon": nil, "promotion_code": promotion}}
	}
	object = "cs_test_" + suffix
	s.Put(stripeserver.NewSession(object, session))
	return object, "pi_" + suffix, nil
}

// invoice stores the first paid invoice of a subscription whose metadata contains the click
// id, and the checkout session that began the subscription.
func (t stripeTrigger) invoice(s *stripeserver.Server) (object, sale string, err error) {
	suffix := newStripeSuffix()
	t.storePayment(s, suffix)
	object = "in_" + suffix
	customer, subscription := "cus_"+suffix, "sub_"+suffix
	s.Put(stripeserver.NewSession("cs_test_"+suffix, stripeObject{
		"mode": "subscription", "amount_total": t.Amount, "currency": t.Currency, "payment_intent": nil,
		"customer": customer, "subscription": subscription, "invoice": object,
	}))
	s.Put(stripeserver.NewInvoice(object, stripeObject{
		"amount_paid": t.Amount, "currency": t.Currency, "billing_reason": "subscription_create", "customer": customer,
		"parent": stripeObject{
			"type":                 "subscription_details",
			"subscription_details": stripeObject{"subscription": subscription, "metadata": stripeObject{"aff_click_id": t.Click}},
		},
	}))
	s.Put(stripeserver.NewInvoicePayment("inpay_"+suffix, stripeObject{"amount_paid": t.Amount, "currency": t.Currency}))
	return object, object, nil
}

// storePayment stores the objects that belong to every payment.
func (t stripeTrigger) storePayment(s *stripeserver.Server, suffix string) {
	amount := stripeObject{"amount": t.Amount, "currency": t.Currency}
	s.Put(stripeserver.NewPaymentIntent("pi_"+suffix, amount))
	s.Put(stripeserver.NewCharge("ch_"+suffix, amount))
	s.Put(stripeserver.NewBalanceTransaction("txn_"+suffix, amount))
}

// refund stores a refund of the sale's charge.
func (t stripeTrigger) refund(s *stripeserver.Server) (object, sale string, err error) {
	charge, suffix, err := t.chargeOfSale(s)
	if err != nil {
		return "", "", err
	}
	refunded := wholeNumber(charge["amount_refunded"])
	rest := wholeNumber(charge["amount"]) - refunded
	amount := t.Amount
	if amount == 0 {
		amount = rest
	}
	if amount > rest || rest == 0 {
		return "", "", fmt.Errorf("only %d of the sale %s can still be refunded", rest, t.Sale)
	}
	object = "ch_" + suffix
	s.Put(stripeserver.NewRefund("re_"+newStripeSuffix(), stripeObject{
		"amount": amount, "currency": charge["currency"], "charge": object, "payment_intent": charge["payment_intent"],
	}))
	charge["amount_refunded"], charge["refunded"] = refunded+amount, amount == rest
	s.Put(charge)
	return object, t.Sale, nil
}

// openDispute stores a dispute about the whole charge of the sale.
func (t stripeTrigger) openDispute(s *stripeserver.Server) (object, sale string, err error) {
	charge, suffix, err := t.chargeOfSale(s)
	if err != nil {
		return "", "", err
	}
	object = "dp_" + suffix
	if _, exists := s.Object(object); exists {
		return "", "", fmt.Errorf("the sale %s is already disputed", t.Sale)
	}
	s.Put(stripeserver.NewDispute(object, stripeObject{
		"amount": charge["amount"], "currency": charge["currency"], "payment_intent": charge["payment_intent"],
	}))
	charge["disputed"] = true
	s.Put(charge)
	return object, t.Sale, nil
}

// closeDispute closes the dispute about the sale.
func (t stripeTrigger) closeDispute(s *stripeserver.Server) (object, sale string, err error) {
	_, suffix, err := t.chargeOfSale(s)
	if err != nil {
		return "", "", err
	}
	object = "dp_" + suffix
	dispute, exists := s.Object(object)
	if !exists {
		return "", "", fmt.Errorf("the sale %s is not disputed: trigger charge.dispute.created first", t.Sale)
	}
	dispute["status"] = t.Status
	s.Put(dispute)
	return object, t.Sale, nil
}

// chargeOfSale returns the charge of the sale. The ids of the objects of a sale, except refunds, have
// the same suffix.
func (t stripeTrigger) chargeOfSale(s *stripeserver.Server) (charge stripeObject, suffix string, err error) {
	_, suffix, _ = strings.Cut(t.Sale, "_")
	charge, found := s.Object("ch_" + suffix)
	if !found {
		return nil, "", fmt.Errorf("the stand-in for Stripe has no sale %q: it only has sales that were triggered since the start of make run", t.Sale)
	}
	return charge, suffix, nil
}

// newStripeSuffix returns the part of new ids after the last underscore.
func newStripeSuffix() string { return rand.Text() }

// wholeNumber converts a number of an object of the stand-in.
func wholeNumber(value any) int64 {
	number, _ := value.(float64)
	return int64(number)
}
