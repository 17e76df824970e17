// Package account has the rules of accounts and of what gives access to them: workspaces and
// their members, sessions, second factors, keys and tokens.
package account

import (
	"net/mail"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// BareAddress reports whether s is an e-mail address without a display name or a
// comment. Accounts are distinguished by the text of their e-mail addresses. If display
// names and comments were allowed, the owner of one mailbox could open many accounts.
func BareAddress(s string) bool {
	parsed, err := mail.ParseAddress(s)
	return err == nil && parsed.Address == s
}

// User is an account. A merchant's user belongs to at most one workspace, a partner's
// user belongs to none.
type User struct {
	ID    affiliate.UserID
	Kind  affiliate.AccountKind
	Email string // lower case
	// EmailVerified is true if the user has proved to read the mail of the address.
	EmailVerified bool
	// SecondFactor is true if a login asks for a code of an authenticator app.
	SecondFactor bool
	Name         string
	Country      *string // ISO 3166-1 alpha-2
	CreatedAt    time.Time
	// Unclaimed is true until the owner of an account that a merchant has made sets a
	// password. A login to the account is not possible until then.
	Unclaimed bool
}

// Member is a user's membership in a workspace.
type Member struct {
	Workspace affiliate.WorkspaceID
	Role      affiliate.Role
	// SecondFactorRequired is true if the workspace requires a second factor of its members.
	SecondFactorRequired bool
}

// TeamMember is a member with name and e-mail address, as lists of members show it.
type TeamMember struct {
	ID    affiliate.UserID
	Name  string
	Email string // lower case
	Role  affiliate.Role
	// SecondFactor is true if the member has a second factor.
	SecondFactor bool
	CreatedAt    time.Time // when the user became a member
}

// Account is a user with its credentials and its membership in a workspace.
type Account struct {
	User
	PasswordHash string
	// Member is nil for partners, and for merchants who were removed from their
	// workspace.
	Member *Member `db:"-"`
}

// MayLogIn reports whether the account may have sessions. A merchant who was removed
// from its workspace cannot log in.
func (a Account) MayLogIn() bool { return a.User.Kind == affiliate.Partner || a.Member != nil }

// Registration says who can create an account of one kind.
type Registration string

// With OpenRegistration, everybody can register. With InviteRegistration, a person needs
// the token of an invitation. With ClosedRegistration, no person can register. A person can
// then only accept an invitation to an existing workspace.
const (
	OpenRegistration   Registration = "open"
	InviteRegistration Registration = "invite"
	ClosedRegistration Registration = "closed"
)

// MemberNotification returns a notification about a member for the feed of the workspace.
// facts are the values of the placeholders in its text.
func MemberNotification(
	workspace affiliate.WorkspaceID, kind notification.Type, member affiliate.UserID, at time.Time, facts map[string]string,
) notification.Notification {
	n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(workspace), kind, nil, at)
	n.Workspace, n.User, n.Resource, n.Facts = &workspace, &member, &member.UUID, facts
	return n
}

// Notification returns a notification about an account, for the feed of the
// member's workspace, or for the feed of the partner. The result is empty for a merchant who is
// not a member of a workspace, because this user has no feed.
func Notification(account Account, kind notification.Type, at time.Time, facts map[string]string) []notification.Notification {
	user := account.User.ID
	if account.Member != nil {
		return []notification.Notification{MemberNotification(account.Member.Workspace, kind, user, at, facts)}
	}
	if account.User.Kind != affiliate.Partner {
		return nil
	}
	n := notification.NewNotification(affiliate.Partner, notification.PartnerFeed(user), kind, nil, at)
	n.User, n.Resource, n.Facts = &user, &user.UUID, facts
	return []notification.Notification{n}
}

// KeyNotification returns a notification about a secret key that a member, or a service
// token that the member has created, has created, rolled or revoked. It returns none for a
// public key, which is not a secret.
func KeyNotification(kind notification.Type, key APIKey, by affiliate.UserID, at time.Time) []notification.Notification {
	if key.Kind != SecretKey {
		return nil
	}
	n := MemberNotification(key.Workspace, kind, by, at, map[string]string{
		"key": key.Name, "last4": key.Last4, "mode": string(key.Mode),
	})
	n.Resource = &key.ID.UUID
	return []notification.Notification{n}
}
