package stripe

import (
	"context"
	"fmt"
	"time"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate/processor"
	processorservice "github.com/tributary-hq/tributary/server/processor"
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

// DeleteOtherEndpoints deletes the endpoints with a URL, except the endpoint keep and those
// that were created after the given time. It returns the number of the latter.
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
