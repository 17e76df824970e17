package bundle

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
)

// Workspace is the account of a merchant.
type Workspace struct {
	ID               affiliate.WorkspaceID `json:"id"`
	Name             string                `json:"name"`
	Currency         string                `json:"currency"`
	Timezone         string                `json:"timezone"`
	AllowedOrigins   []string              `json:"allowed_origins"`
	OriginPolicy     string                `json:"origin_policy"`
	TestMailRedirect *string               `json:"test_mail_redirect"`
	// SecondPersonAboveCents is in minor units.
	SecondPersonAboveCents *int64 `json:"second_person_above_cents"`
	RequireSecondFactor    bool   `json:"require_second_factor"`
	BooksClosedUntil       *Time  `json:"books_closed_until"`
	RetainPayeeYears       int    `json:"retain_payee_years"`
	CreatedAt              Time   `json:"created_at"`
	UpdatedAt              Time   `json:"updated_at"`
}

// Member is a member of a workspace with the account.
type Member struct {
	UserID          affiliate.UserID `json:"user_id"`
	Email           string           `json:"email"`
	Name            string           `json:"name"`
	Role            affiliate.Role   `json:"role"`
	EmailVerifiedAt *Time            `json:"email_verified_at"`
	SecondFactorAt  *Time            `json:"second_factor_at"`
	AccountAt       Time             `json:"account_created_at"`
	JoinedAt        Time             `json:"joined_at"`
}

// MemberInvite is an invitation to a workspace.
type MemberInvite struct {
	ID        uuid.UUID        `json:"id"`
	Email     string           `json:"email"`
	Role      affiliate.Role   `json:"role"`
	InvitedBy affiliate.UserID `json:"invited_by"`
	CreatedAt Time             `json:"created_at"`
	ExpiresAt Time             `json:"expires_at"`
	EndedAt   *Time            `json:"ended_at"`
}

// APIKey is an API key without the key. The text of a public key is not secret.
type APIKey struct {
	ID         affiliate.APIKeyID `json:"id"`
	Mode       affiliate.Mode     `json:"mode"`
	Kind       string             `json:"kind"`
	Name       string             `json:"name"`
	PublicText *string            `json:"public_key"`
	Prefix     string             `json:"prefix"`
	Last4      string             `json:"last4"`
	CreatedAt  Time               `json:"created_at"`
	LastUsedAt *Time              `json:"last_used_at"`
	ExpiresAt  *Time              `json:"expires_at"`
	RevokedAt  *Time              `json:"revoked_at"`
	RolledAt   *Time              `json:"rolled_at"`
}

// ServiceToken is a service token without the token.
type ServiceToken struct {
	ID               affiliate.ServiceTokenID `json:"id"`
	Mode             affiliate.Mode           `json:"mode"`
	Name             string                   `json:"name"`
	Role             affiliate.Role           `json:"role"`
	AllowPayouts     bool                     `json:"allow_payouts"`
	Prefix           string                   `json:"prefix"`
	Last4            string                   `json:"last4"`
	CreatedBy        affiliate.UserID         `json:"created_by"`
	CreatedAt        Time                     `json:"created_at"`
	ExpiresAt        Time                     `json:"expires_at"`
	RevokedAt        *Time                    `json:"revoked_at"`
	RolledAt         *Time                    `json:"rolled_at"`
	LastUsedAt       *Time                    `json:"last_used_at"`
	LastUsedIPPrefix *string                  `db:"last_used_ip_prefix" json:"last_used_ip_prefix"`
}

// Endpoint is a webhook endpoint without its secrets.
type Endpoint struct {
	ID             affiliate.EndpointID `json:"id"`
	Mode           affiliate.Mode       `json:"mode"`
	URL            string               `json:"url"`
	Description    *string              `json:"description"`
	Subscriptions  []string             `json:"subscriptions"`
	Active         bool                 `json:"active"`
	DisabledReason *string              `json:"disabled_reason"`
	LastDeliveryAt *Time                `json:"last_delivery_at"`
	CreatedAt      Time                 `json:"created_at"`
	UpdatedAt      Time                 `json:"updated_at"`
	DeletedAt      *Time                `json:"deleted_at"`
}

