package fraud

import (
	"cmp"
	_ "embed" // for the lists of domains
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Limits of the rules. A rule does not fire at its limit.
const (
	// minToConvert is the least time that a person needs to buy something after a click.
	minToConvert = 5 * time.Second
	// MaxClicksInHour is the limit of clicks from one IP address, which many people can share.
	MaxClicksInHour = 100
	// maxConversionsInHour is the limit of conversions of one partner within an hour.
	maxConversionsInHour = 10
	// ExaminedInHour is the maximum number of the partner's conversions in the last hour that
	// conversion_velocity examines. The number is limited because a merchant may report the
	// sales of a whole year at once.
	ExaminedInHour = 200
	// RecentConversions is the number of a partner's latest conversions that refund_rate
	// examines. If the partner has fewer conversions, the rule does not fire.
	RecentConversions = 20
	// maxRefundedPercent is the limit of the percentage of refunded conversions.
	maxRefundedPercent = 30
)

// allRules are all rules, those with the highest score first, then by name.
var allRules = slices.SortedFunc(slices.Values([]Rule{
	{
		Name: "self_referral_email", Score: 100, SelfReferral: true,
		Description: "The buyer's e-mail address is the partner's, or was the partner's before a change. Text after a plus sign, and dots in Gmail addresses, are ignored.",
		evaluate: func(f Facts, _ Settings) string {
			if f.FormerEmail && !f.SameEmail {
				return "The buyer's e-mail address was the partner's before a change."
			}
			return evidenceIf(f.SameEmail, "The buyer's e-mail address is the partner's.")
		},
	},
	{
		Name: "bot_click", Score: 70,
		Description: "The click was made by a bot.",
		evaluate: func(f Facts, _ Settings) string {
			return evidenceIf(f.Click != nil && f.Click.Bot, "The click was made by a bot.")
		},
	},
	{
		Name: "same_device_as_partner", Score: 60,
		Description: "The partner used its account with the buyer's browser from the buyer's network within the last 30 days.",
		evaluate: func(f Facts, _ Settings) string {
			return evidenceIf(f.SameDevice, "The partner used its account with the same browser from the same network as the buyer.")
		},
	},
	{
		Name: "self_referral_domain", Score: 60, SelfReferral: true,
		Description: "Buyer and partner have e-mail addresses of the same domain, which is not a public mail provider.",
		evaluate: func(f Facts, _ Settings) string {
			same := f.BuyerDomain != "" && f.BuyerDomain == f.PartnerDomain && !freeDomains.contains(f.BuyerDomain)
			return evidenceIf(same, "Buyer and partner have e-mail addresses of the same domain.")
		},
	},
	{
		Name: "blocked_country", Score: 50,
		Description: "The click came from one of the blocked countries. The country is only known if the collector has a file of networks and their countries.",
		evaluate: func(f Facts, s Settings) string {
			if f.Click == nil || !slices.Contains(s.BlockedCountries, f.Click.Country) {
				return ""
			}
			return "The click came from a blocked country: " + f.Click.Country + "."
		},
	},
	{
		Name: "paid_search", Score: 50,
		Description: "The click came from an ad of a search engine, according to the ad's click id or the campaign parameters, or from a search engine with one of the programme's brand terms in the campaign parameters.",
		evaluate:    paidSearch,
	},
	{
		Name: "click_to_convert", Score: 40,
		Description: "The conversion happened less than 5 seconds after its click.",
		evaluate: func(f Facts, _ Settings) string {
			return evidenceIf(f.Click != nil && 0 <= f.Click.TimeToEvent && f.Click.TimeToEvent < minToConvert, "The conversion happened less than 5 seconds after the click.")
		},
	},
	{
		Name: "conversion_velocity", Score: 40,
		Description: "The partner has more than 10 conversions within one hour.",
		evaluate: func(f Facts, _ Settings) string {
			return evidenceIf(f.ConversionsInHour > maxConversionsInHour, "The partner had more than 10 conversions within one hour.")
		},
	},
	{
		Name: "duplicate_customer", Score: 40,
		Description: "The same customer has converted for another partner of the programme before.",
		evaluate: func(f Facts, _ Settings) string {
			return evidenceIf(f.DuplicateCustomer, "The customer has converted for another partner of the programme before.")
		},
	},
	{
		Name: "same_ip_prefix_as_partner", Score: 40,
		Description: "The partner used its account from the buyer's network within the last 24 hours.",
		evaluate: func(f Facts, _ Settings) string {
			return evidenceIf(f.SameNetwork, "The partner used its account from the buyer's network within 24 hours before.")
		},
	},
	{
		Name: "click_velocity", Score: 30,
		Description: "More than 100 clicks came from the IP address of the click within one hour.",
		evaluate: func(f Facts, _ Settings) string {
			return evidenceIf(f.Click != nil && f.Click.ClicksInHour > MaxClicksInHour, "More than 100 clicks came from the IP address of the click within one hour.")
		},
	},
	{
		Name: "disposable_email", Score: 30,
		Description: "The buyer's e-mail address belongs to a provider of throw-away addresses.",
		evaluate: func(f Facts, _ Settings) string {
			return evidenceIf(disposableDomains.contains(f.BuyerDomain), "The buyer's e-mail address belongs to a provider of throw-away addresses.")
		},
	},
	{
		Name: "no_click_signals", Score: 10,
		Description: "The conversion has a promo code but no click, and the partner is one of the coupon sites.",
		evaluate: func(f Facts, s Settings) string {
			sites := domainSet{}
			for _, site := range s.CouponSites {
				sites[site] = true
			}
			return evidenceIf(f.PromoCodeOnly && sites.contains(f.PartnerDomain), "The promo code was used without a click, and its partner is a coupon site.")
		},
	},
	{
		Name: "refund_rate", Score: 0,
		Description: "More than 30 % of the partner's last 20 conversions were refunded. The rule has no score, but the commission needs review.",
		evaluate: func(f Facts, _ Settings) string {
			if f.ExaminedConversions < RecentConversions || f.RefundedConversions*100 <= maxRefundedPercent*f.ExaminedConversions {
				return ""
			}
			return strconv.Itoa(f.RefundedConversions) + " of the partner's last " + strconv.Itoa(f.ExaminedConversions) + " conversions were refunded."
		},
	},
}), func(a, b Rule) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Name, b.Name))
})

