package payout

import (
	"context"
	"iter"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error. What a person changed is audited and published, and the
// ledger follows, in the transaction of the change.
type Store interface {
	// PayoutsDue reads what a batch would consist of, then what would be left out,
	// each by the partner's name. Errors: NOT_FOUND for a programme.
	PayoutsDue(ctx context.Context, of affiliate.PayoutSelection) ([]affiliate.PayoutDue, error)
	// CreatePayoutBatch makes drafts of what is due, or reads the answer that was
	// given under the key before (replay). Errors: NOT_FOUND for a programme,
	// IDEMPOTENCY_KEY_REUSED, PAYOUT_STATE_INVALID when nothing is due.
	CreatePayoutBatch(ctx context.Context, n affiliate.NewPayoutBatch) (batch affiliate.PayoutBatch, replay []byte, err error)
	// PayoutBatches reads one page, newest first, and counts all pages up to
	// affiliate.MaxTotal batches; an empty status is any.
	PayoutBatches(ctx context.Context, scope affiliate.Scope, status affiliate.PayoutBatchStatus, page affiliate.Page) ([]affiliate.PayoutBatch, int64, error)
	// PayoutBatch reads one batch. Errors: NOT_FOUND.
	PayoutBatch(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutBatchID) (affiliate.PayoutBatch, error)
	// ConfirmPayoutBatch releases a draft, but for what has ceased to be payable.
	// Errors: NOT_FOUND, PAYOUT_STATE_INVALID with the status as metadata, like all
	// that move.
	ConfirmPayoutBatch(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutBatchID, at time.Time, by affiliate.Actor) (affiliate.PayoutBatch, error)
	// CancelPayoutBatch cancels what of a batch is not sent, when nothing is.
	// Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
	CancelPayoutBatch(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutBatchID, at time.Time, by affiliate.Actor) (affiliate.PayoutBatch, error)
	// SendPayouts moves the pending payouts of a batch to processing, all or those
	// of one method. Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
	SendPayouts(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutBatchID, method *affiliate.PayoutMethod, at time.Time, by affiliate.Actor) error
	// ExportPayouts returns the processing payouts of a batch, all or those of one
	// method, by currency and by the partner's name, as one snapshot has them. The
	// loop over them holds a connection. Errors: SERVICE_UNAVAILABLE if too many
	// exports are running.
	ExportPayouts(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutBatchID, method *affiliate.PayoutMethod) iter.Seq2[affiliate.SentPayout, error]
	// Payouts reads one page, newest first, and counts all pages up to
	// affiliate.MaxTotal payouts.
	Payouts(ctx context.Context, scope affiliate.Scope, filter affiliate.PayoutFilter, page affiliate.Page) ([]affiliate.PayoutItem, int64, error)
	// Payout reads one payout. Errors: NOT_FOUND.
	Payout(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutID) (affiliate.PayoutDetail, error)
	// MovePayout makes one move. Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
	MovePayout(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutID, t affiliate.PayoutTransition) (affiliate.PayoutItem, error)
	// PartnerPayouts reads one page of a partner's confirmed payouts in the mode,
	// newest first, and counts all pages up to affiliate.MaxTotal payouts.
	PartnerPayouts(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter affiliate.PayoutFilter, page affiliate.Page) ([]affiliate.PayoutItem, int64, error)
}

// Opener decrypts payout accounts.
type Opener interface {
	Open(sealed, aad []byte) ([]byte, error)
}
