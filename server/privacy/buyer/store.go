package buyer

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
)

// Store stores erasures of buyers and the data that they change.
type Store interface {
	// Erasure returns an erasure of a workspace. Errors: NOT_FOUND.
	Erasure(ctx context.Context, workspace affiliate.WorkspaceID, id privacy.BuyerErasureID) (privacy.BuyerErasure, error)
	// ClaimErasure gives a worker the lease of an erasure that is processing and that no other
	// worker owns. If the lease of an earlier worker has expired, this counts as a failure.
	// Errors: NOT_FOUND if the erasure cannot be claimed.
	ClaimErasure(ctx context.Context, job privacy.EraseBuyer, worker uuid.UUID, now, until time.Time) (privacy.BuyerErasure, error)
	// ReleaseErasure ends the lease of a worker. failed adds a failure.
	ReleaseErasure(ctx context.Context, e privacy.BuyerErasure, worker uuid.UUID, failed bool) error
	// InTx runs fn in a transaction, which commits if fn returns nil. fn may run more than
	// once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// LockWorkspace locks the workspace until the transaction ends. Errors: NOT_FOUND.
	LockWorkspace(ctx context.Context, id affiliate.WorkspaceID) error
	// ErasureOfKey returns the erasure for which an Idempotency-Key was used, with the
	// fingerprint of the identity in the request.
	ErasureOfKey(ctx context.Context, workspace affiliate.WorkspaceID, key string, now time.Time) (id privacy.BuyerErasureID, fingerprint []byte, found bool, err error)
	// LockActiveErasure locks and returns the erasure of a buyer that has the status
	// processing. It returns nil if the buyer has no such erasure.
	LockActiveErasure(ctx context.Context, workspace affiliate.WorkspaceID, identity privacy.BuyerIdentity) (*privacy.BuyerErasure, error)
	InsertErasure(ctx context.Context, e privacy.BuyerErasure) error
	// TakeOver moves the lists of failed erasures of the same buyer to the erasure e. These
	// erasures may have erased a part of the data by which the rest can be found. fingerprints
	// are privacy.ErasureKeys.Fingerprints of the buyer.
	TakeOver(ctx context.Context, e privacy.BuyerErasure, fingerprints affiliate.Digests) error
	// PutKey stores the Idempotency-Key of a request for an erasure.
	PutKey(ctx context.Context, e privacy.BuyerErasure, key string, fingerprint []byte, expiresAt time.Time) error
	// Join stores the result of privacy.BuyerErasure.Join for a locked erasure.
	Join(ctx context.Context, e privacy.BuyerErasure) error
	// LockErasure locks and returns an erasure, so that no request joins it until the transaction
	// ends.
	LockErasure(ctx context.Context, e privacy.BuyerErasure) (privacy.BuyerErasure, error)
	// Advance stores the progress and renews the lease. Errors: NOT_FOUND if the worker no
	// longer has the lease.
	Advance(ctx context.Context, e privacy.BuyerErasure, worker uuid.UUID, until time.Time) error
	// FinishErasure stores the final status. The lists of an erasure that has failed stay for
	// TakeOver. Errors: NOT_FOUND if the worker no longer has the lease.
	FinishErasure(ctx context.Context, e privacy.BuyerErasure, worker uuid.UUID, status privacy.BuyerErasureStatus, at time.Time) error

	Search
	Erase

	Audit(ctx context.Context, line affiliate.AuditLine) error
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
	Publish(ctx context.Context, events ...affiliate.Event) error
}

