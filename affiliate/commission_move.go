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
//	                ▼         approve, auto-approve
//	            ┌─pending─────────────────────────────► approved ──[payout paid]──► paid
//	            │   │                                   │      │                     │
//	     reject │   │ [full refund, dispute lost]       │      │ [full refund,       │ [the same, with a
//	            │   ▼                                   │      ▼  dispute lost]      ▼  clawback]
//	            │ refunded                       reject │    refunded             refunded
//	            ▼                                       ▼
//	         rejected                                rejected
//
// rejected and refunded are the end; paid is the end for merchants. A
// conversion without hold and without a flag may start at approved.

// CommissionMove is something that is done with a commission.
type CommissionMove string

// The moves. Their words are the verbs of the audit log.
const (
	// MoveApprove: a person approves. A review flag does not stand in the way and
	// is cleared; a running hold does.
	MoveApprove CommissionMove = "approve"
	// MoveAutoApprove: the hold is over and nothing speaks against it.
	MoveAutoApprove CommissionMove = "auto_approve"
	// MoveReject: a person rejects, during the hold too.
	MoveReject CommissionMove = "reject"
)

// commissionMoves is the table of legal moves (DECISIONS.md section 1). What
// else a move demands stands in Refusal and DueForApproval.
var commissionMoves = map[CommissionMove]struct {
	from  []CommissionStatus
	to    CommissionStatus
	event EventName
}{
	MoveApprove:     {[]CommissionStatus{CommissionPending}, CommissionApproved, EventCommissionApproved},
	MoveAutoApprove: {[]CommissionStatus{CommissionPending}, CommissionApproved, EventCommissionApproved},
	MoveReject:      {[]CommissionStatus{CommissionPending, CommissionApproved}, CommissionRejected, EventCommissionRejected},
}

// From are the statuses in which the move may start.
func (m CommissionMove) From() []CommissionStatus { return slices.Clone(commissionMoves[m].from) }

// To is the status in which the move ends.
func (m CommissionMove) To() CommissionStatus { return commissionMoves[m].to }

// Event is what the world is told of the move.
func (m CommissionMove) Event() EventName { return commissionMoves[m].event }

// Refusal says why a person may not make the move at now, nil when nothing
// forbids it. The first check that fails is the answer.
func (c Commission) Refusal(m CommissionMove, now time.Time) *Error {
	switch m {
	case MoveApprove:
		if !slices.Contains(commissionMoves[m].from, c.Status) {
			return c.refuse(ReasonCommissionNotPending, "status", string(c.Status))
		}
		if c.HoldActive(now) {
			return c.refuse(ReasonCommissionHoldActive, "hold_until", FormatTime(*c.HoldUntil))
		}
		return nil
	case MoveReject:
		if !slices.Contains(commissionMoves[m].from, c.Status) {
			return c.refuse(ReasonCommissionTerminal, "status", string(c.Status))
		}
		return nil
	case MoveAutoApprove:
	}
	panic("affiliate: no person makes the move " + string(m))
}

func (c Commission) refuse(reason Reason, key, value string) *Error {
	return &Error{Reason: reason, Metadata: map[string]string{key: value}}
}

// DueForApproval reports whether the service itself approves at now: the hold
// is over, approval was not left to a person, and neither a flag, a dispute nor
// the participant's standing speaks against it. An erased participant is
// frozen, whatever its status. The sweep asks the same inside its UPDATE.
func (c Commission) DueForApproval(now time.Time, standing ParticipantStatus, erased bool) bool {
	return c.Status == CommissionPending &&
		c.AutoApproveAt != nil && !now.Before(*c.AutoApproveAt) &&
		!c.HoldActive(now) &&
		!c.NeedsReview &&
		c.Dispute != DisputeOpen &&
		standing == ParticipantApproved && !erased
}

// CommissionTransition asks for one move of one commission.
type CommissionTransition struct {
	Scope      Scope
	Program    ProgramID
	Commission CommissionID
	Move       CommissionMove
	Actor      Actor
	At         time.Time
	Reason     *string // MoveReject, for the history too
	Code       *string // MoveReject
}
