package conversion

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store keeps conversions and finds what their signals lead to.
type Store interface {
	// FindClick finds a workspace's click, in either mode; nil: there is none.
	FindClick(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error)
	// FindEarner finds what a click of the tail leads to; nil: there is none.
	FindEarner(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID) (*affiliate.Earner, error)
	// RecordConversion completes the inputs with what is found under lock, asks the
	// report's Decide, and stores everything that follows; or it stores nothing, and
	// refuses as Decide did, with CONVERSION_DUPLICATE or IDEMPOTENCY_KEY_REUSED.
	RecordConversion(ctx context.Context, r affiliate.Report) (affiliate.ReportResult, error)
	// Replay returns the outcome that is stored under a key, as in Recorded; nil if the
	// key is new.
	// Errors: IDEMPOTENCY_KEY_REUSED.
	Replay(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) ([]byte, error)
	// ClaimKey binds a key to a request whose items have keys of their own, as often
	// as the request comes. Errors: IDEMPOTENCY_KEY_REUSED.
	ClaimKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) error
	// ReleaseKey undoes ClaimKey, for a request that came to nothing.
	ReleaseKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) error
	// Conversions is one page of the scope's conversions, newest first, and how many
	// all pages have, as far as they are counted. Errors: NOT_FOUND for what the
	// filter names.
	Conversions(
		ctx context.Context, scope affiliate.Scope, filter affiliate.ConversionFilter, page affiliate.Page,
	) ([]affiliate.ConversionItem, int64, error)
	// Conversion reads one conversion. Errors: NOT_FOUND.
	Conversion(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID) (affiliate.ConversionDetail, error)
	// RefundConversion records a refund and applies it, or parks it when its
	// conversion is unknown. Errors: REFUND_DUPLICATE, REFUND_EXCEEDS_AMOUNT.
	RefundConversion(ctx context.Context, refund affiliate.Refund) (affiliate.RefundOutcome, error)
	// ApplyParkedRefunds applies refunds that wait for a sale, if it is there.
	ApplyParkedRefunds(ctx context.Context, waiting affiliate.ParkedSale, at time.Time) error
	// KnownParkedSales gives those of up to limit sales after a cursor that refunds
	// wait for and that are recorded by now; a zero next means that all have been
	// looked through.
	KnownParkedSales(ctx context.Context, after affiliate.ParkedSale, limit int) (known []affiliate.ParkedSale, next affiliate.ParkedSale, err error)
	// DropExpiredRefunds gives up on up to limit parked refunds whose time is over.
	DropExpiredRefunds(ctx context.Context, now time.Time, limit int) (int64, error)

	// AwaitedConversions reads up to limit conversions that wait for a click.
	AwaitedConversions(ctx context.Context, workspace affiliate.WorkspaceID, click affiliate.ClickID, limit int) ([]affiliate.StoredConversion, error)
	// ForgetAwaited ends a conversion's wait.
	ForgetAwaited(ctx context.Context, c affiliate.Conversion) error
	// ArrivedClicks gives those of up to limit awaited clicks after a cursor that
	// are stored by now; a zero next means that all have been looked through.
	ArrivedClicks(ctx context.Context, after affiliate.AttributeLateClick, limit int) (arrived []affiliate.AttributeLateClick, next affiliate.AttributeLateClick, err error)
	// DropExpiredAwaited gives up on up to limit clicks whose time is over.
	DropExpiredAwaited(ctx context.Context, now time.Time, limit int) (int64, error)

	// InTx runs fn in a transaction, which commits if fn returns nil. fn may run more
	// than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// LockAttribution locks a conversion that a person gives to a participant, with
	// everything that goes along. Errors: NOT_FOUND for the conversion.
	LockAttribution(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID, to affiliate.ParticipantID) (affiliate.LockedAttribution, error)
	// ApplyReattribution writes a reattribution of a locked conversion.
	ApplyReattribution(ctx context.Context, r affiliate.Reattribution) error
	// LockAwaited locks a conversion whose click has arrived, returns it as it is
	// stored, and completes the inputs as RecordConversion does.
	LockAwaited(
		ctx context.Context, c affiliate.Conversion, in affiliate.AttributionInputs,
	) (affiliate.StoredConversion, affiliate.AttributionInputs, error)
	// ApplyLateAttribution writes a decision about a locked conversion and ends the
	// conversion's wait for its click.
	ApplyLateAttribution(ctx context.Context, l affiliate.LateAttribution) error
}

// Tail looks for a click among those that are acknowledged and not stored yet.
// ok is false when it is not among the newest. A click that a blind edge took
// may come back with its scope and participant unresolved.
type Tail interface {
	Find(ctx context.Context, id affiliate.ClickID) (click affiliate.Click, ok bool, err error)
}
