package affiliate

import (
	"slices"
	"time"
)

// The statuses of a payout and the moves between them.
//
//	draft ──confirm──▶ pending ─process▶ processing ──pay──▶ paid
//	  │                 │ │ ▲ └──────────pay────────────────▶ ▲
//	  │                 │ │ └─retry─┐        │
//	  │                 │ └──fail─▶ failed ◀─┴fail
//	  └──cancel──▶ canceled ◀─cancel─┘ (also from pending)
//
// While a payout is processing or paid, the sum of its ledger entries is minus its
// amount. In all other statuses, the sum is 0 (PayoutChange.LedgerEntry).
//
// A payout contains its commissions while it is open (draft, pending or processing) and
// when it is paid. If a commission of a draft or pending payout is reduced or leaves the
// payout, the amount of the payout is lowered (Payout.Follow). The amount never rises
// (PayoutDue.LimitAmount). After a payout was sent, its amount does not change any more. If one of its commissions is reduced then, only
// the participant's balance in the ledger changes.

// PayoutStatus is the status of a payout.
type PayoutStatus string

// The statuses (docs/merchant/payouts.md#pay-a-batch).
const (
	PayoutDraft      PayoutStatus = "draft"
	PayoutPending    PayoutStatus = "pending"
	PayoutProcessing PayoutStatus = "processing"
	PayoutPaid       PayoutStatus = "paid"
	PayoutFailed     PayoutStatus = "failed"
	PayoutCanceled   PayoutStatus = "canceled"
)

// Payout is one payment to one participant in one currency.
type Payout struct {
	ID              PayoutID
	Scope           Scope
	Batch           PayoutBatchID
	Program         ProgramID
	Participant     ParticipantID
	Partner         UserID
	AmountCents     int64 // above 0, minor units of Currency
	Currency        string
	CommissionCount int64
	AdjustmentCents int64 // part of AmountCents: bonuses, adjustments and debts, with their sign
	Status          PayoutStatus
	Method          PayoutMethod
	Reference       *string // of the transfer
	FailureReason   *string
	PeriodStart     *time.Time // when the first of its commissions was approved; nil if it has none
	PeriodEnd       *time.Time // when the last of its commissions was approved
	InitiatedAt     *time.Time // when it was confirmed
	PaidAt          *time.Time
	Version         int // increases by one with every change
	CreatedAt       time.Time
	UpdatedAt       time.Time
}

// PayoutItem is a payout with the names that lists show next to it.
type PayoutItem struct {
	Payout
	ProgramName string
	PartnerName string
}

// PayoutDetail is a payout with its commissions.
type PayoutDetail struct {
	PayoutItem
	Commissions []PayoutCommission // oldest first, at most MaxPayoutCommissions
	AccountHint *string            // of the account that it is paid to, or would be paid to if it is a draft
}

// MaxPayoutCommissions is the greatest number of commissions that a PayoutDetail
// contains.
const MaxPayoutCommissions = 1000

// PayoutCommission is a commission in a payout, with the values that it had when it was
// added.
type PayoutCommission struct {
	Commission            CommissionID
	AmountCents           int64
	ExternalTransactionID string
	ApprovedAt            *time.Time
}

// ExportedPayout is a payout with the data that is needed to send the money.
type ExportedPayout struct {
	PayoutItem
	Account []byte // encrypted; nil for a method without account
}

// PayoutFilter restricts a list of payouts. A zero field matches every payout.
type PayoutFilter struct {
	Status      PayoutStatus
	Program     *ProgramID
	Participant *ParticipantID
	Batch       *PayoutBatchID
	Created     Period
}

// PayoutMove is the name of an action on a payout.
type PayoutMove string

// The moves. Their values are the verbs in the audit log.
const (
	// MoveConfirm releases a draft for payment.
	MoveConfirm PayoutMove = "confirm"
	// MoveProcess starts the payment. The amount is fixed from then on.
	MoveProcess PayoutMove = "process"
	// MoveMarkPaid records that the money has arrived.
	MoveMarkPaid PayoutMove = "mark_paid"
	// MoveMarkFailed records that the payout could not be paid.
	MoveMarkFailed PayoutMove = "mark_failed"
	// MoveRetry makes a failed payout pending again.
	MoveRetry PayoutMove = "retry"
	// MoveCancel cancels a payout that was not sent or that failed.
	MoveCancel PayoutMove = "cancel"
	// MoveFollow lowers the amount because a commission left the payout or was reduced.
	MoveFollow PayoutMove = "follow"
)

