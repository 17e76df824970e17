package affiliate

import (
	"slices"
	"time"
)

// A payout's statuses and the moves between them.
//
//	draft ──confirm──▶ pending ──send──▶ processing ──pay──▶ paid
//	  │                 │ │ ▲ └──────────pay────────────────▶ ▲
//	  │                 │ │ └─retry─┐        │
//	  │                 │ └──fail─▶ failed ◀─┴fail
//	  └──cancel──▶ canceled ◀─cancel─┘ (also from pending)
//
// The ledger holds what was sent: the entries of a payout sum up to minus its
// amount while it is processing or paid, and to nothing otherwise
// (PayoutChange.LedgerEntry). Its commissions belong to it while it is open,
// that is draft, pending or processing, and when it is paid. A draft or pending
// payout follows its commissions (Payout.Follow); from processing on, the ledger
// nets what they lose.

// PayoutID identifies a payout.
type PayoutID = ID[Payout]

// PayoutStatus is where a payout stands.
type PayoutStatus string

// The statuses (DECISIONS.md section 7).
const (
	PayoutDraft      PayoutStatus = "draft"
	PayoutPending    PayoutStatus = "pending"
	PayoutProcessing PayoutStatus = "processing"
	PayoutPaid       PayoutStatus = "paid"
	PayoutFailed     PayoutStatus = "failed"
	PayoutCanceled   PayoutStatus = "canceled"
)

// Payout is what one participant is paid in one currency at a time.
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
	AdjustmentCents int64 // bonuses, adjustments and debts in AmountCents, with their sign
	Status          PayoutStatus
	Method          PayoutMethod
	Reference       *string // of the transfer
	FailureReason   *string
	PeriodStart     *time.Time // when the first of its commissions was approved; nil without any
	PeriodEnd       *time.Time // when the last was
	InitiatedAt     *time.Time // when it was confirmed
	PaidAt          *time.Time
	Version         int // one more with every change
	CreatedAt       time.Time
	UpdatedAt       time.Time
}

// PayoutItem is a payout with the names that lists show beside it.
type PayoutItem struct {
	Payout
	ProgramName string
	PartnerName string
}

// PayoutDetail is a payout with what it consists of.
type PayoutDetail struct {
	PayoutItem
	Commissions []PayoutCommission // oldest first, at most MaxPayoutCommissions
	AccountHint *string            // see PayoutAccount.Hint
}

// MaxPayoutCommissions bounds the commissions that a payout's detail shows.
const MaxPayoutCommissions = 1000

// PayoutCommission is what a commission put into a payout, when it was put there.
type PayoutCommission struct {
	Commission            CommissionID
	AmountCents           int64
	ExternalTransactionID string
	ApprovedAt            *time.Time
}

// SentPayout is a payout on its way, with what whoever sends it has to know.
type SentPayout struct {
	PayoutItem
	Account []byte // sealed; nil for a method without
}

// PayoutFilter narrows a list of payouts. The zero value of each field narrows
// nothing.
type PayoutFilter struct {
	Status      PayoutStatus
	Program     *ProgramID
	Participant *ParticipantID
	Batch       *PayoutBatchID
	Created     Period
}

// PayoutMove is something that is done with a payout.
type PayoutMove string

// The moves. Their words are the verbs of the audit log.
const (
	// MoveConfirm releases a draft.
	MoveConfirm PayoutMove = "confirm"
	// MoveSend hands it to whoever sends the money.
	MoveSend PayoutMove = "export"
	// MoveMarkPaid: the money has arrived.
	MoveMarkPaid PayoutMove = "mark_paid"
	// MoveMarkFailed: it could not be paid.
	MoveMarkFailed PayoutMove = "mark_failed"
	// MoveRetry tries a failed one again.
	MoveRetry PayoutMove = "retry"
	// MoveCancel gives it up before it is sent, or after it failed.
	MoveCancel PayoutMove = "cancel"
	// MoveFollow lowers its amount because a commission left it or lost a part of
	// its amount.
	MoveFollow PayoutMove = "follow"
)

