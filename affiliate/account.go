package affiliate

import (
	"crypto/sha256"
	"net/mail"
	"time"
)

// AccountKind tells merchants from partners. One address may have one account
// of each kind.
type AccountKind string

// The two kinds of account.
const (
	Merchant AccountKind = "merchant"
	Partner  AccountKind = "partner"
)

// BareAddress reports whether s is an e-mail address and nothing else: no
// display name, no comment, which would make many accounts of one mailbox.
func BareAddress(s string) bool {
	parsed, err := mail.ParseAddress(s)
	return err == nil && parsed.Address == s
}

// Role is what a member may do in a workspace (DECISIONS.md section 11).
type Role string

// The six roles.
const (
	RoleOwner     Role = "owner"
	RoleAdmin     Role = "admin"
	RoleManager   Role = "manager"
	RoleFinance   Role = "finance"
	RoleDeveloper Role = "developer"
	RoleViewer    Role = "viewer"
)

// User is an account. A merchant's user belongs to one workspace; a partner's
// to none.
type User struct {
	ID        UserID
	Kind      AccountKind
	Email     string // lower case
	Name      string
	Country   *string // ISO 3166-1 alpha-2
	CreatedAt time.Time
}

// Workspace is a merchant's tenancy.
type Workspace struct {
	ID        WorkspaceID
	Name      string
	Currency  string // ISO 4217
	Timezone  string // IANA
	CreatedAt time.Time
}

// Member is a user's place in a workspace.
type Member struct {
	Workspace Workspace
	Role      Role
}

// Account is what a login looks at.
type Account struct {
	User         User
	PasswordHash string
	// Member is nil for partners, and for a merchant who was removed.
	Member *Member
}

// LoginTry is one try to log in.
type LoginTry struct{ ID LoginTryID }

// Session is a family of refresh tokens: all that came out of one login.
type Session struct {
	ID            SessionID
	User          UserID
	CreatedAt     time.Time
	IdleExpiresAt time.Time // 30 days after the last refresh
	ExpiresAt     time.Time // 90 days after CreatedAt
}

// Lifetimes of credentials (DECISIONS.md section 11).
const (
	AccessTokenLife      = 15 * time.Minute
	RefreshTokenIdle     = 30 * 24 * time.Hour
	RefreshTokenAbsolute = 90 * 24 * time.Hour
)

// APIKey is a stored key: of a secret key only its digest, first and last
// characters.
type APIKey struct {
	ID         APIKeyID
	Scope      Scope
	Kind       KeyKind
	Name       string
	PublicText string // whole, for public keys only
	Prefix     string
	Last4      string
	CreatedAt  time.Time
	LastUsedAt *time.Time // to the minute
	ExpiresAt  *time.Time
	RevokedAt  *time.Time
}

// NewAPIKey is a key on its way into the database, with the digest under which
// it is found again.
type NewAPIKey struct {
	APIKey
	Digest [sha256.Size]byte
}

// MaxSecretKeys bounds the active secret keys of a mode.
const MaxSecretKeys = 10

// Live reports whether the key opens anything at now.
func (k APIKey) Live(now time.Time) bool {
	return k.RevokedAt == nil && (k.ExpiresAt == nil || now.Before(*k.ExpiresAt))
}

// Actor is who caused a change, as history and audit log keep it.
type Actor struct {
	// User is set for a person; otherwise Key for an API key; neither: the
	// service itself.
	User *UserID
	Key  *APIKeyID
	// AddressPrefix is the shortened client address (/24 or /48), RequestID the
	// request's id; both empty for the service itself.
	AddressPrefix string
	RequestID     string
}

// System is the service acting on its own.
var System = Actor{}

// String is the user's id, the key's id, or system.
func (a Actor) String() string {
	switch {
	case a.User != nil:
		return a.User.String()
	case a.Key != nil:
		return a.Key.String()
	}
	return "system"
}
