package affiliate

import (
	"crypto/rand"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"
)

// ParticipantStatus is where a partner stands in a programme. Only an approved
// one earns.
type ParticipantStatus string

// The statuses of a participant.
const (
	ParticipantPending   ParticipantStatus = "pending"
	ParticipantApproved  ParticipantStatus = "approved"
	ParticipantRejected  ParticipantStatus = "rejected"
	ParticipantSuspended ParticipantStatus = "suspended"
)

// Participant is a partner in a programme.
type Participant struct {
	ID               ParticipantID
	Scope            Scope
	Program          ProgramID
	Partner          UserID
	PartnerName      string
	PartnerEmail     string
	Status           ParticipantStatus
	ReferralCode     string // case-folded
	Group            *GroupID
	Override         *Rate // wins over every other rate
	Tags             []string
	Note             *string
	Stats            ParticipantStats
	Answers          map[string]string
	TermsAcceptedAt  *time.Time
	AppliedAt        time.Time
	ApprovedAt       *time.Time
	RejectedAt       *time.Time
	RejectionReason  *string
	SuspendedAt      *time.Time
	SuspensionReason *string
	ErasedAt         *time.Time
	Version          int // one more with every change
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

// ParticipantStats is what a participant has brought and earned since ever;
// amounts are in minor units of the programme's currency.
type ParticipantStats struct {
	Clicks          int64 // without those of bots
	Conversions     int64
	RevenueCents    int64
	CommissionCents int64 // neither rejected nor refunded
	BalanceCents    int64 // what the ledger says is owed; may be negative
}

// ParticipantMove is what a merchant does with a participant.
type ParticipantMove string

// The moves. Two of them lead to approved, so the status alone does not say
// which one is meant.
const (
	ApproveParticipant   ParticipantMove = "approve"
	RejectParticipant    ParticipantMove = "reject"
	SuspendParticipant   ParticipantMove = "suspend"
	ReinstateParticipant ParticipantMove = "reinstate"
)

// participantMoves are the legal ones (DECISIONS.md section 6); any other is
// PARTICIPANT_STATE_INVALID. A rejected partner cannot apply again, but the
// merchant can think again.
var participantMoves = map[ParticipantMove]struct {
	from  []ParticipantStatus
	to    ParticipantStatus
	event EventName
}{
	ApproveParticipant:   {[]ParticipantStatus{ParticipantPending, ParticipantRejected}, ParticipantApproved, EventParticipantApproved},
	RejectParticipant:    {[]ParticipantStatus{ParticipantPending}, ParticipantRejected, EventParticipantRejected},
	SuspendParticipant:   {[]ParticipantStatus{ParticipantApproved}, ParticipantSuspended, EventParticipantSuspended},
	ReinstateParticipant: {[]ParticipantStatus{ParticipantSuspended}, ParticipantApproved, EventParticipantReinstated},
}

// From are the statuses that the move starts from.
func (m ParticipantMove) From() []ParticipantStatus { return slices.Clone(participantMoves[m].from) }

// To is the status that the move leads to.
func (m ParticipantMove) To() ParticipantStatus { return participantMoves[m].to }

// Event is what the world is told about the move.
func (m ParticipantMove) Event() EventName { return participantMoves[m].event }

// Application is a partner's wish to join a programme.
type Application struct {
	Program ProgramID
	Partner UserID
	Mode    Mode
	// ReferralCode is case-folded; empty: made from the partner's name.
	ReferralCode string
	Answers      map[string]string
	AcceptTerms  bool
}

// Join returns the partner as a new participant of the programme, approved if the
// programme approves partners automatically. Errors: VALIDATION_ERROR for terms that
// are not accepted.
func (a Application) Join(program Program, at time.Time) (Participant, error) {
	p, err := newParticipant(program, a.Partner, a.AcceptTerms, at)
	if a.Answers != nil {
		p.Answers = a.Answers
	}
	if program.AutoApprovePartners {
		p.Status, p.ApprovedAt = ParticipantApproved, &at
	}
	return p, err
}

// newParticipant makes a pending participant without the partner's name and
// address. Errors: VALIDATION_ERROR for terms that are not accepted.
func newParticipant(program Program, partner UserID, acceptTerms bool, at time.Time) (Participant, error) {
	p := Participant{
		ID: NewID[Participant](at), Scope: program.Scope, Program: program.ID, Partner: partner,
		Status: ParticipantPending, Tags: []string{}, Answers: map[string]string{},
		AppliedAt: at, Version: 1, CreatedAt: at, UpdatedAt: at,
	}
	if program.TermsURL != nil && !acceptTerms {
		return p, Invalid("accept_terms", "must be true because the programme has terms")
	}
	if acceptTerms {
		p.TermsAcceptedAt = &at
	}
	return p, nil
}

// ParticipantNotInProgram makes the refusal of a participant that the programme does
// not have.
func ParticipantNotInProgram() *Error {
	return Invalid("participant_id", "must be a participant of the programme")
}

// CheckNewCode refuses another link or promo code for a participant that is erased or
// rejected, because a code can never be given to somebody else.
func (p Participant) CheckNewCode() error {
	switch {
	case p.ErasedAt != nil:
		return Refuse(ReasonParticipantErased)
	case p.Status == ParticipantRejected:
		return refuseStatus(ReasonParticipantState, p.Status)
	}
	return nil
}

// RefuseMove makes the refusal of a move that the participant does not allow.
func (p Participant) RefuseMove() *Error {
	if p.ErasedAt != nil {
		return refuseStatus(ReasonParticipantErased, p.Status)
	}
	return refuseStatus(ReasonParticipantState, p.Status)
}

// ParticipantPatch changes what a merchant keeps about a participant.
type ParticipantPatch struct {
	Note         Change[string]
	Tags         Change[[]string]
	Group        Change[GroupID]
	Override     Change[Rate]
	ReferralCode Change[string] // case-folded; there is always one, so clearing changes nothing
}

// Patch is p changed by patch. Whether the group is the programme's and the code
// is free, only the database knows.
func (p Participant) Patch(patch ParticipantPatch) Participant {
	p.Note = patch.Note.orNil(p.Note)
	if p.Note != nil && *p.Note == "" {
		p.Note = nil
	}
	p.Tags = patch.Tags.or(p.Tags, []string{})
	p.Group = patch.Group.orNil(p.Group)
	p.Override = patch.Override.orNil(p.Override)
	p.ReferralCode = patch.ReferralCode.or(p.ReferralCode, p.ReferralCode)
	return p
}

// ParticipantDetails are what a patch changes.
type ParticipantDetails struct {
	ReferralCode string   `json:"referral_code"`
	Group        *GroupID `json:"group_id"`
	Override     *Rate    `json:"commission_override"`
	Tags         []string `json:"tags"`
	Note         *string  `json:"note"`
}

// Details are p's.
func (p Participant) Details() ParticipantDetails {
	return ParticipantDetails{ReferralCode: p.ReferralCode, Group: p.Group, Override: p.Override, Tags: p.Tags, Note: p.Note}
}

// noteInLog replaces every note in the audit log.
const noteInLog = "(changed)"

// ChangeTo compares the details of p and after for the audit log, as Changed does. Of
// the note the log keeps only that it changed, because merchants write about people
// there.
func (p Participant) ChangeTo(after Participant) (was, is map[string]json.RawMessage, err error) {
	if was, is, err = Changed(p.Details(), after.Details()); err != nil {
		return nil, nil, err
	}
	return was, is, RedactChange(was, is, "note", func(string) string { return noteInLog })
}

// ParticipantObject is a participant as events carry it.
type ParticipantObject struct {
	ID           ParticipantID     `json:"id"`
	Program      ProgramID         `json:"program_id"`
	Partner      UserID            `json:"partner_id"` // the partner, who may take part in several programmes
	PartnerName  string            `json:"partner_name"`
	ReferralCode string            `json:"referral_code"` // of the default link, in lower case
	Status       ParticipantStatus `json:"status"`
	// Reason is why it was rejected or suspended, where that was said.
	Reason  *string `json:"reason"`
	Version int     `json:"version"`
}

// Object is p as events carry it.
func (p Participant) Object() ParticipantObject {
	object := ParticipantObject{
		ID: p.ID, Program: p.Program, Partner: p.Partner, PartnerName: p.PartnerName,
		ReferralCode: p.ReferralCode, Status: p.Status, Version: p.Version,
	}
	switch p.Status {
	case ParticipantRejected:
		object.Reason = p.RejectionReason
	case ParticipantSuspended:
		object.Reason = p.SuspensionReason
	case ParticipantPending, ParticipantApproved:
	}
	return object
}

// JoinedParticipant is a new participant as the audit log keeps it: the name
// stays in the rows, where erasure finds it.
type JoinedParticipant struct {
	ID           ParticipantID     `json:"id"`
	Program      ProgramID         `json:"program_id"`
	Partner      UserID            `json:"partner_id"`
	ReferralCode string            `json:"referral_code"`
	Status       ParticipantStatus `json:"status"`
	Version      int               `json:"version"`
}

// Joined is p, which is new, as the audit log keeps it.
func (p Participant) Joined() JoinedParticipant {
	return JoinedParticipant{
		ID: p.ID, Program: p.Program, Partner: p.Partner, ReferralCode: p.ReferralCode, Status: p.Status, Version: p.Version,
	}
}

// ReviewParticipantSuspended flags the pending commissions of a participant who
// was suspended.
const ReviewParticipantSuspended = "participant_suspended"

// ReferralTarget is a referral code with all that the edge needs to know of it.
type ReferralTarget struct {
	Scope       Scope
	Code        string // case-folded
	Program     ProgramID
	Participant ParticipantID
	// Active says that the programme is and that the link was not deleted: other
	// clicks are turned away.
	Active     bool
	WindowDays int
	Model      AttributionModel
	// Link is where the code leads; of an alias, the default link.
	Link ShortLink
	// Discount is the participant's newest promo code that can be used; nil
	// without one.
	Discount *Discount
}

// ShortLink is a link as the redirect at the edge needs it.
type ShortLink struct {
	ID  LinkID
	Key string // ten base62 characters
	// Code is the link's current one, which an alias is not.
	Code string
	// TargetURL is the link's URL; empty when its host is not allowed any more.
	TargetURL string
	SubID     string
	UTM       UTM
}

// Discount is a promo code that a landing page may offer.
type Discount struct {
	PromoCode string
	Type      DiscountType
	Value     int64 // basis points, or minor units of Currency
	Currency  string
	ExpiresAt *time.Time
}

// Lengths of a referral code. A code that is made from a name leaves room for
// the random characters that tell it from its namesakes.
const (
	MinReferralCode   = 3
	MaxReferralCode   = 50
	maxNameInCode     = 24
	randomInCode      = 3
	randomCode        = 8
	namesakeAttempts  = 8
	referralAlphabet  = "abcdefghijkmnpqrstuvwxyz23456789" // 32, none that look alike
	referralSeparator = "-"
)

// reservedCodes are refused, whoever asks: words of our own addresses, values
// that a broken site puts into every link, and sources that other people's ref=
// parameters name, whose traffic would all go to one partner.
var reservedCodes = func() map[string]bool {
	words := strings.Fields(`
		admin administrator api app assets auth billing collector dashboard help login logout mail oauth
		root signup static support system tributary webhook webhooks www
		false nan nil none null true undefined
		bing email facebook google instagram linkedin newsletter pinterest producthunt reddit tiktok twitter youtube`)
	reserved := make(map[string]bool, len(words))
	for _, word := range words {
		reserved[word] = true
	}
	return reserved
}()

// ReservedCode reports whether nobody may have the code.
func ReservedCode(code string) bool { return reservedCodes[FoldCode(code)] }

// ReferralCodes are the codes to try for a partner who did not choose one, in
// that order: the name; the name with random characters, a few times; random
// characters alone, forever.
func ReferralCodes(name string) iter.Seq[string] {
	base := slug(name, maxNameInCode)
	return func(yield func(string) bool) {
		if len(base) >= MinReferralCode && !ReservedCode(base) && !yield(base) {
			return
		}
		for range namesakeAttempts {
			if base == "" {
				break
			}
			if !yield(base + referralSeparator + randomLetters(randomInCode)) {
				return
			}
		}
		for {
			if !yield(randomLetters(randomCode)) {
				return
			}
		}
	}
}

func randomLetters(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // crypto/rand.Read never fails
	for i := range b {
		b[i] = referralAlphabet[int(b[i])%len(referralAlphabet)]
	}
	return string(b)
}

// MaskEmail leaves of an address what tells two partners apart and reaches
// neither: the first character and the domain.
func MaskEmail(email string) string {
	at := strings.LastIndexByte(email, '@')
	if at < 1 {
		return "***"
	}
	for i := range email[:at] {
		if i > 0 {
			return email[:i] + "***" + email[at:]
		}
	}
	return email[:at] + "***" + email[at:]
}
