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

// Roles are all of them, those who may do most first.
func Roles() []Role {
	return []Role{RoleOwner, RoleAdmin, RoleManager, RoleFinance, RoleDeveloper, RoleViewer}
}

// MayManage reports whether a member of role r may invite, change and remove
// members of another role, and give it: an admin everybody but owners.
func (r Role) MayManage(other Role) bool {
	return r == RoleOwner || r == RoleAdmin && other != RoleOwner
}

// MayManageKeys reports whether a member of role r may create, roll and revoke
// API keys.
func (r Role) MayManageKeys() bool {
	return r == RoleOwner || r == RoleAdmin || r == RoleDeveloper
}

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
	ID       WorkspaceID
	Name     string
	Currency string // ISO 4217
	Timezone string // IANA
	// AllowedOrigins are normal forms (ParseOrigin), each once; none: no origin
	// is foreign.
	AllowedOrigins []string
	OriginPolicy   OriginPolicy
	// TestMailRedirect is where mail of test mode goes, in lower case; nil:
	// nowhere.
	TestMailRedirect *string
	Version          int // one more with every change of the settings
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// OriginPolicy is what happens to a click from a page whose origin is foreign.
type OriginPolicy string

// A foreign click is recorded and marked, or refused.
const (
	ObserveOrigins OriginPolicy = "observe"
	EnforceOrigins OriginPolicy = "enforce"
)

// SeenBy is w as a member of the role may see it: a viewer sees addresses masked.
func (w Workspace) SeenBy(role Role) Workspace {
	if role == RoleViewer && w.TestMailRedirect != nil {
		masked := MaskEmail(*w.TestMailRedirect)
		w.TestMailRedirect = &masked
	}
	return w
}

// WorkspacePatch changes some settings. Name, currency and timezone cannot be
// cleared; the policy goes back to ObserveOrigins.
type WorkspacePatch struct {
	Name             Change[string]
	Currency         Change[string]
	Timezone         Change[string]
	AllowedOrigins   Change[[]string]
	OriginPolicy     Change[OriginPolicy]
	TestMailRedirect Change[string]
}

// Patch is w changed by patch; Version and UpdatedAt are the caller's.
func (w Workspace) Patch(patch WorkspacePatch) (Workspace, error) {
	var found Violations
	for _, field := range []struct {
		name   string
		value  *string
		change Change[string]
	}{
		{"name", &w.Name, patch.Name},
		{"currency", &w.Currency, patch.Currency},
		{"timezone", &w.Timezone, patch.Timezone},
	} {
		if *field.value = field.change.or(*field.value, ""); *field.value == "" {
			found.Add(field.name, "is required")
		}
	}
	w.AllowedOrigins = patch.AllowedOrigins.or(w.AllowedOrigins, []string{})
	w.OriginPolicy = patch.OriginPolicy.or(w.OriginPolicy, ObserveOrigins)
	w.TestMailRedirect = patch.TestMailRedirect.orNil(w.TestMailRedirect)
	if w.OriginPolicy == EnforceOrigins && len(w.AllowedOrigins) == 0 {
		found.Add("origin_policy", "enforce needs at least one allowed origin")
	}
	return w, found.Err()
}

// WorkspaceObject is what an update compares of a workspace. The audit log keeps
// the address masked.
type WorkspaceObject struct {
	Name             string       `json:"name"`
	Currency         string       `json:"currency"`
	Timezone         string       `json:"timezone"`
	AllowedOrigins   []string     `json:"allowed_origins"`
	OriginPolicy     OriginPolicy `json:"origin_policy"`
	TestMailRedirect *string      `json:"test_mail_redirect"`
}

// Object is w as an update compares it.
func (w Workspace) Object() WorkspaceObject {
	origins := w.AllowedOrigins
	if origins == nil {
		origins = []string{}
	}
	return WorkspaceObject{
		Name: w.Name, Currency: w.Currency, Timezone: w.Timezone,
		AllowedOrigins: origins, OriginPolicy: w.OriginPolicy, TestMailRedirect: w.TestMailRedirect,
	}
}

// ValidTimezone reports whether name is an IANA time zone.
func ValidTimezone(name string) bool {
	_, ok := loadZone(name)
	return ok && name != ""
}

// Member is a user's place in a workspace, which is as the user may see it
// (Workspace.SeenBy).
type Member struct {
	Workspace Workspace
	Role      Role
}

// TeamMember is a member as the others see it.
type TeamMember struct {
	ID        UserID
	Name      string
	Email     string // lower case
	Role      Role
	CreatedAt time.Time // when the user became a member
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
	RolledAt   *time.Time // when a successor was made, which it is once
}

// NewAPIKey is a key on its way into the database, with the digest under which
// it is found again.
type NewAPIKey struct {
	APIKey
	Digest [sha256.Size]byte
}

// MaxSecretKeys bounds the active secret keys of a mode, those in their grace
// included.
const MaxSecretKeys = 10

// DefaultRollGrace is how long a key that was rolled goes on working.
const DefaultRollGrace = 24 * time.Hour

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
