package affiliate

import (
	"slices"
	"time"
)

// A commission's statuses and the moves between them. Moves in brackets come
// from payouts, refunds and disputes.
//
//	      attributed conversion
//	                │
//	                ▼         approve, approve_override, auto_approve
//	            ┌─pending─────────────────────────────► approved ──[payout paid]──► paid
//	            │   │                                   │      │                     │
//	     reject │   │ [full refund, dispute lost]       │      │ [full refund,       │ [the same, with a
//	            │   ▼                                   │      ▼  dispute lost]      ▼  clawback]
//	            │ refunded                       reject │    refunded             refunded
//	            ▼                                       ▼
//	         rejected                                rejected
//
// rejected and refunded are the end; paid is the end for merchants. A
// conversion without hold and without a flag may start at approved. Flags come
// and go, and partial refunds lower the amount, without a change of status.
//
// One function makes every move (CommissionTransition.Apply); what follows from
// it, in the ledger, in the counts and in the events, is a function of the
// commission before and after (CommissionChange).

// CommissionMove is something that is done with a commission.
type CommissionMove string

// The moves. Their words are the verbs of the audit log.
const (
	// MoveCreate is how a commission begins.
	MoveCreate CommissionMove = "create"
	// MoveApprove: a person approves. A review flag does not stand in the way and
	// is cleared; a running hold does.
	MoveApprove CommissionMove = "approve"
	// MoveOverride: a person approves while the hold runs, which goes on to keep
	// the commission out of payouts. A review flag stands in the way.
	MoveOverride CommissionMove = "approve_override"
	// MoveAutoApprove: the hold is over and nothing speaks against it.
	MoveAutoApprove CommissionMove = "auto_approve"
	// MoveReject: a person rejects, during the hold too.
	MoveReject CommissionMove = "reject"
	// MoveFlag: something asks for a person. It needs ReviewReasons.
	MoveFlag CommissionMove = "flag"
	// MoveClearReview: a person has looked, or a reason has gone. ReviewReasons
	// are those that go, of which it must have one; none: all.
	MoveClearReview CommissionMove = "clear_review"
	// MoveRefund: the sale was refunded; the commission earns AmountCents from now
	// on, and is refunded when the refund is Full.
	MoveRefund CommissionMove = "refund"
	// MoveClawBack: a person took the conversion away after it was paid.
	MoveClawBack CommissionMove = "claw_back"
	// MovePay: its payout was paid.
	MovePay CommissionMove = "pay"
)

// commissionMoves is the table of legal moves (DECISIONS.md section 1). An empty
// to keeps the status. What else a move demands stands in Refusal.
var commissionMoves = map[CommissionMove]struct {
	from  []CommissionStatus
	to    CommissionStatus
	event EventName
}{
	MoveApprove:     {[]CommissionStatus{CommissionPending}, CommissionApproved, EventCommissionApproved},
	MoveOverride:    {[]CommissionStatus{CommissionPending}, CommissionApproved, EventCommissionApproved},
	MoveAutoApprove: {[]CommissionStatus{CommissionPending}, CommissionApproved, EventCommissionApproved},
	MoveReject:      {[]CommissionStatus{CommissionPending, CommissionApproved}, CommissionRejected, EventCommissionRejected},
	MoveFlag:        {[]CommissionStatus{CommissionPending, CommissionApproved}, "", EventCommissionReviewRequired},
	MoveClearReview: {[]CommissionStatus{CommissionPending, CommissionApproved}, "", EventCommissionUpdated},
	MoveRefund:      {[]CommissionStatus{CommissionPending, CommissionApproved, CommissionPaid}, "", EventCommissionRefunded},
	MoveClawBack:    {[]CommissionStatus{CommissionPaid}, CommissionRefunded, EventCommissionRefunded},
	MovePay:         {[]CommissionStatus{CommissionApproved}, CommissionPaid, EventCommissionPaid},
}

// From are the statuses in which the move may start.
func (m CommissionMove) From() []CommissionStatus { return slices.Clone(commissionMoves[m].from) }

// CommissionTransition asks for one move of one commission.
type CommissionTransition struct {
	Scope      Scope
	Program    ProgramID
	Commission CommissionID
	Move       CommissionMove
	Actor      Actor
	At         time.Time
	Reason     *string // MoveReject, MoveOverride; MoveClearReview: the note
	// Code is why, for programs: the rejection code of MoveReject, or what
	// ReviewPending puts in the history.
	Code *string
	// ReviewReasons are those that MoveFlag adds and MoveClearReview takes off.
	ReviewReasons []string
	// AmountCents is what MoveRefund leaves; Full says that nothing of the sale is
	// left; Why is refund or dispute_lost.
	AmountCents int64
	Full        bool
	Why         RefundReason
	// PaidAt and Payout belong to MovePay.
	PaidAt time.Time
	Payout *PayoutID
	// Standing and Erased are the participant's, for MoveAutoApprove.
	Standing ParticipantStatus
	Erased   bool
	// HeldBy is LockedCommission.HeldBy.
	HeldBy PayoutStatus
	// Note is what the history says where that is not Reason.
	Note *string
}

// RefundReason is why a sale came to nothing.
type RefundReason string

// The reasons.
const (
	RefundedSale RefundReason = "refund"
	DisputedSale RefundReason = "dispute_lost"
	// ReassignedSale: a person gave the conversion to somebody else.
	ReassignedSale RefundReason = "reattributed"
)

