// Package fraud judges a conversion by rules: each looks at the facts, fires or
// does not, and says in a sentence what it saw.
//
// A rule is one file: it registers itself, and nothing else knows its name. The
// package is a pure function of facts and settings. It imports nothing of ours,
// fetches nothing and decides nothing about money: what a score leads to is the
// caller's business. An evidence holds no personal data; of what merchants and
// visitors wrote it repeats the merchant's own words alone.
package fraud

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// What scores mean, and where they end.
const (
	// Suspicious is the score from which a person should look.
	Suspicious = 50
	// MaxScore is what scores are capped at: beyond doubt.
	MaxScore = 100
)

// Facts are what is known of a conversion, its buyer, and the partner to whom it
// is attributed. The zero value of a fact means that nothing is known; no rule
// fires on it.
type Facts struct {
	// SameAddress: the buyer's e-mail address is the partner's, after folding.
	SameAddress bool
	// BuyerDomain and PartnerDomain are those of the addresses, in lower case.
	BuyerDomain   string
	PartnerDomain string
	// SameNetwork: the partner used its account from the buyer's network within
	// NetworkWindow.
	SameNetwork bool
	// SameDevice: the partner used its account from the buyer's network with the
	// same browser within DeviceWindow.
	SameDevice bool
	// Click is the one that attributes the conversion; nil: another signal does.
	Click *Click
	// PromoCodeOnly: a promo code attributes it, and no click was reported.
	PromoCodeOnly bool
	// ConversionsInHour are the partner's, this one included. It need not be
	// counted further than one above MaxConversionsInHour.
	ConversionsInHour int
	// BroughtByAnother: the same customer has converted for another partner of the
	// programme before.
	BroughtByAnother bool
	// Recent are how many of the partner's last conversions were looked at, at most
	// RecentConversions; Refunded those of them that were refunded, even in part.
	Recent   int
	Refunded int
}

// Click is the click that attributes a conversion.
type Click struct {
	// ToEvent is the time from the click to the event; negative when clocks differ.
	ToEvent time.Duration
	// InHour are the clicks from the same address within the hour before it, itself
	// included. It need not be counted further than one above MaxClicksInHour.
	InHour int
	Bot    bool
	// Country is ISO 3166-1 alpha-2; empty: unknown.
	Country string
	// PaidPlatform is the ad platform whose click id the landing page's address
	// carried; empty: none.
	PaidPlatform string
	// Referrer is a domain; Source, Medium and Term are the campaign's words.
	Referrer string
	Source   string
	Medium   string
	Term     string
}

// How far back the partner's use of its account is compared with the buyer.
const (
	NetworkWindow = 24 * time.Hour
	DeviceWindow  = 30 * 24 * time.Hour
)

// Settings are a programme's words for the rules. Lists are in lower case, but
// for countries, which are in upper case.
type Settings struct {
	// DisabledRules do not fire.
	DisabledRules    []string `json:"disabled_rules,omitempty"`
	BlockedCountries []string `json:"blocked_countries,omitempty"`
	CouponSites      []string `json:"coupon_sites,omitempty"` // domains
	BrandTerms       []string `json:"brand_terms,omitempty"`
}

// Signal is a rule that fired.
type Signal struct {
	Rule     string `json:"rule"`
	Score    int    `json:"score"`
	Evidence string `json:"evidence"`
}

// Rule is one thing that is looked for.
type Rule struct {
	Name string
	// Score is what it adds; 0: it asks for a person and says nothing about this
	// conversion.
	Score       int
	Description string
	// SelfReferral: it fires where partner and buyer are one.
	SelfReferral bool
	// fires gives the evidence; empty: it does not fire.
	fires func(Facts, Settings) string
}

// registered are all rules, in the order in which their files are compiled.
var registered []Rule

func register(r Rule) Rule {
	registered = append(registered, r)
	return r
}

// ranked are all rules in the order in which they are shown.
var ranked = sync.OnceValue(func() []Rule {
	return slices.SortedFunc(slices.Values(registered), func(a, b Rule) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Name, b.Name))
	})
})

// Rules are all that there are, those with the highest score first.
func Rules() []Rule { return slices.Clone(ranked()) }

// Known reports whether there is a rule of that name.
func Known(name string) bool {
	return slices.ContainsFunc(registered, func(r Rule) bool { return r.Name == name })
}

// Verdict is what the rules found.
type Verdict struct {
	Signals []Signal // never nil, highest score first
	Score   int      // sum of the signals', at most MaxScore
	// SelfReferral: one of those rules is among the signals.
	SelfReferral bool
	// AsksForReview: a rule without a score is among the signals.
	AsksForReview bool
}

// Judge asks all rules that are not disabled.
func Judge(f Facts, s Settings) Verdict {
	v := Verdict{Signals: []Signal{}}
	for _, rule := range ranked() {
		if slices.Contains(s.DisabledRules, rule.Name) {
			continue
		}
		evidence := rule.fires(f, s)
		if evidence == "" {
			continue
		}
		v.Signals = append(v.Signals, Signal{Rule: rule.Name, Score: rule.Score, Evidence: evidence})
		v.Score = min(MaxScore, v.Score+rule.Score)
		v.SelfReferral = v.SelfReferral || rule.SelfReferral
		v.AsksForReview = v.AsksForReview || rule.Score == 0
	}
	return v
}

// when is the evidence of a rule that has only one thing to say.
func when(fires bool, evidence string) string {
	if fires {
		return evidence
	}
	return ""
}
