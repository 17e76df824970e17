package stripe

import (
	"context"
	"strings"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate/processor"
)

// payment is a payment of a sale. One of the ids is empty if it is unknown.
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
