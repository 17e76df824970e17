package affiliate

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"
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

// MoveTo reports whether a programme may go from s to next.
func (s ProgramStatus) MoveTo(next ProgramStatus) bool { return slices.Contains(programMoves[next], s) }

// Sources are the statuses from which a programme may go to s.
func (s ProgramStatus) Sources() []ProgramStatus { return slices.Clone(programMoves[s]) }

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

// CommissionType says how a commission is computed.
type CommissionType string

// The two types.
const (
	Percentage CommissionType = "percentage"
	Flat       CommissionType = "flat"
)

// NetBasis says what is taken off the amount before a percentage is applied.
type NetBasis string

// The bases, each taking off what the one before it does and one thing more.
const (
	Gross                  NetBasis = "gross"
	NetOfTax               NetBasis = "net_of_tax"
	NetOfTaxShipping       NetBasis = "net_of_tax_shipping"
	NetOfTaxShippingAndFee NetBasis = "net_of_tax_shipping_fees"
)

// Rules are a programme's commission rules. A change makes a new version; a
// commission keeps the version that made it.
type Rules struct {
	Type CommissionType `json:"commission_type"`
	// RateBps is in basis points, 0 to 10,000; set for Percentage only.
	RateBps *int64 `json:"rate_bps,omitempty"`
	// FlatCents is in minor units of the programme's currency; set for Flat only.
	FlatCents    *int64   `json:"flat_amount_cents,omitempty"`
	HoldDays     int      `json:"hold_period_days"` // 0 to 180
	AutoApproval bool     `json:"auto_approval"`
	NetBasis     NetBasis `json:"net_basis"`
	// Recurring bounds for how long a customer's payments earn.
	Recurring Recurring `json:"recurring,omitzero"`
	// LaterRateBps replaces the programme's own rate from a customer's second
	// payment on; nil: the same rate.
	LaterRateBps *int64 `json:"later_rate_bps,omitempty"`
	// MinOrderCents and CapCents are in minor units of the programme's currency;
	// nil: none.
	MinOrderCents *int64 `json:"min_order_cents,omitempty"`
	CapCents      *int64 `json:"cap_cents,omitempty"`
	// Tiers ascend by their threshold and all have the same kind of it.
	Tiers    []Tier        `json:"tiers,omitempty"`
	Products []ProductRate `json:"products,omitempty"`
	// Events are those that earn; none: purchase and renewal.
	Events []EventRate `json:"events,omitempty"`
}

// Recurring bounds for how long a customer's payments earn. The zero value is
// no bound.
type Recurring struct {
	// Once: only the first payment earns.
	Once bool `json:"once,omitempty"`
	// MaxMonths counts from the first payment, MaxPayments includes it; nil: no
	// limit.
	MaxMonths   *int `json:"max_months,omitempty"`
	MaxPayments *int `json:"max_payments,omitempty"`
}

// Rate is what a sale pays where something more specific than the programme
// decides: exactly one of the two is set.
type Rate struct {
	Bps       *int64 `json:"rate_bps,omitempty"`          // basis points, 0 to 10,000
	FlatCents *int64 `json:"flat_amount_cents,omitempty"` // minor units of the programme's currency
}

// Tier is a rate by what a partner has brought before: exactly one of the two
// thresholds is set.
type Tier struct {
	MinConversions  *int64 `json:"min_conversions,omitempty"`
	MinRevenueCents *int64 `json:"min_revenue_cents,omitempty"`
	RateBps         int64  `json:"rate_bps"`
}

// ProductRate is the rate of one product; a flat one pays for each unit.
type ProductRate struct {
	ProductID string `json:"product_id"`
	Rate
}

// EventRate says that an event earns. A Rate that is zero is the programme's.
type EventRate struct {
	EventType EventType `json:"event_type"`
	Rate
}

// DefaultRules pay 20 percent of the gross amount after 30 days, by themselves
// (DECISIONS.md section 6).
func DefaultRules() Rules {
	rate := int64(2000)
	return Rules{Type: Percentage, RateBps: &rate, HoldDays: 30, AutoApproval: true, NetBasis: Gross}
}

// Equal reports whether both say the same.
func (r Rules) Equal(other Rules) bool { return reflect.DeepEqual(r, other) }

