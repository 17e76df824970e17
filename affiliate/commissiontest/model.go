// Package commissiontest is a second, independent model of the moves of a commission. It is
// written from docs/contract.md#changes-of-a-commission and not from package commission. The
// state machine of package commission, the database and the service are tested against this
// model.
//
// The model is a matrix. For each move and each status, it has the new status of the
// commission or the error code. When the documents change, the matrix and the state
// machine must each be changed according to the documents. Neither must be copied from
// the other.
//
// The model does not compute the amount of a refund, and it only covers the fields of a
// commission that moves change.
package commissiontest

import (
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/payout"
)

// Moves lists all moves of a commission that exists.
var Moves = []commission.Move{
	commission.MoveApprove, commission.MoveOverride, commission.MoveAutoApprove, commission.MoveReject, commission.MoveFlag,
	commission.MoveClearReview, commission.MoveRefund, commission.MoveClawBack, commission.MovePay,
	commission.MoveDispute, commission.MoveResolveDispute, commission.MoveRestore,
}

// Statuses lists all statuses of a commission, in the order of the matrix's columns.
var Statuses = []commission.Status{pending, approved, rejected, paid, refunded}

const (
	pending  = commission.Pending
	approved = commission.Approved
	rejected = commission.Rejected
	paid     = commission.Paid
	refunded = commission.Refunded
)

// cell is an element of the matrix: the new status after a move, or the error code if the move
// is not legal in the status. The function refusalReason checks other conditions.
type cell struct {
	to      commission.Status
	refusal affiliate.Reason
}

var (
	toApproved, toRejected = cell{to: approved}, cell{to: rejected}
	toPaid, toRefunded     = cell{to: paid}, cell{to: refunded}
	notPending             = cell{refusal: affiliate.ReasonCommissionNotPending}
	notFlagged             = cell{refusal: affiliate.ReasonCommissionNotFlagged}
	terminal               = cell{refusal: affiliate.ReasonCommissionTerminal}
	unchanged              = cell{}
)

var matrix = map[commission.Move][5]cell{
	//                          pending     approved    rejected    paid        refunded
	commission.MoveApprove:     {toApproved, notPending, notPending, notPending, notPending},
	commission.MoveOverride:    {toApproved, notPending, notPending, notPending, notPending},
	commission.MoveAutoApprove: {toApproved, notPending, notPending, notPending, notPending},
	commission.MoveReject:      {toRejected, toRejected, terminal, terminal, terminal},
	commission.MoveFlag:        {unchanged, unchanged, terminal, terminal, terminal},
	commission.MoveClearReview: {unchanged, unchanged, notFlagged, notFlagged, notFlagged},
	commission.MoveRefund:      {unchanged, unchanged, terminal, unchanged, terminal}, // the new status is refunded if the refund is full
	commission.MoveClawBack:    {terminal, terminal, terminal, toRefunded, terminal},
	commission.MovePay:         {terminal, toPaid, terminal, terminal, terminal},

	commission.MoveDispute:        {unchanged, unchanged, unchanged, unchanged, unchanged},
	commission.MoveResolveDispute: {unchanged, unchanged, unchanged, unchanged, unchanged},
	commission.MoveRestore:        {unchanged, unchanged, terminal, unchanged, unchanged}, // a refunded commission gets its former status
}

// Outcome is the expected result of a move.
type Outcome struct {
	// Refusal is the expected error code; empty if the move is legal.
	Refusal affiliate.Reason
	// After is the commission after the move.
	After commission.Commission
	// Event is the webhook event of the move. A move has exactly one.
	Event affiliate.EventName
	// Entry is the type of the ledger entry of the move, and EntryCents its amount in
	// minor units, with its sign. They are empty and 0 if there is no entry.
	Entry      ledger.EntryType
	EntryCents int64
}

