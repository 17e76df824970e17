package affiliate

import (
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/tributary-hq/tributary/affiliate/fraud"
)

// ProgramStatus is where a programme stands. Only an active one takes clicks
// and earns commissions.
type ProgramStatus string

// The statuses of a programme.
const (
	ProgramDraft    ProgramStatus = "draft"
	ProgramActive   ProgramStatus = "active"
	ProgramPaused   ProgramStatus = "paused"
	ProgramArchived ProgramStatus = "archived"
)

// programMoves says from where each status can be reached (DECISIONS.md section
// 6). A draft is only ever made; what is archived stays so.
var programMoves = map[ProgramStatus][]ProgramStatus{
	ProgramActive:   {ProgramDraft, ProgramPaused},
	ProgramPaused:   {ProgramActive},
	ProgramArchived: {ProgramDraft, ProgramActive, ProgramPaused},
}

// AttributionModel says which of a visitor's clicks earns.
type AttributionModel string

// The two models.
const (
	LastClick  AttributionModel = "last_click"
	FirstClick AttributionModel = "first_click"
)

// SignalPrecedence says which of a conversion's signals is judged first.
type SignalPrecedence string

// The two orders. The customer's binding comes last in both, but for a live one
// under FirstClick, which stands before the click.
const (
	ClickFirst     SignalPrecedence = "click_first"
	PromoCodeFirst SignalPrecedence = "promo_code_first"
)

// FraudPolicy says what fraud rules do with what they find.
type FraudPolicy string

// The policies (DECISIONS.md section 10).
const (
	FraudOff     FraudPolicy = "off"
	FraudObserve FraudPolicy = "observe"
	FraudFlag    FraudPolicy = "flag"
	FraudBlock   FraudPolicy = "block"
)

// FraudSettings are a programme's words for the fraud rules: which are off, and
// the countries, sites and terms that some look for.
type FraudSettings = fraud.Settings

// Defaults of a programme (DECISIONS.md section 6).
const (
	DefaultWindowDays  = 30
	DefaultModel       = LastClick
	DefaultPrecedence  = ClickFirst
	DefaultLinkParam   = "via"
	DefaultFraudPolicy = FraudFlag
)

// Program is a merchant's programme with the rules in force.
type Program struct {
	ID                  ProgramID
	Scope               Scope
	Name                string
	Slug                string
	Description         *string
	Status              ProgramStatus
	WebsiteURL          *string
	AllowedDomains      []string
	LandingURL          *string
	Currency            string // ISO 4217
	WindowDays          int    // attribution window, days of 24 hours
	Model               AttributionModel
	Precedence          SignalPrecedence
	LinkParam           string
	AutoApprovePartners bool
	IsPublic            bool
	Rules               Rules
	RulesVersion        int
	MinPayoutCents      int64
	PayoutTermDays      int // days from approval to the payout that may contain it
	FraudPolicy         FraudPolicy
	TermsURL            *string
	Version             int // one more with every change
	CreatedAt           time.Time
	UpdatedAt           time.Time
}

// ProgramFilter narrows a list of programmes. The zero value of each field narrows
// nothing.
type ProgramFilter struct {
	Status ProgramStatus
	Search string // prefix of the name; case does not matter
}

// ProgramPatch changes some fields of a programme. The rest cannot be patched:
// id and mode never change, the status moves.
type ProgramPatch struct {
	Name                Change[string]
	Slug                Change[string] // cleared: made from the name again
	Description         Change[string]
	WebsiteURL          Change[string]
	AllowedDomains      Change[[]string]
	LandingURL          Change[string]
	WindowDays          Change[int]
	Model               Change[AttributionModel]
	Precedence          Change[SignalPrecedence]
	LinkParam           Change[string]
	AutoApprovePartners Change[bool]
	IsPublic            Change[bool]
	Rules               RulesPatch
	MinPayoutCents      Change[int64]
	PayoutTermDays      Change[int]
	FraudPolicy         Change[FraudPolicy]
	TermsURL            Change[string]
	Currency            Change[string] // fixed once the programme has a commission
}

