package processor

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/promocode"
)

// Store stores connections, events and the states of charges.
type Store interface {
	// Connection returns the connection of a scope; nil if there is none.
	Connection(ctx context.Context, scope affiliate.Scope, processor conversion.ProcessorName) (*processor.LockedProcessorConnection, error)
	// ConnectionByID returns a connection that is not deleted, of any workspace. Errors:
	// NOT_FOUND.
	ConnectionByID(ctx context.Context, id processor.ConnectionID) (processor.LockedProcessorConnection, error)
	// ConnectionOfJob returns a connection, also if it is deleted. Errors: NOT_FOUND.
	ConnectionOfJob(ctx context.Context, workspace affiliate.WorkspaceID, id processor.ConnectionID) (processor.LockedProcessorConnection, error)
	// ConnectionsAfter returns the checks of the endpoints of at most limit connections, which
	// follow the id after.
	ConnectionsAfter(ctx context.Context, after processor.ConnectionID, limit int) ([]processor.CheckProcessorEndpoint, error)
	// DropConnection removes a deleted connection with its key.
	DropConnection(ctx context.Context, c processor.Connection) error
	// SyncsPromoCodes reports whether promo codes of a scope shall exist at the processor.
	SyncsPromoCodes(ctx context.Context, scope affiliate.Scope) (bool, error)
	// SubtractsFees reports whether a programme of a scope subtracts the processor's fees.
	SubtractsFees(ctx context.Context, scope affiliate.Scope) (bool, error)
	// Health describes the events of a connection.
	Health(ctx context.Context, c processor.Connection, now time.Time) (processor.Health, error)
	// AddSignatureFailures counts messages whose signature is not valid.
	AddSignatureFailures(ctx context.Context, c processor.Connection, failures int64, at time.Time) error
	// BeginAttempt stores that an attempt to apply an event is running until the given time, and
	// returns the event. Errors: NOT_FOUND if the event does not exist or needs no more work.
	BeginAttempt(ctx context.Context, key processor.EventKey, until time.Time) (processor.StoredProcessorEvent, error)
	// Events returns one page of the events of a scope, the latest first, and the number of
	// events on all pages. It stops counting at affiliate.MaxTotal. The events have no body.
	Events(ctx context.Context, scope affiliate.Scope, page affiliate.Page) ([]processor.StoredProcessorEvent, int64, error)
	// AbandonedEvents returns at most limit events without an outcome that arrived before the
	// given time. The events have no body.
	AbandonedEvents(ctx context.Context, before time.Time, limit int) ([]processor.StoredProcessorEvent, error)
	// PromoCode returns a promo code. Errors: NOT_FOUND.
	PromoCode(ctx context.Context, scope affiliate.Scope, id affiliate.PromoCodeID) (promocode.PromoCode, error)
	// ActivePromotionCodes returns the promotion codes of an account that were created from a
	// promo code and not deactivated.
	ActivePromotionCodes(ctx context.Context, scope affiliate.Scope, account string, id affiliate.PromoCodeID) ([]processor.PromoCode, error)
	// SyncedPromoCodes returns at most limit ids of promo codes that shall exist at the
	// processor, and that follow the id after.
	SyncedPromoCodes(ctx context.Context, scope affiliate.Scope, after affiliate.PromoCodeID, limit int) ([]affiliate.PromoCodeID, error)
	// NextRead returns the number of a read of a charge. It is larger than all earlier
	// numbers.
	NextRead(ctx context.Context) (int64, error)
	// InTx runs fn in a transaction, which commits if fn returns nil. fn may run more than
	// once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// LockWorkspace locks the workspace until the transaction ends. Errors: NOT_FOUND.
	LockWorkspace(ctx context.Context, id affiliate.WorkspaceID) error
	// LockConnection locks the connection of a scope; nil if there is none.
	LockConnection(ctx context.Context, scope affiliate.Scope, processor conversion.ProcessorName) (*processor.LockedProcessorConnection, error)
	// PutConnection inserts a connection, or replaces the one with its id.
	PutConnection(ctx context.Context, c processor.LockedProcessorConnection) error
	// SetResync stores which resync of a locked connection is running.
	SetResync(ctx context.Context, c processor.Connection) error
	// SetEndpointFailing stores whether the endpoint of a connection does not work. changed is
	// false if this is already stored.
	SetEndpointFailing(ctx context.Context, c processor.Connection, failing bool) (changed bool, err error)
	// DisconnectConnection marks a locked connection as deleted.
	DisconnectConnection(ctx context.Context, c processor.Connection, at time.Time) error
	// InsertEvent stores an event. stored is false if the event is already stored, unless it
	// has failed or was ignored.
	InsertEvent(ctx context.Context, e processor.StoredProcessorEvent) (stored bool, err error)
	// SetEventOutcome stores the status, the reason, the conversion and the charge of an event.
	SetEventOutcome(ctx context.Context, e processor.StoredProcessorEvent, at time.Time) error
	// PutCharge stores the state of a charge, unless a later read has stored a newer one.
	PutCharge(ctx context.Context, scope affiliate.Scope, charge processor.Charge, readNumber int64, at time.Time) error
	// ClaimFailureNotice reports whether a failed event is the first of a UTC day.
	ClaimFailureNotice(ctx context.Context, c processor.Connection, day time.Time) (first bool, err error)
	// PutPromotionCode stores a promotion code that was created from a promo code.
	PutPromotionCode(ctx context.Context, account string, code promocode.PromoCode, created processor.PromoCode, at time.Time) error
	// EndPromotionCode marks a promotion code as deactivated.
	EndPromotionCode(ctx context.Context, scope affiliate.Scope, promotionCode string) error
	// SetSyncStatus stores whether a promo code exists at the processor. current is false if
	// the promo code has changed since it was read.
	SetSyncStatus(ctx context.Context, code promocode.PromoCode, status promocode.SyncStatus) (current bool, err error)
	// FindChargeSale returns the conversion of a stored charge; nil if it is not recorded.
	FindChargeSale(ctx context.Context, scope affiliate.Scope, charge string) (*affiliate.ConversionID, error)

	Audit(ctx context.Context, line affiliate.AuditLine) error
	Enqueue(ctx context.Context, jobs ...affiliate.Job) error
	Notify(ctx context.Context, notifications ...notification.Notification) error
}

// Sales records the sales of processors. Package conversion implements it.
type Sales interface {
	// RecordSale records a sale, or adds the processor's ids to the conversion that is
	// already recorded.
	RecordSale(ctx context.Context, scope affiliate.Scope, sale processor.Sale, mayWait bool) (processor.RecordedSale, error)
	// BindCustomer binds the customer of a sale to the participant to whom the sale's signals
	// lead.
	BindCustomer(ctx context.Context, scope affiliate.Scope, sale processor.Sale) error
	// AddProcessorIDs adds the processor's ids to the conversion of a sale, if it is
	// recorded.
	AddProcessorIDs(ctx context.Context, scope affiliate.Scope, sale processor.Sale) (processor.RecordedSale, error)
	// Reverse applies the stored refunds and disputes to a conversion.
	Reverse(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID) error
}