// evidenceIf returns evidence if fires is true, and an empty text otherwise.
func evidenceIf(fires bool, evidence string) string {
	if fires {
		return evidence
	}
	return ""
}

// Each line of the lists is a domain. A comment starts with #.
var (
	//go:embed free_domains.txt
	freeList string
	//go:embed disposable_domains.txt
	disposableList string

	freeDomains       = parseDomains(freeList)
	disposableDomains = parseDomains(disposableList)
)

type domainSet map[string]bool

func parseDomains(list string) domainSet {
	found := domainSet{}
	for line := range strings.Lines(list) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			found[line] = true
		}
	}
	return found
}

// contains reports whether the domain or one of its parent domains is in the set.
func (d domainSet) contains(domain string) bool {
	for domain != "" {
		if d[domain] {
			return true
		}
		_, domain, _ = strings.Cut(domain, ".")
	}
	return false
}

// searchEngines holds names of search engines, as they occur in domains and campaign parameters.
var searchEngines = wordSet("google bing yahoo duckduckgo yandex baidu ecosia qwant startpage naver seznam adwords googleads bingads")

// searchAds holds the campaign media of search ads. paidAds holds the campaign media of paid ads of any kind.
var (
	searchAds = wordSet("paidsearch sem")
	paidAds   = wordSet("cpc ppc paid")
)

// searchPlatforms holds ad platforms of search engines, as the collector names them.
var searchPlatforms = wordSet("google microsoft yandex")

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// paidSearch is the rule paid_search. The collector does not store the query of the landing
// page, but it stores the ad platform whose click id the query contained. For ads without a
// click id, the rule uses the campaign parameters and the referrer.
func paidSearch(f Facts, s Settings) string {
	if f.Click == nil {
		return ""
	}
	if searchPlatforms[f.Click.PaidPlatform] {
		return "The click carried an ad click id of a search engine: " + f.Click.PaidPlatform + "."
	}
	medium := compactText(f.Click.Medium)
	fromSearchEngine := isFromSearchEngine(*f.Click)
	if searchAds[medium] || fromSearchEngine && paidAds[medium] {
		return "The click came from a paid ad of a search engine."
	}
	if !fromSearchEngine {
		return ""
	}
	term := spacedWords(f.Click.Term)
	for _, brand := range s.BrandTerms {
		if words := spacedWords(brand); strings.TrimSpace(words) != "" && strings.Contains(term, words) {
			return "The click came from a search engine, with the brand term " + strconv.Quote(brand) + " in its campaign."
		}
	}
	return ""
}

// isFromSearchEngine reports whether campaign source or referrer is a search engine.
func isFromSearchEngine(c Click) bool {
	if searchEngines[compactText(c.Source)] {
		return true
	}
	for label := range strings.SplitSeq(strings.ToLower(c.Referrer), ".") {
		if searchEngines[label] {
			return true
		}
	}
	return false
}

// compactText returns the letters and digits in lower case: paidsearch for paid-search and Paid Search.
func compactText(text string) string { return strings.ReplaceAll(spacedWords(text), " ", "") }

// spacedWords returns the words in lower case, with one space before and after each.
func spacedWords(text string) string {
	return " " + strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), " ") + " "
}
