package stripe

import (
	"context"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/server/processor"
)

// maxEndpoints is the greatest number of endpoints that are compared with the URL. Stripe
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

// endpointMissing is the status of an endpoint that does not exist.
const endpointMissing = "missing"

// CreateEndpoint registers a webhook endpoint whose events have the API version of this
// package. It deletes the endpoints with this URL first. If the response with the secret is
// lost, the next call therefore replaces the endpoint.
func (c *Client) CreateEndpoint(ctx context.Context, key, url string) (processor.Endpoint, error) {
	api := c.api(key)
	list := api.V1WebhookEndpoints.List(ctx, &stripe.WebhookEndpointListParams{
		ListParams: stripe.ListParams{Limit: stripe.Int64(pageSize)},
	})
	endpoints, err := collect(ctx, "list the endpoints", list, maxEndpoints)
	if err != nil {
		return processor.Endpoint{}, err
	}
	for _, endpoint := range endpoints {
		if endpoint.URL != url {
			continue
		}
		if err := c.DeleteEndpoint(ctx, key, endpoint.ID); err != nil {
			return processor.Endpoint{}, err
		}
	}
	created, err := api.V1WebhookEndpoints.Create(ctx, &stripe.WebhookEndpointCreateParams{
		URL:           stripe.String(url),
		EnabledEvents: stripe.StringSlice(subscribedEvents),
		APIVersion:    stripe.String(stripe.APIVersion),
		Description:   stripe.String("Tributary"),
	})
	if err != nil {
		return processor.Endpoint{}, failure(ctx, "create the endpoint", err)
	}
	if !validID(created.ID) || created.Secret == "" {
		return processor.Endpoint{}, unavailable("create the endpoint", "the response has no secret")
	}
	return processor.Endpoint{ID: created.ID, Secret: created.Secret}, nil
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
		return endpointMissing, nil
	}
	endpoint, err := c.api(key).V1WebhookEndpoints.Retrieve(ctx, id, nil)
	switch {
	case isMissing(err):
		return endpointMissing, nil
	case err != nil:
		return "", failure(ctx, "read the endpoint", err)
	case endpoint.Status != "enabled" && endpoint.Status != "disabled":
		return "", unavailable("read the endpoint", "the response has no status")
	}
	return endpoint.Status, nil
}
