package commission

import (
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/payout"
)

// The statuses of a commission and the moves between them. Moves in brackets are caused
// by payouts, refunds and disputes.
//
//	      attributed conversion
//	                │
//	                ▼         approve, approve_override, auto_approve
//	            ┌─pending─────────────────────────────► approved ──[payout paid]──► paid
//	            │   │                                   │      │                     │
//	     reject │   │ [full refund, dispute lost]       │      │ [full refund,       │ [full refund,
//	            │   ▼                                   │      ▼  dispute lost]      ▼  dispute lost]
//	            │ refunded                       reject │    refunded             refunded
//	            ▼                                       ▼
//	         rejected                                rejected
//
// A refund of a paid commission adds a clawback to the ledger.
//
// The status rejected is final. The status refunded ends only if the refund fails later
// (MoveRestore). A merchant cannot approve, reject or flag a paid commission, but can assign
// its conversion to another participant. The commission is then clawed back: it becomes
// refunded. A commission without hold period and review flag may start as approved. Setting or
// clearing a review flag and partial refunds do not change the status.
//
// One function makes every move (Transition.Apply). The ledger entries, counts and events
// of a move are computed from the commission before and after it (Change).

// Move is an action on a commission.
type Move string

// The moves. Their values are the verbs in the audit log.
const (
	// MoveCreate creates the commission.
	MoveCreate Move = "create"
	// MoveApprove is the approval by a person after the hold. It clears a review flag.
	MoveApprove Move = "approve"
	// MoveOverride is the approval by a person during the hold. The hold continues and keeps the
	// commission out of payouts. A commission with a review flag cannot be approved in this way.
	MoveOverride Move = "approve_override"
	// MoveAutoApprove is the approval after the hold period, see DueForApproval.
	MoveAutoApprove Move = "auto_approve"
	// MoveReject is the rejection by a person. It is also allowed during the hold period.
	MoveReject Move = "reject"
	// MoveFlag flags the commission for a review by a person. It adds ReviewReasons.
	MoveFlag Move = "flag"
	// MoveClearReview removes ReviewReasons, or all reasons except ReviewDispute if
	// ReviewReasons is empty. It is made after a person has reviewed the commission, or when a
	// reason no longer exists. The commission must have at least one of the reasons.
	MoveClearReview Move = "clear_review"
	// MoveRefund is the effect of a refund of the sale. The commission earns
	// AmountCents from now on, and gets the status refunded if Full is set.
	MoveRefund Move = "refund"
	// MoveClawBack takes back a paid commission, because its conversion was reassigned.
	MoveClawBack Move = "claw_back"
	// MoveRestore is the effect of a refund that has failed later. The commission earns
	// AmountCents again, with its status before the refund.
	MoveRestore Move = "restore"
	// MoveDispute opens a dispute about the sale. It requires a review with the reason
	// ReviewDispute and keeps the commission out of payouts.
	MoveDispute Move = "dispute"
	// MoveResolveDispute ends the dispute with the status Transition.Dispute, and removes the reason ReviewDispute.
	MoveResolveDispute Move = "resolve_dispute"
	// MovePay marks the commission as paid because its payout was paid.
	MovePay Move = "pay"
)

// ReviewDispute is the review reason of a commission whose sale is disputed. A person
// cannot clear it. It ends with the dispute.
const ReviewDispute = "dispute"

// allStatuses are the statuses in which a dispute can begin and end. A rejected or
// refunded commission only records the status of the dispute.
var allStatuses = []Status{Pending, Approved, Rejected, Paid, Refunded}