// Change is what a patch does to one field: nothing, clear it, or set it.
type Change[T any] struct {
	// Given is false for a field that the patch does not name.
	Given bool
	// Value is nil to clear.
	Value *T
}

// Set changes a field to value.
func Set[T any](value T) Change[T] { return Change[T]{Given: true, Value: &value} }

// Clear takes a field's value away: what has a default goes back to it.
func Clear[T any]() Change[T] { return Change[T]{Given: true} }

// sets reports whether the change brings a value.
func (c Change[T]) sets() bool { return c.Given && c.Value != nil }

func (c Change[T]) or(current, fallback T) T {
	switch {
	case !c.Given:
		return current
	case c.Value == nil:
		return fallback
	}
	return *c.Value
}

func (c Change[T]) orNil(current *T) *T {
	if !c.Given {
		return current
	}
	return c.Value
}

// RulesPatch changes some of the rules.
type RulesPatch struct {
	// Reset starts from DefaultRules in place of the rules in force.
	Reset        bool
	Type         Change[CommissionType]
	RateBps      Change[int64]
	FlatCents    Change[int64]
	HoldDays     Change[int]
	AutoApproval Change[bool]
	NetBasis     Change[NetBasis]
}

// Patch is r changed by patch. A change of type has to bring its amount, and
// drops the other type's; an amount of the type that is not in force is refused.
func (r Rules) Patch(patch RulesPatch) (Rules, Violations) {
	var found Violations
	if patch.Reset {
		r = DefaultRules()
	}
	before, defaults := r.Type, DefaultRules()
	r.Type = patch.Type.or(r.Type, defaults.Type)
	r.HoldDays = patch.HoldDays.or(r.HoldDays, defaults.HoldDays)
	r.AutoApproval = patch.AutoApproval.or(r.AutoApproval, defaults.AutoApproval)
	r.NetBasis = patch.NetBasis.or(r.NetBasis, defaults.NetBasis)

	if r.Type != before {
		r.RateBps, r.FlatCents = nil, nil
	}
	const rate, flat = "commission_rules.percentage", "commission_rules.flat_amount_cents"
	switch r.Type {
	case Percentage:
		r.RateBps, r.FlatCents = patch.RateBps.orNil(r.RateBps), nil
		if r.RateBps == nil {
			found.Add(rate, "is required when commission_type is percentage")
		}
		if patch.FlatCents.sets() {
			found.Add(flat, "needs commission_type flat")
		}
	case Flat:
		r.RateBps, r.FlatCents = nil, patch.FlatCents.orNil(r.FlatCents)
		if r.FlatCents == nil {
			found.Add(flat, "is required when commission_type is flat")
		}
		if patch.RateBps.sets() {
			found.Add(rate, "needs commission_type percentage")
		}
	}
	return r, found
}

// ProgramPatch changes some fields of a programme. The rest cannot be patched:
// id, mode and currency never change, the status moves.
type ProgramPatch struct {
	Name                Change[string]
	Slug                Change[string] // cleared: made from the name again
	Description         Change[string]
	WebsiteURL          Change[string]
	AllowedDomains      Change[[]string]
	LandingURL          Change[string]
	WindowDays          Change[int]
	Model               Change[AttributionModel]
	LinkParam           Change[string]
	AutoApprovePartners Change[bool]
	IsPublic            Change[bool]
	Rules               RulesPatch
	TermsURL            Change[string]
}

