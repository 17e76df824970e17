package payout

import (
	"slices"
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// BatchStatus is the status of a batch. It is computed from the statuses of its
// payouts, except for BatchAwaitingApproval.
type BatchStatus string

// The statuses (docs/merchant/payouts.md#pay-a-batch).
const (
	BatchDraft           BatchStatus = "draft"
	BatchConfirmed       BatchStatus = "confirmed"
	BatchProcessing      BatchStatus = "processing"
	BatchCompleted       BatchStatus = "completed"
	BatchPartiallyFailed BatchStatus = "partially_failed"
	BatchCanceled        BatchStatus = "canceled"
	// BatchAwaitingApproval is the status of a draft that one member has confirmed and that
	// another member has to confirm too
	// (docs/merchant/payouts.md#confirmation-by-two-members).
	BatchAwaitingApproval BatchStatus = "awaiting_approval"
)

// Batch is a group of payouts that were created together.
type Batch struct {
	ID          BatchID
	Scope       affiliate.Scope
	Status      BatchStatus
	Programs    []affiliate.ProgramID // if empty, all programmes of the mode
	Cutoff      time.Time             // only commissions that were payable at this time are included
	CreatedBy   affiliate.ActorID
	ConfirmedBy *affiliate.ActorID // if two members had to confirm it, the second one
	// First is the first of two confirmations. It is nil if one is enough.
	First       *FirstConfirmation
	CreatedAt   time.Time
	ConfirmedAt *time.Time
	CompletedAt *time.Time // when the last of its payouts ended
	Version     int        // increases by one with every change
	Counts      Counts
	Totals      []Total                      // by currency, without canceled payouts
	Names       map[affiliate.ActorID]string // of the actors in the batch, as in the audit log
}

// FirstConfirmation is the first of two confirmations of a batch.
type FirstConfirmation struct {
	By   affiliate.ActorID
	User affiliate.UserID // the member, or the member who created the service token
	At   time.Time
}

// Confirmation is a request to confirm a batch.
type Confirmation struct {
	By   affiliate.Actor
	User affiliate.UserID // the member, or the member who created the service token
	At   time.Time
}

// ConfirmationWindow is the time before a confirmation in which confirmed batches count
// towards the limit of one member.
const ConfirmationWindow = 24 * time.Hour

// ConfirmationLimit is the amount that one member can confirm within ConfirmationWindow.
type ConfirmationLimit struct {
	Cents int64 // in minor units of each currency
	// Confirmed has the totals of the batches of the same workspace and mode that were
	// confirmed in the window, by currency.
	Confirmed []Total
}

// Confirm returns the batch after a confirmation. The caller has set the totals of the
// batch. If the batch exceeds the limit (nil for no limit) in a currency, complete is false:
// the batch awaits the confirmation of another member. A service token can only make the
// first confirmation, because its creator could otherwise confirm twice. Errors:
// PAYOUT_STATE_INVALID.
func (b Batch) Confirm(c Confirmation, limit *ConfirmationLimit) (after Batch, complete bool, refusal *affiliate.Error) {
	switch b.Status {
	case BatchDraft:
		if limit != nil && b.exceeds(*limit) {
			b.First = &FirstConfirmation{By: *c.By.ID(), User: c.User, At: c.At}
			return b, false, nil
		}
	case BatchAwaitingApproval:
		if c.By.User == nil || *c.By.User == b.First.User {
			refusal = b.Refuse()
			refusal.Message = "Another member must confirm the batch."
			return b, false, refusal
		}
	default:
		return b, false, b.Refuse()
	}
	b.ConfirmedBy, b.ConfirmedAt = c.By.ID(), &c.At
	return b, true, nil
}

func (b Batch) exceeds(limit ConfirmationLimit) bool {
	confirmed := map[string]int64{}
	for _, total := range limit.Confirmed {
		confirmed[total.Currency] = total.AmountCents
	}
	return slices.ContainsFunc(b.Totals, func(t Total) bool { return t.AmountCents+confirmed[t.Currency] > limit.Cents })
}

// Total is the sum of payouts in one currency.
type Total struct {
	Currency    string
	Count       int64
	AmountCents int64
}

// Counts is the number of payouts in each status.
type Counts map[Status]int64

// All returns the number of payouts in all statuses.
func (n Counts) All() int64 {
	var all int64
	for _, count := range n {
		all += count
	}
	return all
}

// Status returns the status of a batch with these payouts.
func (n Counts) Status() BatchStatus {
	open := n[Pending] + n[Processing]
	switch {
	case n[Draft] > 0:
		return BatchDraft
	case open > 0 && n[Processing]+n[Paid] > 0:
		return BatchProcessing
	case open > 0:
		return BatchConfirmed
	case n[Failed] > 0:
		return BatchPartiallyFailed
	case n[Paid] > 0:
		return BatchCompleted
	}
	return BatchCanceled
}

// Ended reports whether all payouts of the batch are paid, failed or canceled. Failed
// payouts can still be retried.
func (s BatchStatus) Ended() bool {
	return s == BatchCompleted || s == BatchPartiallyFailed || s == BatchCanceled
}

// Follow returns the batch with the given counts of its payouts and the status that
// results from them.
func (b Batch) Follow(counts Counts, at time.Time) Batch {
	b.Status, b.Counts = counts.Status(), counts
	if b.Status == BatchDraft && b.First != nil {
		b.Status = BatchAwaitingApproval
	}
	switch {
	case !b.Status.Ended():
		b.CompletedAt = nil
	case b.CompletedAt == nil:
		b.CompletedAt = &at
	}
	return b
}

// Refuse returns the error for an action that is not allowed in the batch's status.
func (b Batch) Refuse() *affiliate.Error {
	return affiliate.RefuseStatus(affiliate.ReasonPayoutState, b.Status)
}

// AwaitingNotification returns the notification about a batch that awaits the confirmation
// of another member.
func (b Batch) AwaitingNotification(at time.Time) notification.Notification {
	var payouts int64
	for _, total := range b.Totals {
		payouts += total.Count
	}
	n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(b.Scope.Workspace), notification.NotifyPayoutBatchAwaiting, &b.Scope.Mode, at)
	n.Workspace, n.Resource = &b.Scope.Workspace, &b.ID.UUID
	n.Facts = map[string]string{"payouts": strconv.FormatInt(payouts, 10)}
	return n
}

// Selection selects the payouts of a batch.
type Selection struct {
	Scope    affiliate.Scope
	Programs []affiliate.ProgramID // if empty, all programmes of the mode
	Cutoff   time.Time
	At       time.Time // the time of the request
}

// NewBatch is the request to create a batch.
type NewBatch struct {
	Selection
	By affiliate.Actor
}

// DraftBatch is a new batch with its payouts and their commissions. Counts and
// Totals of the batch are not set yet.
type DraftBatch struct {
	Batch       Batch
	Payouts     []Payout
	Commissions []Candidate // each with its payout, ordered by id
}

// Draft creates a batch with one payout for each element of due that is not excluded.
// free holds the payable commissions that are not in a payout, ordered by id. Draft
// adds each commission to the payout of its participant and currency. Errors:
// PAYOUT_STATE_INVALID if the batch would have no payout.
func (n NewBatch) Draft(due []Due, free []Candidate) (DraftBatch, error) {
	type payee struct {
		Participant affiliate.ParticipantID
		Currency    string
	}
	commissions := map[payee][]Candidate{}
	for _, c := range free {
		owner := payee{c.Participant, c.Currency}
		commissions[owner] = append(commissions[owner], c)
	}
	draft := DraftBatch{Batch: Batch{
		ID: affiliate.NewID[BatchID](n.At), Scope: n.Scope, Status: BatchDraft, Programs: n.Programs,
		Cutoff: n.Cutoff, CreatedBy: *n.By.ID(), CreatedAt: n.At, Version: 1,
	}}
	payouts := map[payee]*affiliate.PayoutID{}
	for _, d := range due {
		owner := payee{d.Participant, d.Currency}
		if d = d.WithCommissions(commissions[owner]); d.Exclusion() != "" {
			continue
		}
		p := Payout{
			ID: affiliate.NewID[affiliate.PayoutID](n.At), Scope: n.Scope, Batch: draft.Batch.ID, Program: d.Program, Participant: d.Participant,
			Partner: d.Partner, Currency: d.Currency, Status: Draft, Version: 1, CreatedAt: n.At, UpdatedAt: n.At,
		}.WithAmounts(d)
		draft.Payouts, payouts[owner] = append(draft.Payouts, p), &p.ID
	}
	if len(draft.Payouts) == 0 {
		return DraftBatch{}, NothingPayable(due)
	}
	for _, c := range free {
		if c.Payout = payouts[payee{c.Participant, c.Currency}]; c.Payout != nil {
			draft.Commissions = append(draft.Commissions, c)
		}
	}
	return draft, nil
}

// Events returns the webhook events of the payouts.
func (d DraftBatch) Events() []affiliate.Event {
	ids := map[affiliate.PayoutID][]affiliate.CommissionID{}
	for _, c := range d.Commissions {
		ids[*c.Payout] = append(ids[*c.Payout], c.ID)
	}
	events := make([]affiliate.Event, len(d.Payouts))
	for i, p := range d.Payouts {
		events[i] = p.CreatedEvent(ids[p.ID])
	}
	return events
}

// NothingPayable returns the error for a batch without payouts. It contains the reason, if
// all elements of due are excluded for the same one.
func NothingPayable(due []Due) *affiliate.Error {
	refused := affiliate.Refuse(affiliate.ReasonPayoutState)
	refused.Message = "Nothing is payable. The preview shows what is excluded, and why."
	if len(due) == 0 {
		return refused
	}
	reason := due[0].Exclusion()
	if reason != "" && !slices.ContainsFunc(due, func(d Due) bool { return d.Exclusion() != reason }) {
		refused.Metadata = map[string]string{affiliate.ExcludedBecause: string(reason)}
	}
	return refused
}
