package stripe

import (
	"context"
	"slices"

	"github.com/stripe/stripe-go/v85"
	"golang.org/x/sync/errgroup"

	"github.com/tributary-hq/tributary/server/processor"
)

// maxProbes is the greatest number of concurrent requests of MissingPermissions.
const maxProbes = 4

// probe is a request that Stripe rejects with 403 if and only if the key lacks the
// permission.
type probe struct {
	permission string
	send       func(ctx context.Context, api *stripe.Client) error
}

// readProbes list the permissions that every connection needs to read objects.
var readProbes = []probe{
	{"connected_account_read", func(ctx context.Context, api *stripe.Client) error {
		_, err := api.V1Accounts.Retrieve(ctx, nil)
		return err
	}},
	{"event_read", func(ctx context.Context, api *stripe.Client) error {
		return api.V1Events.List(ctx, &stripe.EventListParams{ListParams: one()}).Err()
	}},
	{"checkout_session_read", func(ctx context.Context, api *stripe.Client) error {
		return api.V1CheckoutSessions.List(ctx, &stripe.CheckoutSessionListParams{ListParams: one()}).Err()
	}},
	{"invoice_read", func(ctx context.Context, api *stripe.Client) error {
		return api.V1Invoices.List(ctx, &stripe.InvoiceListParams{ListParams: one()}).Err()
	}},
	{"charge_read", func(ctx context.Context, api *stripe.Client) error {
		return api.V1Charges.List(ctx, &stripe.ChargeListParams{ListParams: one()}).Err()
	}},
	{"payment_intent_read", func(ctx context.Context, api *stripe.Client) error {
		return api.V1PaymentIntents.List(ctx, &stripe.PaymentIntentListParams{ListParams: one()}).Err()
	}},
	{"dispute_read", func(ctx context.Context, api *stripe.Client) error {
		return api.V1Disputes.List(ctx, &stripe.DisputeListParams{ListParams: one()}).Err()
	}},
}

var webhookProbe = probe{"webhook_write", func(ctx context.Context, api *stripe.Client) error {
	params := &stripe.WebhookEndpointCreateParams{}
	spoil(&params.Params)
	_, err := api.V1WebhookEndpoints.Create(ctx, params)
	return err
}}

var promoCodeProbes = []probe{
	{"coupon_write", func(ctx context.Context, api *stripe.Client) error {
		params := &stripe.CouponCreateParams{}
		spoil(&params.Params)
		_, err := api.V1Coupons.Create(ctx, params)
		return err
	}},
	{"promotion_code_write", func(ctx context.Context, api *stripe.Client) error {
		params := &stripe.PromotionCodeCreateParams{}
		spoil(&params.Params)
		_, err := api.V1PromotionCodes.Create(ctx, params)
		return err
	}},
}

var feeProbe = probe{"balance_transaction_source_read", func(ctx context.Context, api *stripe.Client) error {
	return api.V1BalanceTransactions.List(ctx, &stripe.BalanceTransactionListParams{ListParams: one()}).Err()
}}

// one returns the parameters of a list with one object and no further pages.
func one() stripe.ListParams {
	return stripe.ListParams{Limit: stripe.Int64(1), Single: true}
}

// spoil makes a request to create an object invalid. The probes omit all parameters, and
// Stripe rejects every parameter that it does not know. The request therefore never creates
// anything, even for objects without required parameters.
func spoil(params *stripe.Params) {
	params.AddExtra("permission_probe", "true")
}

// probesFor returns the probes of the permissions that a connection needs.
func probesFor(needs processor.Needs) []probe {
	probes := append(slices.Clone(readProbes), webhookProbe)
	if needs.PromoCodes {
		probes = append(probes, promoCodeProbes...)
	}
	if needs.Fees {
		probes = append(probes, feeProbe)
	}
	return probes
}

// MissingPermissions returns the names of those required permissions that the key does not
// have. Stripe has no list of a key's permissions, so every permission takes one request.
func (c *Client) MissingPermissions(ctx context.Context, key string, needs processor.Needs) ([]string, error) {
	api := c.api(key)
	probes := probesFor(needs)
	missing := make([]bool, len(probes))
	group, probeCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxProbes)
	for i, p := range probes {
		group.Go(func() error {
			if err := probeCtx.Err(); err != nil {
				return failure(probeCtx, "check the permission "+p.permission, err)
			}
			var err error
			missing[i], err = p.missing(probeCtx, api)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var names []string
	for i, p := range probes {
		if missing[i] {
			names = append(names, p.permission)
		}
	}
	slices.Sort(names)
	return names, nil
}

// missing reports whether the key lacks the permission.
func (p probe) missing(ctx context.Context, api *stripe.Client) (bool, error) {
	err := p.send(ctx, api)
	switch {
	case err == nil, isInvalid(err):
		return false, nil
	case isForbidden(err):
		return true, nil
	default:
		return false, failure(ctx, "check the permission "+p.permission, err)
	}
}
