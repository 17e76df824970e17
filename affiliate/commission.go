package affiliate

import "time"

// CommissionStatus is where a commission stands.
type CommissionStatus string

// The statuses of a commission (SPEC.md section 3).
const (
	CommissionPending  CommissionStatus = "pending"
	CommissionApproved CommissionStatus = "approved"
	CommissionRejected CommissionStatus = "rejected"
	CommissionPaid     CommissionStatus = "paid"
	CommissionRefunded CommissionStatus = "refunded"
)

// DisputeStatus is where a card dispute about the sale stands.
type DisputeStatus string

// The statuses of a dispute.
const (
	DisputeNone DisputeStatus = "none"
	DisputeOpen DisputeStatus = "open"
	DisputeWon  DisputeStatus = "won"
	DisputeLost DisputeStatus = "lost"
)

// RuleSnapshot is the rules that made a commission; today's never change it.
type RuleSnapshot struct {
	Version int   `json:"version"`
	Rules   Rules `json:"rules"`
	// Override is the participant's own rate, Group its group's; nil without one.
	Override *Rate      `json:"override,omitempty"`
	Group    *GroupRate `json:"group,omitempty"`
	// Source says what gave the rate.
	Source RateSource `json:"source,omitempty"`
}

// GroupRate is a group as a snapshot keeps it.
type GroupRate struct {
	ID   GroupID `json:"id"`
	Name string  `json:"name"`
	Rate
}

// RateSource is what gave a commission its rate, the most specific first
// (DECISIONS.md section 6).
type RateSource string

// The sources. The last three are all of the programme: the rate of the event,
// the rate from the second payment on, its own.
const (
	FromParticipant RateSource = "participant"
	FromProduct     RateSource = "product"
	FromGroup       RateSource = "group"
	FromTier        RateSource = "tier"
	FromEvent       RateSource = "event"
	FromLater       RateSource = "later"
	FromProgram     RateSource = "program"
	// FromMixed: the lines of one order have rates of different sources.
	FromMixed RateSource = "mixed"
)

// Commission is what a partner earns by one conversion.
type Commission struct {
	ID                    CommissionID
	Scope                 Scope
	Program               ProgramID
	Participant           ParticipantID
	Partner               UserID
	Conversion            ConversionID
	Decision              DecisionID
	ExternalTransactionID string
	Click                 *ClickID
	PromoCode             *string
	CustomerRef           *string
	Status                CommissionStatus
	Type                  CommissionType
	EventType             EventType
	RateBps               *int64 // Percentage only
	FlatCents             *int64 // Flat only
	AmountCents           int64  // earned now, minor units of Currency
	OriginalAmountCents   int64  // earned before any refund
	Currency              string
	BaseAmountCents       int64 // what the rate was applied to, minor units of SaleCurrency
	SaleAmountCents       int64
	SaleCurrency          string
	FXRate                *string // decimal; nil without conversion
	FXDate                *time.Time
	RecurringIndex        *int
	NeedsReview           bool
	ReviewReasons         []string
	Dispute               DisputeStatus
	HoldUntil             *time.Time // nil: no hold
	AutoApproveAt         *time.Time // nil: a person approves
	OverrideReason        *string
	OverrideBy            *UserID
	RejectionReason       *string
	RejectionCode         *string
	ApprovedAt            *time.Time
	ApprovedBy            *string // user id, or system
	RejectedAt            *time.Time
	PaidAt                *time.Time
	RefundedAt            *time.Time
	Payout                *PayoutID // the open or paid payout that holds it
	Rule                  RuleSnapshot
	Version               int // one more with every change
	CreatedAt             time.Time
	UpdatedAt             time.Time
}

// HoldActive reports whether the refund hold still runs. It is over at
// HoldUntil itself.
func (c Commission) HoldActive(now time.Time) bool {
	return c.HoldUntil != nil && now.Before(*c.HoldUntil)
}

// ReversedCents is what refunds have taken off.
func (c Commission) ReversedCents() int64 { return c.OriginalAmountCents - c.AmountCents }

// CommissionItem is a commission with the names that lists show beside it.
type CommissionItem struct {
	Commission
	ProgramName  string
	PartnerName  string
	PartnerEmail string
}

// CommissionDetail is a commission with all that is known of it.
type CommissionDetail struct {
	CommissionItem
	Attribution CommissionAttribution
	History     []CommissionHistoryEntry // oldest first
}

// CommissionAttribution is why the partner earned it, from the decision that
// the commission names.
type CommissionAttribution struct {
	Method      *string
	ReasonCode  string
	Explanation string
	ClickedAt   *time.Time
	ExpiresAt   *time.Time
}

// CommissionHistoryEntry is one move that a commission made.
type CommissionHistoryEntry struct {
	At     time.Time
	Actor  string            // user id, or system
	From   *CommissionStatus // nil: it was created
	To     CommissionStatus
	Reason *string
}
