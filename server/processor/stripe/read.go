package stripe

import (
	"context"
	"slices"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate"
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

// setAliases sets the ids that stand for this sale alone.
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
