package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// Store is the part of the database that the service uses. All methods that read or lock
// an endpoint or a delivery return WEBHOOK_NOT_FOUND if it is deleted or belongs to another
// workspace or mode.
type Store interface {
	// Endpoints reads one page of a mode's endpoints, newest first, and counts all of them.
	Endpoints(ctx context.Context, scope affiliate.Scope, page affiliate.Page) ([]affiliate.Endpoint, int64, error)
	Endpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (affiliate.Endpoint, error)
	// EndpointSecrets reads an endpoint and the encrypted secrets that sign its requests at
	// the time at, newest first.
	EndpointSecrets(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID, at time.Time) (affiliate.Endpoint, [][]byte, error)
	// Deliveries reads one page of an endpoint's deliveries, newest first, and counts all
	// deliveries that match the filter, up to affiliate.MaxTotal. It covers events since the
	// given time. Errors: NOT_FOUND for the filter's event.
	Deliveries(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time, filter affiliate.DeliveryFilter, page affiliate.Page) ([]affiliate.Delivery, int64, error)
	// Delivery reads a delivery of the endpoint with its attempts.
	Delivery(ctx context.Context, endpoint affiliate.Endpoint, id affiliate.DeliveryID) (affiliate.Delivery, error)
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn more
	// than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// LockWorkspace locks the workspace, so that two transactions cannot count its endpoints
	// at the same time and both pass the limit.
	LockWorkspace(ctx context.Context, workspace affiliate.WorkspaceID) error
	CountEndpoints(ctx context.Context, scope affiliate.Scope) (int, error)
	InsertEndpoint(ctx context.Context, e affiliate.Endpoint, sealed []byte) error
	// Endpoint reads an endpoint without a lock.
	Endpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (affiliate.Endpoint, error)
	// EndpointOrDeleted is Endpoint, but it also reads deleted endpoints.
	EndpointOrDeleted(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (affiliate.Endpoint, error)
	// LockEndpoint locks and reads an endpoint. UpdateEndpoint, DeleteEndpoint and
	// ReplaceSecret must be called only for a locked endpoint.
	LockEndpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (affiliate.Endpoint, error)
	UpdateEndpoint(ctx context.Context, e affiliate.Endpoint) error
	DeleteEndpoint(ctx context.Context, e affiliate.Endpoint) error
	// ReplaceSecret stores a new secret. The previous secret also signs until previousUntil.
	// If previousUntil is nil, the previous secret is deleted.
	ReplaceSecret(ctx context.Context, e affiliate.Endpoint, sealed []byte, previousUntil *time.Time) error

	LockDelivery(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID) (webhook.LockedDelivery, error)
	// UpdateDelivery stores a locked delivery. If it is due, the sender receives a wakeup
	// after the commit.
	UpdateDelivery(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, d webhook.LockedDelivery) error
	// Delivery reads a delivery, including the changes of this transaction.
	Delivery(ctx context.Context, endpoint affiliate.Endpoint, id affiliate.DeliveryID) (affiliate.Delivery, error)

	// CountRecoverable counts the deliveries that a recovery would restart. epoch is the
	// endpoint's current epoch.
	CountRecoverable(ctx context.Context, job affiliate.RecoverDeliveries, epoch int) (int64, error)
	// RecoverBlock restarts up to limit deliveries of a recovery and returns their number.
	// It skips deliveries that another transaction has locked. If the result is less than
	// limit, no unlocked delivery remains.
	RecoverBlock(ctx context.Context, job affiliate.RecoverDeliveries, epoch int, at time.Time, limit int) (int, error)
	// CancelBlock cancels up to limit deliveries that wait for an attempt and belong to an
	// earlier epoch than the given one. It skips locked deliveries and returns the number in
	// the same way as RecoverBlock.
	CancelBlock(ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, epoch int, endedAt time.Time, limit int) (int, error)

	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
	Audit(ctx context.Context, line affiliate.AuditLine) error
}