// ProcessorConnection is a connected account at a payment processor without the key and the
// secrets.
type ProcessorConnection struct {
	ID                processor.ConnectionID `json:"id"`
	Mode              affiliate.Mode         `json:"mode"`
	Processor         string                 `json:"processor"`
	AccountID         string                 `json:"account_id"`
	CreateConversions bool                   `json:"create_conversions"`
	IncludeOutOfBand  bool                   `json:"include_out_of_band"`
	ConnectedAt       Time                   `json:"connected_at"`
	UpdatedAt         Time                   `json:"updated_at"`
	DeletedAt         *Time                  `json:"deleted_at"`
}

// Program is a programme with its present rules.
type Program struct {
	ID                    affiliate.ProgramID `json:"id"`
	Mode                  affiliate.Mode      `json:"mode"`
	Name                  string              `json:"name"`
	Slug                  string              `json:"slug"`
	Description           *string             `json:"description"`
	Status                string              `json:"status"`
	WebsiteURL            *string             `json:"website_url"`
	AllowedDomains        []string            `json:"allowed_domains"`
	LandingURL            *string             `json:"landing_url"`
	Currency              string              `json:"currency"`
	AttributionWindowDays int                 `json:"attribution_window_days"`
	AttributionModel      string              `json:"attribution_model"`
	SignalPrecedence      string              `json:"signal_precedence"`
	LinkParam             string              `json:"link_param"`
	AutoApprovePartners   bool                `json:"auto_approve_partners"`
	IsPublic              bool                `json:"is_public"`
	Rules                 json.RawMessage     `json:"rules"`
	RulesVersion          int                 `json:"rules_version"`
	TermsURL              *string             `json:"terms_url"`
	MinPayoutCents        int64               `json:"min_payout_cents"`
	PayoutTermDays        int                 `json:"payout_term_days"`
	FraudPolicy           string              `json:"fraud_policy"`
	FraudSettings         json.RawMessage     `json:"fraud_settings"`
	CreatedAt             Time                `json:"created_at"`
	UpdatedAt             Time                `json:"updated_at"`
}

// Group is a group of participants with their rate.
type Group struct {
	ID              affiliate.GroupID   `json:"id"`
	ProgramID       affiliate.ProgramID `json:"program_id"`
	Name            string              `json:"name"`
	RateBps         *int64              `json:"rate_bps"`
	FlatAmountCents *int64              `json:"flat_amount_cents"`
	CreatedAt       Time                `json:"created_at"`
	UpdatedAt       Time                `json:"updated_at"`
}

// RuleVersion is a version of the rules of a programme that was in force.
type RuleVersion struct {
	ProgramID affiliate.ProgramID `json:"program_id"`
	Version   int64               `json:"version"`
	Rules     json.RawMessage     `json:"rules"`
	At        Time                `json:"at"`
	By        affiliate.UserID    `json:"by"`
}

// ParticipantInvite is an invitation to a programme.
type ParticipantInvite struct {
	ID           uuid.UUID           `json:"id"`
	ProgramID    affiliate.ProgramID `json:"program_id"`
	Mode         affiliate.Mode      `json:"mode"`
	Email        string              `json:"email"`
	GroupID      *affiliate.GroupID  `json:"group_id"`
	ReferralCode *string             `json:"referral_code"`
	InvitedBy    affiliate.UserID    `json:"invited_by"`
	CreatedAt    Time                `json:"created_at"`
	ExpiresAt    Time                `json:"expires_at"`
	EndedAt      *Time               `json:"ended_at"`
}

// Participation is a partner in a programme. The fields from GroupID on are internal to the
// merchant.
type Participation struct {
	ID                      affiliate.ParticipantID `json:"id"`
	WorkspaceID             affiliate.WorkspaceID   `json:"workspace_id"`
	ProgramID               affiliate.ProgramID     `json:"program_id"`
	Mode                    affiliate.Mode          `json:"mode"`
	PartnerID               *affiliate.UserID       `json:"partner_id"`
	PartnerName             string                  `json:"partner_name"`
	PartnerEmail            string                  `json:"partner_email"`
	Status                  string                  `json:"status"`
	ReferralCode            string                  `json:"referral_code"`
	ApplicationAnswers      json.RawMessage         `json:"application_answers"`
	TermsAcceptedAt         *Time                   `json:"terms_accepted_at"`
	AppliedAt               Time                    `json:"applied_at"`
	ApprovedAt              *Time                   `json:"approved_at"`
	RejectedAt              *Time                   `json:"rejected_at"`
	SuspendedAt             *Time                   `json:"suspended_at"`
	ErasedAt                *Time                   `json:"erased_at"`
	CreatedAt               Time                    `json:"created_at"`
	UpdatedAt               Time                    `json:"updated_at"`
	PartnerConsent          *string                 `json:"partner_consent"`
	GroupID                 *affiliate.GroupID      `json:"group_id,omitempty"`
	OverrideRateBps         *int64                  `json:"override_rate_bps,omitempty"`
	OverrideFlatAmountCents *int64                  `json:"override_flat_amount_cents,omitempty"`
	Tags                    []string                `json:"tags,omitempty"`
	Note                    *string                 `json:"note,omitempty"`
	RejectionReason         *string                 `json:"rejection_reason,omitempty"`
	SuspensionReason        *string                 `json:"suspension_reason,omitempty"`
	ExternalID              *string                 `json:"external_id,omitempty"`
}