// payoutMoves lists the legal moves. The field to is empty if the move does not change
// the status. The field event is empty if the move has no webhook event.
var payoutMoves = map[PayoutMove]struct {
	from  []PayoutStatus
	to    PayoutStatus
	event EventName
}{
	MoveConfirm:    {[]PayoutStatus{PayoutDraft}, PayoutPending, ""},
	MoveProcess:    {[]PayoutStatus{PayoutPending}, PayoutProcessing, EventPayoutProcessing},
	MoveMarkPaid:   {[]PayoutStatus{PayoutPending, PayoutProcessing}, PayoutPaid, EventPayoutPaid},
	MoveMarkFailed: {[]PayoutStatus{PayoutPending, PayoutProcessing}, PayoutFailed, EventPayoutFailed},
	MoveRetry:      {[]PayoutStatus{PayoutFailed}, PayoutPending, ""},
	MoveCancel:     {[]PayoutStatus{PayoutDraft, PayoutPending, PayoutFailed}, PayoutCanceled, EventPayoutCanceled},
	MoveFollow:     {[]PayoutStatus{PayoutDraft, PayoutPending}, "", ""},
}

// FollowsCommissions reports whether the amount of a payout with this status is lowered
// when its commissions are reduced.
func (s PayoutStatus) FollowsCommissions() bool {
	return slices.Contains(payoutMoves[MoveFollow].from, s)
}

// PayoutTransition is a request for one move of a payout.
type PayoutTransition struct {
	Move  PayoutMove
	Actor Actor
	At    time.Time
	// Reference and PaidAt belong to MoveMarkPaid, and Reason to MoveMarkFailed. PaidAt is
	// At if the service has chosen it.
	Reference *string
	PaidAt    time.Time
	Reason    *string
}

// Apply returns the payout before and after the move. Errors: PAYOUT_STATE_INVALID,
// VALIDATION_ERROR for PaidAt.
func (t PayoutTransition) Apply(p Payout) (PayoutChange, *Error) {
	move := payoutMoves[t.Move]
	if !slices.Contains(move.from, p.Status) {
		return PayoutChange{}, p.Refuse()
	}
	after := p
	if move.to != "" {
		after.Status = move.to
	}
	after.Version++
	after.UpdatedAt = t.At
	switch t.Move {
	case MoveConfirm:
		after.InitiatedAt = &t.At
	case MoveMarkPaid:
		if refusal := t.checkPaidAt(p); refusal != nil {
			return PayoutChange{}, refusal
		}
		after.Reference, after.PaidAt = t.Reference, &t.PaidAt
	case MoveMarkFailed:
		after.FailureReason = t.Reason
	case MoveRetry:
		after.FailureReason = nil
	case MoveProcess, MoveCancel, MoveFollow:
	}
	return PayoutChange{Before: p, After: after, Transition: t}, nil
}

// PayoutContent is the sum of the commissions in a payout.
type PayoutContent struct {
	CommissionCount int64
	CommissionCents int64      // minor units of the payout's currency
	PeriodStart     *time.Time // when the first commission was approved; nil if there is none
	PeriodEnd       *time.Time // when the last commission was approved
}

// Follow returns the change that adjusts the payout to the commissions that are left in
// it. If nothing is left to be paid, the payout is canceled and keeps its amounts.
// Errors: PAYOUT_STATE_INVALID if the payout is neither a draft nor pending.
func (p Payout) Follow(left PayoutContent, actor Actor, at time.Time) (PayoutChange, *Error) {
	amount := left.CommissionCents + p.AdjustmentCents
	if amount <= 0 {
		return PayoutTransition{Move: MoveCancel, Actor: actor, At: at}.Apply(p)
	}
	change, refusal := PayoutTransition{Move: MoveFollow, Actor: actor, At: at}.Apply(p)
	if refusal != nil {
		return change, refusal
	}
	after := &change.After
	after.AmountCents, after.CommissionCount = amount, left.CommissionCount
	after.PeriodStart, after.PeriodEnd = left.PeriodStart, left.PeriodEnd
	return change, nil
}