// commissionMoves lists the legal moves (docs/contract.md#changes-of-a-commission). If the field to is empty,
// the move keeps the status, or the method refund sets it. The method refusal checks all other conditions.
var commissionMoves = map[Move]struct {
	from  []Status
	to    Status
	event affiliate.EventName
}{
	MoveApprove:     {[]Status{Pending}, Approved, affiliate.EventCommissionApproved},
	MoveOverride:    {[]Status{Pending}, Approved, affiliate.EventCommissionApproved},
	MoveAutoApprove: {[]Status{Pending}, Approved, affiliate.EventCommissionApproved},
	MoveReject:      {[]Status{Pending, Approved}, Rejected, affiliate.EventCommissionRejected},
	MoveFlag:        {[]Status{Pending, Approved}, "", affiliate.EventCommissionReviewRequired},
	MoveClearReview: {[]Status{Pending, Approved}, "", affiliate.EventCommissionUpdated},
	MoveRefund:      {[]Status{Pending, Approved, Paid}, "", affiliate.EventCommissionRefunded},
	MoveClawBack:    {[]Status{Paid}, Refunded, affiliate.EventCommissionRefunded},
	MoveRestore: {
		[]Status{Pending, Approved, Paid, Refunded}, "", affiliate.EventCommissionUpdated,
	},
	MoveDispute:        {allStatuses, "", affiliate.EventCommissionDisputed},
	MoveResolveDispute: {allStatuses, "", affiliate.EventCommissionDisputeResolved},
	MovePay:            {[]Status{Approved}, Paid, affiliate.EventCommissionPaid},
}

// From returns the statuses in which the move is legal.
func (m Move) From() []Status { return slices.Clone(commissionMoves[m].from) }

// Transition is a request for one move of one commission.
type Transition struct {
	Scope      affiliate.Scope
	Program    affiliate.ProgramID
	Commission affiliate.CommissionID
	Move       Move
	Actor      affiliate.Actor
	At         time.Time
	// OccurredAt is when the event that causes the move happened, according to the reporter of
	// the event. It is nil if no event causes the move, or if the time is unknown.
	OccurredAt *time.Time
	Reason     *string // the reason of MoveReject or MoveOverride, or the note of MoveClearReview
	// Code is the rejection code, or the code that ReviewPending writes into the history.
	Code *string
	// ReviewReasons are the reasons that MoveFlag adds and MoveClearReview removes.
	ReviewReasons []string
	// AmountCents is the amount that remains after a refund, or after the failure of a refund.
	// Full means a full refund.
	AmountCents int64
	Full        bool
	// Dispute is the status of the dispute after MoveResolveDispute.
	Dispute DisputeStatus
	// RefundReason is the cause of MoveRefund or MoveClawBack.
	RefundReason RefundReason
	// PaidAt and Payout are set for MovePay.
	PaidAt time.Time
	Payout *affiliate.PayoutID
	// ParticipantStatus and ParticipantErased are only used for MoveAutoApprove.
	ParticipantStatus participant.Status
	ParticipantErased bool
	// PayoutStatus has the same meaning as Locked.PayoutStatus.
	PayoutStatus payout.Status
	// Note is the text for the history. If it is nil, the history shows Reason.
	Note *string
}

// RefundReason says why the amount of a commission was reduced.
type RefundReason string

// The reasons.
const (
	RefundedSale RefundReason = "refund"
	DisputedSale RefundReason = "dispute_lost"
	// ReassignedSale means that a person assigned the conversion to another participant.
	ReassignedSale RefundReason = "reattributed"
)

// Apply returns the commission after the move, or an error if the move is not legal. If the
// service itself makes a move that is not legal, callers treat this as an internal error. The
// exception is an automatic approval that is not due: it fails with COMMISSION_NOT_PENDING or
// COMMISSION_HOLD_ACTIVE.
func (t Transition) Apply(c Commission) (Commission, *affiliate.Error) {
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
		c = t.approve(c)
	case MoveReject:
		c.RejectedAt, c.RejectionReason, c.RejectionCode = &t.At, t.Reason, t.Code
		c.NeedsReview = false // no review is needed any more; ReviewReasons still shows why one was needed
	case MoveFlag:
		c.ReviewReasons = append(slices.Clone(c.ReviewReasons), t.newReasons(c)...)
		c.NeedsReview = true
	case MoveClearReview:
		c.ReviewReasons = slices.DeleteFunc(slices.Clone(c.ReviewReasons), t.clears)
		c.NeedsReview = len(c.ReviewReasons) > 0
	case MoveDispute, MoveResolveDispute:
		c = t.dispute(c)
	case MoveRefund, MoveClawBack, MoveRestore:
		c = t.refund(c)
	case MovePay:
		c.PaidAt, c.Payout = &t.PaidAt, t.Payout
	case MoveCreate:
		panic("affiliate: MoveCreate cannot be applied to a commission")
	}
	if t.PayoutStatus.FollowsCommissions() && !c.payable() {
		c.Payout = nil
	}
	return c, nil
}

