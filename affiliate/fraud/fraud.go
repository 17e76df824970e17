// Package fraud applies fraud rules to a conversion. Each rule checks facts about the
// conversion. If it fires, it returns a sentence as evidence.
//
// The rules are in allRules; no other code refers to a rule by name. The result depends only
// on the facts and the settings. The package does not access a database or the network. It does
// not decide about money: the caller decides which consequences a score has. Evidence
// contains no personal data. It can contain texts that the merchant entered in the
// settings, but no texts that a visitor sent.
package fraud

import (
	"slices"
	"time"
)

// Special scores.
const (
	// SuspiciousScore is the lowest score at which a person should review a conversion.
	SuspiciousScore = 50
	// MaxScore is the highest possible score. A conversion with this score is considered fraudulent.
	MaxScore = 100
)

// Facts holds the known facts about a conversion, its buyer, and the partner to whom the
// conversion is attributed. A zero field is an unknown fact, for which no rule fires.
type Facts struct {
	// SameEmail says that the buyer and the partner have the same e-mail address.
	// Case, text after a plus sign, and dots in Gmail addresses are ignored.
	SameEmail bool
	// FormerEmail says that the buyer's e-mail address, compared in the same way, was the
	// address of the partner's account before a change.
	FormerEmail bool
	// BuyerDomain and PartnerDomain are the domains of the e-mail addresses, in lower case.
	BuyerDomain   string
	PartnerDomain string
	// SameNetwork says that the partner used the buyer's network in the NetworkWindow.
	SameNetwork bool
	// SameDevice says that the partner used the buyer's network and browser in the DeviceWindow.
	SameDevice bool
	// Click is the click that attributes the conversion; nil if another signal does.
	Click *Click
	// PromoCodeOnly says that a promo code attributes the conversion and no click was reported.
	PromoCodeOnly bool
	// ConversionsInHour is the number of the partner's conversions in the last hour,
	// including this one. At most ExaminedInHour earlier conversions are examined.
	ConversionsInHour int
	// DuplicateCustomer says that the customer has converted for another partner of the programme.
	DuplicateCustomer bool
	// ExaminedConversions is the number of the partner's latest conversions, at most
	// RecentConversions. RefundedConversions is the number of these conversions with a refund.
	ExaminedConversions int
	RefundedConversions int
}

// Click is the click that attributes a conversion.
type Click struct {
	// TimeToEvent is the time from the click to the event; negative if clocks differ.
	TimeToEvent time.Duration
	// ClicksInHour is the number of clicks from the same IP address in the hour before
	// this click, including this click. Counting may stop at MaxClicksInHour + 1.
	ClicksInHour int
	Bot          bool
	// Country is an ISO 3166-1 alpha-2 code; empty if unknown.
	Country string
	// PaidPlatform is the ad platform of the click id in the landing URL; empty for none.
	PaidPlatform string
	// Referrer is a domain. Source, Medium and Term are campaign parameters.
	Referrer string
	Source   string
	Medium   string
	Term     string
}

// NetworkWindow and DeviceWindow are the periods before a conversion in which the networks and
// devices of the partner are compared with the network and the device of the buyer.
const (
	NetworkWindow = 24 * time.Hour
	DeviceWindow  = 30 * 24 * time.Hour
)

// Settings are a programme's settings for the rules. The lists are in lower case,
// except for countries, which are in upper case.
type Settings struct {
	// DisabledRules are the names of rules that are not applied.
	DisabledRules    []string `json:"disabled_rules,omitempty"`
	BlockedCountries []string `json:"blocked_countries,omitempty"`
	CouponSites      []string `json:"coupon_sites,omitempty"` // domains
	BrandTerms       []string `json:"brand_terms,omitempty"`
}

// Signal is the result of a rule that fired.
type Signal struct {
	Rule     string `json:"rule"`
	Score    int    `json:"score"`
	Evidence string `json:"evidence"`
}

// Rule is a fraud rule.
type Rule struct {
	Name string
	// Score is added to the score of the conversion if the rule fires. A score of 0 is
	// not suspicious, but requires a review.
	Score       int
	Description string
	// SelfReferral says that the rule detects a partner who is also the buyer.
	SelfReferral bool
	// evaluate returns the evidence; empty if the rule does not fire.
	evaluate func(Facts, Settings) string
}

// Rules returns all rules, those with the highest score first.
func Rules() []Rule { return slices.Clone(allRules) }

// RuleExists reports whether there is a rule with this name.
func RuleExists(name string) bool {
	return slices.ContainsFunc(allRules, func(r Rule) bool { return r.Name == name })
}

// Result is the result of all rules together.
type Result struct {
	Signals []Signal // never nil, highest score first
	Score   int      // sum of the scores of the signals, at most MaxScore
	// SelfReferral says that a rule with SelfReferral fired.
	SelfReferral bool
	// NeedsReview says that a rule with a score of 0 fired.
	NeedsReview bool
}

// Evaluate applies all rules that are not disabled.
func Evaluate(f Facts, s Settings) Result {
	v := Result{Signals: []Signal{}}
	for _, rule := range allRules {
		if slices.Contains(s.DisabledRules, rule.Name) {
			continue
		}
		evidence := rule.evaluate(f, s)
		if evidence == "" {
			continue
		}
		v.Signals = append(v.Signals, Signal{Rule: rule.Name, Score: rule.Score, Evidence: evidence})
		v.Score = min(MaxScore, v.Score+rule.Score)
		v.SelfReferral = v.SelfReferral || rule.SelfReferral
		v.NeedsReview = v.NeedsReview || rule.Score == 0
	}
	return v
}
