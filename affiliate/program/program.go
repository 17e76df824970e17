// Package program has the rules of programmes: their settings, the versions of their
// commission rules, and the groups of partners with a rate of their own.
package program

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/link"
)

// Status is the status of a programme. Only an active programme accepts clicks, and only its
// conversions earn commissions.
type Status string

// The statuses of a programme.
const (
	Draft    Status = "draft"
	Active   Status = "active"
	Paused   Status = "paused"
	Archived Status = "archived"
)

// programMoves lists for each status the statuses from which it can be reached.
// No move leads to draft, and none leads out of archived.
var programMoves = map[Status][]Status{
	Active:   {Draft, Paused},
	Paused:   {Active},
	Archived: {Draft, Active, Paused},
}

// AttributionModel says which of a visitor's clicks earns.
type AttributionModel string

// The two models.
const (
	LastClick  AttributionModel = "last_click"
	FirstClick AttributionModel = "first_click"
)

// SignalPrecedence says which of a conversion's signals is checked first.
type SignalPrecedence string

// The two orders. In both, the customer's binding comes last. There is one exception: under
// FirstClick, a binding whose WindowEndsAt has not passed comes directly before a click that was
// received later.
const (
	ClickFirst     SignalPrecedence = "click_first"
	PromoCodeFirst SignalPrecedence = "promo_code_first"
)

// Defaults of a programme.
const (
	DefaultWindowDays  = 60
	DefaultModel       = LastClick
	DefaultPrecedence  = ClickFirst
	DefaultLinkParam   = "via"
	DefaultFraudPolicy = fraud.Flag
)

// Program is a merchant's programme with the rules in force.
type Program struct {
	ID affiliate.ProgramID `db:"id,fixed"`
	affiliate.Scope
	Name                string
	Slug                string
	Description         *string
	Status              Status
	WebsiteURL          *string
	AllowedDomains      []string // if empty, LinkHosts returns the hosts of WebsiteURL and LandingURL
	LandingURL          *string
	Currency            string           // ISO 4217
	WindowDays          int              `db:"attribution_window_days"` // days of 24 hours
	Model               AttributionModel `db:"attribution_model"`
	Precedence          SignalPrecedence `db:"signal_precedence"`
	LinkParam           string
	AutoApprovePartners bool
	IsPublic            bool
	Rules               Rules `db:"rules,fixed"` // an update writes them only if RulesVersion has changed
	RulesVersion        int
	MinPayoutCents      int64
	PayoutTermDays      int // least number of days from a commission's approval to its payout
	FraudPolicy         fraud.Policy
	PublicText          *string    // paragraphs on the public page
	Questions           []Question `db:"application_questions"`
	TermsURL            *string    // at most one of TermsURL and TermsText is set
	TermsText           *string
	TermsVersion        int       // increases by one with every change of TermsURL or TermsText; 0 if there were none
	Version             int       // increases by one with every change
	CreatedAt           time.Time `db:"created_at,fixed"`
	UpdatedAt           time.Time
}

// Filter restricts a list of programmes. A zero field matches every programme.
type Filter struct {
	Status Status
	Search string // prefix of the name; case does not matter
}

// Patch changes some fields of a programme. Id and mode never change, and the
// status is changed by Move.
type Patch struct {
	Name                affiliate.Change[string]
	Slug                affiliate.Change[string] // if cleared, the slug is made from the name again
	Description         affiliate.Change[string]
	WebsiteURL          affiliate.Change[string]
	AllowedDomains      affiliate.Change[[]string]
	LandingURL          affiliate.Change[string]
	WindowDays          affiliate.Change[int]
	Model               affiliate.Change[AttributionModel]
	Precedence          affiliate.Change[SignalPrecedence]
	LinkParam           affiliate.Change[string]
	AutoApprovePartners affiliate.Change[bool]
	IsPublic            affiliate.Change[bool]
	Rules               RulesPatch
	MinPayoutCents      affiliate.Change[int64]
	PayoutTermDays      affiliate.Change[int]
	FraudPolicy         affiliate.Change[fraud.Policy]
	PublicText          affiliate.Change[string]
	Questions           affiliate.Change[[]Question]
	TermsURL            affiliate.Change[string]
	TermsText           affiliate.Change[string]
	Currency            affiliate.Change[string] // cannot be changed after the programme has a commission
}

