package commission

import (
	"math/big"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Change is a commission before and after a move. The history, the ledger entry, the counts,
// the events and the audit log entry of the move are computed from the Change alone.
type Change struct {
	Before     *Commission // nil for the creation
	After      Commission
	Transition Transition
}

// Locked is a commission whose row the current transaction has locked. It
// includes the state of the participant, because an automatic approval depends on it.
type Locked struct {
	Commission
	ParticipantStatus participant.Status
	ParticipantErased bool
	// PayoutStatus is the status of the payout that contains the commission. It is empty
	// without a payout, and if it was not read because the move does not change payouts.
	PayoutStatus payout.Status `db:"-"`
}

// Move applies the move t. Errors: those of Transition.Apply.
func (c Locked) Move(t Transition) (Change, error) {
	t.ParticipantStatus, t.ParticipantErased, t.PayoutStatus = c.ParticipantStatus, c.ParticipantErased, c.PayoutStatus
	after, refused := t.Apply(c.Commission)
	if refused != nil {
		return Change{}, refused
	}
	before := c.Commission
	return Change{Before: &before, After: after, Transition: t}, nil
}

// NewChange returns the change that creates a commission. If a person caused
// the creation, note is the reason that the person entered.
func NewChange(c Commission, actor affiliate.Actor, note *string) Change {
	return Change{After: c, Transition: Transition{
		Scope: c.Scope, Program: c.Program, Commission: c.ID, Move: MoveCreate, Actor: actor, At: c.CreatedAt, Note: note,
	}}
}

// FollowRefunds returns the change that adjusts the commission to the refunds of its
// conversion. The slice has at most one element.
func (c Locked) FollowRefunds(sale SaleRefunds, why RefundReason, at time.Time) ([]Change, error) {
	t, changes := c.RefundMove(sale, why, at)
	if !changes {
		return nil, nil
	}
	change, err := c.Move(t)
	return []Change{change}, err
}

// FollowDispute returns the change that adjusts the commission to the dispute about its
// sale. The slice is empty if the commission does not change, otherwise it has one element.
func (c Locked) FollowDispute(status DisputeStatus, at time.Time) ([]Change, error) {
	if status == c.Dispute {
		return nil, nil
	}
	t := Transition{
		Scope: c.Scope, Program: c.Program, Commission: c.ID, Move: MoveResolveDispute, Actor: affiliate.System, At: at, Dispute: status,
	}
	if status == DisputeOpen {
		t.Move = MoveDispute
	}
	change, err := c.Move(t)
	return []Change{change}, err
}

// Note returns the text that the history shows for the change.
func (c Change) Note() *string {
	if c.Transition.Note != nil {
		return c.Transition.Note
	}
	return c.Transition.Reason
}

// ledgerCents returns the sum of the commission's ledger entries: the whole amount while
// the commission is approved or paid, otherwise 0.
func (c Commission) ledgerCents() int64 {
	if c.Status == Approved || c.Status == Paid {
		return c.AmountCents
	}
	return 0
}

// EarnedCents returns the part of the commission that counts as earned: the whole
// amount unless the commission is rejected. A refunded commission has an amount of 0.
func (c Commission) EarnedCents() int64 {
	if c.Status == Rejected {
		return 0
	}
	return c.AmountCents
}

// EarnedCents returns by how much the change raises the participant's earnings.
func (c Change) EarnedCents() int64 {
	if c.Before == nil {
		return c.After.EarnedCents()
	}
	return c.After.EarnedCents() - c.Before.EarnedCents()
}

// LedgerEntry returns the entry that the change adds to the ledger, or nil. The sum of a
// commission's entries is always the result of ledgerCents. Payouts have entries of their own.
func (c Change) LedgerEntry() *ledger.Entry {
	cents := c.After.ledgerCents()
	kind := ledger.EntryCommissionApproved
	if c.Before != nil {
		cents -= c.Before.ledgerCents()
		switch {
		case cents < 0 && c.Before.Status == Paid:
			kind = ledger.EntryClawback
		case cents < 0:
			kind = ledger.EntryCommissionReversed
		}
	}
	if cents == 0 {
		return nil
	}
	at := c.Transition.At
	return &ledger.Entry{
		ID: affiliate.NewID[ledger.EntryID](at), Scope: c.After.Scope, Program: c.After.Program, Participant: c.After.Participant,
		Partner: c.After.Partner, Type: kind, AmountCents: cents, Currency: c.After.Currency,
		Commission: &c.After.ID, CreatedBy: c.Transition.Actor.String(), CreatedAt: at, OccurredAt: ledger.OccurredAt(c.Transition.OccurredAt, at),
	}
}

// LeavesPayout reports whether the change takes the commission out of a payout.
func (c Change) LeavesPayout() bool {
	return c.Before != nil && c.Before.Payout != nil && c.After.Payout == nil
}

// ChangesPayoutAmount reports whether the commission stays in a payout that was not sent, with another amount.
func (c Change) ChangesPayoutAmount() bool {
	return c.Transition.PayoutStatus.FollowsCommissions() && c.After.Payout != nil && c.After.AmountCents != c.Before.AmountCents
}

// CountGroup identifies a group of commissions that are counted together.
type CountGroup struct {
	affiliate.Scope
	Program     affiliate.ProgramID `db:"program_id"`
	Status      Status
	NeedsReview bool
	Currency    string
	Day         time.Time `db:"-"` // 00:00 UTC of the day on which the commissions were created
}

// CountGroup returns the group in which the commission is counted.
func (c Commission) CountGroup() CountGroup {
	return CountGroup{
		Scope: c.Scope, Program: c.Program, Status: c.Status, NeedsReview: c.NeedsReview, Currency: c.Currency,
		Day: c.CreatedAt.UTC().Truncate(24 * time.Hour),
	}
}

// Events returns the webhook events of the change.
func (c Change) Events() []affiliate.Event {
	at := c.Transition.At
	if c.Before == nil {
		events := []affiliate.Event{NewEvent(affiliate.EventCommissionCreated, at, nil, c.After)}
		if c.After.Status == Approved {
			events = append(events, NewEvent(affiliate.EventCommissionApproved, at, nil, c.After))
		}
		if c.After.NeedsReview {
			events = append(events, NewEvent(affiliate.EventCommissionReviewRequired, at, nil, c.After))
		}
		return events
	}
	event := NewEvent(commissionMoves[c.Transition.Move].event, at, c.Before, c.After)
	if event.Name == affiliate.EventCommissionRefunded {
		event.Object = c.RefundedObject()
	}
	return []affiliate.Event{event}
}

// RefundedObject is the object of commission.refunded.
func (c Change) RefundedObject() any {
	type refund struct {
		Type          string       `json:"type"`         // full or partial
		AmountCents   int64        `json:"amount_cents"` // by which the commission was reduced
		Reason        RefundReason `json:"reason"`
		ClawbackCents int64        `json:"clawback_cents"` // the part of amount_cents that had been paid out
	}
	refunded := refund{Type: "partial", AmountCents: c.Before.AmountCents - c.After.AmountCents, Reason: c.Transition.RefundReason}
	if c.After.Status == Refunded {
		refunded.Type = "full"
	}
	if c.Before.Status == Paid {
		refunded.ClawbackCents = refunded.AmountCents
	}
	return struct {
		Object
		Refund refund `json:"refund"`
	}{c.After.payload(), refunded}
}

// AuditLine returns the audit log entry of a move by a person, a key or a token. For a creation
// or a move by the service itself, it returns false.
func (c Change) AuditLine() (affiliate.AuditLine, bool) {
	t := c.Transition
	if t.Actor.ID() == nil || c.Before == nil {
		return affiliate.AuditLine{}, false
	}
	return affiliate.AuditLine{
		Workspace: t.Scope.Workspace, Mode: &t.Scope.Mode, Actor: t.Actor, At: t.At,
		Action: "commission." + string(t.Move), ResourceType: "commission", ResourceID: c.After.ID,
		Before: c.Before.auditFields(), After: c.After.auditFields(),
	}, true
}

// commissionAuditFields holds the fields that a person's move can change.
type commissionAuditFields struct {
	Status          Status   `json:"status"`
	NeedsReview     bool     `json:"needs_review"`
	ReviewReasons   []string `json:"review_reasons"`
	OverrideReason  *string  `json:"override_reason,omitempty"`
	RejectionReason *string  `json:"rejection_reason,omitempty"`
	RejectionCode   *string  `json:"rejection_code,omitempty"`
}

func (c Commission) auditFields() commissionAuditFields {
	a := commissionAuditFields{
		Status: c.Status, NeedsReview: c.NeedsReview, ReviewReasons: c.ReviewReasons, OverrideReason: c.OverrideReason,
	}
	if c.Status == Rejected {
		a.RejectionReason, a.RejectionCode = c.RejectionReason, c.RejectionCode
	}
	return a
}

// SaleRefunds says how much of a sale is left, in minor units of its currency.
type SaleRefunds struct {
	PaidCents int64
	LeftCents int64
	// Complete says that the whole sale was refunded, even if it had no amount.
	Complete bool
}

// AfterRefunds returns the amount of the commission after the refunds of its conversion. The
// result full says that the whole sale was refunded; cents is then 0. The result depends only
// on the total of the refunds, so their order and number do not matter.
//
// A percentage is computed again for the part of the sale that is left:
//
//	base × rate × (paid − refunded) ÷ paid
//
// The result is converted to the commission's currency and rounded once. Then the cap is
// applied. The result is never above the original amount. If the formula with refunded = 0 does
// not give the original amount, for example because the lines of the order have different
// rates, the result is instead
//
//	original amount × (paid − refunded) ÷ paid
//
// A flat amount does not change until the whole sale is refunded.
func (c Commission) AfterRefunds(sale SaleRefunds) (cents int64, full bool) {
	paid, left := sale.PaidCents, sale.LeftCents
	switch {
	case sale.Complete:
		return 0, true
	case c.Type == program.Flat || paid == 0 || left == paid:
		return c.OriginalAmountCents, false
	}
	if whole, ok := c.percentageOf(paid, paid); ok && whole == c.OriginalAmountCents {
		cents, ok := c.percentageOf(left, paid)
		if ok {
			return min(cents, c.OriginalAmountCents), false
		}
	}
	return affiliate.MustMulDiv(c.OriginalAmountCents, left, paid), false
}

// percentageOf returns base × rate × left ÷ paid, converted, rounded and capped. ok is
// false if the amount does not fit into 64 bits or the exchange rate is not valid.
func (c Commission) percentageOf(left, paid int64) (cents int64, ok bool) {
	weighted := c.BaseAmountCents * affiliate.OrZero(c.RateBps) // ≤ MaxAmountCents × WholeBps
	if c.FXRate == nil {
		cents, ok = affiliate.MulDiv(weighted, left, paid*affiliate.WholeBps)
	} else {
		exact := new(big.Rat).SetFrac(
			new(big.Int).Mul(big.NewInt(weighted), big.NewInt(left)),
			new(big.Int).Mul(big.NewInt(paid), big.NewInt(affiliate.WholeBps)))
		cents, ok = attribution.FXRate{Base: c.SaleCurrency, Quote: c.Currency, Rate: *c.FXRate}.Convert(exact)
	}
	if most := c.Rule.Rules.CapCents; most != nil {
		cents = min(cents, *most)
	}
	return cents, ok
}

// RefundMove returns the move that adjusts the commission to the refunds of its conversion:
// MoveRefund if it earns less, or MoveRestore if refunds have failed later. It returns false if
// the commission is rejected, or if neither its amount nor its status changes.
func (c Commission) RefundMove(sale SaleRefunds, why RefundReason, at time.Time) (Transition, bool) {
	cents, full := c.AfterRefunds(sale)
	t := Transition{
		Scope: c.Scope, Program: c.Program, Commission: c.ID, Actor: affiliate.System, At: at,
		AmountCents: cents, Full: full, RefundReason: why,
	}
	switch refunded := c.Status == Refunded; {
	case full != refunded && full || cents < c.AmountCents:
		t.Move = MoveRefund
	case full != refunded || cents > c.AmountCents:
		t.Move = MoveRestore
	default:
		return Transition{}, false
	}
	return t, slices.Contains(commissionMoves[t.Move].from, c.Status)
}
