// Package partner has the programmes, the commissions and the profile of a partner as the
// partner sees them, over all workspaces.
package partner

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Program is a programme as a partner sees it.
type Program struct {
	program.Program
	MerchantName string
	// Participation is nil if the partner does not take part in the programme.
	Participation *Participation
}

// Participation is a partner's participation in a programme, as the partner sees it.
type Participation struct {
	Participant affiliate.ParticipantID
	Status      participant.Status
	Consent     participant.PartnerConsent
	// Link is the default link.
	Link link.Link
	// Rate is the partner's own rate, or the rate of the partner's group. It is nil if the
	// programme's rules apply.
	Rate        *program.Rate
	Stats       participant.Stats
	AppliedAt   time.Time
	ApprovedAt  *time.Time
	RejectedAt  *time.Time
	SuspendedAt *time.Time
}

// ProgramFilter restricts a partner's list of programmes.
type ProgramFilter struct {
	// Public lists the programmes that any partner may join, instead of those in which
	// the partner takes part.
	Public bool
	// Search is a prefix of the programme's name. Case does not matter.
	Search string
	// Program restricts the list to one programme; nil if it is not restricted.
	Program *affiliate.ProgramID
}

// Profile is a partner's account as the partner sees it: columns of the table users, and the
// payout method.
type Profile struct {
	ID          affiliate.UserID `db:"id,fixed"`
	Email       string           `db:"email,fixed"` // lower case
	Name        string
	Country     *string // ISO 3166-1 alpha-2
	CompanyName *string
	WebsiteURL  *string
	Locale      account.Locale  `db:"locale,nullable"` // empty until the partner chooses one
	Version     int             // increases by one with every change
	CreatedAt   time.Time       `db:"created_at,fixed"`
	Payout      *payout.Details `db:"-"` // nil until the partner sets a payout method
}

// ProfilePatch changes some fields of a profile.
type ProfilePatch struct {
	Name        affiliate.Change[string] // cannot be cleared
	Country     affiliate.Change[string]
	CompanyName affiliate.Change[string]
	WebsiteURL  affiliate.Change[string]
	Locale      affiliate.Change[account.Locale] // cannot be cleared
}

// Patch returns p with the given changes. Errors: VALIDATION_ERROR.
func (p Profile) Patch(patch ProfilePatch) (Profile, error) {
	p.Name = patch.Name.Apply(p.Name, "")
	if p.Name == "" {
		return p, affiliate.Invalid("name", affiliate.IsRequired)
	}
	p.Country = patch.Country.ApplyOptional(p.Country)
	p.CompanyName = patch.CompanyName.ApplyOptional(p.CompanyName)
	p.WebsiteURL = patch.WebsiteURL.ApplyOptional(p.WebsiteURL)
	p.Locale = patch.Locale.Apply(p.Locale, "")
	return p, nil
}

// ProfileObject holds the fields of a profile that are compared after an update. The
// audit log of the account stores the names of the changed fields, not their values.
type ProfileObject struct {
	Name        string         `json:"name"`
	Country     *string        `json:"country"`
	CompanyName *string        `json:"company_name"`
	WebsiteURL  *string        `json:"website_url"`
	Locale      account.Locale `json:"locale"`
}

// Object returns the fields of p that are compared after an update.
func (p Profile) Object() ProfileObject {
	return ProfileObject{Name: p.Name, Country: p.Country, CompanyName: p.CompanyName, WebsiteURL: p.WebsiteURL, Locale: p.Locale}
}

// Commission is a commission of a partner. The partner must not see the data about the
// buyer and the data that only the merchant may see; the message PartnerCommission has
// neither.
type Commission struct {
	commission.Commission
	ProgramName string
	Link        *affiliate.LinkID
	LinkCode    *string
	SubID       *string // of the click, else of the report, else of the link
	Explanation string  // of the decision in force when the commission was earned
}

// CommissionFilter restricts a partner's list of commissions. A zero field
// matches every commission.
type CommissionFilter struct {
	Program *affiliate.ProgramID
	Status  commission.Status
	Created affiliate.Period
}
