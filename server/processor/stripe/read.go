package stripe

import (
	"cmp"
	"context"
	"slices"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	processorservice "github.com/tributary-hq/tributary/server/processor"
)

// Read returns the current state of the object of an event.
func (c *Client) Read(ctx context.Context, key string, r processorservice.ReadRequest) (processor.Facts, error) {
	ev, ok := parseEvent(r.Body)
	if !ok {
		return processor.Facts{}, errMalformed
	}
	rd := &reader{api: c.api(key), request: r, codes: make(map[string]string)}
	switch stripe.EventType(ev.Type) {
	case stripe.EventTypeCheckoutSessionCompleted, stripe.EventTypeCheckoutSessionAsyncPaymentSucceeded:
		return rd.readSession(ctx, ev)
	case stripe.EventTypeCheckoutSessionAsyncPaymentFailed:
		return ignored(processor.IgnoredUnfinished), nil
	case stripe.EventTypeInvoicePaid:
		return rd.readInvoice(ctx, ev)
	case stripe.EventTypeChargeRefunded,
		stripe.EventTypeRefundCreated, stripe.EventTypeRefundUpdated, stripe.EventTypeRefundFailed,
		stripe.EventTypeChargeDisputeCreated, stripe.EventTypeChargeDisputeClosed:
		return rd.readCharge(ctx, ev)
	default:
		return ignored(processor.IgnoredType), nil
	}
}

// reader reads the objects for one event.
type reader struct {
	api     *stripe.Client
	request processorservice.ReadRequest
	codes   map[string]string // texts of the promotion codes that were read, by id
}

func ignored(reason processor.Ignored) processor.Facts {
	return processor.Facts{Ignored: reason}
}

// saleCurrency parses the currency of a sale. An empty currency is valid if the sale has no
// amount.
func saleCurrency(text stripe.Currency, amount int64) (currency string, ok bool) {
	if text == "" && amount == 0 {
		return "", true
	}
	return affiliate.ParseCurrency(string(text))
}

// setAliases sets the ids that identify this sale and no other sale.
func setAliases(sale *processor.Sale, more ...string) {
	ids := []string{sale.ID, sale.IDs.Session, sale.IDs.PaymentIntent, sale.IDs.Charge, sale.IDs.Invoice}
	sale.Aliases = distinct(append(append(ids, sale.Aliases...), more...))
}

