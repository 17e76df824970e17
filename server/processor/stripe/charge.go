package stripe

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
)

// maxChargeObjects is the greatest number of refunds, disputes, invoices or sessions of a
// charge that are read.
const maxChargeObjects = 10_000

// chargeEvent is what the object of an event says about a charge. The object is a charge, a
// refund or a dispute. The fields have the same form in all versions of the API.
type chargeEvent struct {
	charge, intent string
	currency       string
	amount         int64 // of the charge; 0 if unknown
	// refunded is the refunded amount that the event shows; nil if it shows none.
	refunded *int64
	dispute  *eventDispute
	// isCharge means that the event contains the charge in the current version of the API, so the
	// charge is not retrieved. The ids and the currency of a charge do not change.
	isCharge bool
}

// eventDispute is the object of an event about a dispute.
type eventDispute struct {
	ID       string               `json:"id"`
	Amount   int64                `json:"amount"`
	Currency string               `json:"currency"`
	Status   stripe.DisputeStatus `json:"status"`
}

// parseCharge reads what an event says about a charge.
func (rd *reader) parseCharge(ev event) (chargeEvent, error) {
	var object struct {
		ID             string    `json:"id"`
		Amount         int64     `json:"amount"`
		AmountRefunded int64     `json:"amount_refunded"`
		Charge         reference `json:"charge"`
		PaymentIntent  reference `json:"payment_intent"`
		Currency       string    `json:"currency"`
		Status         string    `json:"status"`
	}
	if json.Unmarshal(ev.Data.Object, &object) != nil || !validID(object.ID) {
		return chargeEvent{}, errMalformed
	}
	parsed := chargeEvent{charge: string(object.Charge), intent: string(object.PaymentIntent), currency: object.Currency}
	switch stripe.EventType(ev.Type) {
	case stripe.EventTypeChargeRefunded:
		parsed.charge, parsed.amount = object.ID, object.Amount
		parsed.refunded = &object.AmountRefunded
		parsed.isCharge = !rd.request.ReadAgain && ev.APIVersion == stripe.APIVersion
	case stripe.EventTypeChargeDisputeCreated, stripe.EventTypeChargeDisputeClosed:
		parsed.dispute = &eventDispute{
			ID: object.ID, Amount: object.Amount, Currency: object.Currency, Status: stripe.DisputeStatus(object.Status),
		}
	default:
		if refundCounts(stripe.RefundStatus(object.Status)) {
			parsed.refunded = &object.Amount
		}
	}
	if parsed.charge != "" && !validID(parsed.charge) || parsed.intent != "" && !validID(parsed.intent) {
		return chargeEvent{}, errMalformed
	}
	return parsed, nil
}

// readCharge reads the charge of an event about a refund or a dispute.
func (rd *reader) readCharge(ctx context.Context, ev event) (processor.Facts, error) {
	parsed, err := rd.parseCharge(ev)
	if err != nil {
		return processor.Facts{}, err
	}
	exists, err := rd.resolveCharge(ctx, &parsed)
	if err != nil {
		return processor.Facts{}, err
	}
	if parsed.charge == "" {
		// A refund of a customer's balance, or of a payment that Stripe has deleted, belongs to
		// no sale.
		return ignored(processor.IgnoredType), nil
	}
	currency, ok := affiliate.ParseCurrency(parsed.currency)
	if !ok {
		return ignored(processor.IgnoredCurrency), nil
	}
	charge := processor.Charge{ID: parsed.charge, Currency: currency, AmountCents: fromStripe(parsed.amount, currency)}
	if charge.RefundedCents, err = rd.refunded(ctx, parsed, currency, exists); err != nil {
		return processor.Facts{}, err
	}
	if charge.Disputes, err = rd.disputes(ctx, parsed, currency); err != nil {
		return processor.Facts{}, err
	}
	if charge.Aliases, err = rd.chargeAliases(ctx, parsed); err != nil {
		return processor.Facts{}, err
	}
	return processor.Facts{Charge: &charge}, nil
}

// resolveCharge completes the ids, the currency and the amount of a charge with the objects at Stripe.
// exists is false if Stripe does not know the charge.
func (rd *reader) resolveCharge(ctx context.Context, parsed *chargeEvent) (exists bool, err error) {
	if parsed.charge == "" && parsed.intent != "" {
		intent, err := rd.api.V1PaymentIntents.Retrieve(ctx, parsed.intent, nil)
		if err != nil && !isMissing(err) {
			return false, failure(ctx, "read a payment intent", err)
		}
		if err == nil && (intent.LatestCharge == nil || !validID(intent.LatestCharge.ID)) {
			return false, unavailable("read a payment intent", "the response has no charge")
		}
		if err == nil {
			parsed.charge = intent.LatestCharge.ID
		}
	}
	if parsed.isCharge || parsed.charge == "" {
		return parsed.isCharge, nil
	}
	charge, err := rd.api.V1Charges.Retrieve(ctx, parsed.charge, nil)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, failure(ctx, "read a charge", err)
	}
	parsed.currency, parsed.amount = string(charge.Currency), charge.Amount
	if charge.PaymentIntent != nil {
		parsed.intent = charge.PaymentIntent.ID
	}
	return true, nil
}

