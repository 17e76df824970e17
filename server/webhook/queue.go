package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// Queue reads and changes deliveries and leases in the database for the sender. At any
// time, at most one process has the lease of an endpoint and sends the endpoint's
// deliveries, so single deliveries need no lease.
type Queue interface {
	// Claim creates or renews leases of endpoints. leaseEnd is the time at which the
	// leases end. Claim returns the endpoints whose leases were granted. It does not
	// grant the lease of an endpoint that is disabled, deleted or leased to another
	// process, or whose row is locked.
	Claim(ctx context.Context, sender affiliate.SenderID, endpoints []webhook.EndpointKey, now, leaseEnd time.Time) ([]webhook.EndpointKey, error)
	// Release ends leases of this sender.
	Release(ctx context.Context, sender affiliate.SenderID, endpoints []webhook.EndpointKey) error
	// Unclaimed returns at most limit endpoints that have due deliveries and no lease.
	Unclaimed(ctx context.Context, now time.Time, limit int) ([]webhook.EndpointKey, error)
	// Lateness returns which part of the endpoints has due deliveries. An endpoint is late if
	// a delivery has been due since lateBefore.
	Lateness(ctx context.Context, now, lateBefore time.Time) (webhook.Lateness, error)
	// Due reads endpoints and their due deliveries. The delivery that has been due for
	// the longest time is first. Due leaves out endpoints that are not active or not
	// leased to the sender.
	Due(ctx context.Context, sender affiliate.SenderID, queries []webhook.DueQuery, now time.Time) ([]webhook.Target, []webhook.DueDelivery, error)
	// InTx runs fn in one transaction, which commits if fn returns nil. The commit is
	// asynchronous: it does not wait until the data is on disk. If the database crashes
	// and loses the transaction, the attempts are repeated.
	InTx(ctx context.Context, fn func(tx QueueTx) error) error
}

// QueueTx is a transaction of the queue.
type QueueTx interface {
	// ApplyOutcomes stores the effects of attempts on their deliveries. It skips
	// deliveries whose state has changed after they were read. It returns the ids of the
	// deliveries that it has not skipped.
	ApplyOutcomes(ctx context.Context, changes []webhook.DeliveryChange) ([]affiliate.DeliveryID, error)
	// LockDeliveryOf locks and reads a delivery of an endpoint. Errors:
	// WEBHOOK_NOT_FOUND.
	LockDeliveryOf(ctx context.Context, key webhook.EndpointKey, id affiliate.DeliveryID) (webhook.LockedDelivery, error)
	// LockEndpoints locks and reads endpoints, including deleted endpoints.
	LockEndpoints(ctx context.Context, keys []webhook.EndpointKey) ([]webhook.Endpoint, error)
	// UpdateHealth stores the field Health of locked endpoints.
	UpdateHealth(ctx context.Context, endpoints []webhook.Endpoint) error
	// UpdateEndpoint stores all changeable fields of a locked endpoint.
	UpdateEndpoint(ctx context.Context, e webhook.Endpoint) error
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
	Audit(ctx context.Context, line affiliate.AuditLine) error
	// Notify stores notifications.
	Notify(ctx context.Context, notifications ...notification.Notification) error
}