// Patch is p changed by patch, rules version included; UpdatedAt is the
// caller's. Slug is empty when it has to be made from the name.
func (p Program) Patch(patch ProgramPatch) (Program, error) {
	var found Violations
	p.Name = patch.Name.or(p.Name, "")
	if p.Name == "" {
		found.Add("name", "is required")
	}
	p.Slug = patch.Slug.or(p.Slug, "")
	p.Description = patch.Description.orNil(p.Description)
	p.WebsiteURL = patch.WebsiteURL.orNil(p.WebsiteURL)
	p.AllowedDomains = patch.AllowedDomains.or(p.AllowedDomains, []string{})
	p.LandingURL = patch.LandingURL.orNil(p.LandingURL)
	p.WindowDays = patch.WindowDays.or(p.WindowDays, DefaultWindowDays)
	p.Model = patch.Model.or(p.Model, DefaultModel)
	p.LinkParam = patch.LinkParam.or(p.LinkParam, DefaultLinkParam)
	p.AutoApprovePartners = patch.AutoApprovePartners.or(p.AutoApprovePartners, false)
	p.IsPublic = patch.IsPublic.or(p.IsPublic, true)
	p.TermsURL = patch.TermsURL.orNil(p.TermsURL)

	if p.Status == ProgramActive && !p.HasDestination() {
		found.Add("website_url", "an active programme needs a website or a landing page")
	}

	rules, wrong := p.Rules.Patch(patch.Rules)
	found = append(found, wrong...)
	if !rules.Equal(p.Rules) {
		p.Rules = rules
		p.RulesVersion++
	}
	return p, found.Err()
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
	WebsiteURL          *string          `json:"website_url"`
	AllowedDomains      []string         `json:"allowed_domains"`
	LandingURL          *string          `json:"landing_url"`
	Currency            string           `json:"currency"`
	WindowDays          int              `json:"attribution_window_days"`
	Model               AttributionModel `json:"attribution_model"`
	LinkParam           string           `json:"link_param"`
	AutoApprovePartners bool             `json:"auto_approve_partners"`
	IsPublic            bool             `json:"is_public"`
	Rules               RulesObject      `json:"commission_rules"`
	RulesVersion        int              `json:"rules_version"`
	TermsURL            *string          `json:"terms_url"`
	Version             int              `json:"version"`
}

// RulesObject is Rules with the percentage as the API writes it.
type RulesObject struct {
	Type         CommissionType `json:"commission_type"`
	Percentage   *json.Number   `json:"percentage"`
	FlatCents    *int64         `json:"flat_amount_cents"`
	HoldDays     int            `json:"hold_period_days"`
	AutoApproval bool           `json:"auto_approval"`
	NetBasis     NetBasis       `json:"net_basis"`
}

// Object is p as events carry it.
func (p Program) Object() ProgramObject {
	rules := RulesObject{
		Type: p.Rules.Type, FlatCents: p.Rules.FlatCents,
		HoldDays: p.Rules.HoldDays, AutoApproval: p.Rules.AutoApproval, NetBasis: p.Rules.NetBasis,
	}
	if p.Rules.RateBps != nil {
		percentage := Percent(*p.Rules.RateBps)
		rules.Percentage = &percentage
	}
	domains := p.AllowedDomains
	if domains == nil {
		domains = []string{}
	}
	return ProgramObject{
		ID: p.ID, Name: p.Name, Slug: p.Slug, Description: p.Description, Status: p.Status,
		WebsiteURL: p.WebsiteURL, AllowedDomains: domains, LandingURL: p.LandingURL, Currency: p.Currency,
		WindowDays: p.WindowDays, Model: p.Model, LinkParam: p.LinkParam,
		AutoApprovePartners: p.AutoApprovePartners, IsPublic: p.IsPublic,
		Rules: rules, RulesVersion: p.RulesVersion, TermsURL: p.TermsURL, Version: p.Version,
	}
}

// Percent is a rate in basis points as a decimal number of at most two places.
func Percent(rateBps int64) json.Number {
	whole, cents := rateBps/100, rateBps%100
	text := strconv.FormatInt(whole, 10)
	if cents != 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%02d", cents), "0")
	}
	return json.Number(text)
}

// Changed compares two objects of one type by their JSON fields, and returns
// what differs as it was and as it is. The version is no difference by itself;
// nothing else: both are nil.
func Changed(before, after any) (was, is map[string]json.RawMessage, err error) {
	old, err := jsonFields(before)
	if err != nil {
		return nil, nil, err
	}
	current, err := jsonFields(after)
	if err != nil {
		return nil, nil, err
	}
	for name, value := range current {
		if name == "version" || string(old[name]) == string(value) {
			continue
		}
		if was == nil {
			was, is = map[string]json.RawMessage{}, map[string]json.RawMessage{}
		}
		was[name], is[name] = old[name], value
	}
	return was, is, nil
}

func jsonFields(object any) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	return fields, json.Unmarshal(text, &fields)
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
