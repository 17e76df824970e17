package stripe

import (
	"context"
	"strings"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate"
)

// payment is a payment of a sale. One of the ids is empty if it is unknown.
type payment struct{ intent, charge string }

// AddFee adds the fees of the payments to a sale, and the ids of their charges.
func (c *Client) AddFee(ctx context.Context, key string, sale *affiliate.ProcessorSale) error {
	rd := &reader{api: c.api(key)}
	payments := paymentsOf(*sale)
	// An invoice without payments was paid outside of Stripe, which takes no fee.
	sale.FeeKnown = len(payments) > 0 || sale.IDs.Invoice != ""
	var total int64
	for i, p := range payments {
		charge, err := rd.paidCharge(ctx, p)
		if err != nil {
			return err
		}
		if charge == nil {
			sale.FeeKnown = false
			continue
		}
		setAliases(sale, charge.ID)
		if i == 0 {
			sale.IDs.Charge = charge.ID
		}
		fee, ok := int64(0), false
		if charge.BalanceTransaction != nil {
			fee, ok = convertFee(charge.BalanceTransaction, sale.Sale.Paid.Currency)
		}
		sale.FeeKnown = sale.FeeKnown && ok
		total += fee
	}
	if sale.FeeKnown {
		sale.Sale.FeeCents = total
	}
	return nil
}

// paymentsOf returns the payments of a sale, from its aliases.
func paymentsOf(sale affiliate.ProcessorSale) (payments []payment) {
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

// paidCharge reads the charge of a payment with its balance transaction. It returns nil if
// the charge does not exist yet or the key may not read it.
func (rd *reader) paidCharge(ctx context.Context, p payment) (*stripe.Charge, error) {
	var charge *stripe.Charge
	var err error
	switch {
	case validID(p.intent):
		var intent *stripe.PaymentIntent
		intent, err = rd.api.V1PaymentIntents.Retrieve(ctx, p.intent, &stripe.PaymentIntentRetrieveParams{
			Expand: stripe.StringSlice([]string{"latest_charge.balance_transaction"}),
		})
		if err == nil {
			charge = intent.LatestCharge
		}
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
		return nil, failure(ctx, "read a fee", err)
	}
	return charge, nil
}
