// Package payout has the rules of payouts: the amounts that are due, batches and their
// confirmation, the legal moves of a payout, and the files for payment services.
package payout

import (
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
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
// amount. In all other statuses, the sum is 0 (Change.LedgerEntry).
//
// A payout contains its commissions while it is open (draft, pending or processing) and
// when it is paid. If a commission of a draft or pending payout is reduced or leaves the
// payout, the amount of the payout is lowered (Payout.Follow). The amount never rises
// (Due.LimitAmount). After a payout was sent, its amount does not change any more. If one of
// its commissions is reduced then, only the participant's balance in the ledger changes.

// Status is the status of a payout.
type Status string

// The statuses (docs/merchant/payouts.md#pay-a-batch).
const (
	Draft      Status = "draft"
	Pending    Status = "pending"
	Processing Status = "processing"
	Paid       Status = "paid"
	Failed     Status = "failed"
	Canceled   Status = "canceled"
)

// Payout is one payment to one participant in one currency.
type Payout struct {
	affiliate.Scope
	ID    affiliate.PayoutID `db:"id,fixed"`
	Batch BatchID            `db:"batch_id,fixed"`
	Payee
	AmountCents     int64 // above 0, minor units of Currency
	CommissionCount int64
	AdjustmentCents int64 // part of AmountCents: bonuses, adjustments and debts, with their sign
	Status          Status
	Method          Method
	Reference       *string // of the transfer
	FailureReason   *string
	PeriodStart     *time.Time // when the first of its commissions was approved; nil if it has none
	PeriodEnd       *time.Time // when the last of its commissions was approved
	InitiatedAt     *time.Time // when it was confirmed
	PaidAt          *time.Time
	Version         int       // increases by one with every change
	CreatedAt       time.Time `db:"created_at,fixed"`
	UpdatedAt       time.Time
}

// Payee is the participant to whom payouts are paid, and their currency.
type Payee struct {
	Program     affiliate.ProgramID     `db:"program_id,fixed"`
	Participant affiliate.ParticipantID `db:"participant_id,fixed"`
	Partner     affiliate.UserID        `db:"partner_id,fixed"`
	Currency    string                  `db:"currency,fixed"`
}

// Item is a payout with the names that lists show next to it.
type Item struct {
	Payout
	ProgramName string
	PartnerName string
}

// Detail is a payout with its commissions.
type Detail struct {
	Item
	Commissions []Commission // oldest first, at most MaxPayoutCommissions
	AccountHint *string      // of the account that it is paid to, or would be paid to if it is a draft
}

// MaxPayoutCommissions is the greatest number of commissions that a Detail contains.
const MaxPayoutCommissions = 1000

// Commission is a commission in a payout, with the values that it had when it was added.
type Commission struct {
	Commission            affiliate.CommissionID `db:"id"`
	AmountCents           int64
	ExternalTransactionID string
	EventType             affiliate.EventType
	ApprovedAt            *time.Time
	CreatedAt             time.Time
}

// ExportedPayout is a payout with the data that is needed to send the money.
type ExportedPayout struct {
	Item
	Account []byte // encrypted; nil for a method without account
}

// Filter restricts a list of payouts. A zero field matches every payout.
type Filter struct {
	Status      Status
	Program     *affiliate.ProgramID
	Participant *affiliate.ParticipantID
	Batch       *BatchID
	Created     affiliate.Period
}

// Move is the name of an action on a payout.
type Move string

// The moves. Their values are the verbs in the audit log.
const (
	// MoveConfirm releases a draft for payment.
	MoveConfirm Move = "confirm"
	// MoveProcess starts the payment. The amount is fixed from then on.
	MoveProcess Move = "process"
	// MoveMarkPaid records that the money has arrived.
	MoveMarkPaid Move = "mark_paid"
	// MoveMarkFailed records that the payout could not be paid.
	MoveMarkFailed Move = "mark_failed"
	// MoveRetry makes a failed payout pending again.
	MoveRetry Move = "retry"
	// MoveCancel cancels a payout that was not sent or that failed.
	MoveCancel Move = "cancel"
	// MoveFollow lowers the amount because a commission left the payout or was reduced.
	MoveFollow Move = "follow"
)

// payoutMoves lists the legal moves. The field to is empty if the move does not change
// the status. The field event is empty if the move has no webhook event.
var payoutMoves = map[Move]struct {
	from  []Status
	to    Status
	event affiliate.EventName
}{
	MoveConfirm:    {[]Status{Draft}, Pending, ""},
	MoveProcess:    {[]Status{Pending}, Processing, affiliate.EventPayoutProcessing},
	MoveMarkPaid:   {[]Status{Pending, Processing}, Paid, affiliate.EventPayoutPaid},
	MoveMarkFailed: {[]Status{Pending, Processing}, Failed, affiliate.EventPayoutFailed},
	MoveRetry:      {[]Status{Failed}, Pending, ""},
	MoveCancel:     {[]Status{Draft, Pending, Failed}, Canceled, affiliate.EventPayoutCanceled},
	MoveFollow:     {[]Status{Draft, Pending}, "", ""},
}

// FollowsCommissions reports whether the amount of a payout with this status is lowered with its commissions.
func (s Status) FollowsCommissions() bool {
	return slices.Contains(payoutMoves[MoveFollow].from, s)
}

// Transition is a request for one move of a payout.
type Transition struct {
	Move  Move
	Actor affiliate.Actor
	At    time.Time
	// Reference and PaidAt belong to MoveMarkPaid, Reason to MoveMarkFailed. PaidAt is At
	// by default.
	Reference *string
	PaidAt    time.Time
	Reason    *string
}

// Apply returns the payout before and after the move. Errors: PAYOUT_STATE_INVALID,
// VALIDATION_ERROR.
func (t Transition) Apply(p Payout) (Change, *affiliate.Error) {
	move := payoutMoves[t.Move]
	if !slices.Contains(move.from, p.Status) {
		return Change{}, p.Refuse()
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
			return Change{}, refusal
		}
		after.Reference, after.PaidAt = t.Reference, &t.PaidAt
	case MoveMarkFailed:
		after.FailureReason = t.Reason
	case MoveRetry:
		after.FailureReason = nil
	case MoveProcess, MoveCancel, MoveFollow:
	}
	return Change{Before: p, After: after, Transition: t}, nil
}

