// Package commissiontest is the life of a commission written down a second time,
// from DECISIONS.md section 1 and not from package affiliate, whose machine,
// database and service are tested against it.
//
// Its model is a matrix: what each move does in each status. Whoever changes the
// machine changes the matrix from the documents too, never one from the other.
//
// It does not know how a refund's amount is found, nor what a commission has
// besides what moves change.
package commissiontest

import (
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
)

// Moves are all that can be done with a commission that exists.
var Moves = []affiliate.CommissionMove{
	affiliate.MoveApprove, affiliate.MoveOverride, affiliate.MoveAutoApprove, affiliate.MoveReject, affiliate.MoveFlag,
	affiliate.MoveClearReview, affiliate.MoveRefund, affiliate.MoveClawBack, affiliate.MovePay,
}

// Statuses are all that a commission can have, in the order of the matrix.
var Statuses = []affiliate.CommissionStatus{pending, approved, rejected, paid, refunded}

const (
	pending  = affiliate.CommissionPending
	approved = affiliate.CommissionApproved
	rejected = affiliate.CommissionRejected
	paid     = affiliate.CommissionPaid
	refunded = affiliate.CommissionRefunded
)

// verdict is what a move does in a status before anything else is looked at:
// it leads somewhere, or it is refused.
type verdict struct {
	to affiliate.CommissionStatus
	no affiliate.Reason
}

var (
	toApproved, toRejected = verdict{to: approved}, verdict{to: rejected}
	toPaid, toRefunded     = verdict{to: paid}, verdict{to: refunded}
	notPending             = verdict{no: affiliate.ReasonCommissionNotPending}
	notFlagged             = verdict{no: affiliate.ReasonCommissionNotFlagged}
	terminal               = verdict{no: affiliate.ReasonCommissionTerminal}
	stays                  = verdict{}
)

var matrix = map[affiliate.CommissionMove][5]verdict{
	//                          pending     approved    rejected    paid        refunded
	affiliate.MoveApprove:     {toApproved, notPending, notPending, notPending, notPending},
	affiliate.MoveOverride:    {toApproved, notPending, notPending, notPending, notPending},
	affiliate.MoveAutoApprove: {toApproved, notPending, notPending, notPending, notPending},
	affiliate.MoveReject:      {toRejected, toRejected, terminal, terminal, terminal},
	affiliate.MoveFlag:        {stays, stays, terminal, terminal, terminal},
	affiliate.MoveClearReview: {stays, stays, notFlagged, notFlagged, notFlagged},
	affiliate.MoveRefund:      {stays, stays, terminal, stays, terminal}, // refunded when it is full
	affiliate.MoveClawBack:    {terminal, terminal, terminal, toRefunded, terminal},
	affiliate.MovePay:         {terminal, toPaid, terminal, terminal, terminal},
}

// Outcome is what the documents say becomes of a move.
type Outcome struct {
	// Refused is empty when the move is made.
	Refused affiliate.Reason
	// After is the commission as the move leaves it.
	After affiliate.Commission
	// Event is the one event that tells of it.
	Event affiliate.EventName
	// Entry is the type of what it adds to the ledger, EntryCents the amount with
	// its sign, minor units; empty and 0: nothing.
	Entry      affiliate.LedgerEntryType
	EntryCents int64
}

// Do says what becomes of one move of a commission.
func Do(c affiliate.Commission, t affiliate.CommissionTransition) Outcome {
	verdict := matrix[t.Move][slices.Index(Statuses, c.Status)]
	no := verdict.no
	if no == "" {
		no = obstacle(c, t)
	}
	if no != "" {
		return Outcome{Refused: no, After: c}
	}
	out := Outcome{After: c, Event: eventOf(t.Move)}
	after := &out.After
	if verdict.to != "" {
		after.Status = verdict.to
	}
	if t.Move == affiliate.MoveRefund && t.Full {
		after.Status = refunded
	}
	leave(after, t)
	if slices.Contains([]affiliate.PayoutStatus{affiliate.PayoutDraft, affiliate.PayoutPending}, t.HeldBy) && !Payable(*after) {
		after.Payout = nil
	}
	after.Version, after.UpdatedAt = c.Version+1, t.At
	switch out.EntryCents = Owed(*after) - Owed(c); {
	case out.EntryCents > 0:
		out.Entry = affiliate.EntryCommissionApproved
	case out.EntryCents < 0 && c.Status == paid:
		out.Entry = affiliate.EntryClawback
	case out.EntryCents < 0:
		out.Entry = affiliate.EntryCommissionReversed
	}
	return out
}

