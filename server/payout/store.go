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
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// PayoutsDue reads what a batch would consist of, then what would be left out,
	// each by the partner's name. Errors: NOT_FOUND for a programme.
	PayoutsDue(ctx context.Context, of affiliate.PayoutSelection) ([]affiliate.PayoutDue, error)
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

// Tx is a transaction that makes a batch.
type Tx interface {
	// ClaimKey makes the row of a key, or waits for the transaction that has made it.
	// replay is the response that is stored under the key, nil if this transaction is
	// the first. Errors: IDEMPOTENCY_KEY_REUSED.
	ClaimKey(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey) (replay []byte, err error)
	// StoreResponse stores the response under a claimed key.
	StoreResponse(ctx context.Context, scope affiliate.Scope, key affiliate.IdempotencyKey, response []byte) error
	// PayoutsDue reads what is due, in no order and without locks. Errors: NOT_FOUND
	// for a programme.
	PayoutsDue(ctx context.Context, of affiliate.PayoutSelection) ([]affiliate.PayoutDue, error)
	// LockPayoutsDue locks participants and their payable commissions that no payout
	// holds, and reads what is due to the participants in each currency. The
	// commissions are in the order of their ids.
	LockPayoutsDue(ctx context.Context, of affiliate.PayoutSelection, participants []affiliate.ParticipantID) (due []affiliate.PayoutDue, free []affiliate.HeldCommission, err error)
	// InsertPayoutBatch stores a new batch with all that belongs to it and returns it
	// with its counts and totals.
	InsertPayoutBatch(ctx context.Context, draft affiliate.PayoutBatchDraft, by affiliate.Actor) (affiliate.PayoutBatch, error)
}

// Opener decrypts payout accounts.
type Opener interface {
	Open(sealed, aad []byte) ([]byte, error)
}
