package affiliate

import "time"

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
	p, err := newAcceptedParticipant(program, partner, acceptTerms, at)
	p.Group = i.Group
	p.Status, p.ApprovedAt = ParticipantApproved, &at
	return p, err
}

// Mail returns the mail of the invitation, without the token and without the names of the
// workspace, the programme and the inviter.
func (i ParticipantInvite) Mail() Mail {
	return i.mail(MailParticipantInvite, Partner, i.Scope.Workspace)
}