// Refuse returns the error for an action that is not allowed in the payout's status.
func (p Payout) Refuse() *Error {
	return RefuseStatus(ReasonPayoutState, p.Status)
}

// sentCents returns the amount that was sent: the whole amount while the payout is
// processing or paid, otherwise 0.
func (p Payout) sentCents() int64 {
	if p.Status == PayoutProcessing || p.Status == PayoutPaid {
		return p.AmountCents
	}
	return 0
}

// PayoutChange is a payout before and after a move.
type PayoutChange struct {
	Before     Payout
	After      Payout
	Transition PayoutTransition
}

// LedgerEntry returns the entry that the change adds to the ledger; nil if there is
// none.
func (c PayoutChange) LedgerEntry() *LedgerEntry {
	cents := c.Before.sentCents() - c.After.sentCents()
	kind := EntryPayout
	switch {
	case cents == 0:
		return nil
	case cents > 0:
		kind = EntryPayoutReturned
	}
	p, at := c.After, c.Transition.At
	var occurredAt *time.Time
	if c.Transition.Move == MoveMarkPaid {
		occurredAt = OccurredAt(p.PaidAt, at)
	}
	return &LedgerEntry{
		ID: NewID[LedgerEntryID](at), Scope: p.Scope, Program: p.Program, Participant: p.Participant, Partner: p.Partner,
		Type: kind, AmountCents: cents, Currency: p.Currency, Payout: &p.ID, CreatedBy: c.Transition.Actor.String(), CreatedAt: at, OccurredAt: occurredAt,
	}
}

// Event returns the webhook event of the change. commissions are the commissions of the
// payout. ok is false if the move has no event.
func (c PayoutChange) Event(commissions []CommissionID) (event Event, ok bool) {
	name := payoutMoves[c.Transition.Move].event
	if name == "" {
		return Event{}, false
	}
	previous := map[string]PayoutStatus{"status": c.Before.Status}
	event = NewEvent(c.After.Scope, name, c.Transition.At, c.After.object(commissions), previous)
	event.Partner, event.Program = &c.After.Partner, &c.After.Program
	return event, true
}

// CreatedEvent returns the webhook event of a new payout. commissions are the
// commissions of the payout.
func (p Payout) CreatedEvent(commissions []CommissionID) Event {
	event := NewEvent(p.Scope, EventPayoutCreated, p.CreatedAt, p.object(commissions), nil)
	event.Partner, event.Program = &p.Partner, &p.Program
	return event
}

// MaxEventCommissions is the greatest number of commissions that the event of a payout
// lists.
const MaxEventCommissions = 200

// payoutObject is the object of every payout.* event. Its keys, their order and
// their meaning are public.
type payoutObject struct {
	ID              PayoutID       `json:"id"`
	Batch           PayoutBatchID  `json:"batch_id"`
	Participant     ParticipantID  `json:"participant_id"`
	AmountCents     int64          `json:"amount_cents"` // sum of commissions and adjustments, in minor units of currency
	Currency        string         `json:"currency"`
	Method          PayoutMethod   `json:"method"`
	Status          PayoutStatus   `json:"status"`
	Commissions     []CommissionID `json:"commission_ids"`   // the first 200 commissions of the payout
	CommissionCount int64          `json:"commission_count"` // number of all commissions of the payout
	FailureReason   *string        `json:"failure_reason"`   // why the payout could not be paid; null if it did not fail
	Version         int            `json:"version"`
}

func (p Payout) object(commissions []CommissionID) payoutObject {
	// An empty list must be encoded as [], not as null.
	listed := append([]CommissionID{}, commissions[:min(len(commissions), MaxEventCommissions)]...)
	return payoutObject{
		ID: p.ID, Batch: p.Batch, Participant: p.Participant, AmountCents: p.AmountCents, Currency: p.Currency,
		Method: p.Method, Status: p.Status, Commissions: listed, CommissionCount: p.CommissionCount,
		FailureReason: p.FailureReason, Version: p.Version,
	}
}

