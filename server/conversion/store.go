package conversion

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
)

// Store stores conversions and looks up clicks, promo codes and customers.
type Store interface {
	// FindClick returns a click of a workspace. The click may belong to either mode. The
	// result is nil if the click does not exist.
	FindClick(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*attribution.FoundClick, error)
	// FindEarner returns the data about a participant and its programme that a decision
	// needs. It is called for clicks that are not stored yet. For stored clicks, the
	// result of FindClick contains this data. The result is nil if the participant does
	// not exist.
	FindEarner(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID) (*attribution.Earner, error)
	// RecordConversion locks the customer and the promo code of a report, adds them to
	// the inputs of the decision, and calls the report's function Decide. It then stores
	// the conversion and all its effects. If it returns an error, it has stored nothing.
	// Errors: the errors of Decide, CONVERSION_DUPLICATE, IDEMPOTENCY_KEY_REUSED.
	RecordConversion(ctx context.Context, r conversion.Report) (conversion.ReportResult, error)
	// KnownCustomer returns which of several references of one customer is stored, or an empty
	// text if the customer is new.
	KnownCustomer(ctx context.Context, scope affiliate.Scope, refs []string) (string, error)
	// PromoCodes returns the texts of the promo codes that were created at a payment
	// processor with the given ids. An unknown id is missing in the result.
	PromoCodes(ctx context.Context, scope affiliate.Scope, promotionCodes []string) (map[string]string, error)
	// Replay returns the encoded outcome that is stored under an Idempotency-Key, or nil
	// if the key is new. Errors: IDEMPOTENCY_KEY_REUSED if the key belongs to a different
	// request.
	Replay(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) ([]byte, error)
	// ClaimKey stores the Idempotency-Key of a batch request. If the same request was
	// sent before, ClaimKey succeeds again, because each item has its own key, which
	// prevents duplicates. The result has the fingerprint of the first request, because the
	// keys of the items contain it. Errors: IDEMPOTENCY_KEY_REUSED if the key belongs to a
	// different request.
	ClaimKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) (affiliate.IdempotencyKey, error)
	// ReleaseKey deletes a key that ClaimKey stored. It is called if no item of the batch
	// was recorded.
	ReleaseKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) error
	// Conversions returns one page of conversions, newest first, and the number of
	// conversions on all pages. It stops counting at affiliate.MaxTotal. Errors:
	// NOT_FOUND for the filter's programme or participant.
	Conversions(
		ctx context.Context, scope affiliate.Scope, filter conversion.Filter, page affiliate.Page,
	) ([]conversion.Item, int64, error)
	// Conversion reads one conversion. Errors: NOT_FOUND.
	Conversion(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID) (conversion.Detail, error)
	// RefundConversion records a refund. It applies the refund if the conversion is
	// recorded. Otherwise it parks the refund: it stores the refund until the conversion
	// is reported. Errors: REFUND_DUPLICATE, REFUND_EXCEEDS_AMOUNT.
	RefundConversion(ctx context.Context, refund conversion.Refund) (conversion.RefundOutcome, error)
	// ApplyParkedRefunds applies the parked refunds of a sale if the conversion with the
	// sale's external id is recorded.
	ApplyParkedRefunds(ctx context.Context, sale conversion.ParkedSale, at time.Time) error
	// SalesWithParkedRefunds reads at most limit sales that have parked refunds and follow
	// the sale in cursor. It returns those of the sales whose conversions are recorded.
	// next is the cursor for the next call. It is zero if there are no more sales.
	SalesWithParkedRefunds(ctx context.Context, cursor conversion.ParkedSale, limit int) (recorded []conversion.ParkedSale, next conversion.ParkedSale, err error)
	// DropExpiredRefunds deletes at most limit parked refunds that have expired. It
	// returns the number of deleted refunds.
	DropExpiredRefunds(ctx context.Context, now time.Time, limit int) (int64, error)

	// WaitingConversions reads at most limit conversions that wait for the given click.
	WaitingConversions(ctx context.Context, workspace affiliate.WorkspaceID, click affiliate.ClickID, limit int) ([]conversion.StoredConversion, error)
	// StopAwaiting stores that a conversion no longer waits for its click.
	StopAwaiting(ctx context.Context, c conversion.Conversion) error
	// EraseAwaited removes the data of the visitor of a click that has arrived, because the
	// buyer of the conversion was erased. The conversion no longer waits for the click.
	EraseAwaited(ctx context.Context, c conversion.Conversion) error
	// ArrivedClicks reads at most limit awaited clicks that follow the click in cursor. A
	// click is awaited if conversions wait for it. ArrivedClicks returns those of the
	// clicks that have arrived and are stored. next is the cursor for the next call. It
	// is zero if there are no more awaited clicks.
	ArrivedClicks(ctx context.Context, cursor click.AwaitedClick, limit int) (arrived []click.AwaitedClick, next click.AwaitedClick, err error)
	// DropExpiredAwaited ends the wait of at most limit conversions whose clicks have not
	// arrived in time. It returns the number of these conversions.
	DropExpiredAwaited(ctx context.Context, now time.Time, limit int) (int64, error)

	// InTx runs fn in a transaction, which commits if fn returns nil. fn may run more
	// than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
}

