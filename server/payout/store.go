package payout

import (
	"context"
	"iter"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/server"
)

// Store reads and changes payouts in the database. The errors with an API error code are
// of type *affiliate.Error. The metadata of PAYOUT_STATE_INVALID contains the current
// status. A change, its audit record, its event and its ledger entries are stored in one
// transaction.
type Store interface {
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// PayoutsDue reads the amounts that are due. The amounts that a batch would pay are
	// first, followed by the amounts that a batch would exclude. Each part is sorted by
	// the partner's name. Errors: NOT_FOUND for a programme.
	PayoutsDue(ctx context.Context, selection payout.Selection) ([]payout.Due, error)
	// PayoutBatches reads one page of the batches with the status, newest first, and
	// counts all these batches, up to affiliate.MaxTotal. An empty status selects all
	// batches.
	PayoutBatches(ctx context.Context, scope affiliate.Scope, status payout.BatchStatus, page affiliate.Page) ([]payout.Batch, int64, error)
	// PayoutBatch reads one batch. Errors: NOT_FOUND.
	PayoutBatch(ctx context.Context, scope affiliate.Scope, id payout.BatchID) (payout.Batch, error)
	// ConfirmPayoutBatch confirms a draft batch, or stores the first of two confirmations
	// (payout.Batch.Confirm). A confirmed batch has lost the commissions that are
	// no longer payable and the payouts that a new batch would exclude, and its payouts
	// have copies of the partners' accounts. Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
	ConfirmPayoutBatch(ctx context.Context, scope affiliate.Scope, id payout.BatchID, confirmation payout.Confirmation) (payout.Batch, error)
	// CancelPayoutBatch cancels the draft and pending payouts of a batch. Errors:
	// NOT_FOUND, PAYOUT_STATE_INVALID if a payout of the batch is processing or paid.
	CancelPayoutBatch(ctx context.Context, scope affiliate.Scope, id payout.BatchID, at time.Time, by affiliate.Actor) (payout.Batch, error)
	// ProcessPayoutBatch changes the status of the batch's pending payouts to processing.
	// Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
	ProcessPayoutBatch(ctx context.Context, scope affiliate.Scope, id payout.BatchID, at time.Time, by affiliate.Actor) (payout.Batch, error)
	// PayoutExportTotals counts the confirmed payouts of a batch for each currency. If
	// method is not nil, it counts only payouts with this method. Errors: NOT_FOUND,
	// PAYOUT_STATE_INVALID if the batch is not confirmed or has ended.
	PayoutExportTotals(ctx context.Context, scope affiliate.Scope, id payout.BatchID, method *payout.Method) ([]payout.ExportTotal, error)
	// AuditPayoutExport records an export in the audit log.
	AuditPayoutExport(ctx context.Context, scope affiliate.Scope, id payout.BatchID, export payout.Export, at time.Time, by affiliate.Actor) error
	// ExportPayouts returns the pending and processing payouts of one part of an export,
	// sorted by currency and by the partner's name. A payout is in the same part in every
	// export. All payouts come from one snapshot of the database. The iteration uses a
	// database connection until it ends. Errors: SERVICE_UNAVAILABLE if too many exports
	// are running.
	ExportPayouts(ctx context.Context, scope affiliate.Scope, id payout.BatchID, export payout.Export) iter.Seq2[payout.ExportedPayout, error]
	// Payouts reads one page of payouts, newest first, and counts all payouts that match
	// the filter, up to affiliate.MaxTotal.
	Payouts(ctx context.Context, scope affiliate.Scope, filter payout.Filter, page affiliate.Page) ([]payout.Item, int64, error)
	// Payout reads one payout. Errors: NOT_FOUND.
	Payout(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutID) (payout.Detail, error)
	// MovePayout changes the status of a payout. Errors: NOT_FOUND, PAYOUT_STATE_INVALID,
	// and for MoveMarkPaid also PERIOD_CLOSED and VALIDATION_ERROR.
	MovePayout(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutID, t payout.Transition) (payout.Item, error)
	// PartnerPayouts reads one page of a partner's confirmed payouts in the mode, newest
	// first, and counts all confirmed payouts that match the filter, up to
	// affiliate.MaxTotal.
	PartnerPayouts(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter payout.Filter, page affiliate.Page) ([]payout.Item, int64, error)
}

// Tx is the transaction in which CreatePayoutBatch creates a batch.
type Tx interface {
	server.KeyTx
	// PayoutsDue reads the amounts that are due, in no particular order and without
	// locks. Errors: NOT_FOUND for a programme.
	PayoutsDue(ctx context.Context, selection payout.Selection) ([]payout.Due, error)
	// LockPayoutsDue locks the participants and their free commissions. A commission is
	// free if it is payable and in no payout. LockPayoutsDue returns the amount due for
	// each participant and currency, and the locked free commissions, sorted by id.
	LockPayoutsDue(ctx context.Context, selection payout.Selection, participants []affiliate.ParticipantID) (due []payout.Due, free []payout.Candidate, err error)
	// InsertPayoutBatch stores a new batch with its payouts and returns the batch with
	// its counts and totals.
	InsertPayoutBatch(ctx context.Context, draft payout.DraftBatch, by affiliate.Actor) (payout.Batch, error)
}

// Opener decrypts payout accounts. Package seal implements it.
type Opener interface {
	Open(sealed, aad []byte) ([]byte, error)
}