// distinct returns the ids without empty and repeated ones, in their order.
func distinct(ids []string) []string {
	var all []string
	for _, id := range ids {
		if id != "" && !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}

// promotionCodes adds the texts to promotion codes.
func (rd *reader) promotionCodes(ctx context.Context, codes []*stripe.PromotionCode) ([]processor.PromotionCode, error) {
	var all []processor.PromotionCode
	for _, code := range codes {
		result, err := rd.promotionCode(ctx, code)
		if err != nil {
			return nil, err
		}
		all = append(all, result)
	}
	return all, nil
}

// promotionCode adds the text to a promotion code. Stripe sends the id alone unless the
// object is expanded. The text stays empty if the key may not read it.
func (rd *reader) promotionCode(ctx context.Context, code *stripe.PromotionCode) (processor.PromotionCode, error) {
	result := processor.PromotionCode{ID: code.ID, Text: code.Code}
	if result.Text != "" || !validID(code.ID) {
		return result, nil
	}
	if text, known := rd.codes[code.ID]; known {
		result.Text = text
		return result, nil
	}
	object, err := rd.api.V1PromotionCodes.Retrieve(ctx, code.ID, nil)
	switch {
	case err == nil:
		result.Text = object.Code
	case !isMissing(err) && !isForbidden(err):
		return result, failure(ctx, "read a promotion code", err)
	}
	rd.codes[code.ID] = result.Text
	return result, nil
}

// facts returns the sale of an event and the customer's earlier sales. objectID is the id of
// the event's session or invoice.
func (rd *reader) facts(ctx context.Context, own entry, objectID string) (processor.Facts, error) {
	customer := own.sale.IDs.Customer
	if customer == "" {
		return processor.Facts{Sales: []processor.Sale{own.sale}}, nil
	}
	sales, err := rd.history(ctx, customer, own, objectID)
	return processor.Facts{Sales: sales}, err
}

// clickKey is the key of the metadata that has the click id.
const clickKey = "aff_click_id"

// readSession reads the checkout session of an event.
func (rd *reader) readSession(ctx context.Context, ev event) (processor.Facts, error) {
	session, id, usable, err := decode[stripe.CheckoutSession](ev, rd.request)
	if err != nil {
		return processor.Facts{}, err
	}
	if !usable || !isFinal(session) {
		current, err := rd.api.V1CheckoutSessions.Retrieve(ctx, id, nil)
		switch {
		case err == nil:
			session = current
		case !isMissing(err):
			return processor.Facts{}, failure(ctx, "read a checkout session", err)
		case session == nil:
			return processor.Facts{}, errMalformed
		}
	}
	session.ID = id
	sale, reason, err := rd.sessionSale(ctx, session)
	if err != nil {
		return processor.Facts{}, err
	}
	if reason != "" {
		return ignored(reason), nil
	}
	return rd.facts(ctx, entry{sale: sale, session: true}, id)
}

// isFinal reports whether the parts of a session that a sale uses cannot change any more.
func isFinal(session *stripe.CheckoutSession) bool {
	return session.Status == stripe.CheckoutSessionStatusComplete &&
		(session.PaymentStatus == stripe.CheckoutSessionPaymentStatusPaid ||
			session.PaymentStatus == stripe.CheckoutSessionPaymentStatusNoPaymentRequired)
}

// sessionSale returns the sale of a session. reason is not empty if the session has no
// effect.
func (rd *reader) sessionSale(ctx context.Context, session *stripe.CheckoutSession) (
	sale processor.Sale, reason processor.Ignored, err error,
) {
	if session.Status != stripe.CheckoutSessionStatusComplete {
		return sale, processor.IgnoredUnfinished, nil
	}
	free := session.PaymentStatus == stripe.CheckoutSessionPaymentStatusNoPaymentRequired || session.AmountTotal == 0
	currency, ok := saleCurrency(session.Currency, session.AmountTotal)
	if !ok {
		return sale, processor.IgnoredCurrency, nil
	}
	sale = processor.Sale{
		IDs:         sessionIDs(session),
		EventType:   affiliate.Purchase,
		OccurredAt:  unixTime(session.Created),
		Sale:        attribution.Sale{Money: affiliate.Money{Currency: currency}},
		FeeKnown:    true,
		IsRecurring: session.Mode == stripe.CheckoutSessionModeSubscription,
		Click:       session.Metadata[clickKey],
		Reference:   session.ClientReferenceID,
	}
	switch {
	case session.Mode == stripe.CheckoutSessionModeSetup && !namesAffiliate(session):
		return sale, processor.IgnoredSetup, nil
	case session.Mode == stripe.CheckoutSessionModeSubscription && session.Invoice != nil:
		sale.Binds = true // the invoice is the sale, even if its amount is 0
	case session.Mode == stripe.CheckoutSessionModeSetup, free:
		sale.EventType = affiliate.Trial
	case session.Mode == stripe.CheckoutSessionModeSubscription,
		session.PaymentStatus != stripe.CheckoutSessionPaymentStatusPaid:
		sale.Binds = true
	}
	sale.ID = cmp.Or(sale.IDs.Invoice, sale.IDs.PaymentIntent, sale.IDs.Session)
	setAliases(&sale)
	setSessionAmounts(&sale, session, currency)
	if session.CustomerDetails != nil {
		sale.CustomerEmail = session.CustomerDetails.Email
	}
	sale.CustomerEmail = cmp.Or(sale.CustomerEmail, session.CustomerEmail)
	sale.PromotionCodes, err = rd.promotionCodes(ctx, sessionCodes(session))
	return sale, "", err
}

// sessionIDs returns the ids that a session names.
func sessionIDs(session *stripe.CheckoutSession) conversion.ProcessorIDs {
	ids := conversion.ProcessorIDs{Name: conversion.Stripe, Session: session.ID}
	if intent := session.PaymentIntent; intent != nil {
		ids.PaymentIntent = intent.ID
		if intent.LatestCharge != nil {
			ids.Charge = intent.LatestCharge.ID
		}
	}
	if session.Invoice != nil {
		ids.Invoice = session.Invoice.ID
	}
	if session.Subscription != nil {
		ids.Subscription = session.Subscription.ID
	}
	if session.Customer != nil {
		ids.Customer = session.Customer.ID
	}
	return ids
}

func setSessionAmounts(sale *processor.Sale, session *stripe.CheckoutSession, currency string) {
	details := session.TotalDetails
	if details == nil {
		details = &stripe.CheckoutSessionTotalDetails{}
	}
	paid := session.AmountTotal
	if sale.EventType == affiliate.Trial {
		paid = 0 // the total of a session that needs no payment is not paid
	}
	sale.Sale = newSale(currency, paid, details.AmountTax, details.AmountShipping)
	sale.DiscountCents = max(0, fromStripe(details.AmountDiscount, currency))
}

// namesAffiliate reports whether a session can be attributed to a participant.
func namesAffiliate(session *stripe.CheckoutSession) bool {
	return session.Metadata[clickKey] != "" || session.ClientReferenceID != "" || len(sessionCodes(session)) > 0
}

// sessionCodes returns the promotion codes of a session. Discounts without a promotion code
// are coupons that the merchant has applied.
func sessionCodes(session *stripe.CheckoutSession) (codes []*stripe.PromotionCode) {
	for _, discount := range session.Discounts {
		if discount != nil && discount.PromotionCode != nil {
			codes = append(codes, discount.PromotionCode)
		}
	}
	return codes
}