// Patch is p changed by patch, rules version included; UpdatedAt is the
// caller's. Slug is empty when it has to be made from the name.
func (p Program) Patch(patch ProgramPatch) (Program, error) {
	var found Violations
	p.Name = patch.Name.or(p.Name, "")
	if p.Name == "" {
		found.Add("name", IsRequired)
	}
	p.Slug = patch.Slug.or(p.Slug, "")
	p.Description = patch.Description.orNil(p.Description)
	p.WebsiteURL = patch.WebsiteURL.orNil(p.WebsiteURL)
	p.AllowedDomains = patch.AllowedDomains.or(p.AllowedDomains, []string{})
	p.LandingURL = patch.LandingURL.orNil(p.LandingURL)
	p.WindowDays = patch.WindowDays.or(p.WindowDays, DefaultWindowDays)
	p.Model = patch.Model.or(p.Model, DefaultModel)
	p.Precedence = patch.Precedence.or(p.Precedence, DefaultPrecedence)
	p.LinkParam = patch.LinkParam.or(p.LinkParam, DefaultLinkParam)
	p.AutoApprovePartners = patch.AutoApprovePartners.or(p.AutoApprovePartners, false)
	p.IsPublic = patch.IsPublic.or(p.IsPublic, true)
	p.MinPayoutCents = patch.MinPayoutCents.or(p.MinPayoutCents, 0)
	p.PayoutTermDays = patch.PayoutTermDays.or(p.PayoutTermDays, 0)
	p.FraudPolicy = patch.FraudPolicy.or(p.FraudPolicy, DefaultFraudPolicy)
	p.TermsURL = patch.TermsURL.orNil(p.TermsURL)
	if p.Currency = patch.Currency.or(p.Currency, ""); patch.Currency.Given && p.Currency == "" {
		found.Add("currency", IsRequired)
	}

	if p.Status == ProgramActive && !p.HasDestination() {
		found.Add("website_url", NeedsDestination)
	}

	rules, wrong := p.Rules.Patch(patch.Rules)
	found = append(found, wrong...)
	if !rules.Equal(p.Rules) {
		p.Rules = rules
		p.RulesVersion++
	}
	return p, found.Err()
}

// Move returns the programme with the status to; at is the time of the change. Errors:
// PROGRAM_STATE_INVALID, VALIDATION_ERROR when a programme without a page is to open.
func (p Program) Move(to ProgramStatus, at time.Time) (Program, error) {
	switch {
	case !slices.Contains(programMoves[to], p.Status):
		return p, refuseStatus(ReasonProgramStateInvalid, p.Status)
	case to == ProgramActive && !p.HasDestination():
		return p, Invalid("website_url", NeedsDestination)
	}
	p.Status, p.Version, p.UpdatedAt = to, p.Version+1, at
	return p, nil
}

// CheckNotArchived refuses changes of what an archived programme contains.
func (p Program) CheckNotArchived() error {
	if p.Status == ProgramArchived {
		return refuseStatus(ReasonProgramStateInvalid, p.Status)
	}
	return nil
}

// CurrencyFixed makes the refusal of another currency for a programme that has a
// commission.
func (p Program) CurrencyFixed() *Error {
	refused := refuseStatus(ReasonProgramStateInvalid, p.Status)
	refused.Message = "The programme has commissions, so its currency cannot change."
	return refused
}

// HasDestination reports whether there is a page to which links can lead,
// without which no programme opens.
func (p Program) HasDestination() bool { return p.WebsiteURL != nil || p.LandingURL != nil }

// ProgramObject is a programme as events carry it and the audit log compares it.
type ProgramObject struct {
	ID                  ProgramID        `json:"id"`
	Name                string           `json:"name"`
	Slug                string           `json:"slug"`
	Description         *string          `json:"description"`
	Status              ProgramStatus    `json:"status"`
	WebsiteURL          *string          `json:"website_url"`             // where links lead that have no other page; null: not set
	AllowedDomains      []string         `json:"allowed_domains"`         // hosts to which links may lead; *. stands for any subdomain; of a long event the first ones
	LandingURL          *string          `json:"landing_url"`             // where default links lead instead of the website; null: not set
	Currency            string           `json:"currency"`                // of commissions, ISO 4217
	WindowDays          int              `json:"attribution_window_days"` // days of 24 hours from a click in which a conversion is credited to it
	Model               AttributionModel `json:"attribution_model"`       // which of a visitor's clicks earns
	Precedence          SignalPrecedence `json:"signal_precedence"`       // which of a conversion's signals is judged first
	LinkParam           string           `json:"link_param"`              // query parameter that carries the referral code
	AutoApprovePartners bool             `json:"auto_approve_partners"`   // whether who applies is approved at once
	IsPublic            bool             `json:"is_public"`               // whether any partner may find it and apply
	Rules               RulesObject      `json:"commission_rules"`        // the rules in force
	RulesVersion        int              `json:"rules_version"`           // one more with every change of commission_rules
	MinPayoutCents      int64            `json:"min_payout_cents"`        // what a partner must have earned before it is paid, in minor units of currency
	PayoutTermDays      int              `json:"payout_term_days"`        // days from approval to the payout that may contain a commission
	FraudPolicy         FraudPolicy      `json:"fraud_policy"`            // what is done with what the fraud rules find
	TermsURL            *string          `json:"terms_url"`               // terms that whoever applies accepts; null: not set
	Version             int              `json:"version"`
}

