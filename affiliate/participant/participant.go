// Package participant has the rules of participants, the partners in one programme: how they
// are invited, apply and join, and the legal moves between their statuses.
package participant

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
)

// Status is the status of a partner in a programme. Only approved
// participants earn commissions.
type Status string

// The statuses of a participant.
const (
	Pending   Status = "pending"
	Approved  Status = "approved"
	Rejected  Status = "rejected"
	Suspended Status = "suspended"
)

// Participant is a partner in a programme.
type Participant struct {
	ID           affiliate.ParticipantID
	Scope        affiliate.Scope
	Program      affiliate.ProgramID
	Partner      affiliate.UserID
	PartnerName  string
	PartnerEmail string
	Status       Status
	ReferralCode string // case-folded
	// ExternalID is the merchant's own id of the partner, unique in the programme.
	ExternalID *string
	// Consent says whether the partner still has to accept the participation. While it is
	// set, PartnerName and PartnerEmail are what the merchant gave, not what the account
	// has.
	Consent          PartnerConsent
	Group            *affiliate.GroupID
	Override         *program.Rate // takes precedence over every other rate
	Tags             []string
	Note             *string
	Stats            Stats
	Answers          map[string]string
	TermsAcceptedAt  *time.Time
	AppliedAt        time.Time
	ApprovedAt       *time.Time
	RejectedAt       *time.Time
	RejectionReason  *string
	SuspendedAt      *time.Time
	SuspensionReason *string
	ErasedAt         *time.Time
	Version          int // increases by one with every change
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// PartnerConsent says whether a partner has accepted a participation that a merchant made
// for the partner's existing account. It is empty if the participation needs no consent
// or has it.
type PartnerConsent string

// The values of a missing consent. A participation with ConsentAwaited was never
// approved: it is pending, or rejected if the merchant has withdrawn it. One with
// ConsentDeclined is rejected, and the partner can still accept it.
const (
	ConsentAwaited  PartnerConsent = "awaited"
	ConsentDeclined PartnerConsent = "declined"
)

// Stats holds totals of a participant over all time. Amounts are in minor
// units of the programme's currency.
type Stats struct {
	Clicks          int64 // without clicks of bots
	Conversions     int64
	RevenueCents    int64
	CommissionCents int64 // without rejected and refunded commissions
	BalanceCents    int64 // ledger balance; may be negative
}

// Move is an action of a merchant on a participant.
type Move string

// The moves. Two of them lead to the status approved, so the new status does not
// identify the move.
const (
	ApproveParticipant   Move = "approve"
	RejectParticipant    Move = "reject"
	SuspendParticipant   Move = "suspend"
	ReinstateParticipant Move = "reinstate"
)

// participantMoves lists the legal moves. Any other move fails with
// PARTICIPANT_STATE_INVALID. A rejected partner cannot apply again, but the merchant can
// still approve the application.
var participantMoves = map[Move]struct {
	from  []Status
	to    Status
	event affiliate.EventName
}{
	ApproveParticipant:   {[]Status{Pending, Rejected}, Approved, affiliate.EventParticipantApproved},
	RejectParticipant:    {[]Status{Pending}, Rejected, affiliate.EventParticipantRejected},
	SuspendParticipant:   {[]Status{Approved}, Suspended, affiliate.EventParticipantSuspended},
	ReinstateParticipant: {[]Status{Suspended}, Approved, affiliate.EventParticipantReinstated},
}

// From returns the statuses in which the move is legal.
func (m Move) From() []Status { return slices.Clone(participantMoves[m].from) }

// To returns the status after the move.
func (m Move) To() Status { return participantMoves[m].to }

// Event returns the name of the webhook event of the move.
func (m Move) Event() affiliate.EventName { return participantMoves[m].event }

// Application is a partner's application to join a programme.
type Application struct {
	Program affiliate.ProgramID
	Partner affiliate.UserID
	Mode    affiliate.Mode
	// ReferralCode is the requested code, case-folded. If it is empty, the code is made
	// from the partner's name.
	ReferralCode string
	Answers      map[string]string
	AcceptTerms  bool
}

// Join returns the partner as a new participant of the programme, approved if the
// programme approves partners automatically. Errors: VALIDATION_ERROR if the programme
// has terms that were not accepted.
func (a Application) Join(program program.Program, at time.Time) (Participant, error) {
	p, err := newAcceptedParticipant(program, a.Partner, a.AcceptTerms, at)
	if a.Answers != nil {
		p.Answers = a.Answers
	}
	if program.AutoApprovePartners {
		p.Status, p.ApprovedAt = Approved, &at
	}
	return p, err
}

// newParticipant returns a pending participant without name and e-mail address.
func newParticipant(program program.Program, partner affiliate.UserID, at time.Time) Participant {
	return Participant{
		ID: affiliate.NewID[affiliate.ParticipantID](at), Scope: program.Scope, Program: program.ID, Partner: partner,
		Status: Pending, Tags: []string{}, Answers: map[string]string{},
		AppliedAt: at, Version: 1, CreatedAt: at, UpdatedAt: at,
	}
}

// newAcceptedParticipant returns a new participant for a partner who joins the programme.
// Errors: VALIDATION_ERROR if the programme has terms that were not accepted.
func newAcceptedParticipant(program program.Program, partner affiliate.UserID, acceptTerms bool, at time.Time) (Participant, error) {
	p := newParticipant(program, partner, at)
	if acceptTerms {
		p.TermsAcceptedAt = &at
	}
	return p, checkTerms(program, acceptTerms)
}

// checkTerms returns VALIDATION_ERROR if the programme has terms that were not accepted.
func checkTerms(p program.Program, accepted bool) error {
	if p.TermsURL != nil && !accepted {
		return affiliate.Invalid("accept_terms", "must be true because the programme has terms")
	}
	return nil
}

// NotInProgram returns the error for a participant that does not belong to
// the programme.
func NotInProgram() *affiliate.Error {
	return affiliate.Invalid("participant_id", "must be a participant of the programme")
}

// CheckNewCode returns an error if the participant is erased or rejected, and therefore
// cannot get another link or promo code. Otherwise the code would be taken by a
// participant who cannot earn with it, and no other participant could use it. A partner who
// has not accepted the participation cannot add a code either, because the merchant must not
// learn who the partner is. Errors: PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID.
func (p Participant) CheckNewCode(by affiliate.Actor) error {
	switch {
	case p.ErasedAt != nil:
		return affiliate.Refuse(affiliate.ReasonParticipantErased)
	case p.Consent != "" && by.User != nil && *by.User == p.Partner:
		return p.RefuseMove()
	case p.Status == Rejected:
		return affiliate.RefuseStatus(affiliate.ReasonParticipantState, p.Status)
	}
	return nil
}

// RefuseMove returns the error for a move that is not legal in the participant's
// status.
func (p Participant) RefuseMove() *affiliate.Error {
	if p.ErasedAt != nil {
		return affiliate.RefuseStatus(affiliate.ReasonParticipantErased, p.Status)
	}
	refusal := affiliate.RefuseStatus(affiliate.ReasonParticipantState, p.Status)
	if p.Consent != "" {
		refusal.Message = "The partner has not accepted the participation."
	}
	return refusal
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

// Patch returns p with the changes of patch. It does not check that the group belongs
// to the programme or that the code is free. The database checks both.
func (p Participant) Patch(patch Patch) Participant {
	p.Note = patch.Note.ApplyOptional(p.Note)
	if p.Note != nil && *p.Note == "" {
		p.Note = nil
	}
	p.Tags = patch.Tags.Apply(p.Tags, []string{})
	p.Group = patch.Group.ApplyOptional(p.Group)
	p.Override = patch.Override.ApplyOptional(p.Override)
	p.ReferralCode = patch.ReferralCode.Apply(p.ReferralCode, p.ReferralCode)
	p.ExternalID = patch.ExternalID.ApplyOptional(p.ExternalID)
	return p
}

// Details holds the fields that a patch changes.
type Details struct {
	ReferralCode string             `json:"referral_code"`
	Group        *affiliate.GroupID `json:"group_id"`
	Override     *program.Rate      `json:"commission_override"`
	Tags         []string           `json:"tags"`
	Note         *string            `json:"note"`
	ExternalID   *string            `json:"external_id"`
}

// Details returns the fields of p that a patch changes.
func (p Participant) Details() Details {
	return Details{
		ReferralCode: p.ReferralCode, Group: p.Group, Override: p.Override, Tags: p.Tags, Note: p.Note, ExternalID: p.ExternalID,
	}
}

// redactedText is what the audit log shows instead of a note or an external id.
const redactedText = "(changed)"

// ChangeTo returns the fields that differ between p and after, with their old and new
// values, for the audit log. It replaces the text of the note, because merchants write
// about people in notes, and the external id, because an erasure cannot change the log.
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

// Object is a participant as events show it.
type Object struct {
	ID           affiliate.ParticipantID `json:"id"`
	Program      affiliate.ProgramID     `json:"program_id"`
	Partner      *affiliate.UserID       `json:"partner_id"`  // the partner, who can take part in several programmes; null until the partner has accepted
	ExternalID   *string                 `json:"external_id"` // the merchant's own id of the partner; null if there is none
	PartnerName  string                  `json:"partner_name"`
	ReferralCode string                  `json:"referral_code"` // code of the default link, in lower case
	Status       Status                  `json:"status"`
	// Reason says why the participant was rejected or suspended; null if no reason was
	// given.
	Reason  *string `json:"reason"`
	Version int     `json:"version"`
}

// Object returns p as events show it.
func (p Participant) Object() Object {
	object := Object{
		ID: p.ID, Program: p.Program, Partner: p.VisiblePartner(), ExternalID: p.ExternalID, PartnerName: p.PartnerName,
		ReferralCode: p.ReferralCode, Status: p.Status, Version: p.Version,
	}
	switch p.Status {
	case Rejected:
		object.Reason = p.RejectionReason
	case Suspended:
		object.Reason = p.SuspensionReason
	case Pending, Approved:
	}
	return object
}

// Event returns a webhook event about the participant. previous holds the values that the
// changed fields had before; nil if no field changed. While the partner's consent is
// missing, the partner gets no notification about the event.
func (p Participant) Event(name affiliate.EventName, at time.Time, previous any) affiliate.Event {
	event := affiliate.NewEvent(p.Scope, name, at, p.Object(), previous)
	event.Partner = p.VisiblePartner()
	return event
}

// VisiblePartner returns the id of the partner's account as the merchant may see it. It
// is nil while the partner's consent is missing: the id contains the time at which the
// account was created, and the merchant may only learn that the account exists.
func (p Participant) VisiblePartner() *affiliate.UserID {
	if p.Consent != "" {
		return nil
	}
	return &p.Partner
}

// JoinedParticipant is a new participant as the audit log shows it. It does not contain
// the partner's name, because an erasure cannot change the audit log.
type JoinedParticipant struct {
	ID           affiliate.ParticipantID `json:"id"`
	Program      affiliate.ProgramID     `json:"program_id"`
	Partner      *affiliate.UserID       `json:"partner_id"`
	ReferralCode string                  `json:"referral_code"`
	Status       Status                  `json:"status"`
	Version      int                     `json:"version"`
}

// Joined returns p as the audit log shows a new participant.
func (p Participant) Joined() JoinedParticipant {
	return JoinedParticipant{
		ID: p.ID, Program: p.Program, Partner: p.VisiblePartner(), ReferralCode: p.ReferralCode, Status: p.Status, Version: p.Version,
	}
}

// ReviewParticipantSuspended is the review reason of pending commissions of a suspended
// participant.
const ReviewParticipantSuspended = "participant_suspended"

// ReferralTarget is a referral code with the data that the collector needs to handle
// clicks with this code.
type ReferralTarget struct {
	Scope       affiliate.Scope
	Code        string // case-folded
	Program     affiliate.ProgramID
	Participant affiliate.ParticipantID
	// Active says that the programme is active and the link is not deleted. Otherwise
	// clicks are rejected.
	Active bool
	// Erased says that the participant is erased. An erasure replaces the texts of the code
	// and the link soon.
	Erased     bool
	WindowDays int
	Model      program.AttributionModel
	// Link is the link to which the code belongs. An alias, which is a former code of
	// the participant, belongs to the default link.
	Link ShortLink
	// Discount is the newest of those promo codes of the participant that can still be
	// used; nil if there is none.
	Discount *Discount
}

// ShortLink is a link with the data that the collector needs for a redirect.
type ShortLink struct {
	ID  affiliate.LinkID
	Key string // ten base62 characters
	// Code is the current code of the link. It differs from the code in the request if
	// that code is an alias.
	Code string
	// TargetURL is the URL of the link; empty if its host is not allowed any more.
	TargetURL string
	SubID     string
	UTM       click.UTM
}

// Discount is a promo code that a landing page may offer.
type Discount struct {
	PromoCode string
	Type      promocode.DiscountType
	Value     int64 // basis points, or minor units of Currency
	Currency  string
	ExpiresAt *time.Time
}

// Subject returns the participant whose personal data the object contains.
func (o Object) Subject() affiliate.ParticipantID { return o.ID }

// Notice returns the facts for the notifications about the event.
func (o Object) Notice() affiliate.Notice {
	// The reason of the merchant is not a fact, because partners must not see it.
	return affiliate.Notice{Program: &o.Program, Participant: &o.ID, Resource: o.ID.UUID}
}