// Content is the sum of the commissions in a payout.
type Content struct {
	CommissionCount int64
	CommissionCents int64      // minor units of the payout's currency
	PeriodStart     *time.Time // when the first commission was approved; nil if there is none
	PeriodEnd       *time.Time // when the last commission was approved
}

// Follow returns the change that adjusts the payout to the commissions that are left in it. If
// nothing is left to be paid, the payout is canceled and keeps its amounts. Errors:
// PAYOUT_STATE_INVALID if the status of the payout does not allow the change.
func (p Payout) Follow(left Content, actor affiliate.Actor, at time.Time) (Change, *affiliate.Error) {
	amount := left.CommissionCents + p.AdjustmentCents
	if amount <= 0 {
		return Transition{Move: MoveCancel, Actor: actor, At: at}.Apply(p)
	}
	change, refusal := Transition{Move: MoveFollow, Actor: actor, At: at}.Apply(p)
	if refusal != nil {
		return change, refusal
	}
	after := &change.After
	after.AmountCents, after.CommissionCount = amount, left.CommissionCount
	after.PeriodStart, after.PeriodEnd = left.PeriodStart, left.PeriodEnd
	return change, nil
}

// Refuse returns the error for an action that is not allowed in the payout's status.
func (p Payout) Refuse() *affiliate.Error {
	return affiliate.RefuseStatus(affiliate.ReasonPayoutState, p.Status)
}

// sentCents returns the amount if the payout is processing or paid, otherwise 0.
func (p Payout) sentCents() int64 {
	if p.Status == Processing || p.Status == Paid {
		return p.AmountCents
	}
	return 0
}

// Change is a payout before and after a move.
type Change struct {
	Before     Payout
	After      Payout
	Transition Transition
}

// LedgerEntry returns the entry that the change adds to the ledger; nil if there is none.
func (c Change) LedgerEntry() *ledger.Entry {
	cents := c.Before.sentCents() - c.After.sentCents()
	kind := ledger.EntryPayout
	switch {
	case cents == 0:
		return nil
	case cents > 0:
		kind = ledger.EntryPayoutReturned
	}
	p, at := c.After, c.Transition.At
	var occurredAt *time.Time
	if c.Transition.Move == MoveMarkPaid {
		occurredAt = ledger.OccurredAt(p.PaidAt, at)
	}
	return &ledger.Entry{
		ID: affiliate.NewID[ledger.EntryID](at), Scope: p.Scope, Program: p.Program, Participant: p.Participant, Partner: p.Partner,
		Type: kind, AmountCents: cents, Currency: p.Currency, Payout: &p.ID,
		CreatedBy: c.Transition.Actor.String(), CreatedAt: at, OccurredAt: occurredAt,
	}
}