// Expected returns the expected result of one move of a commission.
func Expected(c commission.Commission, t commission.Transition) Outcome {
	effect := matrix[t.Move][slices.Index(Statuses, c.Status)]
	refusal := effect.refusal
	if refusal == "" {
		refusal = refusalReason(c, t)
	}
	if refusal != "" {
		return Outcome{Refusal: refusal, After: c}
	}
	out := Outcome{After: c, Event: eventOf(t.Move)}
	after := &out.After
	if effect.to != "" {
		after.Status = effect.to
	}
	if t.Move == commission.MoveRefund && t.Full {
		after.Status = refunded
	}
	applyMove(after, t)
	if slices.Contains([]payout.Status{payout.Draft, payout.Pending}, t.PayoutStatus) && !Payable(*after) {
		after.Payout = nil
	}
	after.Version, after.UpdatedAt = c.Version+1, t.At
	switch out.EntryCents = LedgerCents(*after) - LedgerCents(c); {
	case out.EntryCents > 0:
		out.Entry = ledger.EntryCommissionApproved
	case out.EntryCents < 0 && c.Status == paid:
		out.Entry = ledger.EntryClawback
	case out.EntryCents < 0:
		out.Entry = ledger.EntryCommissionReversed
	}
	return out
}

// refusalReason returns the error code of a move that the status allows but another
// condition forbids; empty if the move is legal.
func refusalReason(c commission.Commission, t commission.Transition) affiliate.Reason {
	held := c.HoldUntil != nil && c.HoldUntil.After(t.At)
	has := func(reason string) bool { return slices.Contains(c.ReviewReasons, reason) }
	lacks := func(reason string) bool { return !has(reason) }
	switch t.Move {
	case commission.MoveApprove:
		if held || c.Dispute == commission.DisputeOpen {
			return affiliate.ReasonCommissionHoldActive
		}
	case commission.MoveOverride:
		if c.NeedsReview {
			return affiliate.ReasonCommissionNeedsReview
		}
		if !held {
			return affiliate.ReasonCommissionHoldNotActive
		}
	case commission.MoveAutoApprove:
		if held || c.AutoApproveAt == nil || c.AutoApproveAt.After(t.At) || c.NeedsReview || c.Dispute == commission.DisputeOpen ||
			t.ParticipantStatus != participant.Approved || t.ParticipantErased {
			return affiliate.ReasonCommissionHoldActive
		}
	case commission.MoveFlag:
		if !slices.ContainsFunc(t.ReviewReasons, lacks) {
			return affiliate.ReasonCommissionTerminal
		}
	case commission.MoveClearReview:
		clearable := func(reason string) bool { return reason != "dispute" && has(reason) }
		if !c.NeedsReview || len(t.ReviewReasons) > 0 && !slices.ContainsFunc(t.ReviewReasons, clearable) {
			return affiliate.ReasonCommissionNotFlagged
		}
	case commission.MoveDispute:
		if c.Dispute == commission.DisputeOpen {
			return affiliate.ReasonCommissionTerminal
		}
	case commission.MoveResolveDispute:
		if c.Dispute == t.Dispute {
			return affiliate.ReasonCommissionTerminal
		}
	case commission.MoveRestore:
		if t.AmountCents < c.AmountCents {
			return affiliate.ReasonCommissionTerminal
		}
	default:
	}
	return ""
}

