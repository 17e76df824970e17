package participant

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Invite invites a partner.
type Invite struct {
	account.Invite
	Scope        affiliate.Scope
	Program      affiliate.ProgramID
	Group        *affiliate.GroupID
	ReferralCode string // requested code, case-folded; if empty, the code is made from the partner's name
}

// Join returns a new, approved participant for the partner who accepted the invitation.
// Errors: VALIDATION_ERROR if the programme has terms that were not accepted.
func (i Invite) Join(program program.Program, partner affiliate.UserID, acceptTerms bool, at time.Time) (Participant, error) {
	p, err := newAcceptedParticipant(program, partner, acceptTerms, at)
	p.Group = i.Group
	p.Status, p.ApprovedAt = Approved, &at
	return p, err
}

// Mail returns the mail of the invitation, without the token and without the names of the
// workspace, the programme and the inviter.
func (i Invite) Mail() notification.Mail {
	return i.NewMail(notification.MailParticipantInvite, affiliate.Partner, i.Scope.Workspace)
}