// PayoutDue holds the amounts that could be paid to one participant in one currency, and
// the data that decides whether they are paid.
type PayoutDue struct {
	Program           ProgramID
	ProgramName       string
	Participant       ParticipantID
	Partner           UserID
	PartnerName       string
	Currency          string
	CommissionCount   int64
	CommissionCents   int64 // of payable commissions
	AdjustmentCents   int64 // other ledger entries that are in no open payout
	PeriodStart       *time.Time
	PeriodEnd         *time.Time
	MinPayoutCents    int64         // in minor units of Currency; 0 means no minimum
	Method            *PayoutMethod // nil if the partner has set none
	AccountHeld       bool          // PayoutDetails.HeldUntil is in the future
	ParticipantStatus ParticipantStatus
	ParticipantErased bool
}

// AmountCents returns the amount of the payout if the participant is not excluded.
func (d PayoutDue) AmountCents() int64 { return d.CommissionCents + d.AdjustmentCents }

// PayoutExclusion is the reason why a participant gets no payout.
type PayoutExclusion string

// PayoutAccountHold is the time for which new payouts leave out a partner who has changed
// the payout method. It gives the owner of the account time to notice a change by
// somebody else. PayoutMethodChange.Apply says when a first method is held too.
const PayoutAccountHold = 72 * time.Hour

// PayoutAccountKept is the time for which the account of a paid payout is stored.
// After it, only the masked form of the account is left.
const PayoutAccountKept = 30 * 24 * time.Hour

// PreviousEmailKept is the time for which the former address of a user is stored, so that a
// warning about a changed payout method also reaches it.
const PreviousEmailKept = 30 * 24 * time.Hour

// The exclusions.
const (
	BelowMinimum           PayoutExclusion = "below_minimum"
	NoPayoutMethod         PayoutExclusion = "no_payout_method"
	PayoutAccountChanged   PayoutExclusion = "payout_account_changed"
	ParticipantNotApproved PayoutExclusion = "participant_not_approved"
	NegativeBalance        PayoutExclusion = "negative_balance"
)

// Exclusion returns the first reason why no payout can be made from d; empty if there is
// no such reason. An amount of 0 counts as below the minimum even if no minimum is set.
func (d PayoutDue) Exclusion() PayoutExclusion {
	switch cents := d.AmountCents(); {
	case d.ParticipantStatus != ParticipantApproved || d.ParticipantErased:
		return ParticipantNotApproved
	case d.Method == nil:
		return NoPayoutMethod
	case d.AccountHeld:
		return PayoutAccountChanged
	case cents < 0:
		return NegativeBalance
	case cents == 0 || cents < d.MinPayoutCents:
		return BelowMinimum
	}
	return ""
}

// WithAccountOf returns d with the method of a payout. A confirmed payout keeps its account,
// so a later change of the partner's payout method does not exclude it.
func (d PayoutDue) WithAccountOf(p Payout) PayoutDue {
	if p.InitiatedAt != nil {
		d.Method, d.AccountHeld = &p.Method, false
	}
	return d
}

// WithCommissions returns d with the count, the amount and the period of the given
// commissions.
func (d PayoutDue) WithCommissions(commissions []PayoutCandidate) PayoutDue {
	d.CommissionCount, d.CommissionCents, d.PeriodStart, d.PeriodEnd = int64(len(commissions)), 0, nil, nil
	for _, c := range commissions {
		d.CommissionCents += c.AmountCents
		if d.PeriodStart == nil || c.ApprovedAt.Before(*d.PeriodStart) {
			d.PeriodStart = &c.ApprovedAt
		}
		if d.PeriodEnd == nil || c.ApprovedAt.After(*d.PeriodEnd) {
			d.PeriodEnd = &c.ApprovedAt
		}
	}
	return d
}

// MaxBatchCommissions is the greatest number of commissions in a batch with several
// payouts. A single payout may have more. Every move of a batch or payout is one
// transaction, which must finish within the time limit of a call even if the database is
// busy. The move that marks payouts as paid takes about 0.3 ms for each commission.
const MaxBatchCommissions = 25_000