// Patch returns p with the given changes. RulesVersion increases if the rules change, and
// TermsVersion if the terms change. The caller sets UpdatedAt and Version. If Slug is empty, the
// caller must make a slug from the name. Errors: VALIDATION_ERROR.
func (p Program) Patch(patch Patch) (Program, error) {
	var found affiliate.Violations
	p.Name = patch.Name.Apply(p.Name, "")
	if p.Name == "" {
		found.Add("name", affiliate.IsRequired)
	}
	p.Slug = patch.Slug.Apply(p.Slug, "")
	p.Description = patch.Description.ApplyOptional(p.Description)
	p.WebsiteURL = patch.WebsiteURL.ApplyOptional(p.WebsiteURL)
	p.AllowedDomains = patch.AllowedDomains.Apply(p.AllowedDomains, []string{})
	p.LandingURL = patch.LandingURL.ApplyOptional(p.LandingURL)
	p.WindowDays = patch.WindowDays.Apply(p.WindowDays, DefaultWindowDays)
	p.Model = patch.Model.Apply(p.Model, DefaultModel)
	p.Precedence = patch.Precedence.Apply(p.Precedence, DefaultPrecedence)
	p.LinkParam = patch.LinkParam.Apply(p.LinkParam, DefaultLinkParam)
	p.AutoApprovePartners = patch.AutoApprovePartners.Apply(p.AutoApprovePartners, false)
	p.IsPublic = patch.IsPublic.Apply(p.IsPublic, false)
	p.MinPayoutCents = patch.MinPayoutCents.Apply(p.MinPayoutCents, 0)
	p.PayoutTermDays = patch.PayoutTermDays.Apply(p.PayoutTermDays, 0)
	p.FraudPolicy = patch.FraudPolicy.Apply(p.FraudPolicy, DefaultFraudPolicy)
	p.PublicText = patch.PublicText.ApplyOptional(p.PublicText)
	p.Questions = patch.Questions.Apply(p.Questions, []Question{})
	found = append(found, changeTerms(&p, patch)...)
	if p.Currency = patch.Currency.Apply(p.Currency, ""); patch.Currency.Given && p.Currency == "" {
		found.Add("currency", affiliate.IsRequired)
	}

	if p.Status == Active && !p.HasDestination() {
		found.Add("website_url", affiliate.NeedsDestination)
	}

	rules, wrong := p.Rules.Patch(patch.Rules)
	found = append(found, wrong...)
	if !rules.Equal(p.Rules) {
		p.Rules = rules
		p.RulesVersion++
	}
	return p, found.Err()
}

// changeTerms applies the changes of the terms.
func changeTerms(p *Program, patch Patch) (found affiliate.Violations) {
	url, text := patch.TermsURL.ApplyOptional(p.TermsURL), patch.TermsText.ApplyOptional(p.TermsText)
	if url != nil && text != nil {
		found.Add("terms_text", affiliate.MustNotBeWith("terms_url"))
	}
	if !equal(url, p.TermsURL) || !equal(text, p.TermsText) {
		p.TermsVersion++
	}
	p.TermsURL, p.TermsText = url, text
	return found
}