// approve returns the commission after an approval.
func (t Transition) approve(c Commission) Commission {
	by := t.Actor.String()
	c.ApprovedAt, c.ApprovedBy = &t.At, &by
	c.NeedsReview, c.ReviewReasons = false, []string{}
	if t.Move == MoveOverride {
		c.OverrideReason, c.OverrideBy = t.Reason, t.Actor.ID()
	}
	return c
}

// dispute returns the commission after the beginning or the end of a dispute.
func (t Transition) dispute(c Commission) Commission {
	if t.Move == MoveDispute {
		c.Dispute, c.NeedsReview = DisputeOpen, c.reviewable()
		if !slices.Contains(c.ReviewReasons, ReviewDispute) {
			c.ReviewReasons = append(slices.Clone(c.ReviewReasons), ReviewDispute)
		}
		return c
	}
	reasons := slices.DeleteFunc(slices.Clone(c.ReviewReasons), func(reason string) bool { return reason == ReviewDispute })
	c.Dispute, c.NeedsReview, c.ReviewReasons = t.Dispute, c.reviewable() && len(reasons) > 0, reasons
	return c
}

// refund returns the commission after a move that changes its amount.
func (t Transition) refund(c Commission) Commission {
	switch {
	case t.Move == MoveClawBack:
		c.AmountCents, c.RefundedAt, c.NeedsReview = 0, &t.At, false
	case t.Move == MoveRestore:
		c.AmountCents = min(t.AmountCents, c.OriginalAmountCents)
		if c.Status == Refunded {
			c = c.beforeRefund(t)
		}
	case t.Full:
		c.Status, c.AmountCents, c.RefundedAt, c.NeedsReview = Refunded, 0, &t.At, false
	default:
		c.AmountCents = max(0, min(t.AmountCents, c.AmountCents))
	}
	return c
}

// beforeRefund returns a refunded commission with its status before the refund. The status is
// also paid if the commission's payout was sent before the refund and paid after it.
func (c Commission) beforeRefund(t Transition) Commission {
	c.RefundedAt = nil
	switch {
	case c.PaidAt != nil:
		c.Status = Paid
	case t.PayoutStatus == payout.Paid:
		c.Status, c.PaidAt = Paid, &t.At
	case c.ApprovedAt != nil:
		c.Status = Approved
	default:
		c.Status = Pending
	}
	c.NeedsReview = c.reviewable() && len(c.ReviewReasons) > 0
	return c
}

// reviewable reports whether a person can still decide about the commission.
func (c Commission) reviewable() bool {
	return c.Status == Pending || c.Status == Approved
}

// payable reports whether the commission may be part of a payout. A lost dispute has
// already lowered the commission, so what is left of it can be paid.
func (c Commission) payable() bool {
	return (c.Status == Approved || c.Status == Paid) && !c.NeedsReview && c.Dispute != DisputeOpen
}

