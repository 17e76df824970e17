package stripe

import (
	"cmp"
	"context"
	"slices"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
)

// maxPayments is the greatest number of payments of an invoice that are read.
const maxPayments = 1_000

// readInvoice reads the invoice of an event.
func (rd *reader) readInvoice(ctx context.Context, ev event) (processor.Facts, error) {
	invoice, id, usable, err := decode[stripe.Invoice](ev, rd.request)
	if err != nil {
		return processor.Facts{}, err
	}
	known := false // whether Stripe returned the invoice
	if !usable || invoice.Status != stripe.InvoiceStatusPaid {
		current, err := rd.api.V1Invoices.Retrieve(ctx, id, nil)
		switch {
		case err == nil:
			invoice, known = current, true
		case !isMissing(err):
			return processor.Facts{}, failure(ctx, "read an invoice", err)
		case invoice == nil:
			return processor.Facts{}, errMalformed
		}
	}
	invoice.ID = id
	// Payments of the event's object may be incomplete or old.
	invoice.Payments = nil
	sale, reason, err := rd.invoiceSale(ctx, invoice, known)
	if err != nil {
		return processor.Facts{}, err
	}
	if reason != "" {
		return ignored(reason), nil
	}
	return rd.facts(ctx, entry{sale: sale}, id)
}

// invoiceSale returns the sale of an invoice. reason is not empty if the invoice has no
// effect. known says whether Stripe has returned the invoice.
func (rd *reader) invoiceSale(ctx context.Context, invoice *stripe.Invoice, known bool) (
	sale processor.Sale, reason processor.Ignored, err error,
) {
	if invoice.Status != stripe.InvoiceStatusPaid {
		return sale, processor.IgnoredUnfinished, nil
	}
	currency, ok := saleCurrency(invoice.Currency, invoice.AmountPaid)
	if !ok {
		return sale, processor.IgnoredCurrency, nil
	}
	eventType, ok := invoiceEventType(invoice)
	if !ok {
		return sale, processor.IgnoredZeroAmount, nil
	}
	sale = processor.Sale{
		ID:            invoice.ID,
		IDs:           conversion.ProcessorIDs{Name: conversion.Stripe, Invoice: invoice.ID},
		EventType:     eventType,
		OccurredAt:    unixTime(invoice.Created),
		FeeKnown:      true,
		First:         invoice.BillingReason == stripe.InvoiceBillingReasonSubscriptionCreate,
		Click:         invoice.Metadata[clickKey],
		CustomerEmail: invoice.CustomerEmail,
	}
	if times := invoice.StatusTransitions; times != nil && times.PaidAt > 0 {
		sale.OccurredAt = unixTime(times.PaidAt)
	}
	if invoice.Customer != nil {
		sale.IDs.Customer = invoice.Customer.ID
	}
	setSubscription(&sale, invoice)
	setInvoiceAmounts(&sale, invoice, currency)
	if sale.PromotionCodes, err = rd.promotionCodes(ctx, invoiceCodes(invoice)); err != nil {
		return sale, "", err
	}
	if eventType != affiliate.Trial {
		payments, reason, err := rd.invoicePayments(ctx, invoice, known)
		if err != nil || reason != "" {
			return sale, reason, err
		}
		setPayments(&sale, payments)
	}
	setAliases(&sale)
	return sale, "", nil
}

// invoiceEventType returns the event type of an invoice. ok is false for an invoice of 0 that
// renews or changes a subscription.
func invoiceEventType(invoice *stripe.Invoice) (eventType affiliate.EventType, ok bool) {
	switch reason := invoice.BillingReason; {
	case invoice.AmountPaid <= 0:
		begins := reason == stripe.InvoiceBillingReasonSubscriptionCreate || reason == stripe.InvoiceBillingReasonManual || reason == ""
		return affiliate.Trial, begins
	case reason == stripe.InvoiceBillingReasonSubscriptionCycle,
		reason == stripe.InvoiceBillingReasonSubscriptionUpdate,
		reason == stripe.InvoiceBillingReasonSubscriptionThreshold:
		return affiliate.Renewal, true
	default:
		return affiliate.Purchase, true
	}
}

// setSubscription sets what the subscription of an invoice says. Its metadata has priority
// over the metadata of the invoice.
func setSubscription(sale *processor.Sale, invoice *stripe.Invoice) {
	if invoice.Parent != nil && invoice.Parent.SubscriptionDetails != nil {
		sale.Click = cmp.Or(invoice.Parent.SubscriptionDetails.Metadata[clickKey], sale.Click)
	}
	sale.IDs.Subscription = subscriptionOf(invoice)
	sale.IsRecurring = sale.IDs.Subscription != ""
}