func equal(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// HasTerms reports whether partners must accept terms to join.
func (p Program) HasTerms() bool { return p.TermsURL != nil || p.TermsText != nil }

// Move returns the programme with the new status. at is the time of the change. Errors:
// PROGRAM_STATE_INVALID if the move is not legal; VALIDATION_ERROR if a programme
// without a page is activated.
func (p Program) Move(newStatus Status, at time.Time) (Program, error) {
	switch {
	case !slices.Contains(programMoves[newStatus], p.Status):
		return p, p.Status.Refuse()
	case newStatus == Active && !p.HasDestination():
		return p, affiliate.Invalid("website_url", affiliate.NeedsDestination)
	}
	p.Status, p.Version, p.UpdatedAt = newStatus, p.Version+1, at
	return p, nil
}

// ReferralURL returns the URL of the default link of a participant with the given referral
// code. It is empty if the programme has no page.
func (p Program) ReferralURL(code string) string {
	link := link.Link{Code: code, Param: p.LinkParam}
	if link.Destination = p.LandingURL; link.Destination == nil {
		link.Destination = p.WebsiteURL
	}
	return link.URL()
}

// CheckNotArchived returns an error if the programme is archived and its contents
// therefore cannot be changed. Errors: PROGRAM_STATE_INVALID.
func (p Program) CheckNotArchived() error {
	if p.Status == Archived {
		return p.Status.Refuse()
	}
	return nil
}

// Refuse returns the error for a request that the status of a programme does not allow.
func (s Status) Refuse() *affiliate.Error {
	refused := affiliate.RefuseStatus(affiliate.ReasonProgramStateInvalid, s)
	switch s {
	case Draft, Paused:
		refused.Message = "The programme is not active. Activate it first."
	case Archived:
		refused.Message = "The programme is archived, so nothing in it can be changed."
	case Active:
	}
	return refused
}

// CurrencyFixed returns the error for a change of the currency of a programme that has
// commissions.
func (p Program) CurrencyFixed() *affiliate.Error {
	refused := p.Status.Refuse()
	refused.Message = "The programme has commissions, so its currency cannot change."
	return refused
}

// HasDestination reports whether the programme has a page to which links can lead. Only
// such a programme can be activated.
func (p Program) HasDestination() bool { return p.WebsiteURL != nil || p.LandingURL != nil }

// Object is a programme as events show it.
type Object struct {
	ID                  affiliate.ProgramID `json:"id"`
	Name                string              `json:"name"`
	Slug                string              `json:"slug"`
	Description         *string             `json:"description"`
	Status              Status              `json:"status"`
	WebsiteURL          *string             `json:"website_url"`             // the page to which links lead by default; null if not set
	AllowedDomains      []string            `json:"allowed_domains"`         // hosts to which links may lead; *. matches any subdomain; a long event has only the first ones
	LandingURL          *string             `json:"landing_url"`             // the page to which default links lead instead of website_url; null if not set
	Currency            string              `json:"currency"`                // of commissions, ISO 4217
	WindowDays          int                 `json:"attribution_window_days"` // a conversion can be credited to a click for this many days of 24 hours
	Model               AttributionModel    `json:"attribution_model"`       // which of a visitor's clicks earns
	Precedence          SignalPrecedence    `json:"signal_precedence"`       // which of a conversion's signals is checked first
	LinkParam           string              `json:"link_param"`              // query parameter that carries the referral code
	AutoApprovePartners bool                `json:"auto_approve_partners"`   // whether applications are approved at once
	IsPublic            bool                `json:"is_public"`               // whether every partner can find it and apply
	Rules               RulesObject         `json:"commission_rules"`        // the rules in force
	RulesVersion        int                 `json:"rules_version"`           // increases by one with every change of commission_rules
	MinPayoutCents      int64               `json:"min_payout_cents"`        // the least amount of a payout, in minor units of currency
	PayoutTermDays      int                 `json:"payout_term_days"`        // least number of days from the approval of a commission to its payout
	FraudPolicy         fraud.Policy        `json:"fraud_policy"`            // what happens to conversions that the fraud rules suspect
	TermsURL            *string             `json:"terms_url"`               // terms that a partner accepts when applying; null if not set
	TermsVersion        int                 `json:"terms_version"`           // increases by one with every change of the terms, which are a text or terms_url
	Version             int                 `json:"version"`
}

// shortListLength is the length to which the lists in a programme's event are cut if
// the event would be too long.
const shortListLength = 8

// Short returns the object with shorter lists.
func (o Object) Short() any {
	o.AllowedDomains = o.AllowedDomains[:min(len(o.AllowedDomains), shortListLength)]
	o.Rules.Products = o.Rules.Products[:min(len(o.Rules.Products), shortListLength)]
	return o
}

// LinkHosts returns the hosts to which links of the programme may lead.
func (p Program) LinkHosts() []string {
	return link.Hosts(p.AllowedDomains, p.WebsiteURL, p.LandingURL)
}

// Object returns p as events show it.
func (p Program) Object() Object {
	return Object{
		ID: p.ID, Name: p.Name, Slug: p.Slug, Description: p.Description, Status: p.Status,
		WebsiteURL: p.WebsiteURL, AllowedDomains: p.LinkHosts(), LandingURL: p.LandingURL, Currency: p.Currency,
		WindowDays: p.WindowDays, Model: p.Model, Precedence: p.Precedence, LinkParam: p.LinkParam,
		AutoApprovePartners: p.AutoApprovePartners, IsPublic: p.IsPublic,
		Rules: p.Rules.Object(), RulesVersion: p.RulesVersion,
		MinPayoutCents: p.MinPayoutCents, PayoutTermDays: p.PayoutTermDays, FraudPolicy: p.FraudPolicy,
		TermsURL: p.TermsURL, TermsVersion: p.TermsVersion, Version: p.Version,
	}
}

// Record is a programme as the audit log shows it, which therefore has all versions of the terms.
// Events do not contain the long texts.
type Record struct {
	Object
	PublicText *string    `json:"public_text"`
	Questions  []Question `json:"application_questions"`
	TermsText  *string    `json:"terms_text"`
}

// Record returns p as the audit log shows it.
func (p Program) Record() Record {
	return Record{Object: p.Object(), PublicText: p.PublicText, Questions: p.Questions, TermsText: p.TermsText}
}

// AuditLine returns the audit record of a change of p. The parameters before and after hold the
// old and new values of the changed fields.
func (p Program) AuditLine(action string, at time.Time, by affiliate.Actor, before, after any) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: p.Workspace, Mode: &p.Mode, Actor: by, At: at,
		Action: action, ResourceType: "program", ResourceID: p.ID, Before: before, After: after,
	}
}

// maxSlug is the greatest length of a programme's slug.
const maxSlug = 64

// Slugs returns the slugs to try for a programme's name, in this order: the
// name, then the name with 2, 3 and so on, without end.
func Slugs(name string) iter.Seq[string] {
	base := affiliate.Slug(name, maxSlug)
	if base == "" {
		base = "program"
	}
	return func(yield func(string) bool) {
		if !yield(base) {
			return
		}
		for n := 2; ; n++ {
			suffix := "-" + strconv.Itoa(n)
			head := strings.TrimRight(base[:min(len(base), maxSlug-len(suffix))], "-")
			if !yield(head + suffix) {
				return
			}
		}
	}
}