// obstacle is what keeps a move from being made that the status allows.
func obstacle(c affiliate.Commission, t affiliate.CommissionTransition) affiliate.Reason {
	held := c.HoldUntil != nil && c.HoldUntil.After(t.At)
	has := func(reason string) bool { return slices.Contains(c.ReviewReasons, reason) }
	lacks := func(reason string) bool { return !has(reason) }
	switch t.Move {
	case affiliate.MoveApprove:
		if held {
			return affiliate.ReasonCommissionHoldActive
		}
	case affiliate.MoveOverride:
		if c.NeedsReview {
			return affiliate.ReasonCommissionNeedsReview
		}
		if !held {
			return affiliate.ReasonCommissionHoldNotActive
		}
	case affiliate.MoveAutoApprove:
		if held || c.AutoApproveAt == nil || c.AutoApproveAt.After(t.At) || c.NeedsReview || c.Dispute == affiliate.DisputeOpen ||
			t.Standing != affiliate.ParticipantApproved || t.Erased {
			return affiliate.ReasonCommissionHoldActive
		}
	case affiliate.MoveFlag:
		if !slices.ContainsFunc(t.ReviewReasons, lacks) {
			return affiliate.ReasonCommissionTerminal
		}
	case affiliate.MoveClearReview:
		if !c.NeedsReview || len(t.ReviewReasons) > 0 && !slices.ContainsFunc(t.ReviewReasons, has) {
			return affiliate.ReasonCommissionNotFlagged
		}
	default:
	}
	return ""
}

// leave puts into a commission what the move says of itself.
func leave(c *affiliate.Commission, t affiliate.CommissionTransition) {
	at, by := t.At, t.Actor.String()
	switch t.Move {
	case affiliate.MoveOverride:
		c.OverrideReason, c.OverrideBy = t.Reason, t.Actor.User
		fallthrough
	case affiliate.MoveApprove, affiliate.MoveAutoApprove:
		c.ApprovedAt, c.ApprovedBy, c.NeedsReview, c.ReviewReasons = &at, &by, false, []string{}
	case affiliate.MoveReject:
		c.RejectedAt, c.RejectionReason, c.RejectionCode, c.NeedsReview = &at, t.Reason, t.Code, false
	case affiliate.MoveFlag:
		c.NeedsReview, c.ReviewReasons = true, slices.Clone(c.ReviewReasons)
		for _, reason := range t.ReviewReasons {
			if !slices.Contains(c.ReviewReasons, reason) {
				c.ReviewReasons = append(c.ReviewReasons, reason)
			}
		}
	case affiliate.MoveClearReview:
		c.ReviewReasons = slices.DeleteFunc(slices.Clone(c.ReviewReasons), func(reason string) bool {
			return len(t.ReviewReasons) == 0 || slices.Contains(t.ReviewReasons, reason)
		})
		c.NeedsReview = len(c.ReviewReasons) > 0
	case affiliate.MoveRefund, affiliate.MoveClawBack:
		if c.Status == refunded {
			c.AmountCents, c.RefundedAt, c.NeedsReview = 0, &at, false
		} else if t.AmountCents < c.AmountCents {
			c.AmountCents = max(0, t.AmountCents)
		}
	case affiliate.MovePay:
		paidAt := t.PaidAt
		c.PaidAt, c.Payout = &paidAt, t.Payout
	case affiliate.MoveCreate:
	}
}

func eventOf(m affiliate.CommissionMove) affiliate.EventName {
	return map[affiliate.CommissionMove]affiliate.EventName{
		affiliate.MoveApprove: "commission.approved", affiliate.MoveOverride: "commission.approved", affiliate.MoveAutoApprove: "commission.approved",
		affiliate.MoveReject: "commission.rejected", affiliate.MoveFlag: "commission.review_required", affiliate.MoveClearReview: "commission.updated",
		affiliate.MoveRefund: "commission.refunded", affiliate.MoveClawBack: "commission.refunded", affiliate.MovePay: "commission.paid",
	}[m]
}

// BirthEvents tell that a commission came into being.
func BirthEvents(c affiliate.Commission) []affiliate.EventName {
	told := []affiliate.EventName{"commission.created"}
	if c.Status == approved {
		told = append(told, "commission.approved")
	}
	if c.NeedsReview {
		told = append(told, "commission.review_required")
	}
	return told
}

// Owed is what of a commission the ledger holds, minor units.
func Owed(c affiliate.Commission) int64 {
	switch c.Status {
	case approved, paid:
		return c.AmountCents
	default:
		return 0
	}
}

// Payable reports whether a draft or pending payout may hold the commission
// (DECISIONS.md sections 7 and 17.10).
func Payable(c affiliate.Commission) bool {
	return (c.Status == approved || c.Status == paid) && !c.NeedsReview && c.Dispute != affiliate.DisputeOpen && c.Dispute != affiliate.DisputeLost
}

// Earned is what of a commission its participant has earned, minor units.
func Earned(c affiliate.Commission) int64 {
	switch c.Status {
	case rejected, refunded:
		return 0
	default:
		return c.AmountCents
	}
}
