package bundle

import (
	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// Commission is a commission. The fields from ExternalTransactionID on are internal to the
// merchant.
type Commission struct {
	ID                    affiliate.CommissionID  `json:"id"`
	WorkspaceID           affiliate.WorkspaceID   `json:"workspace_id"`
	ProgramID             affiliate.ProgramID     `json:"program_id"`
	ParticipantID         affiliate.ParticipantID `json:"participant_id"`
	ConversionID          affiliate.ConversionID  `json:"conversion_id"`
	ClickID               *affiliate.ClickID      `json:"click_id"`
	PayoutID              *affiliate.PayoutID     `json:"payout_id"`
	Mode                  affiliate.Mode          `json:"mode"`
	Status                string                  `json:"status"`
	CommissionType        string                  `json:"commission_type"`
	EventType             string                  `json:"event_type"`
	PromoCode             *string                 `json:"promo_code"`
	RateBps               *int64                  `json:"rate_bps"`
	FlatAmountCents       *int64                  `json:"flat_amount_cents"`
	AmountCents           int64                   `json:"amount_cents"`
	OriginalAmountCents   int64                   `json:"original_amount_cents"`
	Currency              string                  `json:"currency"`
	BaseAmountCents       int64                   `json:"base_amount_cents"`
	SaleAmountCents       int64                   `json:"sale_amount_cents"`
	SaleCurrency          string                  `json:"sale_currency"`
	FXRate                *string                 `json:"fx_rate"`
	FXDate                *Date                   `json:"fx_date"`
	RecurringIndex        *int                    `json:"recurring_index"`
	Customer              *string                 `json:"customer" db:"-"`
	CustomerRef           *string                 `json:"-"`
	RejectionCode         *string                 `json:"rejection_code"`
	HoldUntil             *Time                   `json:"hold_until"`
	ApprovedAt            *Time                   `json:"approved_at"`
	RejectedAt            *Time                   `json:"rejected_at"`
	PaidAt                *Time                   `json:"paid_at"`
	RefundedAt            *Time                   `json:"refunded_at"`
	CreatedAt             Time                    `json:"created_at"`
	UpdatedAt             Time                    `json:"updated_at"`
	ExternalTransactionID *string                 `json:"external_transaction_id,omitempty"`
	NeedsReview           *bool                   `json:"needs_review,omitempty"`
	ReviewReasons         []string                `json:"review_reasons,omitempty"`
	DisputeStatus         *string                 `json:"dispute_status,omitempty"`
	AutoApproveAt         *Time                   `json:"auto_approve_at,omitempty"`
	OverrideReason        *string                 `json:"override_reason,omitempty"`
	OverrideBy            *affiliate.ActorID      `json:"override_by,omitempty"`
	RejectionReason       *string                 `json:"rejection_reason,omitempty"`
	ApprovedBy            *string                 `json:"approved_by,omitempty"`
}

func (c *Commission) prepare(forPartner bool) {
	c.Customer = customer(c.WorkspaceID, c.Mode, c.CustomerRef)
	if forPartner {
		c.ExternalTransactionID, c.NeedsReview, c.ReviewReasons, c.DisputeStatus, c.AutoApproveAt = nil, nil, nil, nil, nil
		c.OverrideReason, c.OverrideBy, c.RejectionReason, c.ApprovedBy = nil, nil, nil, nil
	}
}

// CommissionChange is a change of a commission's status.
type CommissionChange struct {
	CommissionID affiliate.CommissionID `json:"commission_id"`
	Seq          int64                  `json:"seq"`
	At           Time                   `json:"at"`
	Actor        string                 `json:"actor"`
	FromStatus   *string                `json:"from_status"`
	ToStatus     string                 `json:"to_status"`
	AmountCents  int64                  `json:"amount_cents"`
	Reason       *string                `json:"reason"`
	Code         *string                `json:"code"`
}

// Payout is a payout to a participant.
type Payout struct {
	ID              affiliate.PayoutID      `json:"id"`
	WorkspaceID     affiliate.WorkspaceID   `json:"workspace_id"`
	BatchID         uuid.UUID               `json:"batch_id"`
	ProgramID       affiliate.ProgramID     `json:"program_id"`
	ParticipantID   affiliate.ParticipantID `json:"participant_id"`
	Mode            affiliate.Mode          `json:"mode"`
	AmountCents     int64                   `json:"amount_cents"`
	Currency        string                  `json:"currency"`
	CommissionCount int64                   `json:"commission_count"`
	AdjustmentCents int64                   `json:"adjustment_cents"`
	Status          string                  `json:"status"`
	Method          string                  `json:"method"`
	PayeeName       *string                 `json:"payee_name"` // of an erased partner
	AccountHint     *string                 `json:"account_hint"`
	Reference       *string                 `json:"reference"`
	FailureReason   *string                 `json:"failure_reason"`
	PeriodStart     *Time                   `json:"period_start"`
	PeriodEnd       *Time                   `json:"period_end"`
	InitiatedAt     *Time                   `json:"initiated_at"`
	PaidAt          *Time                   `json:"paid_at"`
	CreatedAt       Time                    `json:"created_at"`
	UpdatedAt       Time                    `json:"updated_at"`
}

// PayoutBatch is a batch of payouts.
type PayoutBatch struct {
	ID               uuid.UUID          `json:"id"`
	Mode             affiliate.Mode     `json:"mode"`
	Status           string             `json:"status"`
	Cutoff           Time               `json:"cutoff"`
	CreatedBy        affiliate.ActorID  `json:"created_by"`
	FirstConfirmedBy *affiliate.ActorID `json:"first_confirmed_by"`
	FirstConfirmedAt *Time              `json:"first_confirmed_at"`
	ConfirmedBy      *affiliate.ActorID `json:"confirmed_by"`
	CreatedAt        Time               `json:"created_at"`
	ConfirmedAt      *Time              `json:"confirmed_at"`
	CompletedAt      *Time              `json:"completed_at"`
}

// LedgerEntry is an entry of the ledger. CreatedBy is internal to the merchant.
type LedgerEntry struct {
	ID            uuid.UUID               `json:"id"`
	WorkspaceID   affiliate.WorkspaceID   `json:"workspace_id"`
	ProgramID     affiliate.ProgramID     `json:"program_id"`
	ParticipantID affiliate.ParticipantID `json:"participant_id"`
	Mode          affiliate.Mode          `json:"mode"`
	Type          string                  `json:"type"`
	AmountCents   int64                   `json:"amount_cents"`
	Currency      string                  `json:"currency"`
	CommissionID  *affiliate.CommissionID `json:"commission_id"`
	PayoutID      *affiliate.PayoutID     `json:"payout_id"`
	Reason        *string                 `json:"reason"`
	CreatedAt     Time                    `json:"created_at"`
	OccurredAt    *Time                   `json:"occurred_at"`
	CreatedBy     *string                 `json:"created_by,omitempty"`
}

func (e *LedgerEntry) prepare(forPartner bool) {
	if forPartner {
		e.CreatedBy = nil
	}
}
