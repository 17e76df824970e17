package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// Store reads and changes endpoints and deliveries in the database. A method that reads
// or locks an endpoint or a delivery returns WEBHOOK_NOT_FOUND if it does not exist in
// the workspace and mode, or if the endpoint is deleted.
type Store interface {
	// Endpoints reads one page of endpoints, newest first, and counts all endpoints of
	// the scope.
	Endpoints(ctx context.Context, scope affiliate.Scope, page affiliate.Page) ([]webhook.Endpoint, int64, error)
	Endpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (webhook.Endpoint, error)
	// EndpointSecrets reads an endpoint and those of its encrypted secrets that are valid
	// at the given time, newest first.
	EndpointSecrets(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID, now time.Time) (webhook.Endpoint, [][]byte, error)
	// Deliveries reads one page of an endpoint's deliveries, newest first, and counts all
	// deliveries that match the filter, up to affiliate.MaxTotal. It leaves out
	// deliveries of events that are older than since. Errors: NOT_FOUND for the filter's
	// event.
	Deliveries(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time, filter webhook.DeliveryFilter, page affiliate.Page) ([]webhook.Delivery, int64, error)
	// Delivery reads a delivery of the endpoint with its attempts.
	Delivery(ctx context.Context, endpoint webhook.Endpoint, id affiliate.DeliveryID) (webhook.Delivery, error)
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// LockWorkspace locks the workspace. Without the lock, two transactions could count
	// its endpoints at the same time and together exceed the limit.
	LockWorkspace(ctx context.Context, workspace affiliate.WorkspaceID) error
	CountEndpoints(ctx context.Context, scope affiliate.Scope) (int, error)
	InsertEndpoint(ctx context.Context, e webhook.Endpoint, sealed []byte) error
	// Endpoint reads an endpoint without a lock.
	Endpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (webhook.Endpoint, error)
	// EndpointOrDeleted reads an endpoint like Endpoint, but also if it is deleted.
	EndpointOrDeleted(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (webhook.Endpoint, error)
	// LockEndpoint locks and reads an endpoint. UpdateEndpoint, DeleteEndpoint and
	// ReplaceSecret must be called only for a locked endpoint.
	LockEndpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (webhook.Endpoint, error)
	UpdateEndpoint(ctx context.Context, e webhook.Endpoint) error
	DeleteEndpoint(ctx context.Context, e webhook.Endpoint) error
	// ReplaceSecret stores a new secret. Until previousUntil, the previous secret stays
	// valid too. If previousUntil is nil, the previous secret is deleted.
	ReplaceSecret(ctx context.Context, e webhook.Endpoint, sealed []byte, previousUntil *time.Time) error

	LockDelivery(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID) (webhook.LockedDelivery, error)
	// UpdateDelivery stores a locked delivery. If the delivery is due, the sender is
	// woken after the commit.
	UpdateDelivery(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, d webhook.LockedDelivery) error
	// Delivery reads a delivery, including the changes of this transaction.
	Delivery(ctx context.Context, endpoint webhook.Endpoint, id affiliate.DeliveryID) (webhook.Delivery, error)

	// CountRecoverable counts the deliveries that a recovery would restart. In this and
	// the following methods, epoch is the endpoint's current epoch. It is a number that
	// increases when the endpoint is disabled or deleted.
	CountRecoverable(ctx context.Context, job webhook.RecoverDeliveries, epoch int) (int64, error)
	// RecoverBlock restarts at most limit deliveries that a recovery selects, and returns
	// their number. It skips deliveries that another transaction has locked. If the
	// result is less than limit, all remaining deliveries are locked.
	RecoverBlock(ctx context.Context, job webhook.RecoverDeliveries, epoch int, at time.Time, limit int) (int, error)
	// CancelBlock cancels at most limit deliveries that wait for an attempt and belong to
	// an epoch before the current epoch. It returns the number of canceled deliveries. It
	// skips deliveries that another transaction has locked.
	CancelBlock(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, epoch int, endedAt time.Time, limit int) (int, error)

	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
	Audit(ctx context.Context, line affiliate.AuditLine) error
}
