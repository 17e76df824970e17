package bundle

import (
	"encoding/json"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/payout"
)

// Profile is the account of a partner, as it is stored.
type Profile struct {
	ID              affiliate.UserID      `json:"id"`
	Kind            affiliate.AccountKind `json:"kind"`
	Email           string                `json:"email"`
	Name            string                `json:"name"`
	Country         *string               `json:"country"`
	CompanyName     *string               `json:"company_name"`
	WebsiteURL      *string               `json:"website_url"`
	EmailVerifiedAt *Time                 `json:"email_verified_at"`
	PreviousEmail   *string               `json:"previous_email"`
	EmailChangedAt  *Time                 `json:"email_changed_at"`
	// SecondFactorAt is when the second factor was enabled. It is nil if the account has no second
	// factor.
	SecondFactorAt *Time `json:"second_factor_at"`

	CreatedAt Time `json:"created_at"`
	// PayoutMethod is nil if the partner has none.
	PayoutMethod *PayoutMethod `json:"payout_method" db:"-"`

	Method          *payout.Method `json:"-"`
	SealedAccount   []byte         `json:"-"`
	AccountHint     *string        `json:"-"`
	MethodUpdatedAt *Time          `json:"-"`
	HeldUntil       *Time          `json:"-"`
}

// PayoutMethod is how a partner wants to be paid.
type PayoutMethod struct {
	Method payout.Method `json:"method"`
	// Account and AccountHolder are nil if the method has no account.
	Account       *string `json:"account"`
	AccountHolder *string `json:"account_holder"`
	AccountHint   *string `json:"account_hint"`
	UpdatedAt     *Time   `json:"updated_at"`
	HeldUntil     *Time   `json:"held_until"`
}

// ParticipantProfile is a partner as the merchant of a programme sees it. PartnerID is nil
// while the partner has not accepted the participation.
type ParticipantProfile struct {
	ID           affiliate.ParticipantID `json:"-"`
	PartnerID    *affiliate.UserID       `json:"partner_id"`
	PartnerName  string                  `json:"name"`
	PartnerEmail string                  `json:"email"`
}

// Session is a login. It lasts until the user logs out, or until it expires.
type Session struct {
	ID            affiliate.SessionID `json:"id"`
	UserID        affiliate.UserID    `json:"user_id"`
	CreatedAt     Time                `json:"created_at"`
	IdleExpiresAt Time                `json:"idle_expires_at"`
	ExpiresAt     Time                `json:"expires_at"`
	RevokedAt     *Time               `json:"revoked_at"`
}

// Network is a network from which a user has used the account in the last 30 days.
type Network struct {
	UserID   affiliate.UserID `json:"user_id"`
	IPPrefix string           `json:"ip_prefix"`
	SeenAt   Time             `json:"last_seen_at"`
}

// Device is a browser with which a user has signed in in the last 90 days. Only a keyed hash
// of the browser and the network is stored.
type Device struct {
	UserID affiliate.UserID `json:"user_id"`
	SeenAt Time             `json:"last_used_at"`
	Device []byte           `json:"-"` // part of the order
}

// Preference is what a user has chosen for the notifications of a category.
type Preference struct {
	UserID   affiliate.UserID      `json:"user_id"`
	Category notification.Category `json:"category"`
	Email    *bool                 `json:"email"`
	InApp    *bool                 `json:"in_app"`
}

// Notification is a message in the feed of a partner or of a workspace.
type Notification struct {
	ID            uuid.UUID                `json:"id"`
	Mode          string                   `json:"mode"`
	Category      notification.Category    `json:"category"`
	Day           Date                     `json:"-"` // part of the order
	Type          notification.Type        `json:"type"`
	WorkspaceID   *affiliate.WorkspaceID   `json:"workspace_id"`
	UserID        *affiliate.UserID        `json:"user_id"`
	ProgramID     *affiliate.ProgramID     `json:"program_id"`
	ParticipantID *affiliate.ParticipantID `json:"participant_id"`
	ResourceID    *uuid.UUID               `json:"resource_id"`
	Facts         json.RawMessage          `json:"facts"`
	DismissedAt   *Time                    `json:"dismissed_at"`
	CreatedAt     Time                     `json:"created_at" db:"-"`
}

func (n *Notification) prepare(bool) {
	at, _ := notification.ID{UUID: n.ID}.Time()
	n.CreatedAt = Time(at)
}

// Mail is a mail to a user, without its text.
type Mail struct {
	ID           notification.MailID     `json:"id"`
	Type         string                  `json:"type"`
	Category     string                  `json:"category"`
	WorkspaceID  *affiliate.WorkspaceID  `json:"workspace_id"`
	Mode         *affiliate.Mode         `json:"mode"`
	UserID       *affiliate.UserID       `json:"user_id"`
	Recipient    string                  `json:"recipient"`
	Status       notification.MailStatus `json:"status"`
	Reason       *string                 `json:"reason"`
	RedirectedTo *string                 `json:"redirected_to"`
	Subject      *string                 `json:"subject"`
	CreatedAt    Time                    `json:"created_at"`
	CompletedAt  *Time                   `json:"completed_at"`
}

// AccountAudit is an entry of the audit log of a partner's account.
type AccountAudit struct {
	ID        uuid.UUID        `json:"id"`
	UserID    affiliate.UserID `json:"user_id"`
	At        Time             `json:"at"`
	Action    string           `json:"action"`
	Before    json.RawMessage  `json:"before"`
	After     json.RawMessage  `json:"after"`
	IPPrefix  *string          `json:"ip_prefix"`
	RequestID *string          `json:"request_id"`
}

// Audit is an entry of the audit log of a workspace.
type Audit struct {
	ID           uuid.UUID             `json:"id"`
	WorkspaceID  affiliate.WorkspaceID `json:"workspace_id"`
	Mode         *affiliate.Mode       `json:"mode"`
	At           Time                  `json:"at"`
	Actor        string                `json:"actor"`
	Action       string                `json:"action"`
	ResourceType string                `json:"resource_type"`
	ResourceID   uuid.UUID             `json:"resource_id"`
	Before       json.RawMessage       `json:"before"`
	After        json.RawMessage       `json:"after"`
	IPPrefix     *string               `json:"ip_prefix"`
	RequestID    *string               `json:"request_id"`
	// ParticipantToken means that the actor has created a participant token, and that the
	// change was made with this token.
	ParticipantToken bool `json:"participant_token"`
}
