package affiliate

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// FoldEmail returns the form in which e-mail addresses of buyers and partners are compared:
// lower case, without a plus sign and the text after it, with gmail.com for googlemail.com, and
// without dots if the provider ignores them. ok is false if s is not an e-mail address.
func FoldEmail(s string) (local, domain string, ok bool) {
	at := strings.LastIndexByte(s, '@')
	if at <= 0 || at == len(s)-1 {
		return "", "", false
	}
	local, domain = strings.ToLower(s[:at]), strings.ToLower(s[at+1:])
	if plus := strings.IndexByte(local, '+'); plus > 0 {
		local = local[:plus]
	}
	if domain == "googlemail.com" {
		domain = "gmail.com"
	}
	if domain == "gmail.com" {
		local = strings.ReplaceAll(local, ".", "")
	}
	return local, domain, true
}

// Counted returns n with the noun, in the plural form with an s unless n is 1.
func Counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// MaskEmail returns an e-mail address with only its first character and its domain
// visible. That is enough to distinguish two partners, but not to write to them.
func MaskEmail(email string) string {
	at := strings.LastIndexByte(email, '@')
	if at < 1 {
		return "***"
	}
	for i := range email[:at] {
		if i > 0 {
			return email[:i] + "***" + email[at:]
		}
	}
	return email[:at] + "***" + email[at:]
}

// letterReplacer replaces letters that Unicode normalization does not separate into a
// base letter and a mark.
var letterReplacer = strings.NewReplacer("ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "ł", "l", "đ", "d", "ð", "d", "þ", "th", "ı", "i")

// Slug returns name in lower-case ASCII letters, digits and single dashes, at most limit
// characters long. It does not begin or end with a dash. Accents and apostrophes are left out.
// Each sequence of other characters becomes a dash, so the slug can be empty.
func Slug(name string, limit int) string {
	var b strings.Builder
	gap := false
	for _, r := range norm.NFKD.String(letterReplacer.Replace(strings.ToLower(name))) {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			gap = false
			b.WriteRune(r)
		case unicode.Is(unicode.Mn, r) || r == '\'' || r == '’':
			// An accent, or an apostrophe inside a word, is left out.
		default:
			gap = true
		}
	}
	text := b.String()
	return strings.TrimRight(text[:min(len(text), limit)], "-")
}

// PlainName reports whether a name can be shown in mails. Mail programs turn a name with
// "://" or "www." into a link, so the name of a workspace could carry an
// advertisement to invited persons. Line breaks and the characters that change the direction of
// text could make a name look like other parts of the mail.
func PlainName(name string) bool {
	return PlainText(name) && !strings.ContainsAny(name, "\n\r")
}

// PlainText is like PlainName for a text that may have the line breaks \n and \r.
func PlainText(text string) bool {
	lower := strings.ToLower(text)
	return !strings.Contains(lower, "://") && !strings.Contains(lower, "www.") && !strings.ContainsFunc(text, func(r rune) bool {
		return strings.ContainsRune("\v\f\u0085\u2028\u2029", r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

// Optional returns a pointer to s, or nil if s is empty.
func Optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Base62 is the alphabet of keys and codes.
const Base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// RandomBase62 returns n random characters, all equally likely.
func RandomBase62(n int) string {
	text := make([]byte, 0, n)
	var random [32]byte
	for len(text) < n {
		_, _ = rand.Read(random[:]) // crypto/rand.Read never fails
		for _, b := range random {
			// 248 = 4 × 62. Bytes from 248 on are skipped. With these bytes, the first
			// characters of the alphabet would be more likely than the others.
			if b < 248 && len(text) < n {
				text = append(text, Base62[b%62])
			}
		}
	}
	return string(text)
}

// RandomToken returns a prefix and 256 random bits in base64. The prefix makes tokens
// recognizable for people and for secret scanners.
func RandomToken(prefix string) string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // crypto/rand.Read never fails
	return prefix + base64.RawURLEncoding.EncodeToString(random)
}
