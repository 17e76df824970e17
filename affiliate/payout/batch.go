package payout

import (
	"slices"
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// BatchStatus is computed from the payouts' statuses, except for BatchAwaitingApproval.
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
	affiliate.Scope
	ID        BatchID `db:"id,fixed"`
	Status    BatchStatus
	Programs  []affiliate.ProgramID `db:"program_ids,fixed" sql:"uuid[]"` // if empty, all programmes of the mode
	Cutoff    time.Time             `db:"cutoff,fixed"`                   // only commissions that were payable at this time are included
	CreatedBy affiliate.ActorID     `db:"created_by,fixed"`
	CreatedAt time.Time             `db:"created_at,fixed"`
	// The first of two confirmations; nil if one is enough. FirstConfirmedUser is the member,
	// or the member who created the service token FirstConfirmedBy.
	FirstConfirmedBy   *affiliate.ActorID
	FirstConfirmedUser *affiliate.UserID
	FirstConfirmedAt   *time.Time
	ConfirmedBy        *affiliate.ActorID // if two members had to confirm it, the second one
	ConfirmedAt        *time.Time
	CompletedAt        *time.Time                   // when the last of its payouts ended
	Version            int                          // increases by one with every change
	Counts             Counts                       `db:"-"`
	Totals             []Total                      `db:"-"` // by currency, without canceled payouts
	Names              map[affiliate.ActorID]string `db:"-"` // of the actors in the batch, as in the audit log
}

// Confirmation is a request to confirm a batch.
type Confirmation struct {
	By   affiliate.Actor
	User affiliate.UserID // the member, or the member who created the service token
	At   time.Time
}

// ConfirmationWindow is how long a confirmed batch counts towards ConfirmationLimit.
const ConfirmationWindow = 24 * time.Hour

// ConfirmationLimit is the amount that can be confirmed within ConfirmationWindow without a second member.
type ConfirmationLimit struct {
	Cents int64 // in minor units of each currency
	// Confirmed has the totals of the scope's batches confirmed in the window.
	Confirmed []Total
}

// Confirm returns the batch after a confirmation, with unchanged status (see Follow). The caller
// has set the totals of the batch. If the batch exceeds the limit (nil for no limit) in a
// currency, complete is false: another member must confirm too. A service token can only make
// the first confirmation, because its creator could otherwise confirm twice. Errors:
// PAYOUT_STATE_INVALID.
func (b Batch) Confirm(c Confirmation, limit *ConfirmationLimit) (after Batch, complete bool, refusal *affiliate.Error) {
	switch b.Status {
	case BatchDraft:
		if limit != nil && b.exceeds(*limit) {
			b.FirstConfirmedBy, b.FirstConfirmedUser, b.FirstConfirmedAt = c.By.ID(), &c.User, &c.At
			return b, false, nil
		}
	case BatchAwaitingApproval:
		if c.By.User == nil || *c.By.User == *b.FirstConfirmedUser {
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

// Ended reports whether all payouts are paid, failed (which can be retried) or canceled.
func (s BatchStatus) Ended() bool {
	return s == BatchCompleted || s == BatchPartiallyFailed || s == BatchCanceled
}

// Sendable reports whether the payouts of the batch can be sent.
func (s BatchStatus) Sendable() bool { return s == BatchConfirmed || s == BatchProcessing }

// Cancelable reports whether the batch can be canceled: no payout is processing or paid.
func (s BatchStatus) Cancelable() bool {
	return s == BatchDraft || s == BatchAwaitingApproval || s == BatchConfirmed
}

// Follow returns the batch with the counts of its payouts and the resulting status.
func (b Batch) Follow(counts Counts, at time.Time) Batch {
	b.Status, b.Counts = counts.Status(), counts
	if b.Status == BatchDraft && b.FirstConfirmedBy != nil {
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

// AwaitingNotification returns the notification about a batch that another member must confirm.
func (b Batch) AwaitingNotification(at time.Time) notification.Notification {
	var payouts int64
	for _, total := range b.Totals {
		payouts += total.Count
	}
	n := notification.NewNotification(
		affiliate.Merchant, notification.WorkspaceFeed(b.Workspace), notification.NotifyPayoutBatchAwaiting, &b.Mode, at)
	n.Workspace, n.Resource = &b.Workspace, &b.ID.UUID
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

// DraftBatch is a new batch with its payouts and commissions, without counts and totals.
type DraftBatch struct {
	Batch       Batch
	Payouts     []Payout
	Commissions []Candidate // each with its payout, ordered by id
}

// Draft creates a batch with one payout for each element of due that is not excluded.
// free holds the payable commissions that are not in a payout, ordered by id. Draft
// adds each commission to the payout of its participant and currency. Errors:
// PAYOUT_STATE_INVALID if the batch would have no payout.
func (s Selection) Draft(due []Due, free []Candidate, by affiliate.Actor) (DraftBatch, error) {
	commissions := map[balance][]Candidate{}
	for _, c := range free {
		owner := balance{c.Participant, c.Currency}
		commissions[owner] = append(commissions[owner], c)
	}
	draft := DraftBatch{Batch: Batch{
		ID: affiliate.NewID[BatchID](s.At), Scope: s.Scope, Status: BatchDraft,
		Programs: append([]affiliate.ProgramID{}, s.Programs...), // never nil, because the column is not null
		Cutoff:   s.Cutoff, CreatedBy: *by.ID(), CreatedAt: s.At, Version: 1,
	}}
	payouts := map[balance]*affiliate.PayoutID{}
	for _, d := range due {
		owner := balance{d.Participant, d.Currency}
		if d = d.WithCommissions(commissions[owner]); d.Exclusion() != "" {
			continue
		}
		p := Payout{
			ID: affiliate.NewID[affiliate.PayoutID](s.At), Scope: s.Scope, Batch: draft.Batch.ID, Payee: d.Payee,
			Status: Draft, Version: 1, CreatedAt: s.At, UpdatedAt: s.At,
		}.WithAmounts(d)
		draft.Payouts, payouts[owner] = append(draft.Payouts, p), &p.ID
	}
	if len(draft.Payouts) == 0 {
		return DraftBatch{}, NothingPayable(due)
	}
	for _, c := range free {
		if c.Payout = payouts[balance{c.Participant, c.Currency}]; c.Payout != nil {
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