// Apply makes the move: the commission as it leaves it, or why it may not be
// made. The refusal of a move that no person makes is an accident of the caller,
// except that an automatic approval which is not due is COMMISSION_NOT_PENDING or
// COMMISSION_HOLD_ACTIVE like any other.
func (t CommissionTransition) Apply(c Commission) (Commission, *Error) {
	if refusal := t.refusal(c); refusal != nil {
		return c, refusal
	}
	if to := commissionMoves[t.Move].to; to != "" {
		c.Status = to
	}
	c.Version++
	c.UpdatedAt = t.At
	switch t.Move {
	case MoveApprove, MoveOverride, MoveAutoApprove:
		by := t.Actor.String()
		c.ApprovedAt, c.ApprovedBy = &t.At, &by
		c.NeedsReview, c.ReviewReasons = false, []string{}
		if t.Move == MoveOverride {
			c.OverrideReason, c.OverrideBy = t.Reason, t.Actor.User
		}
	case MoveReject:
		c.RejectedAt, c.RejectionReason, c.RejectionCode = &t.At, t.Reason, t.Code
		c.NeedsReview = false // nobody has to look any more; why somebody should have stays
	case MoveFlag:
		c.ReviewReasons = append(slices.Clone(c.ReviewReasons), t.newReasons(c)...)
		c.NeedsReview = true
	case MoveClearReview:
		c.ReviewReasons = slices.DeleteFunc(slices.Clone(c.ReviewReasons), t.clears)
		c.NeedsReview = len(c.ReviewReasons) > 0
	case MoveRefund:
		c.AmountCents = max(0, min(t.AmountCents, c.AmountCents))
		if t.Full {
			c.Status, c.AmountCents, c.RefundedAt, c.NeedsReview = CommissionRefunded, 0, &t.At, false
		}
	case MoveClawBack:
		c.AmountCents, c.RefundedAt, c.NeedsReview = 0, &t.At, false
	case MovePay:
		c.PaidAt, c.Payout = &t.PaidAt, t.Payout
	case MoveCreate:
		panic("affiliate: no move makes a commission")
	}
	if t.HeldBy.followsCommissions() && !c.payable() {
		c.Payout = nil
	}
	return c, nil
}

// payable reports whether a payout may hold the commission as it is.
func (c Commission) payable() bool {
	return (c.Status == CommissionApproved || c.Status == CommissionPaid) && !c.NeedsReview &&
		c.Dispute != DisputeOpen && c.Dispute != DisputeLost
}

// refusal says why the move may not be made of c. The first check that fails is
// the answer.
func (t CommissionTransition) refusal(c Commission) *Error {
	legal := slices.Contains(commissionMoves[t.Move].from, c.Status)
	switch t.Move {
	case MoveApprove:
		switch {
		case !legal:
			return c.refuse(ReasonCommissionNotPending)
		case c.HoldActive(t.At):
			return c.refuse(ReasonCommissionHoldActive)
		}
	case MoveOverride:
		switch {
		case !legal:
			return c.refuse(ReasonCommissionNotPending)
		case c.NeedsReview:
			return c.refuse(ReasonCommissionNeedsReview)
		case !c.HoldActive(t.At):
			return c.refuse(ReasonCommissionHoldNotActive)
		}
	case MoveAutoApprove:
		switch {
		case !legal:
			return c.refuse(ReasonCommissionNotPending)
		case !c.DueForApproval(t.At, t.Standing, t.Erased):
			return c.refuse(ReasonCommissionHoldActive)
		}
	case MoveClearReview:
		if !legal || !c.NeedsReview || len(t.ReviewReasons) > 0 && !slices.ContainsFunc(c.ReviewReasons, t.clears) {
			return c.refuse(ReasonCommissionNotFlagged)
		}
	case MoveFlag:
		if !legal || len(t.newReasons(c)) == 0 {
			return c.refuse(ReasonCommissionTerminal)
		}
	case MoveReject, MoveRefund, MoveClawBack, MovePay:
		if !legal {
			return c.refuse(ReasonCommissionTerminal)
		}
	case MoveCreate:
		panic("affiliate: no move makes a commission")
	}
	return nil
}

// clears reports whether MoveClearReview takes the reason off.
func (t CommissionTransition) clears(reason string) bool {
	return len(t.ReviewReasons) == 0 || slices.Contains(t.ReviewReasons, reason)
}

// newReasons are those of MoveFlag that the commission does not have.
func (t CommissionTransition) newReasons(c Commission) []string {
	var added []string
	for _, reason := range t.ReviewReasons {
		if !slices.Contains(c.ReviewReasons, reason) && !slices.Contains(added, reason) {
			added = append(added, reason)
		}
	}
	return added
}

// refuse says where the commission stands, so that lists of outcomes can show it.
func (c Commission) refuse(reason Reason) *Error {
	refused := refuseStatus(reason, c.Status)
	if reason == ReasonCommissionHoldActive && c.HoldUntil != nil {
		refused.Metadata["hold_until"] = FormatTime(*c.HoldUntil)
	}
	return refused
}

// DueForApproval reports whether the service itself approves at now: the hold
// is over, approval was not left to a person, and neither a flag, a dispute nor
// the participant's standing speaks against it. An erased participant is
// frozen, whatever its status.
func (c Commission) DueForApproval(now time.Time, standing ParticipantStatus, erased bool) bool {
	return c.Status == CommissionPending &&
		c.AutoApproveAt != nil && !now.Before(*c.AutoApproveAt) &&
		!c.HoldActive(now) &&
		!c.NeedsReview &&
		c.Dispute != DisputeOpen &&
		standing == ParticipantApproved && !erased
}