// refusal returns the error of the first check that fails, or nil if the move is legal for c.
func (t Transition) refusal(c Commission) *affiliate.Error {
	legal := slices.Contains(commissionMoves[t.Move].from, c.Status)
	switch t.Move {
	case MoveApprove:
		switch {
		case !legal:
			return c.refuse(affiliate.ReasonCommissionNotPending)
		case c.HoldActive(t.At) || c.Dispute == DisputeOpen:
			return c.refuse(affiliate.ReasonCommissionHoldActive)
		}
	case MoveOverride:
		switch {
		case !legal:
			return c.refuse(affiliate.ReasonCommissionNotPending)
		case c.NeedsReview:
			return c.refuse(affiliate.ReasonCommissionNeedsReview)
		case !c.HoldActive(t.At):
			return c.refuse(affiliate.ReasonCommissionHoldNotActive)
		}
	case MoveAutoApprove:
		switch {
		case !legal:
			return c.refuse(affiliate.ReasonCommissionNotPending)
		case !c.DueForApproval(t.At, t.ParticipantStatus, t.ParticipantErased):
			return c.refuse(affiliate.ReasonCommissionHoldActive)
		}
	case MoveClearReview:
		if !legal || !c.NeedsReview || len(t.ReviewReasons) > 0 && !slices.ContainsFunc(c.ReviewReasons, t.clears) {
			return c.refuse(affiliate.ReasonCommissionNotFlagged)
		}
	case MoveDispute:
		if !legal || c.Dispute == DisputeOpen {
			return c.refuse(affiliate.ReasonCommissionTerminal)
		}
	case MoveResolveDispute:
		if !legal || t.Dispute == DisputeOpen || c.Dispute == t.Dispute {
			return c.refuse(affiliate.ReasonCommissionTerminal)
		}
	case MoveRestore:
		if !legal || t.AmountCents < c.AmountCents {
			return c.refuse(affiliate.ReasonCommissionTerminal)
		}
	case MoveFlag:
		if !legal || len(t.newReasons(c)) == 0 {
			return c.refuse(affiliate.ReasonCommissionTerminal)
		}
	case MoveReject, MoveRefund, MoveClawBack, MovePay:
		if !legal {
			return c.refuse(affiliate.ReasonCommissionTerminal)
		}
	case MoveCreate:
		panic("affiliate: MoveCreate cannot be applied to a commission")
	}
	return nil
}

// clears reports whether MoveClearReview removes the reason. The reason of a dispute ends
// with the dispute, so MoveClearReview keeps it.
func (t Transition) clears(reason string) bool {
	return reason != ReviewDispute && (len(t.ReviewReasons) == 0 || slices.Contains(t.ReviewReasons, reason))
}

// newReasons returns the reasons of MoveFlag that the commission does not have yet.
func (t Transition) newReasons(c Commission) []string {
	var added []string
	for _, reason := range t.ReviewReasons {
		if !slices.Contains(c.ReviewReasons, reason) && !slices.Contains(added, reason) {
			added = append(added, reason)
		}
	}
	return added
}

// refuse returns an error with the commission's status, which bulk results show.
func (c Commission) refuse(reason affiliate.Reason) *affiliate.Error {
	refused := affiliate.RefuseStatus(reason, c.Status)
	if reason == affiliate.ReasonCommissionHoldActive && c.HoldUntil != nil {
		refused.Metadata[affiliate.HoldUntil] = affiliate.FormatTime(*c.HoldUntil)
		refused.Message = "The hold period ends at " + affiliate.FormatTime(*c.HoldUntil) + ". Approve the commission then, or approve it early."
	}
	return refused
}

// DueForApproval reports whether the service may approve the commission automatically at the
// given time. The parameters status and erased describe the participant. An automatic approval
// needs a pending commission whose hold has ended, rules that approve automatically, an
// approved participant who is not erased, and neither a review flag nor an open dispute.
func (c Commission) DueForApproval(now time.Time, status participant.Status, erased bool) bool {
	return c.Status == Pending &&
		c.AutoApproveAt != nil && !now.Before(*c.AutoApproveAt) &&
		!c.HoldActive(now) &&
		!c.NeedsReview &&
		c.Dispute != DisputeOpen &&
		status == participant.Approved && !erased
}