// payoutMoves is the table of legal moves. An empty to keeps the status. A move
// with an empty event has no event.
var payoutMoves = map[PayoutMove]struct {
	from  []PayoutStatus
	to    PayoutStatus
	event EventName
}{
	MoveConfirm:    {[]PayoutStatus{PayoutDraft}, PayoutPending, ""},
	MoveSend:       {[]PayoutStatus{PayoutPending}, PayoutProcessing, EventPayoutProcessing},
	MoveMarkPaid:   {[]PayoutStatus{PayoutPending, PayoutProcessing}, PayoutPaid, EventPayoutPaid},
	MoveMarkFailed: {[]PayoutStatus{PayoutPending, PayoutProcessing}, PayoutFailed, EventPayoutFailed},
	MoveRetry:      {[]PayoutStatus{PayoutFailed}, PayoutPending, ""},
	MoveCancel:     {[]PayoutStatus{PayoutDraft, PayoutPending, PayoutFailed}, PayoutCanceled, EventPayoutCanceled},
	MoveFollow:     {[]PayoutStatus{PayoutDraft, PayoutPending}, "", ""},
}

// followsCommissions reports whether a payout of this status loses what its
// commissions lose.
func (s PayoutStatus) followsCommissions() bool {
	return slices.Contains(payoutMoves[MoveFollow].from, s)
}

// PayoutTransition asks for one move of a payout.
type PayoutTransition struct {
	Move  PayoutMove
	Actor Actor
	At    time.Time
	// Reference and PaidAt belong to MoveMarkPaid, Reason to MoveMarkFailed.
	Reference *string
	PaidAt    time.Time
	Reason    *string
}

// Apply makes the move: the payout as it leaves it. Errors:
// PAYOUT_STATE_INVALID.
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
		after.Reference, after.PaidAt = t.Reference, &t.PaidAt
	case MoveMarkFailed:
		after.FailureReason = t.Reason
	case MoveRetry:
		after.FailureReason = nil
	case MoveSend, MoveCancel, MoveFollow:
	}
	return PayoutChange{Before: p, After: after, Transition: t}, nil
}

// PayoutContent sums up the commissions that a payout holds.
type PayoutContent struct {
	CommissionCount int64
	CommissionCents int64      // minor units of the payout's currency
	PeriodStart     *time.Time // when the first was approved; nil without any
	PeriodEnd       *time.Time // when the last was approved
}

// Follow is the change by which a payout follows its commissions to the content
// that they leave. If nothing remains to be paid the payout is canceled, and keeps
// the amounts that it had. Errors: PAYOUT_STATE_INVALID from processing on.
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

// Refuse says that the payout allows nothing of the kind where it stands.
func (p Payout) Refuse() *Error {
	return refuseStatus(ReasonPayoutState, p.Status)
}

// sentCents is what of a payout has left.
func (p Payout) sentCents() int64 {
	if p.Status == PayoutProcessing || p.Status == PayoutPaid {
		return p.AmountCents
	}
	return 0
}

// PayoutChange is a payout around a move.
type PayoutChange struct {
	Before     Payout
	After      Payout
	Transition PayoutTransition
}

// LedgerEntry is what the change adds to the ledger; nil: nothing.
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
	return &LedgerEntry{
		ID: NewID[LedgerEntry](at), Scope: p.Scope, Program: p.Program, Participant: p.Participant, Partner: p.Partner,
		Type: kind, AmountCents: cents, Currency: p.Currency, Payout: &p.ID, CreatedBy: c.Transition.Actor.String(), CreatedAt: at,
	}
}

// Event is what the world is told of the change, with the commissions that were
// put into the payout; ok is false when it is told nothing.
func (c PayoutChange) Event(commissions []CommissionID) (event Event, ok bool) {
	name := payoutMoves[c.Transition.Move].event
	if name == "" {
		return Event{}, false
	}
	was := map[string]PayoutStatus{"status": c.Before.Status}
	return NewEvent(c.After.Scope, name, c.Transition.At, c.After.object(commissions), was), true
}

// Created is what the world is told of a new payout.
func (p Payout) Created(commissions []CommissionID) Event {
	return NewEvent(p.Scope, EventPayoutCreated, p.CreatedAt, p.object(commissions), nil)
}

// MaxEventCommissions bounds the commissions that a payout's event names.
const MaxEventCommissions = 200

// payoutObject is the object of every payout.* event. Its keys, their order and
// their meaning are public.
type payoutObject struct {
	ID              PayoutID       `json:"id"`
	Batch           PayoutBatchID  `json:"batch_id"`
	Participant     ParticipantID  `json:"participant_id"`
	AmountCents     int64          `json:"amount_cents"` // commissions and adjustments, in minor units of currency
	Currency        string         `json:"currency"`
	Method          PayoutMethod   `json:"method"`
	Status          PayoutStatus   `json:"status"`
	Commissions     []CommissionID `json:"commission_ids"`   // those that it pays, at most 200 of them
	CommissionCount int64          `json:"commission_count"` // how many it pays
	FailureReason   *string        `json:"failure_reason"`   // why it could not be paid; null unless it failed
	Version         int            `json:"version"`
}

