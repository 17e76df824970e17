package account

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// ServiceToken is a credential with which a program manages a workspace, in one mode and
// with one role, as a row of the table service_tokens. Its text is not stored: it is looked up
// by its digest.
type ServiceToken struct {
	ID affiliate.ServiceTokenID `db:"id,fixed"`
	affiliate.Scope
	Name string         `db:"name,fixed"`
	Role affiliate.Role `db:"role,fixed"` // never RoleOwner
	// AllowPayouts means that the token may also confirm, process and export payouts if
	// its role permits these calls.
	AllowPayouts bool             `db:"allow_payouts,fixed"`
	Digest       []byte           `db:"digest,fixed"` // Key.Digest
	Prefix       string           `db:"prefix,fixed"`
	Last4        string           `db:"last4,fixed"`
	CreatedBy    affiliate.UserID `db:"created_by,fixed"`
	CreatedAt    time.Time        `db:"created_at,fixed"`
	ExpiresAt    time.Time
	RevokedAt    *time.Time
	RolledAt     *time.Time // when its successor was created; a token has at most one successor
	LastUsedAt   *time.Time `db:"last_used_at,fixed"` // to the minute
	// LastUsedIPPrefix is the network of the client that used the token last, /24 for IPv4
	// and /48 for IPv6. It is written together with LastUsedAt.
	LastUsedIPPrefix *string `db:"last_used_ip_prefix,fixed"`
}

// MaxServiceTokens is the greatest number of active service tokens of a mode, including
// rolled tokens in their grace period.
const MaxServiceTokens = 20

// DefaultServiceTokenLife is how long a service token is valid if its creator sets no
// expiry.
const DefaultServiceTokenLife = 90 * 24 * time.Hour

// GenerateServiceToken creates a service token from the fields of t that its creator has
// chosen. It returns the token in clear text and the record to store. If ExpiresAt is
// zero, the token is valid for DefaultServiceTokenLife. Errors: VALIDATION_ERROR if
// ExpiresAt is not in the year after at.
func GenerateServiceToken(t ServiceToken, at time.Time) (Key, ServiceToken, error) {
	if t.ExpiresAt.IsZero() {
		t.ExpiresAt = at.Add(DefaultServiceTokenLife)
	}
	if !t.ExpiresAt.After(at) || t.ExpiresAt.After(at.AddDate(1, 0, 0)) {
		return Key{}, ServiceToken{}, affiliate.Invalid("expires_at", "must be in the future, at most a year from now")
	}
	text := NewKey(ServiceKey, t.Mode)
	t.ID, t.CreatedAt = affiliate.NewID[affiliate.ServiceTokenID](at), at
	t.Prefix, t.Last4 = text.Prefix(), text.Last4()
	digest := text.Digest()
	t.Digest = digest[:]
	return text, t, nil
}

// Active reports whether the token authenticates requests at the given time.
func (t ServiceToken) Active(now time.Time) bool {
	return t.RevokedAt == nil && now.Before(t.ExpiresAt)
}

// CheckManageable checks whether a member of the given role may create or roll the token.
// Errors: FORBIDDEN if the member is neither an owner nor an admin, or if the token may
// confirm payouts and the member is not an owner.
func (t ServiceToken) CheckManageable(by affiliate.Role) error {
	if by != affiliate.RoleOwner && (by != affiliate.RoleAdmin || t.AllowPayouts) {
		return affiliate.Refuse(affiliate.ReasonForbidden)
	}
	return nil
}

// Roll returns t after a successor was created, and the successor in clear text and as
// the record to store. The successor is valid for as long as t was when t was created. t
// keeps working until the grace period ends; without a grace period it stops at once. If
// t expires before the end of the grace period, its expiry does not change. Errors:
// NOT_FOUND if t is not active or already has a successor.
func (t ServiceToken) Roll(grace time.Duration, by affiliate.UserID, at time.Time) (rolled ServiceToken, text Key, successor ServiceToken, err error) {
	if !t.Active(at) || t.RolledAt != nil {
		return ServiceToken{}, Key{}, ServiceToken{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	text, successor, err = GenerateServiceToken(ServiceToken{
		Scope: t.Scope, Name: t.Name, Role: t.Role, AllowPayouts: t.AllowPayouts, CreatedBy: by,
		ExpiresAt: at.Add(min(t.ExpiresAt.Sub(t.CreatedAt), at.AddDate(1, 0, 0).Sub(at))),
	}, at)
	if err != nil {
		return ServiceToken{}, Key{}, ServiceToken{}, err
	}
	t.RolledAt = &at
	switch until := at.Add(grace); {
	case grace <= 0:
		t.RevokedAt = &at
	case until.Before(t.ExpiresAt):
		t.ExpiresAt = until
	}
	return t, text, successor, nil
}

// Revoke returns t after it was revoked. Errors: NOT_FOUND if t is not active.
func (t ServiceToken) Revoke(at time.Time) (ServiceToken, error) {
	if !t.Active(at) {
		return ServiceToken{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	t.RevokedAt = &at
	return t, nil
}

// CheckServiceTokens checks whether a mode may get another service token. active is the
// number of its active tokens. Errors: API_KEY_LIMIT_EXCEEDED.
func CheckServiceTokens(active int) error {
	if active >= MaxServiceTokens {
		return affiliate.Refuse(affiliate.ReasonAPIKeyLimitExceeded)
	}
	return nil
}

// AuditObject returns the fields of the token that the audit log shows.
func (t ServiceToken) AuditObject() map[string]any {
	return map[string]any{
		"name": t.Name, "role": t.Role, "allow_payouts": t.AllowPayouts, "prefix": t.Prefix, "last4": t.Last4,
		"expires_at": affiliate.FormatTime(t.ExpiresAt),
	}
}

// Notification returns the notification that a member has created, rolled or revoked the
// token.
func (t ServiceToken) Notification(kind notification.Type, by affiliate.UserID, at time.Time) notification.Notification {
	n := MemberNotification(t.Workspace, kind, by, at, map[string]string{
		"key": t.Name, "last4": t.Last4, "mode": string(t.Mode), "role": string(t.Role),
	})
	n.Resource = &t.ID.UUID
	return n
}