// Tx is a transaction of the store.
type Tx interface {
	// LockAttribution locks a conversion that will be attributed to newParticipant. It
	// also locks the other rows that a reattribution changes. Errors: NOT_FOUND for the
	// conversion.
	LockAttribution(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID, newParticipant affiliate.ParticipantID) (conversion.LockedAttribution, error)
	// ApplyReattribution writes a reattribution of a locked conversion.
	ApplyReattribution(ctx context.Context, r conversion.Reattribution) error
	// LockAwaited locks a conversion whose click has arrived and returns its stored
	// state. Like RecordConversion, it locks the customer and the promo code and adds
	// them to the inputs.
	LockAwaited(
		ctx context.Context, c conversion.Conversion, in attribution.Inputs,
	) (conversion.StoredConversion, attribution.Inputs, error)
	// FindSale returns the conversion that has one of the given ids as an alias or as its
	// external id. If there is none, the result has no conversion.
	FindSale(ctx context.Context, scope affiliate.Scope, aliases []string) (processor.RecordedSale, error)
	// AddAliases adds the ids of a payment processor to a recorded conversion.
	AddAliases(ctx context.Context, scope affiliate.Scope, conversion affiliate.ConversionID, ids conversion.ProcessorIDs, aliases []string) error
	// LockSignals locks the customer and the promo code of a conversion that is not
	// recorded, and adds them to the inputs of its decision.
	LockSignals(ctx context.Context, c conversion.Conversion, in attribution.Inputs) (attribution.Inputs, error)
	// BindCustomer binds the customer of a conversion that is not recorded to the
	// participant of a decision. It is called after LockSignals.
	BindCustomer(ctx context.Context, c conversion.Conversion, in attribution.Inputs, d attribution.Decision) error
	// LockSale locks a conversion with its commission and reads what was refunded and
	// disputed. Errors: NOT_FOUND.
	LockSale(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID) (conversion.LockedSale, error)
	// LockDisputedSale locks the conversion about which a merchant reports a dispute, and
	// reads the dispute if it was reported before. Errors: NOT_FOUND, DISPUTE_DUPLICATE.
	LockDisputedSale(ctx context.Context, report conversion.ReportedDispute) (conversion.SaleInDispute, error)
	// PutReportedDispute stores a dispute that a merchant reports about a locked sale.
	// Errors: DISPUTE_DUPLICATE.
	PutReportedDispute(ctx context.Context, sale conversion.SaleInDispute, dispute conversion.ProcessorDispute, at time.Time) error
	// ApplyReversal stores a reversal of a locked sale.
	ApplyReversal(ctx context.Context, r conversion.Reversal) error
	// ApplyLateAttribution stores a new decision about a locked conversion and ends the
	// conversion's wait for its click.
	ApplyLateAttribution(ctx context.Context, l conversion.LateAttribution) error
}

// Tail finds a click in the tail of the click stream. The tail is the newest part of the
// stream. It contains clicks that collectors have acknowledged but that are not in
// Postgres yet. ok is false if the tail does not contain the click. If the collector that
// accepted the click could not read the edge directory (the copy of keys and links in
// Redis), the click has no scope and no participant.
type Tail interface {
	Find(ctx context.Context, id affiliate.ClickID) (click click.Click, ok bool, err error)
}