// FitBatch returns the elements of payable that fit into one batch. It prefers the
// elements whose commissions have waited longest. The other elements are left for the
// next batches.
func FitBatch(payable []PayoutDue) []PayoutDue {
	waitingSince := func(d PayoutDue) time.Time {
		if d.PeriodStart == nil {
			return time.Time{}
		}
		return *d.PeriodStart
	}
	payable = slices.SortedStableFunc(slices.Values(payable), func(a, b PayoutDue) int { return waitingSince(a).Compare(waitingSince(b)) })
	var commissions int64
	for i, d := range payable {
		if commissions += d.CommissionCount; commissions > MaxBatchCommissions && i > 0 {
			return payable[:i]
		}
	}
	return payable
}

// BatchParticipants returns the participants of the elements of due that are not excluded
// and fit into one batch (see FitBatch).
func BatchParticipants(due []PayoutDue) []ParticipantID {
	payable := slices.DeleteFunc(slices.Clone(due), func(d PayoutDue) bool { return d.Exclusion() != "" })
	var participants []ParticipantID
	for _, d := range FitBatch(payable) {
		participants = append(participants, d.Participant)
	}
	return participants
}

// PayoutCandidate is a locked commission that is in a payout or may be added to one.
type PayoutCandidate struct {
	ID          CommissionID
	Participant ParticipantID
	Currency    string
	Payout      *PayoutID // the payout that contains it; nil if there is none
	AmountCents int64
	ApprovedAt  time.Time
	// Payable says that the status, the review flag and disputes of the commission
	// allow a payout. It does not depend on Payout.
	Payable bool
}

// LimitAmount returns d with an amount that is at most the amount of the payout. Later
// bonuses are left for the next batch, so that a payout is never greater than the amount
// that a member has seen and confirmed.
func (d PayoutDue) LimitAmount(p Payout) PayoutDue {
	if excess := d.AmountCents() - p.AmountCents; excess > 0 {
		d.AdjustmentCents -= excess
	}
	return d
}

// WithAmounts returns the payout with the amounts of d. d must not be excluded.
func (p Payout) WithAmounts(d PayoutDue) Payout {
	p.AmountCents, p.AdjustmentCents, p.CommissionCount = d.AmountCents(), d.AdjustmentCents, d.CommissionCount
	p.PeriodStart, p.PeriodEnd, p.Method = d.PeriodStart, d.PeriodEnd, *d.Method
	return p
}

// MaxPaidAge is the longest time between PaidAt and the request that marks a payout as
// paid.
const MaxPaidAge = 90 * 24 * time.Hour

// checkPaidAt returns a VALIDATION_ERROR if the payout cannot have been paid at PaidAt.
func (t PayoutTransition) checkPaidAt(p Payout) *Error {
	switch {
	case t.PaidAt.After(t.At):
		return Invalid("paid_at", "must not be in the future")
	case t.PaidAt.Before(t.At.Add(-MaxPaidAge)):
		return Invalid("paid_at", "must not be more than 90 days in the past")
	case p.InitiatedAt != nil && t.PaidAt.Before(*p.InitiatedAt):
		return Invalid("paid_at", "must not be before the payout was confirmed")
	}
	return nil
}

// InOpenPeriod returns t with a PaidAt in the open period, which begins at closed. If
// PaidAt is At, the service has chosen it, and the whole move is dated closed. closed is
// nil if no period is closed. Errors: PERIOD_CLOSED.
func (t PayoutTransition) InOpenPeriod(closed *time.Time) (PayoutTransition, *Error) {
	if closed == nil || !t.PaidAt.Before(*closed) {
		return t, nil
	}
	if !t.PaidAt.Equal(t.At) {
		return t, PeriodClosed(*closed)
	}
	t.At, t.PaidAt = *closed, *closed
	return t, nil
}

// Notice returns the facts for the notifications about the event.
func (o payoutObject) Notice() Notice {
	facts := map[string]string{"amount": FormatMoney(Money{o.AmountCents, o.Currency})}
	if o.FailureReason != nil {
		facts["reason"] = *o.FailureReason
	}
	return Notice{Participant: &o.Participant, Resource: o.ID.UUID, Facts: facts}
}
