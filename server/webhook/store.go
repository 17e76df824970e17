package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// Store is what the service needs of the database. An endpoint or delivery of another
// workspace or mode, or a deleted one, is WEBHOOK_NOT_FOUND.
type Store interface {
	// Endpoints reads one page of a mode's endpoints, newest first, and counts all.
	Endpoints(ctx context.Context, scope affiliate.Scope, page affiliate.Page) ([]affiliate.Endpoint, int64, error)
	Endpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (affiliate.Endpoint, error)
	// EndpointSecrets reads an endpoint with the sealed secrets that sign at an instant,
	// the newest first.
	EndpointSecrets(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID, at time.Time) (affiliate.Endpoint, [][]byte, error)
	// Deliveries reads one page of an endpoint's deliveries of events since an instant,
	// newest first, and counts all pages up to affiliate.MaxTotal. Errors: NOT_FOUND
	// for the filter's event.
	Deliveries(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time, filter affiliate.DeliveryFilter, page affiliate.Page) ([]affiliate.Delivery, int64, error)
	// Delivery reads a delivery of an endpoint with its attempts.
	Delivery(ctx context.Context, of affiliate.Endpoint, id affiliate.DeliveryID) (affiliate.Delivery, error)
	// InTx runs fn in a transaction, which commits if fn returns nil. fn may run more
	// than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// LockWorkspace makes transactions that count a workspace's endpoints take turns.
	LockWorkspace(ctx context.Context, workspace affiliate.WorkspaceID) error
	CountEndpoints(ctx context.Context, scope affiliate.Scope) (int, error)
	InsertEndpoint(ctx context.Context, e affiliate.Endpoint, sealed []byte) error
	// Endpoint reads without a lock. EndpointOrDeleted also reads deleted endpoints.
	Endpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (affiliate.Endpoint, error)
	EndpointOrDeleted(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (affiliate.Endpoint, error)
	// LockEndpoint locks an endpoint; the three methods after it write a locked one.
	LockEndpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (affiliate.Endpoint, error)
	UpdateEndpoint(ctx context.Context, e affiliate.Endpoint) error
	DeleteEndpoint(ctx context.Context, e affiliate.Endpoint) error
	// ReplaceSecret keeps the secret before until an instant; nil: it is deleted.
	ReplaceSecret(ctx context.Context, e affiliate.Endpoint, sealed []byte, keptUntil *time.Time) error

	LockDelivery(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID) (webhook.LockedDelivery, error)
	// UpdateDelivery writes a locked delivery. If it is due, the sender is woken after
	// the commit.
	UpdateDelivery(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, d webhook.LockedDelivery) error
	// Delivery reads a delivery as the transaction has left it.
	Delivery(ctx context.Context, of affiliate.Endpoint, id affiliate.DeliveryID) (affiliate.Delivery, error)

	// CountRecoverable counts the deliveries of a recovery in an epoch of the endpoint.
	CountRecoverable(ctx context.Context, job affiliate.RecoverDeliveries, epoch int) (int64, error)
	// RecoverBlock restarts up to limit deliveries of a recovery, CancelBlock cancels up
	// to limit that wait in an epoch before the given one. Both skip deliveries that
	// another transaction has locked, and return their number; fewer than limit: no
	// other is left.
	RecoverBlock(ctx context.Context, job affiliate.RecoverDeliveries, epoch int, at time.Time, limit int) (int, error)
	CancelBlock(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, epoch int, endedAt time.Time, limit int) (int, error)

	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
	Audit(ctx context.Context, line affiliate.AuditLine) error
}
