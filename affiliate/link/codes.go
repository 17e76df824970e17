package link

import (
	"crypto/rand"
	"iter"
	"slices"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
)

// Codes returns the codes for a new link. The caller uses the first code that is free. If a
// code is requested, it is the only code. If no code is requested, the sequence is endless:
// each code is the participant's referral code with random characters added, randomSuffixLength
// of them in the first codes and randomCodeLength of them in all later codes.
func Codes(requested, participantCode string) iter.Seq[string] {
	if requested != "" {
		return slices.Values([]string{requested})
	}
	newCode := func(random int) string {
		room := MaxReferralCode - len(referralSeparator) - random
		return participantCode[:min(len(participantCode), room)] + referralSeparator + randomLetters(random)
	}
	return func(yield func(string) bool) {
		for range suffixAttempts {
			if !yield(newCode(randomSuffixLength)) {
				return
			}
		}
		for yield(newCode(randomCodeLength)) {
		}
	}
}

// shortKeyLength is the length of the key of a short link. There are 8 × 10^17 keys of
// this length.
const shortKeyLength = 10

// NewShortKey returns a random key for a short link. If the key is already used, the
// caller must create another one.
func NewShortKey() string { return affiliate.RandomBase62(shortKeyLength) }

// Lengths and characters of referral codes. A code that is made from a partner's name
// uses at most maxNameLength characters of the name. If two partners have the same name,
// a separator and random characters are added.
const (
	MinReferralCode    = 3
	MaxReferralCode    = 50
	maxNameLength      = 24
	randomSuffixLength = 3
	randomCodeLength   = 8
	suffixAttempts     = 8
	referralAlphabet   = "abcdefghijkmnpqrstuvwxyz23456789" // 32 characters that cannot be mistaken for each other
	referralSeparator  = "-"
)

// reservedCodes lists codes that no participant may have: words in the service's own
// URLs, values that a broken website puts into every link, and names of websites that
// other services put into a ref= parameter. Otherwise one partner would be credited for
// all visitors whose URL contains such a value.
var reservedCodes = func() map[string]bool {
	words := strings.Fields(`
		admin administrator api app assets auth billing collector dashboard help login logout mail oauth
		root signup static support system tributary webhook webhooks www
		false nan nil none null true undefined
		bing email facebook google instagram linkedin newsletter pinterest producthunt reddit tiktok twitter youtube`)
	reserved := make(map[string]bool, len(words))
	for _, word := range words {
		reserved[word] = true
	}
	return reserved
}()

// ReservedCode reports whether a code is reserved, so that no participant may have it.
func ReservedCode(code string) bool { return reservedCodes[click.FoldCode(code)] }

// ReferralCodes returns an endless sequence of codes for a partner who did not choose a
// code. The caller uses the first code that is free. The first code is the name, the
// next codes are the name with random characters, and all later codes are only random
// characters.
func ReferralCodes(name string) iter.Seq[string] {
	base := affiliate.Slug(name, maxNameLength)
	return func(yield func(string) bool) {
		if len(base) >= MinReferralCode && !ReservedCode(base) && !yield(base) {
			return
		}
		for range suffixAttempts {
			if base == "" {
				break
			}
			if !yield(base + referralSeparator + randomLetters(randomSuffixLength)) {
				return
			}
		}
		for {
			if !yield(randomLetters(randomCodeLength)) {
				return
			}
		}
	}
}

func randomLetters(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // crypto/rand.Read never fails
	for i := range b {
		b[i] = referralAlphabet[int(b[i])%len(referralAlphabet)]
	}
	return string(b)
}
