// Package commission has the legal moves of commissions, and what follows from each: the
// history, the ledger entry, the events and the audit record.
package commission

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Status is the status of a commission.
type Status string

// The statuses of a commission (docs/contract.md#changes-of-a-commission).
const (
	Pending  Status = "pending"
	Approved Status = "approved"
	Rejected Status = "rejected"
	Paid     Status = "paid"
	Refunded Status = "refunded"
)

// DisputeStatus is the status of a card dispute about the sale.
type DisputeStatus string

// The statuses of a dispute.
const (
	DisputeNone DisputeStatus = "none"
	DisputeOpen DisputeStatus = "open"
	DisputeWon  DisputeStatus = "won"
	DisputeLost DisputeStatus = "lost"
)

// Commission is what a partner earns from one conversion.
type Commission struct {
	ID                    affiliate.CommissionID
	Scope                 affiliate.Scope
	Program               affiliate.ProgramID
	Participant           affiliate.ParticipantID
	Partner               affiliate.UserID
	Conversion            affiliate.ConversionID
	Decision              affiliate.DecisionID
	ExternalTransactionID string
	Click                 *affiliate.ClickID
	PromoCode             *string
	CustomerRef           *string
	Status                Status
	Type                  program.CommissionType
	EventType             affiliate.EventType
	RateBps               *int64 // Percentage only
	FlatCents             *int64 // Flat only
	AmountCents           int64  // earned now, minor units of Currency
	OriginalAmountCents   int64  // earned before any refund
	Currency              string
	BaseAmountCents       int64 // amount to which the rate was applied, minor units of SaleCurrency
	SaleAmountCents       int64
	SaleCurrency          string
	FXRate                *string // decimal; nil if nothing was converted
	FXDate                *time.Time
	RecurringIndex        *int
	NeedsReview           bool
	ReviewReasons         []string
	Dispute               DisputeStatus
	HoldUntil             *time.Time // nil if there is no hold period
	AutoApproveAt         *time.Time // nil if a person has to approve
	OverrideReason        *string
	OverrideBy            *affiliate.ActorID
	RejectionReason       *string
	RejectionCode         *string
	ApprovedAt            *time.Time
	ApprovedBy            *string // user id, or system
	RejectedAt            *time.Time
	PaidAt                *time.Time
	RefundedAt            *time.Time
	Payout                *affiliate.PayoutID // the open or paid payout that contains it
	Rule                  attribution.RuleSnapshot
	Version               int // increases by one with every change
	CreatedAt             time.Time
	UpdatedAt             time.Time
}

// HoldActive reports whether the hold period is still running. It ends exactly at
// HoldUntil.
func (c Commission) HoldActive(now time.Time) bool {
	return c.HoldUntil != nil && now.Before(*c.HoldUntil)
}

// ReversedCents returns the amount by which refunds have lowered the commission.
func (c Commission) ReversedCents() int64 { return c.OriginalAmountCents - c.AmountCents }

// Item is a commission with the names that lists show next to it.
type Item struct {
	Commission
	ProgramName  string
	PartnerName  string
	PartnerEmail string
	// CustomerLabel is the merchant's label of the customer; nil without a customer or label.
	CustomerLabel *string
	// ApprovedByName is the current name of ApprovedBy; nil for system and for a member who
	// has left the workspace.
	ApprovedByName *string
}

// Detail is a commission with its attribution and its history.
type Detail struct {
	Item
	OverrideByName *string // as ApprovedByName
	Attribution    Attribution
	History        []HistoryEntry // oldest first
}

// Attribution says why the partner earned the commission. It comes from
// Commission.Decision.
type Attribution struct {
	Method      *string
	ReasonCode  string
	Explanation string
	ClickedAt   *time.Time
	ExpiresAt   *time.Time
}

// HistoryEntry is one move of a commission.
type HistoryEntry struct {
	At     time.Time
	Actor  string  // user id, or system
	From   *Status // nil for the creation
	To     Status
	Reason *string
	Name   *string // of Actor, as Item.ApprovedByName
}