// subscriptionOf returns the id of an invoice's subscription. The id is empty if the invoice
// belongs to no subscription.
func subscriptionOf(invoice *stripe.Invoice) string {
	if invoice.Parent == nil || invoice.Parent.SubscriptionDetails == nil || invoice.Parent.SubscriptionDetails.Subscription == nil {
		return ""
	}
	return invoice.Parent.SubscriptionDetails.Subscription.ID
}

func setInvoiceAmounts(sale *processor.Sale, invoice *stripe.Invoice, currency string) {
	var tax, shipping, discount int64
	for _, entry := range invoice.TotalTaxes {
		if entry != nil {
			tax += entry.Amount
		}
	}
	for _, entry := range invoice.TotalDiscountAmounts {
		if entry != nil {
			discount += entry.Amount
		}
	}
	if invoice.ShippingCost != nil {
		shipping = invoice.ShippingCost.AmountTotal
	}
	sale.Sale = newSale(currency, invoice.AmountPaid, tax, shipping)
	sale.DiscountCents = max(0, fromStripe(discount, currency))
}

// invoiceCodes returns the promotion codes of the expanded discounts of an invoice. The id of
// a discount does not say which promotion code it belongs to.
func invoiceCodes(invoice *stripe.Invoice) (codes []*stripe.PromotionCode) {
	for _, discount := range invoice.Discounts {
		if discount != nil && discount.PromotionCode != nil {
			codes = append(codes, discount.PromotionCode)
		}
	}
	return codes
}

// invoicePayments returns the payments of an invoice. An invoice without payments was paid out of
// band; then reason is set unless the connection includes such invoices. An invoice that Stripe
// does not know has no payments either, but it is assumed to be paid at Stripe.
func (rd *reader) invoicePayments(ctx context.Context, invoice *stripe.Invoice, known bool) (
	payments []payment, reason processor.Ignored, err error,
) {
	payments, err = rd.listPayments(ctx, invoice)
	if err != nil || len(payments) > 0 || rd.request.OutOfBand {
		return payments, "", err
	}
	if !known {
		_, err := rd.api.V1Invoices.Retrieve(ctx, invoice.ID, nil)
		if isMissing(err) {
			return nil, "", nil
		}
		if err != nil {
			return nil, "", failure(ctx, "read an invoice", err)
		}
	}
	return nil, processor.IgnoredOutOfBand, nil
}

// listPayments returns the payment intents and charges that paid an invoice, the oldest
// first.
func (rd *reader) listPayments(ctx context.Context, invoice *stripe.Invoice) ([]payment, error) {
	var entries []*stripe.InvoicePayment
	if list := invoice.Payments; list != nil && !list.HasMore {
		entries = list.Data
	} else {
		var err error
		entries, err = collect(ctx, "list the payments of an invoice", rd.api.V1InvoicePayments.List(ctx, &stripe.InvoicePaymentListParams{
			ListParams: stripe.ListParams{Limit: stripe.Int64(pageSize)},
			Invoice:    stripe.String(invoice.ID),
		}), maxPayments)
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(entries, func(a, b *stripe.InvoicePayment) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	var payments []payment
	for _, entry := range entries {
		if p, ok := paymentOf(entry, invoice.ID); ok {
			payments = append(payments, p)
		}
	}
	return payments, nil
}

// paymentOf returns the payment of an entry. ok is false if the entry belongs to another
// invoice, was canceled, or records a payment outside of Stripe. The payment that Stripe
// prepares for every invoice is canceled when the invoice is paid out of band.
func paymentOf(entry *stripe.InvoicePayment, invoice string) (p payment, ok bool) {
	if entry.Invoice == nil || entry.Invoice.ID != invoice || entry.Payment == nil || entry.Status == "canceled" {
		return payment{}, false
	}
	if entry.Payment.PaymentIntent != nil {
		p.intent = entry.Payment.PaymentIntent.ID
	}
	if entry.Payment.Charge != nil {
		p.charge = entry.Payment.Charge.ID
	}
	return p, p != payment{}
}

// setPayments sets the ids of the payments. The first payment is the one that the sale shows.
func setPayments(sale *processor.Sale, payments []payment) {
	for i, p := range payments {
		if i == 0 {
			sale.IDs.PaymentIntent, sale.IDs.Charge = p.intent, p.charge
		}
		sale.Aliases = append(sale.Aliases, p.intent, p.charge)
	}
}