// Search finds the conversions of a buyer. The store keeps a list of conversions and of
// customers for each erasure.
type Search interface {
	// AddSalesOf adds the conversions with a property to the list. It and AddSales add no
	// conversion that happened and was stored after e.Until().
	AddSalesOf(ctx context.Context, e privacy.BuyerErasure, by privacy.SaleProperty, value any) error
	// AddSales adds conversions to the list, by their ids.
	AddSales(ctx context.Context, e privacy.BuyerErasure, ids []affiliate.ConversionID) error
	// AddCustomers adds references of customers to the list.
	AddCustomers(ctx context.Context, e privacy.BuyerErasure, refs []string) error
	// FollowCustomers adds the conversions of at most limit customers in the list, and returns
	// the number of these customers.
	FollowCustomers(ctx context.Context, e privacy.BuyerErasure, limit int) (int, error)
	// UnfollowedSales returns at most limit conversions in the list for which no further
	// conversions were searched.
	UnfollowedSales(ctx context.Context, e privacy.BuyerErasure, limit int) ([]privacy.FoundSale, error)
	MarkFollowed(ctx context.Context, e privacy.BuyerErasure, ids []affiliate.ConversionID) error
	// UnfollowCustomers makes FollowCustomers return all customers in the list again.
	UnfollowCustomers(ctx context.Context, e privacy.BuyerErasure) error
	// HasProcessorEvents reports whether events of payment processors of the workspace are stored.
	HasProcessorEvents(ctx context.Context, workspace affiliate.WorkspaceID) (bool, error)
	// SearchSales returns at most limit conversions of the workspace that follow the id after.
	SearchSales(ctx context.Context, workspace affiliate.WorkspaceID, after affiliate.ConversionID, limit int) ([]privacy.SaleIDs, error)
	// ParkedSales returns the external transaction ids of parked refunds.
	ParkedSales(ctx context.Context, workspace affiliate.WorkspaceID) ([]string, error)
}

// Erase changes the data of a buyer.
type Erase interface {
	// DeleteUnknownSale deletes what is stored about a transaction whose sale is not recorded,
	// and empties the events that wait for the sale.
	DeleteUnknownSale(ctx context.Context, workspace affiliate.WorkspaceID, external string, at time.Time) error
	// LockSales locks at most limit conversions in the list that are followed and not erased.
	// ids are the ids of all of them, and sales has only those that no other erasure has
	// erased.
	LockSales(ctx context.Context, e privacy.BuyerErasure, limit int) (ids []affiliate.ConversionID, sales []privacy.BuyerSale, err error)
	// TakenPseudonyms returns those of the given texts that are external ids of conversions.
	TakenPseudonyms(ctx context.Context, scope affiliate.Scope, candidates []string) ([]string, error)
	// EraseSales stores erased conversions, which LockSales has locked.
	EraseSales(ctx context.Context, e privacy.BuyerErasure, ids []affiliate.ConversionID, sales []privacy.ErasedSale, at time.Time) error
	// HasSales reports whether the list has conversions, and whether some are not erased.
	HasSales(ctx context.Context, e privacy.BuyerErasure) (found, unerased bool, err error)
	// DeleteCustomers deletes the customers in the list. Those that have begun after e.Until() and
	// have conversions that are not erased stay.
	DeleteCustomers(ctx context.Context, e privacy.BuyerErasure) error
	// DeleteResponses reads at most limit stored responses that follow the key after, and
	// deletes those about conversions in the list. It returns the last key; nil if no response
	// follows.
	DeleteResponses(ctx context.Context, e privacy.BuyerErasure, after privacy.StoredResponseKey, limit int) (*privacy.StoredResponseKey, error)
	// WaitingEvents returns at most limit events of payment processors that follow the key
	// after and that arrived up to e.Until().
	WaitingEvents(ctx context.Context, e privacy.BuyerErasure, after privacy.WaitingEventKey, limit int) ([]privacy.WaitingEvent, error)
	// ErasedAliases returns those of the given texts that replace ids of conversions in the
	// list.
	ErasedAliases(ctx context.Context, e privacy.BuyerErasure, mode affiliate.Mode, texts []string) ([]string, error)
	// Customers returns those of the given references that are in the list.
	Customers(ctx context.Context, e privacy.BuyerErasure, refs []string) ([]string, error)
	// DeleteExportsWithSales deletes the exports of a workspace and of its participants, which
	// contain the ids of sales. An export that a job is making begins again.
	DeleteExportsWithSales(ctx context.Context, workspace affiliate.WorkspaceID) error
	// EmptyEvent deletes the content of an event, which is not applied any more. emptied is false
	// if an attempt to apply the event is running, or has applied it.
	EmptyEvent(
		ctx context.Context, workspace affiliate.WorkspaceID, event privacy.WaitingEvent, reason processor.Ignored, at time.Time,
	) (emptied bool, err error)
}

// Analytics keeps the sums of the analytics. Package server/analytics implements it.
type Analytics interface {
	// AddAll adds all entries of the log of a workspace to the sums. After an erasure, neither
	// the log nor the sums then contain the erased values.
	AddAll(ctx context.Context, workspace affiliate.WorkspaceID) error
}
