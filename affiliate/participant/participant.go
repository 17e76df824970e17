// Package participant has the rules of participants, the partners in one programme: how they
// are invited, apply and join, and the legal moves between their statuses.
package participant

import (
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

// Participant is a partner in a programme, as a row of the table participants. PartnerName
// and PartnerEmail are copies from the partner's account. A change of the account updates
// them, unless the partner's consent is missing.
type Participant struct {
	ID affiliate.ParticipantID `db:"id,fixed"`
	affiliate.Scope
	Program      affiliate.ProgramID `db:"program_id,fixed"`
	Partner      affiliate.UserID    `db:"partner_id,fixed"`
	PartnerName  string
	PartnerEmail string
	Status       Status
	ReferralCode string // case-folded
	// ExternalID is the merchant's own id of the partner, unique in the programme.
	ExternalID *string
	// Consent says whether the partner still has to accept the participation. While it is not
	// empty, PartnerName and PartnerEmail have the values that the merchant gave, not the
	// values of the account.
	Consent                 PartnerConsent     `db:"partner_consent,nullable"`
	Group                   *affiliate.GroupID `db:"group_id"`
	OverrideRateBps         *int64             // see Override
	OverrideFlatAmountCents *int64
	Tags                    []string
	Note                    *string
	Answers                 map[string]string `db:"application_answers,fixed"`
	TermsAcceptedAt         *time.Time
	TermsVersion            *int // the version of the programme's terms that was accepted; nil if none was
	AppliedAt               time.Time
	ApprovedAt              *time.Time
	RejectedAt              *time.Time
	RejectionReason         *string
	SuspendedAt             *time.Time
	SuspensionReason        *string
	ErasedAt                *time.Time
	Version                 int       // increases by one with every change
	CreatedAt               time.Time `db:"created_at,fixed"`
	UpdatedAt               time.Time
}

// Override returns the rate that takes precedence over every other rate; nil if there is
// none.
func (p Participant) Override() *program.Rate {
	if p.OverrideRateBps == nil && p.OverrideFlatAmountCents == nil {
		return nil
	}
	return &program.Rate{Bps: p.OverrideRateBps, FlatCents: p.OverrideFlatAmountCents}
}

// PartnerConsent says whether a partner has accepted a participation that a merchant made
// for the partner's existing account. It is empty if the participation needs no consent
// or has it.
type PartnerConsent string

// The values of a missing consent. A participation with ConsentAwaited was never approved: it
// is pending, or rejected if the merchant has withdrawn it. A participation with
// ConsentDeclined is rejected, and the partner can still accept it.
const (
	ConsentAwaited  PartnerConsent = "awaited"
	ConsentDeclined PartnerConsent = "declined"
)

// Detail is a participant with its stats.
type Detail struct {
	Participant
	Stats
	ProgramName string
	Currency    string // of the programme
}

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

// Move returns p after a move. The parameter reason is for a rejection or a suspension; it may
// be nil. If p is no longer rejected or suspended, the time and the reason of the rejection or
// suspension are cleared; the audit log keeps them. Errors: PARTICIPANT_ERASED,
// PARTICIPANT_STATE_INVALID, also for the approval of a participant without the partner's
// consent.
func (p Participant) Move(move Move, reason *string, at time.Time) (Participant, error) {
	if p.ErasedAt != nil || !slices.Contains(move.From(), p.Status) || move == ApproveParticipant && p.Consent != "" {
		return p, p.RefuseMove()
	}
	p.Status, p.RejectedAt, p.RejectionReason, p.SuspendedAt, p.SuspensionReason = move.To(), nil, nil, nil, nil
	switch move {
	case ApproveParticipant:
		p.ApprovedAt = &at
	case RejectParticipant:
		p.RejectedAt, p.RejectionReason = &at, reason
	case SuspendParticipant:
		p.SuspendedAt, p.SuspensionReason = &at, reason
	case ReinstateParticipant:
	}
	p.Version, p.UpdatedAt = p.Version+1, at
	return p, nil
}

// NotInProgram returns the error for a participant that does not belong to
// the programme.
func NotInProgram() *affiliate.Error {
	return affiliate.Invalid("participant_id", "must be a participant of the programme")
}

// CheckNewCode returns an error if the participant is erased or rejected, and therefore cannot
// get another link or promo code. A participant who cannot earn would occupy the code, and no
// other participant could use it. A partner who has not accepted the participation cannot add a
// code either, because the merchant must not learn who the partner is. Errors:
// PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID.
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

// RefuseMove returns the error for a move that the participant's status or erasure, or a
// missing consent of the partner, does not allow.
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
	// Active says that the programme is active and the link is not deleted. If it is false,
	// clicks are rejected.
	Active bool
	// Erased says that the participant is erased. The erasure replaces the texts of the code
	// and the link soon after.
	Erased     bool
	WindowDays int
	Model      program.AttributionModel
	// Link is the link to which the code belongs. An alias, which is a former code of
	// the participant, belongs to the default link.
	Link ShortLink
	// Discount is the participant's newest promo code that can still be used; nil if there is
	// none.
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
	// The merchant's reason is not part of the facts, because partners must not see it.
	return affiliate.Notice{Program: &o.Program, Participant: &o.ID, Resource: o.ID.UUID}
}

// Filter restricts a list of a programme's participants. A participant must
// match all fields that are set; a zero field matches every participant.
type Filter struct {
	Status Status
	Group  *affiliate.GroupID
	// ExternalID is the merchant's own id of the partner. The comparison is exact.
	ExternalID string
	// Tag is a tag of the participant. The comparison is exact.
	Tag string
	// Search is a prefix of the partner's name or e-mail address, of a present or
	// former referral code, or of the participant id. Case does not matter.
	Search string
	// HideEmails excludes e-mail addresses from the search, as in commission.Filter.
	HideEmails bool
}

// Sort is a column by which a list of participants can be sorted.
type Sort string

// The sortable columns, by their names in the API.
const (
	ParticipantsByAge         Sort = "createdAt"
	ParticipantsByName        Sort = "partnerName" // case does not matter
	ParticipantsByClicks      Sort = "clicks"
	ParticipantsByConversions Sort = "conversions"
	ParticipantsByRevenue     Sort = "revenueCents"
	ParticipantsByCommission  Sort = "commissionCents"
)

// Order is the order of a list. In both directions, rows with equal values
// are sorted by age, the newest first. Lists that are sorted by a count use sums that a
// job updates, so the order can be based on slightly older counts than the rows show.
type Order struct {
	By        Sort
	Ascending bool
}

// RateCounts holds the numbers of approved participants of a programme by the rate that applies
// to them: that of the programme, that of their group, or their own.
type RateCounts struct {
	OfProgram int64 `db:"-"`
	OfGroup   int64
	Own       int64
}

// Capped returns the counts with at most affiliate.MaxTotal participants of other rates than the
// programme's, and reports whether there are more.
func (c RateCounts) Capped() (capped RateCounts, more bool) {
	over := max(0, c.Own+c.OfGroup-affiliate.MaxTotal)
	fromGroup := min(over, c.OfGroup)
	c.OfGroup, c.Own = c.OfGroup-fromGroup, c.Own-(over-fromGroup)
	return c, over > 0
}