func (p *Participation) prepare(forPartner bool) {
	if forPartner {
		p.GroupID, p.OverrideRateBps, p.OverrideFlatAmountCents = nil, nil, nil
		p.Tags, p.Note, p.RejectionReason, p.SuspensionReason, p.ExternalID = nil, nil, nil, nil, nil
	} else if p.PartnerConsent != nil {
		p.PartnerID = nil // the merchant sees nothing of the account before the partner accepts
	}
}

// Consent is the acceptance of the terms of a programme.
type Consent struct {
	WorkspaceID     affiliate.WorkspaceID   `json:"workspace_id"`
	ProgramID       affiliate.ProgramID     `json:"program_id"`
	ParticipantID   affiliate.ParticipantID `json:"participant_id"`
	Mode            affiliate.Mode          `json:"mode"`
	Type            string                  `json:"type"` // programme_terms
	TermsURL        *string                 `json:"terms_url"`
	TermsAcceptedAt Time                    `json:"accepted_at"`
}

// Link is a referral link.
type Link struct {
	ID             affiliate.LinkID        `json:"id"`
	WorkspaceID    affiliate.WorkspaceID   `json:"workspace_id"`
	ProgramID      affiliate.ProgramID     `json:"program_id"`
	ParticipantID  affiliate.ParticipantID `json:"participant_id"`
	Mode           affiliate.Mode          `json:"mode"`
	Code           string                  `json:"code"`
	ShortKey       string                  `json:"short_key"`
	DestinationURL *string                 `json:"destination_url"`
	SubID          *string                 `json:"sub_id"`
	UTMSource      *string                 `json:"utm_source"`
	UTMMedium      *string                 `json:"utm_medium"`
	UTMCampaign    *string                 `json:"utm_campaign"`
	UTMTerm        *string                 `json:"utm_term"`
	UTMContent     *string                 `json:"utm_content"`
	IsDefault      bool                    `json:"is_default"`
	CreatedAt      Time                    `json:"created_at"`
	UpdatedAt      Time                    `json:"updated_at"`
	DeletedAt      *Time                   `json:"deleted_at"`
}

// ReferralCode is a code of a link, also a code that was replaced.
type ReferralCode struct {
	WorkspaceID   affiliate.WorkspaceID   `json:"workspace_id"`
	ProgramID     affiliate.ProgramID     `json:"program_id"`
	ParticipantID affiliate.ParticipantID `json:"participant_id"`
	LinkID        affiliate.LinkID        `json:"link_id"`
	Mode          affiliate.Mode          `json:"mode"`
	Code          string                  `json:"code"`
	CreatedAt     Time                    `json:"created_at"`
}

// PromoCode is a promo code of a participant.
type PromoCode struct {
	ID              affiliate.PromoCodeID   `json:"id"`
	WorkspaceID     affiliate.WorkspaceID   `json:"workspace_id"`
	ProgramID       affiliate.ProgramID     `json:"program_id"`
	ParticipantID   affiliate.ParticipantID `json:"participant_id"`
	Mode            affiliate.Mode          `json:"mode"`
	Code            string                  `json:"code"`
	DiscountType    string                  `json:"discount_type"`
	DiscountValue   int64                   `json:"discount_value"`
	Currency        *string                 `json:"currency"`
	MaxRedemptions  *int64                  `json:"max_redemptions"`
	Redemptions     int64                   `json:"redemptions"`
	ExpiresAt       *Time                   `json:"expires_at"`
	Active          bool                    `json:"active"`
	SyncToProcessor bool                    `json:"sync_to_processor"`
	SyncStatus      string                  `json:"sync_status"`
	CreatedAt       Time                    `json:"created_at"`
	UpdatedAt       Time                    `json:"updated_at"`
}