// listed is how much of its lists the event of a programme has that would be too
// long.
const listed = 8

func (o ProgramObject) short() any {
	o.AllowedDomains = o.AllowedDomains[:min(len(o.AllowedDomains), listed)]
	o.Rules.Products = o.Rules.Products[:min(len(o.Rules.Products), listed)]
	return o
}

// Object is p as events carry it.
func (p Program) Object() ProgramObject {
	domains := p.AllowedDomains
	if domains == nil {
		domains = []string{}
	}
	return ProgramObject{
		ID: p.ID, Name: p.Name, Slug: p.Slug, Description: p.Description, Status: p.Status,
		WebsiteURL: p.WebsiteURL, AllowedDomains: domains, LandingURL: p.LandingURL, Currency: p.Currency,
		WindowDays: p.WindowDays, Model: p.Model, Precedence: p.Precedence, LinkParam: p.LinkParam,
		AutoApprovePartners: p.AutoApprovePartners, IsPublic: p.IsPublic,
		Rules: p.Rules.Object(), RulesVersion: p.RulesVersion,
		MinPayoutCents: p.MinPayoutCents, PayoutTermDays: p.PayoutTermDays, FraudPolicy: p.FraudPolicy,
		TermsURL: p.TermsURL, Version: p.Version,
	}
}

// maxSlug is the longest slug of a programme.
const maxSlug = 64

// ProgramSlugs are the slugs that a programme's name suggests, in the order in
// which they are tried: the name, then the name with 2, 3 and so on, forever.
func ProgramSlugs(name string) iter.Seq[string] {
	base := slug(name, maxSlug)
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

// unmarked are letters that do not come apart into a base letter and a mark.
var unmarked = strings.NewReplacer("ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "ł", "l", "đ", "d", "ð", "d", "þ", "th", "ı", "i")

// slug is name in lower-case ASCII letters, digits and single dashes, none of
// them at an end, at most limit long. Letters lose their accents; what has no
// Latin form is left out, so the slug may be empty.
func slug(name string, limit int) string {
	var b strings.Builder
	gap := false
	for _, r := range norm.NFKD.String(unmarked.Replace(strings.ToLower(name))) {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(r)
		case unicode.Is(unicode.Mn, r) || r == '\'' || r == '’':
			// An accent, or an apostrophe inside a word.
		default:
			gap = true
		}
	}
	text := b.String()
	return strings.TrimRight(text[:min(len(text), limit)], "-")
}

// ParseWebURL reads an absolute http or https URL and returns its host, folded.
// It takes no URL with a user or password in it.
func ParseWebURL(s string) (host string, ok bool) {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }) {
		return "", false
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Opaque != "" {
		return "", false
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", false
		}
	}
	return ParseDomain(u.Hostname())
}

// ParseDomain reads a host name in its ASCII form and folds it to lower case.
func ParseDomain(s string) (domain string, ok bool) {
	domain = strings.ToLower(s)
	if domain == "" || len(domain) > 253 {
		return "", false
	}
	for label := range strings.SplitSeq(domain, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", false
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return "", false
			}
		}
	}
	return domain, true
}

// ParseAllowedDomain reads an entry of a programme's allowed domains, a host
// name or *. and a host name, and folds it to lower case.
func ParseAllowedDomain(s string) (domain string, ok bool) {
	parent, wildcard := strings.CutPrefix(s, "*.")
	if domain, ok = ParseDomain(parent); ok && wildcard {
		domain = "*." + domain
	}
	return domain, ok
}