// applyMove sets the fields of a commission that the move changes. The status is
// already set.
func applyMove(c *commission.Commission, t commission.Transition) {
	at, by := t.At, t.Actor.String()
	switch t.Move {
	case commission.MoveOverride:
		c.OverrideReason, c.OverrideBy = t.Reason, t.Actor.ID()
		fallthrough
	case commission.MoveApprove, commission.MoveAutoApprove:
		c.ApprovedAt, c.ApprovedBy, c.NeedsReview, c.ReviewReasons = &at, &by, false, []string{}
	case commission.MoveReject:
		c.RejectedAt, c.RejectionReason, c.RejectionCode, c.NeedsReview = &at, t.Reason, t.Code, false
	case commission.MoveFlag:
		c.NeedsReview, c.ReviewReasons = true, slices.Clone(c.ReviewReasons)
		for _, reason := range t.ReviewReasons {
			if !slices.Contains(c.ReviewReasons, reason) {
				c.ReviewReasons = append(c.ReviewReasons, reason)
			}
		}
	case commission.MoveClearReview:
		c.ReviewReasons = slices.DeleteFunc(slices.Clone(c.ReviewReasons), func(reason string) bool {
			return reason != "dispute" && (len(t.ReviewReasons) == 0 || slices.Contains(t.ReviewReasons, reason))
		})
		c.NeedsReview = len(c.ReviewReasons) > 0
	case commission.MoveDispute:
		c.Dispute = commission.DisputeOpen
		if !slices.Contains(c.ReviewReasons, "dispute") {
			c.ReviewReasons = append(slices.Clone(c.ReviewReasons), "dispute")
		}
		c.NeedsReview = open(*c)
	case commission.MoveResolveDispute:
		c.Dispute = t.Dispute
		c.ReviewReasons = slices.DeleteFunc(slices.Clone(c.ReviewReasons), func(reason string) bool { return reason == "dispute" })
		c.NeedsReview = open(*c) && len(c.ReviewReasons) > 0
	case commission.MoveRestore:
		restore(c, t)
	case commission.MoveRefund, commission.MoveClawBack:
		if c.Status == refunded {
			c.AmountCents, c.RefundedAt, c.NeedsReview = 0, &at, false
		} else if t.AmountCents < c.AmountCents {
			c.AmountCents = max(0, t.AmountCents)
		}
	case commission.MovePay:
		paidAt := t.PaidAt
		c.PaidAt, c.Payout = &paidAt, t.Payout
	case commission.MoveCreate:
	}
}

// open reports whether a person can still decide about the commission.
func open(c commission.Commission) bool { return c.Status == pending || c.Status == approved }

// restore gives a commission the amount and, if it was refunded in full, the status that it
// had before a refund that has failed.
func restore(c *commission.Commission, t commission.Transition) {
	c.AmountCents = min(t.AmountCents, c.OriginalAmountCents)
	if c.Status != refunded {
		return
	}
	c.Status, c.RefundedAt = pending, nil
	if c.ApprovedAt != nil {
		c.Status = approved
	}
	if t.PayoutStatus == payout.Paid && c.PaidAt == nil {
		at := t.At
		c.PaidAt = &at
	}
	if c.PaidAt != nil {
		c.Status = paid
	}
	c.NeedsReview = open(*c) && len(c.ReviewReasons) > 0
}

func eventOf(m commission.Move) affiliate.EventName {
	return map[commission.Move]affiliate.EventName{
		commission.MoveApprove: "commission.approved", commission.MoveOverride: "commission.approved", commission.MoveAutoApprove: "commission.approved",
		commission.MoveReject: "commission.rejected", commission.MoveFlag: "commission.review_required", commission.MoveClearReview: "commission.updated",
		commission.MoveRefund: "commission.refunded", commission.MoveClawBack: "commission.refunded", commission.MovePay: "commission.paid",
		commission.MoveDispute: "commission.disputed", commission.MoveResolveDispute: "commission.dispute_resolved", commission.MoveRestore: "commission.updated",
	}[m]
}

// CreationEvents returns the webhook events of a new commission.
func CreationEvents(c commission.Commission) []affiliate.EventName {
	events := []affiliate.EventName{"commission.created"}
	if c.Status == approved {
		events = append(events, "commission.approved")
	}
	if c.NeedsReview {
		events = append(events, "commission.review_required")
	}
	return events
}

// LedgerCents returns the part of a commission that is in the ledger, in minor units.
func LedgerCents(c commission.Commission) int64 {
	switch c.Status {
	case approved, paid:
		return c.AmountCents
	default:
		return 0
	}
}

// Payable reports whether a draft or pending payout may contain the commission
// (docs/merchant/payouts.md#amounts).
func Payable(c commission.Commission) bool {
	return (c.Status == approved || c.Status == paid) && !c.NeedsReview && c.Dispute != commission.DisputeOpen
}

// EarnedCents returns the part of a commission that counts as earned by the participant,
// in minor units.
func EarnedCents(c commission.Commission) int64 {
	switch c.Status {
	case rejected, refunded:
		return 0
	default:
		return c.AmountCents
	}
}
