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

// Commission is what a partner earns from one conversion. It is a row of commissions.
type Commission struct {
	ID affiliate.CommissionID `db:"id,fixed"`
	affiliate.Scope
	Program               affiliate.ProgramID     `db:"program_id,fixed"`
	Participant           affiliate.ParticipantID `db:"participant_id,fixed"`
	Partner               affiliate.UserID        `db:"partner_id,fixed"`
	Conversion            affiliate.ConversionID  `db:"conversion_id,fixed"`
	Decision              affiliate.DecisionID    `db:"decision_id,fixed"`
	ExternalTransactionID string                  `db:"external_transaction_id,fixed"`
	Click                 *affiliate.ClickID      `db:"click_id,fixed"`
	PromoCode             *string                 `db:"promo_code,fixed"`
	CustomerRef           *string                 `db:"customer_ref,fixed"`
	Status                Status
	Type                  program.CommissionType `db:"commission_type,fixed"`
	EventType             affiliate.EventType    `db:"event_type,fixed"`
	RateBps               *int64                 `db:"rate_bps,fixed"`          // Percentage only
	FlatCents             *int64                 `db:"flat_amount_cents,fixed"` // Flat only
	AmountCents           int64                  // earned now, minor units of Currency
	OriginalAmountCents   int64                  `db:"original_amount_cents,fixed"` // earned before any refund
	Currency              string                 `db:"currency,fixed"`
	BaseAmountCents       int64                  `db:"base_amount_cents,fixed"` // amount to which the rate was applied, minor units of SaleCurrency
	SaleAmountCents       int64                  `db:"sale_amount_cents,fixed"`
	SaleCurrency          string                 `db:"sale_currency,fixed"`
	FXRate                *string                `db:"fx_rate,fixed"` // decimal; nil if nothing was converted
	FXDate                *time.Time             `db:"fx_date,fixed"`
	RecurringIndex        *int                   `db:"recurring_index,fixed"`
	NeedsReview           bool
	ReviewReasons         []string
	Dispute               DisputeStatus `db:"dispute_status"`
	HoldUntil             *time.Time    `db:"hold_until,fixed"`      // nil if there is no hold period
	AutoApproveAt         *time.Time    `db:"auto_approve_at,fixed"` // nil if a person has to approve
	OverrideReason        *string
	OverrideBy            *affiliate.ActorID
	RejectionReason       *string
	RejectionCode         *string
	ApprovedAt            *time.Time
	ApprovedBy            *string // user id, or system
	RejectedAt            *time.Time
	PaidAt                *time.Time
	RefundedAt            *time.Time
	Payout                *affiliate.PayoutID      `db:"payout_id"` // the open or paid payout that contains it
	Rule                  attribution.RuleSnapshot `db:"rule_snapshot,fixed"`
	Version               int                      // increases by one with every change
	CreatedAt             time.Time                `db:"created_at,fixed"`
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
	Attribution
	OverrideByName *string        // as ApprovedByName
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
