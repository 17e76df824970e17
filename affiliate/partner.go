package affiliate

import (
	"time"
)

// PartnerProgram is a programme as a partner sees it.
type PartnerProgram struct {
	Program
	MerchantName string
	// Participation is nil if the partner does not take part in the programme.
	Participation *Participation
}

// Participation is a partner's participation in a programme, as the partner sees it.
type Participation struct {
	Participant ParticipantID
	Status      ParticipantStatus
	Consent     PartnerConsent
	// Link is the default link.
	Link Link
	// Rate is the partner's own rate, or the rate of its group. It is nil if the
	// programme's rules apply.
	Rate        *Rate
	Stats       ParticipantStats
	AppliedAt   time.Time
	ApprovedAt  *time.Time
	RejectedAt  *time.Time
	SuspendedAt *time.Time
}

// PartnerProgramFilter restricts a partner's list of programmes.
type PartnerProgramFilter struct {
	// Public lists the programmes that any partner may join, instead of those in which
	// the partner takes part.
	Public bool
	// Search is a prefix of the programme's name. Case does not matter.
	Search string
	// Program restricts the list to one programme; nil if it is not restricted.
	Program *ProgramID
}

// PartnerProfile is a partner's account as the partner sees it.
type PartnerProfile struct {
	ID          UserID
	Email       string // lower case
	Name        string
	Country     *string // ISO 3166-1 alpha-2
	CompanyName *string
	WebsiteURL  *string
	// Payout is nil until the partner sets a payout method.
	Payout    *PayoutDetails
	Version   int // increases by one with every change
	CreatedAt time.Time
}

// PartnerProfilePatch changes some fields of a profile.
type PartnerProfilePatch struct {
	Name        Change[string] // cannot be cleared
	Country     Change[string]
	CompanyName Change[string]
	WebsiteURL  Change[string]
}

// Patch returns p with the changes of patch. Errors: VALIDATION_ERROR.
func (p PartnerProfile) Patch(patch PartnerProfilePatch) (PartnerProfile, error) {
	p.Name = patch.Name.Apply(p.Name, "")
	if p.Name == "" {
		return p, Invalid("name", IsRequired)
	}
	p.Country = patch.Country.ApplyOptional(p.Country)
	p.CompanyName = patch.CompanyName.ApplyOptional(p.CompanyName)
	p.WebsiteURL = patch.WebsiteURL.ApplyOptional(p.WebsiteURL)
	return p, nil
}

// ProfileObject holds the fields of a profile that are compared after an update. The
// audit log of the account stores the names of the changed fields, not their values.
type ProfileObject struct {
	Name        string  `json:"name"`
	Country     *string `json:"country"`
	CompanyName *string `json:"company_name"`
	WebsiteURL  *string `json:"website_url"`
}

// Object returns the fields of p that are compared after an update.
func (p PartnerProfile) Object() ProfileObject {
	return ProfileObject{Name: p.Name, Country: p.Country, CompanyName: p.CompanyName, WebsiteURL: p.WebsiteURL}
}
