package fraud

import (
	"strconv"
	"strings"
	"unicode"
)

// searchEngines are labels of their domains, and what campaigns call them.
var searchEngines = words("google bing yahoo duckduckgo yandex baidu ecosia qwant startpage naver seznam adwords googleads bingads")

// Media of campaigns: the first are search ads by name, the second are ads.
var (
	searchAds = words("paidsearch sem")
	paidAds   = words("cpc ppc paid")
)

// searchPlatforms are the ad platforms of search engines, as the edge names them.
var searchPlatforms = words("google microsoft yandex")

func words(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// Of the landing page's query the edge keeps whose ad click id was in it. Where ads
// come without one it is the campaign's words and the referrer that tell.
var _ = register(Rule{
	Name: "paid_search", Score: 50,
	Description: "The click came from an ad of a search engine, by the ad's click id or the campaign's words, or from a search with one of the programme's brand terms in the campaign.",
	fires: func(f Facts, s Settings) string {
		if f.Click == nil {
			return ""
		}
		if searchPlatforms[f.Click.PaidPlatform] {
			return "The click carried an ad click id of a search engine: " + f.Click.PaidPlatform + "."
		}
		medium := joined(f.Click.Medium)
		searched := fromSearch(*f.Click)
		if searchAds[medium] || searched && paidAds[medium] {
			return "The click came from a paid ad of a search engine."
		}
		if !searched {
			return ""
		}
		term := spaced(f.Click.Term)
		for _, brand := range s.BrandTerms {
			if wanted := spaced(brand); strings.TrimSpace(wanted) != "" && strings.Contains(term, wanted) {
				return "The click came from a search engine, with the brand term " + strconv.Quote(brand) + " in its campaign."
			}
		}
		return ""
	},
})

func fromSearch(c Click) bool {
	if searchEngines[joined(c.Source)] {
		return true
	}
	for label := range strings.SplitSeq(strings.ToLower(c.Referrer), ".") {
		if searchEngines[label] {
			return true
		}
	}
	return false
}

// joined are a text's letters and digits, in lower case: paid-search and Paid
// Search are paidsearch.
func joined(text string) string { return strings.ReplaceAll(spaced(text), " ", "") }

// spaced are a text's words in lower case, with one space before and behind each.
func spaced(text string) string {
	return " " + strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), " ") + " "
}
