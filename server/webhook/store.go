package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store keeps endpoints and shows deliveries. What belongs to another workspace or
// mode, or was deleted, is WEBHOOK_NOT_FOUND.
type Store interface {
	// CreateEndpoint stores an endpoint with its sealed secret. Errors:
	// WEBHOOK_ENDPOINT_LIMIT_EXCEEDED, counted under a lock on the workspace.
	CreateEndpoint(ctx context.Context, e affiliate.Endpoint, sealed []byte, by affiliate.Actor) error
	// ListEndpoints lists a mode's endpoints, newest first.
	ListEndpoints(ctx context.Context, scope affiliate.Scope, page affiliate.Page) ([]affiliate.Endpoint, int64, error)
	Endpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (affiliate.Endpoint, error)
	// UpdateEndpoint changes what the change names. One that is turned off gets the
	// reason manual, and a job that cancels what waits; of one that is turned on the
	// failures are forgotten. No change, no line in the audit log.
	UpdateEndpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID, change affiliate.EndpointChange, by affiliate.Actor, now time.Time) (affiliate.Endpoint, error)
	// DeleteEndpoint forgets the secrets at once and cancels what waits.
	DeleteEndpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID, by affiliate.Actor, now time.Time) error
	// RotateSecret puts a sealed secret in the place of the one in use, which signs
	// too until an instant; nil: it does not.
	RotateSecret(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID, sealed []byte, keptUntil *time.Time, by affiliate.Actor, now time.Time) (affiliate.Endpoint, error)
	// EndpointSecrets reads an endpoint with the sealed secrets that sign now, the
	// newest first.
	EndpointSecrets(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID, now time.Time) (affiliate.Endpoint, [][]byte, error)

	// ListDeliveries pages through an endpoint's deliveries of events since an instant,
	// newest first. The total counts to 10,000 and stops.
	ListDeliveries(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time, filter affiliate.DeliveryFilter, page affiliate.Page) ([]affiliate.Delivery, int64, error)
	// Delivery reads one with its attempts, and the URL of its endpoint.
	Delivery(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID, since time.Time) (affiliate.Delivery, string, error)
	// RetryDelivery asks for one more attempt now. Errors: WEBHOOK_DISABLED.
	RetryDelivery(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID, since time.Time, by affiliate.Actor, now time.Time) (affiliate.Delivery, string, error)
	// RecoverDeliveries counts the deliveries that the job is about, and inserts it.
	// Errors: WEBHOOK_DISABLED.
	RecoverDeliveries(ctx context.Context, job affiliate.RecoverDeliveries, by affiliate.Actor) (queued int64, err error)

	// CancelSome and RecoverSome do up to limit of a job's deliveries, and tell how many
	// those were; fewer than limit: none is left.
	CancelSome(ctx context.Context, job affiliate.CancelDeliveries, now time.Time, limit int) (int, error)
	RecoverSome(ctx context.Context, job affiliate.RecoverDeliveries, now time.Time, limit int) (int, error)
}