// refundCounts reports whether the money of a refund has left the merchant or will leave it.
func refundCounts(status stripe.RefundStatus) bool {
	return status != stripe.RefundStatusFailed && status != stripe.RefundStatusCanceled
}

// refunded returns the refunded amount of a charge, the amount in the event if Stripe lists no
// refund, and otherwise 0, or nil if Stripe does not know the charge.
func (rd *reader) refunded(ctx context.Context, parsed chargeEvent, currency string, exists bool) (*int64, error) {
	refunds, err := collect(ctx, "list the refunds of a charge", rd.api.V1Refunds.List(ctx, &stripe.RefundListParams{
		ListParams: stripe.ListParams{Limit: stripe.Int64(pageSize)},
		Charge:     stripe.String(parsed.charge),
	}), maxChargeObjects)
	if err != nil {
		return nil, err
	}
	refunds = slices.DeleteFunc(refunds, func(refund *stripe.Refund) bool {
		return refund.Charge == nil || refund.Charge.ID != parsed.charge
	})
	var amount int64
	switch {
	case len(refunds) > 0:
		for _, refund := range refunds {
			if refundCounts(refund.Status) {
				amount += refund.Amount
			}
		}
	case parsed.refunded != nil:
		amount = *parsed.refunded
	case !exists:
		return nil, nil
	}
	cents := max(0, fromStripe(amount, currency))
	return &cents, nil
}

// disputes returns the disputes of a charge. If Stripe does not list the dispute of the
// event, its state comes from the event.
func (rd *reader) disputes(ctx context.Context, parsed chargeEvent, currency string) ([]conversion.ProcessorDispute, error) {
	listed, err := collect(ctx, "list the disputes of a charge", rd.api.V1Disputes.List(ctx, &stripe.DisputeListParams{
		ListParams: stripe.ListParams{Limit: stripe.Int64(pageSize)},
		Charge:     stripe.String(parsed.charge),
	}), maxChargeObjects)
	if err != nil {
		return nil, err
	}
	var disputes []conversion.ProcessorDispute
	found := false
	for _, d := range listed {
		if d.Charge == nil || d.Charge.ID != parsed.charge {
			continue
		}
		found = found || parsed.dispute != nil && d.ID == parsed.dispute.ID
		disputes = append(disputes, newDispute(eventDispute{
			ID: d.ID, Amount: d.Amount, Currency: string(d.Currency), Status: d.Status,
		}, currency))
	}
	if parsed.dispute != nil && !found {
		stale := newDispute(*parsed.dispute, currency)
		stale.Stale = true
		disputes = append(disputes, stale)
	}
	slices.SortFunc(disputes, func(a, b conversion.ProcessorDispute) int { return cmp.Compare(a.ID, b.ID) })
	return disputes, nil
}

// newDispute returns a dispute about a charge in the given currency.
func newDispute(d eventDispute, currency string) conversion.ProcessorDispute {
	dispute := conversion.ProcessorDispute{ID: d.ID, Status: commission.DisputeOpen}
	switch d.Status {
	case stripe.DisputeStatusWon, stripe.DisputeStatusWarningClosed, stripe.DisputeStatusPrevented:
		dispute.Status = commission.DisputeWon
	case stripe.DisputeStatusLost:
		dispute.Status = commission.DisputeLost
	default:
		// The dispute is open in all other statuses, including those of later versions of
		// the API.
	}
	if parsed, ok := affiliate.ParseCurrency(d.Currency); ok && parsed == currency {
		cents := max(0, fromStripe(d.Amount, currency))
		dispute.AmountCents = &cents
	}
	return dispute
}

// chargeAliases returns all ids by which the sale of a charge may be known.
func (rd *reader) chargeAliases(ctx context.Context, parsed chargeEvent) ([]string, error) {
	ids := []string{parsed.charge, parsed.intent}
	if parsed.intent == "" {
		return distinct(ids), nil
	}
	payments, err := collect(ctx, "list the invoices of a payment intent", rd.api.V1InvoicePayments.List(ctx, &stripe.InvoicePaymentListParams{
		ListParams: stripe.ListParams{Limit: stripe.Int64(pageSize)},
		Payment: &stripe.InvoicePaymentListPaymentParams{
			Type:          stripe.String(string(stripe.InvoicePaymentPaymentTypePaymentIntent)),
			PaymentIntent: stripe.String(parsed.intent),
		},
		Expand: stripe.StringSlice([]string{"data.invoice"}),
	}), maxChargeObjects)
	if err != nil {
		return nil, err
	}
	for _, p := range payments {
		if p.Payment == nil || p.Payment.PaymentIntent == nil || p.Payment.PaymentIntent.ID != parsed.intent || p.Invoice == nil {
			continue
		}
		ids = append(ids, p.Invoice.ID)
		sessions, err := rd.invoiceSessions(ctx, p.Invoice)
		if err != nil {
			return nil, err
		}
		ids = append(ids, sessions...)
	}
	sessions, err := rd.sessionIDs(ctx, &stripe.CheckoutSessionListParams{PaymentIntent: stripe.String(parsed.intent)}, func(s *stripe.CheckoutSession) bool {
		return s.PaymentIntent != nil && s.PaymentIntent.ID == parsed.intent
	})
	return distinct(append(ids, sessions...)), err
}