func (p Payout) object(commissions []CommissionID) payoutObject {
	// An empty list is one, too.
	named := append([]CommissionID{}, commissions[:min(len(commissions), MaxEventCommissions)]...)
	return payoutObject{
		ID: p.ID, Batch: p.Batch, Participant: p.Participant, AmountCents: p.AmountCents, Currency: p.Currency,
		Method: p.Method, Status: p.Status, Commissions: named, CommissionCount: p.CommissionCount,
		FailureReason: p.FailureReason, Version: p.Version,
	}
}

// PayoutDue is what one participant could be paid in one currency, and what that
// depends on.
type PayoutDue struct {
	Program         ProgramID
	ProgramName     string
	Participant     ParticipantID
	Partner         UserID
	PartnerName     string
	Currency        string
	CommissionCount int64
	CommissionCents int64 // of payable commissions
	AdjustmentCents int64 // what else stands in the ledger and in no open payout
	PeriodStart     *time.Time
	PeriodEnd       *time.Time
	MinPayoutCents  int64         // in Currency; 0: none
	Method          *PayoutMethod // nil: none is set
	Standing        ParticipantStatus
	Erased          bool
}

// AmountCents is what would be paid, if it were above zero and nothing spoke
// against it.
func (d PayoutDue) AmountCents() int64 { return d.CommissionCents + d.AdjustmentCents }

// PayoutExclusion is why a participant gets no payout.
type PayoutExclusion string

// The exclusions.
const (
	BelowMinimum           PayoutExclusion = "below_minimum"
	NoPayoutMethod         PayoutExclusion = "no_payout_method"
	ParticipantNotApproved PayoutExclusion = "participant_not_approved"
	NegativeBalance        PayoutExclusion = "negative_balance"
)

// Excluded is the first reason not to pay; empty when there is none. What nets
// to nothing is below any minimum.
func (d PayoutDue) Excluded() PayoutExclusion {
	switch cents := d.AmountCents(); {
	case d.Standing != ParticipantApproved || d.Erased:
		return ParticipantNotApproved
	case d.Method == nil:
		return NoPayoutMethod
	case cents < 0:
		return NegativeBalance
	case cents == 0 || cents < d.MinPayoutCents:
		return BelowMinimum
	}
	return ""
}

// WithCommissions is d with other commissions in the place of its own.
func (d PayoutDue) WithCommissions(commissions []HeldCommission) PayoutDue {
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

// MaxBatchCommissions bounds what one batch takes in, but for a single account that
// has more. All that happens to a batch, or to a payout, is one transaction, and it
// has to end within a call's time on a busy database too: paying takes some 0.3 ms
// each.
const MaxBatchCommissions = 25_000

// FitBatch are those of the accounts that one batch takes: who waits longest comes
// first, so that what is left has its turn in one of the next.
func FitBatch(payable []PayoutDue) []PayoutDue {
	since := func(d PayoutDue) time.Time {
		if d.PeriodStart == nil {
			return time.Time{}
		}
		return *d.PeriodStart
	}
	payable = slices.SortedStableFunc(slices.Values(payable), func(a, b PayoutDue) int { return since(a).Compare(since(b)) })
	var commissions int64
	for i, d := range payable {
		if commissions += d.CommissionCount; commissions > MaxBatchCommissions && i > 0 {
			return payable[:i]
		}
	}
	return payable
}

// BatchParticipants returns the participants of those accounts among due that one
// batch takes.
func BatchParticipants(due []PayoutDue) []ParticipantID {
	payable := slices.DeleteFunc(slices.Clone(due), func(d PayoutDue) bool { return d.Excluded() != "" })
	var participants []ParticipantID
	for _, d := range FitBatch(payable) {
		participants = append(participants, d.Participant)
	}
	return participants
}

// HeldCommission is a commission that a payout takes in.
type HeldCommission struct {
	ID          CommissionID
	Participant ParticipantID
	Currency    string
	Payout      *PayoutID // that holds it
	AmountCents int64
	ApprovedAt  time.Time
	// Payable: nothing speaks against paying it but the payout that holds it.
	Payable bool
}

// Settles fills the payout with what is due. Something has to be: Excluded says
// whether.
func (p Payout) Settles(d PayoutDue) Payout {
	p.AmountCents, p.AdjustmentCents, p.CommissionCount = d.AmountCents(), d.AdjustmentCents, d.CommissionCount
	p.PeriodStart, p.PeriodEnd, p.Method = d.PeriodStart, d.PeriodEnd, *d.Method
	return p
}
