package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// InviteLife is how long an invitation can be accepted.
const InviteLife = 7 * 24 * time.Hour

// InviteMailInterval is the least time between two mails of invitations to one address and
// programme.
const InviteMailInterval = time.Hour

// Invite is an invitation by e-mail, either of a member to a workspace or of a partner
// to a programme. Its tokens are stored as digests (InviteTokens).
type Invite struct {
	ID        affiliate.InviteID `db:"id,fixed"`
	Email     string             `db:"email,fixed"` // lower case
	InvitedBy affiliate.UserID   `db:"invited_by,fixed"`
	CreatedAt time.Time          `db:"created_at,fixed"`
	ExpiresAt time.Time          `db:"expires_at,fixed"`
	EndedAt   *time.Time         // when it was accepted, revoked or replaced
}

// NewInvite returns an invitation of an address, which must be in lower case.
func NewInvite(email string, by affiliate.UserID, at time.Time) Invite {
	return Invite{ID: affiliate.NewID[affiliate.InviteID](at), Email: email, InvitedBy: by, CreatedAt: at, ExpiresAt: at.Add(InviteLife)}
}

// Open reports whether the invitation can be accepted at the given time.
func (i Invite) Open(now time.Time) bool { return i.EndedAt == nil && now.Before(i.ExpiresAt) }

// MailedRecently reports whether the invitation was mailed less than InviteMailInterval
// before the given time and was neither accepted nor revoked.
func (i Invite) MailedRecently(now time.Time) bool {
	return i.EndedAt == nil && i.CreatedAt.After(now.Add(-InviteMailInterval))
}

// NewMail returns the mail of an invitation, without the token.
func (i Invite) NewMail(kind notification.MailKind, account affiliate.AccountKind, workspace affiliate.WorkspaceID) notification.Mail {
	return notification.Mail{
		ID:        affiliate.NewID[notification.MailID](i.CreatedAt),
		Kind:      kind,
		Type:      string(kind),
		Workspace: &workspace,
		Recipient: notification.Recipient{Account: account, Address: i.Email},
		Facts:     notification.MailFacts{ExpiresAt: &i.ExpiresAt},
		CreatedAt: i.CreatedAt,
	}
}

// MemberInvite invites a member, as a row of the table member_invites.
type MemberInvite struct {
	Invite
	Workspace affiliate.WorkspaceID `db:"workspace_id,fixed"`
	Role      affiliate.Role        `db:"role,fixed"`
}

// Mail returns the mail of the invitation, without the token. The arguments are the names
// of the workspace and of the member who invites.
func (i MemberInvite) Mail(workspace, inviter string) notification.Mail {
	mail := i.NewMail(notification.MailMemberInvite, affiliate.Merchant, i.Workspace)
	mail.Facts.WorkspaceName, mail.Facts.InviterName, mail.Facts.Role = workspace, inviter, i.Role
	return mail
}

// inviteTokenPrefix makes tokens recognizable for people and for secret scanners.
const inviteTokenPrefix = "inv_"

// InviteTokens has the two tokens of an invitation. Both accept it. Shown is in the response
// to the member who invites. Mailed is only in the mail, so it proves that its holder reads
// the mail of the invited address.
type InviteTokens struct{ Shown, Mailed string }

// InviteDigests has the digests of InviteTokens, by which the invitation is found.
type InviteDigests struct{ Shown, Mailed [sha256.Size]byte }

// NewInviteTokens returns tokens of 256 random bits each, and their digests.
func NewInviteTokens() (InviteTokens, InviteDigests) {
	tokens := InviteTokens{Shown: newInviteToken(), Mailed: newInviteToken()}
	return tokens, InviteDigests{Shown: DigestInviteToken(tokens.Shown), Mailed: DigestInviteToken(tokens.Mailed)}
}

func newInviteToken() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // crypto/rand.Read never fails
	return inviteTokenPrefix + base64.RawURLEncoding.EncodeToString(random)
}

// DigestInviteToken returns the digest by which an invitation is looked up.
func DigestInviteToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }
