package affiliate

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"
)

// InviteLife is how long an invitation can be accepted.
const InviteLife = 7 * 24 * time.Hour

// Invite is an invitation by e-mail address: of a member into a workspace, or of
// a partner into a programme. Its token is shown once and stored as a digest.
type Invite struct {
	ID        InviteID
	Email     string // lower case
	InvitedBy UserID
	CreatedAt time.Time
	ExpiresAt time.Time
	EndedAt   *time.Time // when it was accepted, revoked or replaced
}

// Open reports whether the invitation can be accepted at now.
func (i Invite) Open(now time.Time) bool { return i.EndedAt == nil && now.Before(i.ExpiresAt) }

// MemberInvite invites a member.
type MemberInvite struct {
	Invite
	Workspace WorkspaceID
	Role      Role
}

// ParticipantInvite invites a partner.
type ParticipantInvite struct {
	Invite
	Scope        Scope
	Program      ProgramID
	Group        *GroupID
	ReferralCode string // wished for, case-folded; empty: made from the partner's name
}

// Join returns the partner who accepted the invitation as a new, approved participant
// of the programme. Errors: VALIDATION_ERROR for terms that are not accepted.
func (i ParticipantInvite) Join(program Program, partner UserID, acceptTerms bool, at time.Time) (Participant, error) {
	p, err := newParticipant(program, partner, acceptTerms, at)
	p.Group = i.Group
	p.Status, p.ApprovedAt = ParticipantApproved, &at
	return p, err
}

// inviteTokenPrefix lets a person, and a scanner for secrets, tell what it is.
const inviteTokenPrefix = "inv_"

// NewInviteToken makes a token of 256 random bits and the digest under which it
// is found again.
func NewInviteToken() (token string, digest [sha256.Size]byte) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // crypto/rand.Read never fails
	token = inviteTokenPrefix + base64.RawURLEncoding.EncodeToString(random)
	return token, DigestInviteToken(token)
}

// DigestInviteToken is what an invitation is looked up by.
func DigestInviteToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }
