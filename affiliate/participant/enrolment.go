package participant

import (
	"encoding/json"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// MaxExternalID is the maximum length of an external id in characters.
const MaxExternalID = 120

// newParticipant returns a pending participant without name and e-mail address.
func newParticipant(program program.Program, partner affiliate.UserID, at time.Time) Participant {
	return Participant{
		ID: affiliate.NewID[affiliate.ParticipantID](at), Scope: program.Scope, Program: program.ID, Partner: partner,
		Status: Pending, Tags: []string{}, Answers: map[string]string{},
		AppliedAt: at, Version: 1, CreatedAt: at, UpdatedAt: at,
	}
}

// TermsAcceptance says whether a partner accepts the terms of a programme.
type TermsAcceptance struct {
	Accepted bool
	// Version is the version of the terms that the partner has seen. If it is nil, the partner
	// accepts the current version.
	Version *int
}

// newAcceptedParticipant returns a new participant for a partner who joins the programme.
// Errors: VALIDATION_ERROR if the programme has terms that were not accepted, TERMS_CHANGED.
func newAcceptedParticipant(program program.Program, partner account.User, terms TermsAcceptance, at time.Time) (Participant, error) {
	p := newParticipant(program, partner.ID, at)
	p.PartnerName, p.PartnerEmail = partner.Name, partner.Email
	err := acceptTerms(&p, program, terms, at)
	return p, err
}

// termsMissing is the fault of an acceptance without the terms.
const termsMissing = "must be true because the programme has terms"

// acceptTerms stores the acceptance of the terms. Errors: VALIDATION_ERROR if the programme has
// terms that were not accepted, TERMS_CHANGED if the partner has seen an older version.
func acceptTerms(p *Participant, program program.Program, terms TermsAcceptance, at time.Time) error {
	switch {
	case program.HasTerms() && !terms.Accepted:
		return affiliate.Invalid("accept_terms", termsMissing)
	case program.HasTerms() && terms.Version != nil && *terms.Version != program.TermsVersion:
		return affiliate.Refuse(affiliate.ReasonTermsChanged)
	case !terms.Accepted:
		return nil
	}
	p.TermsAcceptedAt = &at
	if program.HasTerms() {
		p.TermsVersion = &program.TermsVersion
	}
	return nil
}

// Apply returns a new participant for a partner who applies to the programme. It is approved if
// the programme approves partners automatically. Errors: VALIDATION_ERROR if an answer is missing
// or invalid, or if the programme has terms that were not accepted; TERMS_CHANGED.
func Apply(target program.Program, partner account.User, answers map[string]string, terms TermsAcceptance, at time.Time) (Participant, error) {
	answers, found := program.CheckAnswers(target.Questions, answers)
	if target.HasTerms() && !terms.Accepted {
		found.Add("accept_terms", termsMissing)
	}
	if err := found.Err(); err != nil {
		return Participant{}, err
	}
	p, err := newAcceptedParticipant(target, partner, terms, at)
	if target.AutoApprovePartners {
		p.Status, p.ApprovedAt = Approved, &at
	}
	p.Answers = answers
	return p, err
}

// Invite is the invitation of a partner to a programme, as a row of the table participant_invites.
type Invite struct {
	account.Invite
	affiliate.Scope
	Program      affiliate.ProgramID `db:"program_id,fixed"`
	Group        *affiliate.GroupID  `db:"group_id"`
	ReferralCode string              `db:"referral_code,nullable"` // requested code, case-folded; if empty, the code is made from the partner's name
}

// ListedInvite is an invitation with the current name of the user who made it; nil if the user has
// left the workspace.
type ListedInvite struct {
	Invite
	InvitedByName *string
}

// Join returns a new, approved participant for the partner who accepted the invitation.
// Errors: VALIDATION_ERROR if the programme has terms that were not accepted, TERMS_CHANGED.
func (i Invite) Join(program program.Program, partner account.User, terms TermsAcceptance, at time.Time) (Participant, error) {
	p, err := newAcceptedParticipant(program, partner, terms, at)
	p.Group = i.Group
	p.Status, p.ApprovedAt = Approved, &at
	return p, err
}

// Mail returns the mail of the invitation, without the token and without the names of the
// workspace, the programme and the inviter.
func (i Invite) Mail() notification.Mail {
	return i.NewMail(notification.MailParticipantInvite, affiliate.Partner, i.Workspace)
}

// InviteDetails has the fields of an invitation that the audit log stores. The e-mail address
// is missing: it is stored only in the row of the invitation, where an erasure can remove it.
type InviteDetails struct {
	Program      affiliate.ProgramID `json:"program_id"`
	Group        *affiliate.GroupID  `json:"group_id"`
	ReferralCode string              `json:"referral_code"`
	// Replaces is the earlier invitation to the same e-mail address, which the new invitation
	// has ended. It is nil if there was no earlier invitation.
	Replaces *affiliate.InviteID `json:"replaces,omitempty"`
}

// Details returns the fields of i that the audit log stores.
func (i Invite) Details() InviteDetails {
	return InviteDetails{Program: i.Program, Group: i.Group, ReferralCode: i.ReferralCode}
}

// Enrolment is a merchant's request to add a partner to a programme
// (docs/merchant/partners-from-your-server.md#add-a-partner).
type Enrolment struct {
	Scope   affiliate.Scope
	Program affiliate.ProgramID
	Email   string // lower case
	Name    string
	// ExternalID is the merchant's own id of the partner; nil if there is none.
	ExternalID *string
	// ReferralCode is the requested code, case-folded. If it is empty, the code is made
	// from Name.
	ReferralCode string
	Group        *affiliate.GroupID
}

// Join returns a new participant of the programme for the partner. If the partner had no account
// before, the participant is approved. If the partner had one, the partner must accept first, and
// the participant has the name and the address of e, not of the account. TermsAcceptedAt stays nil,
// because the merchant must have shown the terms to a partner without an account.
func (e Enrolment) Join(program program.Program, partner affiliate.UserID, hadAccount bool, at time.Time) Participant {
	p := newParticipant(program, partner, at)
	p.PartnerName, p.PartnerEmail, p.ExternalID, p.Group = e.Name, e.Email, e.ExternalID, e.Group
	if hadAccount {
		p.Consent = ConsentAwaited
	} else {
		p.Status, p.ApprovedAt = Approved, &at
	}
	return p
}

// Account returns a new partner account that nobody can log in to until its owner has set
// a password.
func (e Enrolment) Account(at time.Time) account.User {
	return account.User{ID: affiliate.NewID[affiliate.UserID](at), Kind: affiliate.Partner, Email: e.Email, Name: e.Name, CreatedAt: at, Unclaimed: true}
}

// Invite returns an invitation with which the owner of an existing account accepts the
// participation.
func (e Enrolment) Invite(by affiliate.UserID, at time.Time) Invite {
	return Invite{
		Invite:  account.NewInvite(e.Email, by, at),
		Scope:   e.Scope,
		Program: e.Program,
	}
}

// ClaimMail returns the mail with which the owner of a partner's account sets the first password.
// The caller adds the token and the names of the workspace, the programme and the inviter. If
// hadAccount is true, the account was made earlier. The log of the workspace then does not contain
// the mail, because the merchant must not learn that nobody has claimed the account.
func (e Enrolment) ClaimMail(user affiliate.UserID, hadAccount bool, expiresAt, at time.Time) notification.Mail {
	mail := notification.Mail{
		ID: affiliate.NewID[notification.MailID](at), Kind: notification.MailPartnerClaim, Type: string(notification.MailPartnerClaim),
		Recipient: notification.Recipient{User: &user, Account: affiliate.Partner, Name: e.Name, Address: e.Email},
		Facts:     notification.MailFacts{ExpiresAt: &expiresAt}, CreatedAt: at,
	}
	if !hadAccount {
		mail.Workspace = &e.Scope.Workspace
	}
	return mail
}

// OfferNotification returns the notification to the partner about p. A merchant has made p for
// the partner's existing account.
func (p Participant) OfferNotification() notification.Notification {
	n := notification.NewNotification(affiliate.Partner, notification.PartnerFeed(p.Partner), notification.NotifyParticipationOffered, &p.Mode, p.CreatedAt)
	n.Workspace, n.Program, n.Participant, n.Resource = &p.Workspace, &p.Program, &p.ID, &p.ID.UUID
	return n
}

// Accept returns p after its partner has accepted the participation. The result has the name
// and the address of the given account. Errors: PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID
// if the consent is not missing or the merchant has withdrawn the participation,
// VALIDATION_ERROR if the programme has terms that were not accepted, TERMS_CHANGED.
func (p Participant) Accept(program program.Program, account account.User, terms TermsAcceptance, at time.Time) (Participant, error) {
	mayAccept := p.Consent == ConsentAwaited && p.Status == Pending || p.Consent == ConsentDeclined
	if p.ErasedAt != nil || !mayAccept {
		return p, p.RefuseMove()
	}
	if err := acceptTerms(&p, program, terms, at); err != nil {
		return p, err
	}
	p.Status, p.Consent, p.AppliedAt, p.ApprovedAt, p.RejectedAt = Approved, "", at, &at, nil
	p.PartnerName, p.PartnerEmail = account.Name, account.Email
	p.Version, p.UpdatedAt = p.Version+1, at
	return p, nil
}

// Decline returns p after its partner has declined the participation. Errors:
// PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID if p does not wait for the partner's consent.
func (p Participant) Decline(at time.Time) (Participant, error) {
	if p.ErasedAt != nil || p.Consent != ConsentAwaited || p.Status != Pending {
		return p, p.RefuseMove()
	}
	p.Status, p.Consent, p.RejectedAt = Rejected, ConsentDeclined, &at
	p.Version, p.UpdatedAt = p.Version+1, at
	return p, nil
}

// TokenLife is how long a participant token is valid.
const TokenLife = 15 * time.Minute

// Ref identifies a participant with its programme and its partner.
type Ref struct {
	Scope       affiliate.Scope
	Program     affiliate.ProgramID
	Participant affiliate.ParticipantID
	Partner     affiliate.UserID
}

// CheckApproved returns an error if the participant is erased, not approved or without the
// partner's consent. Errors: PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID.
func (p Participant) CheckApproved() error {
	if p.ErasedAt != nil || p.Status != Approved || p.Consent != "" {
		return p.RefuseMove()
	}
	return nil
}

// Patch changes the fields of a participant that a merchant edits.
type Patch struct {
	Note         affiliate.Change[string]
	Tags         affiliate.Change[[]string]
	Group        affiliate.Change[affiliate.GroupID]
	Override     affiliate.Change[program.Rate]
	ReferralCode affiliate.Change[string] // case-folded; clearing it has no effect, because every participant has a code
	ExternalID   affiliate.Change[string]
}

// Patch returns p with the given changes. It does not check that the group belongs to the
// programme or that the code is free. The database checks both.
func (p Participant) Patch(patch Patch) Participant {
	p.Note = patch.Note.ApplyOptional(p.Note)
	if p.Note != nil && *p.Note == "" {
		p.Note = nil
	}
	p.Tags = patch.Tags.Apply(p.Tags, []string{})
	p.Group = patch.Group.ApplyOptional(p.Group)
	var override program.Rate
	if rate := patch.Override.ApplyOptional(p.Override()); rate != nil {
		override = *rate
	}
	p.OverrideRateBps, p.OverrideFlatAmountCents = override.Bps, override.FlatCents
	p.ReferralCode = patch.ReferralCode.Apply(p.ReferralCode, p.ReferralCode)
	p.ExternalID = patch.ExternalID.ApplyOptional(p.ExternalID)
	return p
}

// Details holds the fields that a Patch can change.
type Details struct {
	ReferralCode string             `json:"referral_code"`
	Group        *affiliate.GroupID `json:"group_id"`
	Override     *program.Rate      `json:"commission_override"`
	Tags         []string           `json:"tags"`
	Note         *string            `json:"note"`
	ExternalID   *string            `json:"external_id"`
}

// Details returns the fields of p that a Patch can change.
func (p Participant) Details() Details {
	return Details{
		ReferralCode: p.ReferralCode, Group: p.Group, Override: p.Override(), Tags: p.Tags, Note: p.Note, ExternalID: p.ExternalID,
	}
}

// redactedText is what the audit log shows instead of a note or an external id.
const redactedText = "(changed)"

// ChangeTo returns the fields in which the result of a change differs from p, with their old
// and new values, for the audit log. It replaces the texts of the note and the external id,
// because merchants write about people in notes and an erasure cannot change the log.
func (p Participant) ChangeTo(after Participant) (oldValues, newValues map[string]json.RawMessage, err error) {
	if oldValues, newValues, err = affiliate.ChangedFields(p.Details(), after.Details()); err != nil {
		return nil, nil, err
	}
	for _, field := range []string{"note", "external_id"} {
		if err := affiliate.RedactChange(oldValues, newValues, field, func(string) string { return redactedText }); err != nil {
			return nil, nil, err
		}
	}
	return oldValues, newValues, nil
}