// invoiceSessions returns the ids of the checkout sessions that created an invoice: those of
// its subscription that name the invoice.
func (rd *reader) invoiceSessions(ctx context.Context, invoice *stripe.Invoice) ([]string, error) {
	subscription := subscriptionOf(invoice)
	if subscription == "" || invoice.BillingReason != stripe.InvoiceBillingReasonSubscriptionCreate {
		return nil, nil
	}
	return rd.sessionIDs(ctx, &stripe.CheckoutSessionListParams{Subscription: stripe.String(subscription)}, func(s *stripe.CheckoutSession) bool {
		return s.Invoice != nil && s.Invoice.ID == invoice.ID
	})
}

// sessionIDs returns the ids of the listed checkout sessions for which belongs returns true.
func (rd *reader) sessionIDs(ctx context.Context, list *stripe.CheckoutSessionListParams, belongs func(*stripe.CheckoutSession) bool) ([]string, error) {
	list.Limit = stripe.Int64(pageSize)
	sessions, err := collect(ctx, "list the checkout sessions of a charge", rd.api.V1CheckoutSessions.List(ctx, list), maxChargeObjects)
	var ids []string
	for _, s := range sessions {
		if belongs(s) {
			ids = append(ids, s.ID)
		}
	}
	return ids, err
}

// payment is a payment of a sale. At least one id is set; an unknown id is empty.
type payment struct{ intent, charge string }

// AddCharges adds the ids of the charges of the payments to a sale, and their fees if withFee
// is true.
func (c *Client) AddCharges(ctx context.Context, key string, sale *processor.Sale, withFee bool) error {
	rd := &reader{api: c.api(key)}
	payments := paymentsOf(*sale)
	// An invoice without payments was paid outside of Stripe, which takes no fee.
	known := len(payments) > 0 || sale.IDs.Invoice != ""
	var total int64
	counted := map[string]bool{}
	for i, p := range payments {
		charge, err := rd.paidCharge(ctx, p, withFee)
		if err != nil {
			return err
		}
		if charge == nil {
			known = false
			continue
		}
		setAliases(sale, charge.ID)
		if i == 0 {
			sale.IDs.Charge = charge.ID
		}
		if counted[charge.ID] {
			continue // the aliases name the payment intent and the charge of one payment
		}
		counted[charge.ID] = true
		fee, ok := int64(0), false
		if charge.BalanceTransaction != nil {
			fee, ok = convertFee(charge.BalanceTransaction, sale.Sale.Currency)
		}
		known = known && ok
		total += fee
	}
	if !withFee {
		return nil
	}
	if sale.FeeKnown = known; known {
		sale.Sale.FeeCents = total
	}
	return nil
}

// paymentsOf returns the payments of a sale, from its aliases.
func paymentsOf(sale processor.Sale) (payments []payment) {
	for _, id := range sale.Aliases {
		switch prefix, _, _ := strings.Cut(id, "_"); prefix {
		case "pi":
			payments = append(payments, payment{intent: id})
		case "ch", "py":
			payments = append(payments, payment{charge: id})
		}
	}
	return payments
}

// paidCharge reads the charge of a payment, with its balance transaction if withFee is true.
// It returns nil if the charge does not exist yet or the key may not read it. Without the
// fee, it may return the id of the charge alone.
func (rd *reader) paidCharge(ctx context.Context, p payment, withFee bool) (*stripe.Charge, error) {
	var charge *stripe.Charge
	var err error
	switch {
	case validID(p.intent):
		var intent *stripe.PaymentIntent
		params := &stripe.PaymentIntentRetrieveParams{}
		if withFee {
			params.AddExpand("latest_charge.balance_transaction")
		}
		intent, err = rd.api.V1PaymentIntents.Retrieve(ctx, p.intent, params)
		if err == nil {
			charge = intent.LatestCharge
		}
	case validID(p.charge) && !withFee:
		return &stripe.Charge{ID: p.charge}, nil
	case validID(p.charge):
		charge, err = rd.api.V1Charges.Retrieve(ctx, p.charge, &stripe.ChargeRetrieveParams{
			Expand: stripe.StringSlice([]string{"balance_transaction"}),
		})
	default:
		return nil, nil
	}
	switch {
	case isMissing(err), isForbidden(err):
		return nil, nil
	case err != nil:
		return nil, failure(ctx, "read the charge of a payment", err)
	}
	return charge, nil
}
