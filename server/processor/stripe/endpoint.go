package stripe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stripe/stripe-go/v85"
	"golang.org/x/sync/errgroup"

	"github.com/tributary-hq/tributary/affiliate/processor"
	processorservice "github.com/tributary-hq/tributary/server/processor"
)

// maxEndpoints is the greatest number of endpoints that DeleteOtherEndpoints reads. Stripe
// allows 16 per account.
const maxEndpoints = 1_000

// subscribedEvents are the events that the service uses.
var subscribedEvents = []string{
	string(stripe.EventTypeCheckoutSessionCompleted),
	string(stripe.EventTypeCheckoutSessionAsyncPaymentSucceeded),
	string(stripe.EventTypeCheckoutSessionAsyncPaymentFailed),
	string(stripe.EventTypeInvoicePaid),
	string(stripe.EventTypeChargeRefunded),
	string(stripe.EventTypeChargeDisputeCreated),
	string(stripe.EventTypeChargeDisputeClosed),
	string(stripe.EventTypeRefundCreated),
	string(stripe.EventTypeRefundUpdated),
	string(stripe.EventTypeRefundFailed),
}

// CreateEndpoint registers a webhook endpoint whose events have the API version of this
// package.
func (c *Client) CreateEndpoint(ctx context.Context, key, url string) (processorservice.Endpoint, error) {
	created, err := c.api(key).V1WebhookEndpoints.Create(ctx, &stripe.WebhookEndpointCreateParams{
		URL:           stripe.String(url),
		EnabledEvents: stripe.StringSlice(subscribedEvents),
		APIVersion:    stripe.String(stripe.APIVersion),
		Description:   stripe.String("Tributary"),
	})
	if isInvalid(err) {
		return processorservice.Endpoint{}, fmt.Errorf("%w: %w", processorservice.ErrEndpointRejected, failure(ctx, "create the endpoint", err))
	}
	if err != nil {
		return processorservice.Endpoint{}, failure(ctx, "create the endpoint", err)
	}
	if !validID(created.ID) || created.Secret == "" {
		return processorservice.Endpoint{}, unavailable("create the endpoint", "the response has no secret")
	}
	return processorservice.Endpoint{ID: created.ID, Secret: created.Secret}, nil
}

// DeleteOtherEndpoints deletes the endpoints with a URL that were created before a time,
// except the endpoint with the id keep. The result left is the number of the newer endpoints.
func (c *Client) DeleteOtherEndpoints(ctx context.Context, key, url, keep string, createdBefore time.Time) (left int, err error) {
	endpoints, err := collect(ctx, "list the endpoints", c.api(key).V1WebhookEndpoints.List(ctx, &stripe.WebhookEndpointListParams{
		ListParams: stripe.ListParams{Limit: stripe.Int64(pageSize)},
	}), maxEndpoints)
	if err != nil {
		return 0, err
	}
	for _, endpoint := range endpoints {
		switch {
		case endpoint.URL != url, endpoint.ID == keep:
		case endpoint.Created >= createdBefore.Unix():
			left++
		default:
			if err := c.DeleteEndpoint(ctx, key, endpoint.ID); err != nil {
				return left, err
			}
		}
	}
	return left, nil
}

// DeleteEndpoint deletes a webhook endpoint. An endpoint that does not exist is no error.
func (c *Client) DeleteEndpoint(ctx context.Context, key, id string) error {
	if !validID(id) {
		return nil
	}
	if _, err := c.api(key).V1WebhookEndpoints.Delete(ctx, id, nil); err != nil && !isMissing(err) {
		return failure(ctx, "delete the endpoint", err)
	}
	return nil
}

// EndpointStatus returns the status of an endpoint. Stripe's statuses are enabled and
// disabled.
func (c *Client) EndpointStatus(ctx context.Context, key, id string) (string, error) {
	if !validID(id) {
		return processor.EndpointMissing, nil
	}
	endpoint, err := c.api(key).V1WebhookEndpoints.Retrieve(ctx, id, nil)
	switch {
	case isMissing(err):
		return processor.EndpointMissing, nil
	case err != nil:
		return "", failure(ctx, "read the endpoint", err)
	case endpoint.Status != processor.EndpointEnabled && endpoint.Status != "disabled":
		return "", unavailable("read the endpoint", "the response has no status")
	}
	return endpoint.Status, nil
}

// maxProbes is the greatest number of concurrent requests of MissingPermissions.
const maxProbes = 4

// probe is a request that Stripe rejects with 403 if and only if the key lacks the
// permission.
type probe struct {
	permission string
	send       func(ctx context.Context, api *stripe.Client) error
}

// readProbes are the probes of the permissions that every connection needs to read objects.
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
func probesFor(needs processorservice.Needs) []probe {
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
func (c *Client) MissingPermissions(ctx context.Context, key string, needs processorservice.Needs) ([]string, error) {
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
