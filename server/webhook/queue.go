package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// Queue is the part of the database that the sender uses. At any time at most one process
// has the lease of an endpoint and sends its deliveries, so single deliveries need no
// lease.
type Queue interface {
	// Claim creates or renews leases of endpoints. The new leases end at until. Claim returns
	// the endpoints whose leases were granted. The other endpoints are disabled, deleted or leased to
	// another process, or their rows are locked at the moment.
	Claim(ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey, now, until time.Time) ([]affiliate.EndpointKey, error)
	// Release ends leases of this sender.
	Release(ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey) error
	// Unclaimed returns up to limit endpoints that have due deliveries and no lease.
	Unclaimed(ctx context.Context, now time.Time, limit int) ([]affiliate.EndpointKey, error)
	// Due reads the endpoints and their due deliveries. The delivery that has been due for
	// the longest time is first. Endpoints that are not active or not leased to the sender
	// are left out.
	Due(ctx context.Context, sender affiliate.SenderID, reads []webhook.Read, now time.Time) ([]webhook.Target, []webhook.DueDelivery, error)
	// InTx runs fn in one transaction, which commits if fn returns nil. The commit does not
	// wait until it is on disk. If a crash of the database loses it, the attempts are
	// repeated.
	InTx(ctx context.Context, fn func(tx QueueTx) error) error
}

// QueueTx is a transaction of the queue.
type QueueTx interface {
	// ApplyOutcomes stores the effects of attempts on their deliveries. It skips deliveries
	// whose state has changed since they were read, and returns the ids of the others.
	ApplyOutcomes(ctx context.Context, changes []webhook.DeliveryChange) ([]affiliate.DeliveryID, error)
	// LockDeliveryOf locks and reads a delivery. Errors: WEBHOOK_NOT_FOUND.
	LockDeliveryOf(ctx context.Context, key affiliate.EndpointKey, id affiliate.DeliveryID) (webhook.LockedDelivery, error)
	// LockEndpoints locks and reads endpoints, also deleted ones.
	LockEndpoints(ctx context.Context, keys []affiliate.EndpointKey) ([]affiliate.Endpoint, error)
	// UpdateHealth stores the health of locked endpoints.
	UpdateHealth(ctx context.Context, endpoints []affiliate.Endpoint) error
	// UpdateEndpoint stores all changeable fields of a locked endpoint.
	UpdateEndpoint(ctx context.Context, e affiliate.Endpoint) error
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
	Audit(ctx context.Context, line affiliate.AuditLine) error
}
