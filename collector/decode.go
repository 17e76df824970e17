package collector

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

// body is the body of a click request. check validates text and sets the other fields.
type body struct {
	// text contains the fields as sent. A field with only white space is "".
	text [fieldCount]string
	// ignored contains the paths of unknown fields as sent.
	ignored []string

	code       string // trimmed, case-folded
	clickID    uuid.UUID
	proposed   bool
	landing    string // origin and path
	referrer   string // host
	consent    affiliate.Consent
	occurredAt time.Time
}

// The text fields of a body. The fields of utm have their path as name.
const (
	fieldPublicKey = iota
	fieldReferralCode
	fieldURL
	fieldReferrer
	fieldClickID
	fieldSubID
	fieldConsent
	fieldScreen
	fieldLanguage
	fieldOccurredAt
	fieldUTMSource
	fieldUTMMedium
	fieldUTMCampaign
	fieldUTMTerm
	fieldUTMContent
	fieldCount
)

var fieldNames = [fieldCount]string{
	"public_key", "referral_code", "url", "referrer", "click_id", "sub_id", "consent", "screen", "language", "occurred_at",
	"utm.source", "utm.medium", "utm.campaign", "utm.term", "utm.content",
}

const utmPrefix = "utm."

// Bounds of stored values, in code points. maxCode comes from DECISIONS.md. The others
// keep a value within the maximum size of an index entry.
const (
	maxCode      = 100
	maxURL       = 2048
	maxText      = 255
	maxShortText = 64
)

// decode reads a body. The violations contain all its faults. It returns the public key
// even of a body with faults, because an invalid body with a valid key gets a 400 and
// counts towards the limit of the key.
func decode(raw []byte) (*body, affiliate.Violations) {
	d := decoder{Scanner: jsonscan.Scanner{Data: string(raw)}}
	fault := d.document()
	if !utf8.Valid(raw) {
		fault = jsonscan.NotUTF8
	}
	if fault != "" {
		// Report only the fault of the body, because the fields after it are not known.
		var violations affiliate.Violations
		violations.Add(affiliate.WholeBody, fault)
		return &d.body, violations
	}
	d.body.check(&d.violations)
	return &d.body, d.violations
}

// fieldOf returns the index of a field of the body (prefix "") or of utm, or -1.
func fieldOf(prefix, name string) int {
	low, high := 0, fieldUTMSource
	if prefix != "" {
		low, high = fieldUTMSource, fieldCount
	}
	for field := low; field < high; field++ {
		if fieldNames[field][len(prefix):] == name {
			return field
		}
	}
	return -1
}

// check validates the values and adds their faults to violations. A field gets at most
// one fault.
func (b *body) check(violations *affiliate.Violations) {
	add := func(field int, message string) {
		name := fieldNames[field]
		if !slices.ContainsFunc(*violations, func(v affiliate.Violation) bool { return v.Field == name }) {
			violations.Add(name, message)
		}
	}

	b.code = affiliate.FoldCode(strings.TrimSpace(b.text[fieldReferralCode]))
	switch n := utf8.RuneCountInString(b.code); {
	case n == 0:
		add(fieldReferralCode, affiliate.IsRequired)
	case n > maxCode:
		add(fieldReferralCode, "must have 1 to 100 characters")
	}
	if id := b.text[fieldClickID]; id != "" {
		parsed, ok := affiliate.ParseID[affiliate.Click](id)
		if b.clickID, b.proposed = parsed.UUID, ok; !ok {
			add(fieldClickID, affiliate.MustBeUUID)
		}
	}
	switch consent := affiliate.Consent(b.text[fieldConsent]); consent {
	case "":
		b.consent = affiliate.ConsentUnknown
	case affiliate.ConsentGranted, affiliate.ConsentDenied, affiliate.ConsentUnknown:
		b.consent = consent
	default:
		add(fieldConsent, "must be one of granted, denied, unknown")
	}
	if at := b.text[fieldOccurredAt]; at != "" {
		var err error
		if b.occurredAt, err = time.Parse(time.RFC3339, at); err != nil {
			add(fieldOccurredAt, affiliate.MustBeTimestamp)
		}
	}
	if text := b.text[fieldURL]; text != "" {
		var ok bool
		if b.landing, ok = landingOf(text); !ok {
			add(fieldURL, "must be an absolute http or https URL")
		} else if utf8.RuneCountInString(b.landing) > maxURL {
			add(fieldURL, fmt.Sprintf("must have at most %d characters before its query", maxURL))
		}
	}
	if text := b.text[fieldReferrer]; text != "" {
		var ok bool
		if b.referrer, ok = hostOf(text); !ok {
			add(fieldReferrer, "must be an absolute URL")
		} else if len(b.referrer) > maxText {
			add(fieldReferrer, fmt.Sprintf("must have a host of at most %d characters", maxText))
		}
	}
	for field := fieldSubID; field < fieldCount; field++ {
		limit := maxText
		switch field {
		case fieldConsent, fieldOccurredAt:
			continue
		case fieldScreen, fieldLanguage:
			limit = maxShortText
		}
		if len(b.text[field]) > limit && utf8.RuneCountInString(b.text[field]) > limit {
			add(field, fmt.Sprintf("must have at most %d characters", limit))
		}
	}
}

// landingOf returns the origin and path of a URL. It removes the query and the fragment,
// because they may contain personal data.
func landingOf(text string) (string, bool) {
	if end := strings.IndexAny(text, "?#"); end >= 0 {
		text = text[:end]
	}
	rest, ok := strings.CutPrefix(text, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(text, "http://")
	}
	if ok && plainHost(rest) {
		return text, true
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", false
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String(), true
}

// hostOf returns the host of a referrer. The referrer may be an app (android-app://…).
func hostOf(text string) (string, bool) {
	if _, rest, ok := strings.Cut(text, "://"); ok && plainHost(rest) {
		if end := strings.IndexAny(rest, "/?#:"); end >= 0 {
			rest = rest[:end]
		}
		return strings.ToLower(rest), true
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Hostname() == "" {
		return "", false
	}
	return strings.ToLower(u.Hostname()), true
}

// plainHost reports whether rest is host[:port][/path] in characters that url.Parse
// accepts and does not change, so that url.Parse is not needed.
func plainHost(rest string) bool {
	i := 0
	for ; i < len(rest); i++ {
		c := rest[i]
		if c == '/' || c == '?' || c == '#' || c == ':' {
			break
		}
		if letter := c | 0x20; (letter < 'a' || letter > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	if i == 0 {
		return false
	}
	if i < len(rest) && rest[i] == ':' {
		digits := 0
		for i++; i < len(rest) && '0' <= rest[i] && rest[i] <= '9'; i++ {
			digits++
		}
		if digits == 0 || digits > 5 || i < len(rest) && rest[i] != '/' && rest[i] != '?' && rest[i] != '#' {
			return false
		}
	}
	for ; i < len(rest) && rest[i] != '?' && rest[i] != '#'; i++ {
		// Accept any percent sign, because paths of real pages contain percent signs that
		// are not part of an escape.
		if c := rest[i]; c <= ' ' || c > '~' || c == '\\' || c == '"' || c == '<' || c == '>' {
			return false
		}
	}
	return true
}
