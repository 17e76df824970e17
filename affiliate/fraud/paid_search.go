package fraud

import (
	"strconv"
	"strings"
	"unicode"
)

// searchEngines holds names of search engines, as they occur in domains and in campaign
// parameters.
var searchEngines = wordSet("google bing yahoo duckduckgo yandex baidu ecosia qwant startpage naver seznam adwords googleads bingads")

// searchAds are campaign media that name search ads. paidAds are campaign media of ads
// of any kind.
var (
	searchAds = wordSet("paidsearch sem")
	paidAds   = wordSet("cpc ppc paid")
)

// searchPlatforms holds the ad platforms of search engines, by the names that the
// collector uses.
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

// isFromSearchEngine reports whether the campaign source or the referrer is a search
// engine.
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

// compactText returns the letters and digits of a text in lower case: the result for
// paid-search and Paid Search is paidsearch.
func compactText(text string) string { return strings.ReplaceAll(spacedWords(text), " ", "") }

// spacedWords returns the words of a text in lower case, with one space before and
// after each word.
func spacedWords(text string) string {
	return " " + strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), " ") + " "
}
