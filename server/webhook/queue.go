package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// Queue is the sender's view of the database. At any time at most one process has the
// lease of an endpoint and sends its deliveries, so single deliveries are not claimed.
type Queue interface {
	// Claim takes or renews the leases of endpoints until an instant. It returns those
	// that were granted; the others are disabled, deleted, leased to another process, or
	// their rows are locked at the moment.
	Claim(ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey, now, until time.Time) ([]affiliate.EndpointKey, error)
	// Release ends leases of this sender.
	Release(ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey) error
	// Unclaimed returns endpoints, at most limit, that have due deliveries and no lease.
	Unclaimed(ctx context.Context, now time.Time, limit int) ([]affiliate.EndpointKey, error)
	// Due reads due deliveries, the longest due first, and their endpoints. Endpoints that
	// are not active or not leased to the sender are left out.
	Due(ctx context.Context, sender affiliate.SenderID, reads []webhook.Read, now time.Time) ([]webhook.Target, []webhook.DueDelivery, error)
	// InTx runs fn in a transaction that commits if fn returns nil. The commit does not
	// wait for the disk: if a crash of the database loses it, the attempts are repeated.
	InTx(ctx context.Context, fn func(tx QueueTx) error) error
}

// QueueTx is a transaction of the queue.
type QueueTx interface {
	// ApplyOutcomes writes the effects of attempts on deliveries that are still in the
	// state before, and returns the ids of these.
	ApplyOutcomes(ctx context.Context, changes []webhook.DeliveryChange) ([]affiliate.DeliveryID, error)
	// LockDeliveryOf locks a delivery. Errors: WEBHOOK_NOT_FOUND.
	LockDeliveryOf(ctx context.Context, key affiliate.EndpointKey, id affiliate.DeliveryID) (webhook.LockedDelivery, error)
	// LockEndpoints locks endpoints, deleted ones included. UpdateHealth writes the
	// health of locked endpoints, UpdateEndpoint all that may change of one.
	LockEndpoints(ctx context.Context, keys []affiliate.EndpointKey) ([]affiliate.Endpoint, error)
	UpdateHealth(ctx context.Context, endpoints []affiliate.Endpoint) error
	UpdateEndpoint(ctx context.Context, e affiliate.Endpoint) error
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
	Audit(ctx context.Context, line affiliate.AuditLine) error
}
