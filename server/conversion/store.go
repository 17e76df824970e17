package conversion

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store stores conversions and looks up clicks, promo codes and customers.
type Store interface {
	// FindClick returns a click of a workspace, in either mode, or nil if it does not
	// exist.
	FindClick(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error)
	// FindEarner returns the participant and the programme of a click that is not stored
	// yet, or nil if the participant does not exist.
	FindEarner(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID) (*affiliate.Earner, error)
	// RecordConversion locks the customer and the promo code, adds them to the inputs,
	// calls the report's Decide, and stores the conversion with everything that it causes.
	// If it returns an error, it has stored nothing. Errors: those of Decide,
	// CONVERSION_DUPLICATE, IDEMPOTENCY_KEY_REUSED.
	RecordConversion(ctx context.Context, r affiliate.Report) (affiliate.ReportResult, error)
	// Replay returns the encoded outcome that is stored under a key, or nil if the key is
	// new. Errors: IDEMPOTENCY_KEY_REUSED.
	Replay(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) ([]byte, error)
	// ClaimKey stores that a key belongs to a batch request. It succeeds again for the
	// same request, because each item of the batch has its own key. Errors:
	// IDEMPOTENCY_KEY_REUSED.
	ClaimKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) error
	// ReleaseKey undoes ClaimKey for a request of which no item was recorded.
	ReleaseKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) error
	// Conversions returns one page of the scope's conversions, newest first, and the
	// number of conversions on all pages, counted up to a bound. Errors: NOT_FOUND for
	// the filter's programme or participant.
	Conversions(
		ctx context.Context, scope affiliate.Scope, filter affiliate.ConversionFilter, page affiliate.Page,
	) ([]affiliate.ConversionItem, int64, error)
	// Conversion reads one conversion. Errors: NOT_FOUND.
	Conversion(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID) (affiliate.ConversionDetail, error)
	// RefundConversion records a refund and applies it, or parks it when its
	// conversion is unknown. Errors: REFUND_DUPLICATE, REFUND_EXCEEDS_AMOUNT.
	RefundConversion(ctx context.Context, refund affiliate.Refund) (affiliate.RefundOutcome, error)
	// ApplyParkedRefunds applies the parked refunds of a sale if its conversion is
	// recorded.
	ApplyParkedRefunds(ctx context.Context, waiting affiliate.ParkedSale, at time.Time) error
	// RecordedParkedSales reads up to limit sales with parked refunds, starting after the
	// cursor. known contains the sales among them whose conversion is recorded. next is
	// the cursor of the next call, or zero after the last sale.
	RecordedParkedSales(ctx context.Context, after affiliate.ParkedSale, limit int) (known []affiliate.ParkedSale, next affiliate.ParkedSale, err error)
	// DropExpiredRefunds deletes up to limit parked refunds that have expired, and returns
	// their number.
	DropExpiredRefunds(ctx context.Context, now time.Time, limit int) (int64, error)

	// WaitingConversions reads up to limit conversions that wait for a click.
	WaitingConversions(ctx context.Context, workspace affiliate.WorkspaceID, click affiliate.ClickID, limit int) ([]affiliate.StoredConversion, error)
	// StopAwaiting ends the wait of a conversion for its click.
	StopAwaiting(ctx context.Context, c affiliate.Conversion) error
	// ArrivedClicks reads up to limit awaited clicks, starting after the cursor. arrived
	// contains the clicks among them that are stored. next is the cursor of the next call,
	// or zero after the last click.
	ArrivedClicks(ctx context.Context, after affiliate.AttributeLateClick, limit int) (arrived []affiliate.AttributeLateClick, next affiliate.AttributeLateClick, err error)
	// DropExpiredAwaited ends the wait for up to limit clicks that have not arrived in
	// time, and returns their number.
	DropExpiredAwaited(ctx context.Context, now time.Time, limit int) (int64, error)

	// InTx runs fn in a transaction, which commits if fn returns nil. fn may run more
	// than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// LockAttribution locks a conversion for a reattribution to the participant to,
	// together with the rows that change with it. Errors: NOT_FOUND for the conversion.
	LockAttribution(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID, to affiliate.ParticipantID) (affiliate.LockedAttribution, error)
	// ApplyReattribution writes a reattribution of a locked conversion.
	ApplyReattribution(ctx context.Context, r affiliate.Reattribution) error
	// LockAwaited locks a conversion whose click has arrived and returns its stored state.
	// It adds the customer and the promo code to the inputs as RecordConversion does.
	LockAwaited(
		ctx context.Context, c affiliate.Conversion, in affiliate.AttributionInputs,
	) (affiliate.StoredConversion, affiliate.AttributionInputs, error)
	// ApplyLateAttribution writes a decision about a locked conversion and ends the
	// conversion's wait for its click.
	ApplyLateAttribution(ctx context.Context, l affiliate.LateAttribution) error
}

// Tail finds a click in the newest part of the click stream, which contains clicks that
// are acknowledged but not stored yet. ok is false if the click is not there. A click
// that a collector accepted without the edge directory has no scope and no participant.
type Tail interface {
	Find(ctx context.Context, id affiliate.ClickID) (click affiliate.Click, ok bool, err error)
}