// Event returns the webhook event about the change of a payout with the given commissions, if the move has an event.
func (c Change) Event(commissions []affiliate.CommissionID) (event affiliate.Event, ok bool) {
	name := payoutMoves[c.Transition.Move].event
	if name == "" {
		return affiliate.Event{}, false
	}
	previous := map[string]Status{"status": c.Before.Status}
	event = affiliate.NewEvent(c.After.Scope, name, c.Transition.At, c.After.object(commissions), previous)
	event.Partner, event.Program = &c.After.Partner, &c.After.Program
	return event, true
}

// CreatedEvent returns the webhook event of a new payout with the given commissions.
func (p Payout) CreatedEvent(commissions []affiliate.CommissionID) affiliate.Event {
	event := affiliate.NewEvent(p.Scope, affiliate.EventPayoutCreated, p.CreatedAt, p.object(commissions), nil)
	event.Partner, event.Program = &p.Partner, &p.Program
	return event
}

// MaxEventCommissions is the greatest number of commissions in the event of a payout.
const MaxEventCommissions = 200

// Object is the object of every payout.* event. Its keys, their order and
// their meaning are public.
type Object struct {
	ID              affiliate.PayoutID       `json:"id"`
	Batch           BatchID                  `json:"batch_id"`
	Participant     affiliate.ParticipantID  `json:"participant_id"`
	AmountCents     int64                    `json:"amount_cents"` // sum of commissions and adjustments, in minor units of currency
	Currency        string                   `json:"currency"`
	Method          Method                   `json:"method"`
	Status          Status                   `json:"status"`
	Commissions     []affiliate.CommissionID `json:"commission_ids"`   // the first 200 commissions of the payout
	CommissionCount int64                    `json:"commission_count"` // number of all commissions of the payout
	FailureReason   *string                  `json:"failure_reason"`   // why the payout could not be paid; null if it did not fail
	Version         int                      `json:"version"`
}

func (p Payout) object(commissions []affiliate.CommissionID) Object {
	// An empty list must be encoded as [], not as null.
	listed := append([]affiliate.CommissionID{}, commissions[:min(len(commissions), MaxEventCommissions)]...)
	return Object{
		ID: p.ID, Batch: p.Batch, Participant: p.Participant, AmountCents: p.AmountCents, Currency: p.Currency,
		Method: p.Method, Status: p.Status, Commissions: listed, CommissionCount: p.CommissionCount,
		FailureReason: p.FailureReason, Version: p.Version,
	}
}

// MaxPaidAge is the longest time between PaidAt and the request that reports it.
const MaxPaidAge = 90 * 24 * time.Hour

// checkPaidAt returns a VALIDATION_ERROR if the payout cannot have been paid at PaidAt.
func (t Transition) checkPaidAt(p Payout) *affiliate.Error {
	switch {
	case t.PaidAt.After(t.At):
		return affiliate.Invalid("paid_at", "must not be in the future")
	case t.PaidAt.Before(t.At.Add(-MaxPaidAge)):
		return affiliate.Invalid("paid_at", "must not be more than 90 days in the past")
	case p.InitiatedAt != nil && t.PaidAt.Before(*p.InitiatedAt):
		return affiliate.Invalid("paid_at", "must not be before the payout was confirmed")
	}
	return nil
}

// InOpenPeriod returns t with a PaidAt that is not before the end of the closed period; closed is nil
// if no period is closed. If PaidAt equals At, the service has chosen it, so both become the end of the
// closed period. An earlier PaidAt that the merchant has chosen is an error. Errors: PERIOD_CLOSED.
func (t Transition) InOpenPeriod(closed *time.Time) (Transition, *affiliate.Error) {
	if closed == nil || !t.PaidAt.Before(*closed) {
		return t, nil
	}
	if !t.PaidAt.Equal(t.At) {
		return t, affiliate.PeriodClosed(*closed)
	}
	t.At, t.PaidAt = *closed, *closed
	return t, nil
}

// Notice returns the facts for the notifications about the event.
func (o Object) Notice() affiliate.Notice {
	facts := map[string]string{"amount": affiliate.FormatMoney(affiliate.Money{Cents: o.AmountCents, Currency: o.Currency})}
	if o.FailureReason != nil {
		facts["reason"] = *o.FailureReason
	}
	return affiliate.Notice{Participant: &o.Participant, Resource: o.ID.UUID, Facts: facts}
}

// BatchID identifies a batch of payouts.
type BatchID = affiliate.ID[Batch]
