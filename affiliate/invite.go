package affiliate

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"
)

// InviteLife is how long an invitation can be accepted.
const InviteLife = 7 * 24 * time.Hour

// Invite is an invitation by e-mail, either of a member to a workspace or of a partner
// to a programme. Its token is shown once and stored as a digest.
type Invite struct {
	ID        InviteID
	Email     string // lower case
	InvitedBy UserID
	CreatedAt time.Time
	ExpiresAt time.Time
	EndedAt   *time.Time // when it was accepted, revoked or replaced
}

// Open reports whether the invitation can be accepted at the given time.
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
	ReferralCode string // requested code, case-folded; if empty, the code is made from the partner's name
}

// Join returns a new, approved participant for the partner who accepted the invitation.
// Errors: VALIDATION_ERROR if the programme has terms that were not accepted.
func (i ParticipantInvite) Join(program Program, partner UserID, acceptTerms bool, at time.Time) (Participant, error) {
	p, err := newParticipant(program, partner, acceptTerms, at)
	p.Group = i.Group
	p.Status, p.ApprovedAt = ParticipantApproved, &at
	return p, err
}

// inviteTokenPrefix makes tokens recognizable for people and for secret scanners.
const inviteTokenPrefix = "inv_"

// NewInviteToken returns a token of 256 random bits and its digest, by which the
// invitation is found.
func NewInviteToken() (token string, digest [sha256.Size]byte) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // crypto/rand.Read never fails
	token = inviteTokenPrefix + base64.RawURLEncoding.EncodeToString(random)
	return token, DigestInviteToken(token)
}

// DigestInviteToken returns the digest by which an invitation is looked up.
func DigestInviteToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }
