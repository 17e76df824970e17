package bundle

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// ClickDay has the counts of a participant on one day (UTC), without clicks of bots.
type ClickDay struct {
	WorkspaceID   affiliate.WorkspaceID   `json:"workspace_id"`
	ProgramID     affiliate.ProgramID     `json:"program_id"`
	ParticipantID affiliate.ParticipantID `json:"participant_id"`
	Mode          affiliate.Mode          `json:"mode"`
	Day           Date                    `json:"day"`
	Clicks        int64                   `json:"clicks"`
	UniqueClicks  int64                   `json:"unique_clicks"`
	Signups       int64                   `json:"signups"`
	Conversions   int64                   `json:"conversions"`
}

// Click is a click on a link. It contains nothing that identifies the visitor.
type Click struct {
	ID             affiliate.ClickID       `json:"id"`
	WorkspaceID    affiliate.WorkspaceID   `json:"workspace_id"`
	ProgramID      affiliate.ProgramID     `json:"program_id"`
	ParticipantID  affiliate.ParticipantID `json:"participant_id"`
	LinkID         *affiliate.LinkID       `json:"link_id"`
	Mode           affiliate.Mode          `json:"mode"`
	ReferralCode   string                  `json:"referral_code"`
	ClickedAt      Time                    `json:"clicked_at"`
	ReceivedAt     Time                    `json:"received_at"`
	ExpiresAt      Time                    `json:"expires_at"`
	OccurredAt     *Time                   `json:"occurred_at"`
	LandingURL     *string                 `json:"landing_url"`
	ReferrerDomain *string                 `json:"referrer_domain"`
	UTMSource      *string                 `json:"utm_source"`
	UTMMedium      *string                 `json:"utm_medium"`
	UTMCampaign    *string                 `json:"utm_campaign"`
	UTMTerm        *string                 `json:"utm_term"`
	UTMContent     *string                 `json:"utm_content"`
	SubID          *string                 `json:"sub_id"`
	Consent        string                  `json:"consent"`
	Country        *string                 `json:"country"`
	Region         *string                 `json:"region"`
	Device         *string                 `json:"device"`
	Browser        *string                 `json:"browser"`
	OS             *string                 `json:"os"`
	PaidPlatform   *string                 `json:"paid_platform"`
	IsUnique       bool                    `json:"is_unique"`
	IsBot          bool                    `json:"is_bot"`
	BotReason      *string                 `json:"bot_reason"`
	ForeignOrigin  bool                    `json:"foreign_origin"`
}

// Conversion is a conversion with a pseudonym in place of the buyer. The fields from
// ExternalTransactionID on are internal to the merchant.
type Conversion struct {
	ID                    affiliate.ConversionID   `json:"id"`
	WorkspaceID           affiliate.WorkspaceID    `json:"workspace_id"`
	ProgramID             *affiliate.ProgramID     `json:"program_id"`
	ParticipantID         *affiliate.ParticipantID `json:"participant_id"`
	LinkID                *affiliate.LinkID        `json:"link_id"`
	ClickID               *affiliate.ClickID       `json:"click_id"`
	Mode                  affiliate.Mode           `json:"mode"`
	EventType             string                   `json:"event_type"`
	AmountCents           int64                    `json:"amount_cents"`
	Currency              *string                  `json:"currency"`
	OccurredAt            Time                     `json:"occurred_at"`
	CreatedAt             Time                     `json:"created_at"`
	Status                string                   `json:"status"`
	RefundedAmountCents   int64                    `json:"refunded_amount_cents"`
	Attributed            bool                     `json:"attributed"`
	ReasonCode            string                   `json:"reason_code"`
	PromoCode             *string                  `json:"promo_code"`
	SubID                 *string                  `json:"sub_id"`
	IsRecurring           bool                     `json:"is_recurring"`
	RecurringIndex        *int                     `json:"recurring_index"`
	Customer              *string                  `json:"customer" db:"-"`
	CustomerRef           *string                  `json:"-"`
	ExternalTransactionID *string                  `json:"external_transaction_id,omitempty"`
	Source                *string                  `json:"source,omitempty"`
	TaxCents              *int64                   `json:"tax_cents,omitempty"`
	ShippingCents         *int64                   `json:"shipping_cents,omitempty"`
	FeeCents              *int64                   `json:"fee_cents,omitempty"`
	DiscountCents         *int64                   `json:"discount_cents,omitempty"`
	ProductIDs            []string                 `json:"product_ids,omitempty"`
	FraudScore            *int                     `json:"fraud_score,omitempty"`
}

func (c *Conversion) prepare(forPartner bool) {
	c.Customer = customer(c.WorkspaceID, c.Mode, c.CustomerRef)
	if forPartner {
		c.ExternalTransactionID, c.Source, c.ProductIDs, c.FraudScore = nil, nil, nil, nil
		c.TaxCents, c.ShippingCents, c.FeeCents, c.DiscountCents = nil, nil, nil, nil
	}
}

// Refund is a reported refund.
type Refund struct {
	ID                    uuid.UUID               `json:"id"`
	Mode                  affiliate.Mode          `json:"mode"`
	ExternalRefundID      string                  `json:"external_refund_id"`
	ExternalTransactionID string                  `json:"external_transaction_id"`
	ConversionID          *affiliate.ConversionID `json:"conversion_id"`
	AskedCents            *int64                  `json:"asked_cents"`
	AmountCents           *int64                  `json:"amount_cents"`
	CreatedAt             Time                    `json:"created_at"`
	AppliedAt             *Time                   `json:"applied_at"`
	ExpiresAt             Time                    `json:"expires_at"`
}

// FraudEvent is the result of the fraud rules for a conversion of a participant.
type FraudEvent struct {
	ID            uuid.UUID               `json:"id"`
	WorkspaceID   affiliate.WorkspaceID   `json:"workspace_id"`
	ProgramID     affiliate.ProgramID     `json:"program_id"`
	ParticipantID affiliate.ParticipantID `json:"participant_id"`
	ConversionID  affiliate.ConversionID  `json:"conversion_id"`
	CommissionID  *affiliate.CommissionID `json:"commission_id"`
	Mode          affiliate.Mode          `json:"mode"`
	Score         int                     `json:"score"`
	Rules         json.RawMessage         `json:"rules"`
	Action        string                  `json:"action"`
	Status        string                  `json:"status"`
	Note          *string                 `json:"note"`
	ResolvedBy    *affiliate.UserID       `json:"resolved_by"`
	ResolvedAt    *Time                   `json:"resolved_at"`
	CreatedAt     Time                    `json:"created_at"`
}
