package collector

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

// clickBody is the body of a click request. The decoder sets text and ignored. The method
// check then validates text and sets the other fields.
type clickBody struct {
	// text contains the values as the client sent them, indexed by fieldPublicKey and the
	// following constants. A value that contains only white space is stored as "".
	text [fieldCount]string
	// ignored contains the paths of unknown fields as the client sent them.
	ignored []string

	code       string    // trimmed, case-folded
	clickID    uuid.UUID // set if proposed is true
	proposed   bool      // the client proposed a click id
	landing    string    // origin and path of the landing page
	referrer   string    // host of the referring page
	consent    click.Consent
	occurredAt time.Time
}

// Indexes of the text fields of a body.
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

// fieldNames contains the JSON name of each text field. For a field of the utm object,
// the name is its path.
var fieldNames = [fieldCount]string{
	"public_key", "referral_code", "url", "referrer", "click_id", "sub_id", "consent", "screen", "language", "occurred_at",
	"utm.source", "utm.medium", "utm.campaign", "utm.term", "utm.content",
}

const utmPrefix = "utm."

// Maximum lengths of stored values, in code points, of the referrer in bytes. The API reference
// states maxCode. maxText and maxShortText keep values small enough for index entries of the
// database. maxURL may be larger, because no index contains URLs.
const (
	maxCode      = 100
	maxURL       = 2048
	maxText      = 255
	maxShortText = 64
)

// decode parses and validates a body. It returns one violation if the body is not a valid
// document, otherwise all violations. It returns the body with its public key also in these
// cases, because a request with an invalid body and a valid key counts towards the key's limit.
func decode(raw []byte) (*clickBody, affiliate.Violations) {
	d := decoder{Scanner: jsonscan.Scanner{Data: string(raw)}}
	fault := d.document()
	if !utf8.Valid(raw) {
		fault = jsonscan.NotUTF8
	}
	if fault != "" {
		// Report only this fault. The decoder did not read all fields, so it is not known
		// which of them are missing.
		var violations affiliate.Violations
		violations.Add(affiliate.WholeBody, fault)
		return &d.body, violations
	}
	d.body.check(&d.violations)
	return &d.body, d.violations
}

// fieldOf returns the index of the field with the given name. It searches the fields of
// the body if prefix is "", and otherwise the fields of utm. It returns -1 if the name is
// unknown.
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

// check validates the values and adds their faults to violations. It adds at most one
// fault per field.
func (b *clickBody) check(violations *affiliate.Violations) {
	add := func(field int, message string) {
		name := fieldNames[field]
		if !slices.ContainsFunc(*violations, func(v affiliate.Violation) bool { return v.Field == name }) {
			violations.Add(name, message)
		}
	}

	b.code = click.FoldCode(strings.TrimSpace(b.text[fieldReferralCode]))
	switch n := utf8.RuneCountInString(b.code); {
	case n == 0:
		add(fieldReferralCode, affiliate.IsRequired)
	case n > maxCode:
		add(fieldReferralCode, "must have 1 to 100 characters")
	}
	if id := b.text[fieldClickID]; id != "" {
		parsed, ok := affiliate.ParseID[affiliate.ClickID](id)
		if b.clickID, b.proposed = parsed.UUID, ok; !ok {
			add(fieldClickID, affiliate.MustBeUUID)
		}
	}
	switch consent := click.Consent(b.text[fieldConsent]); consent {
	case "":
		b.consent = click.ConsentUnknown
	case click.ConsentGranted, click.ConsentDenied, click.ConsentUnknown:
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
	if ok && isPlainURL(rest) {
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
	if _, rest, ok := strings.Cut(text, "://"); ok && isPlainURL(rest) {
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

// isPlainURL reports whether rest, the part of a URL after "://", begins with a host of
// ASCII letters, digits, dots and hyphens, an optional port and an optional path without
// special characters. In such a URL, the host and the path need no url.Parse, which is
// slower.
func isPlainURL(rest string) bool {
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
		// Accept any percent sign. url.Parse would refuse a percent sign that is not part
		// of an escape, but the paths of real pages contain such percent signs.
		if c := rest[i]; c <= ' ' || c > '~' || c == '\\' || c == '"' || c == '<' || c == '>' {
			return false
		}
	}
	return true
}

const mustBeGivenOnce = "must be given only once"

// decoder parses the JSON body of one request and accepts only valid JSON. Its methods
// return false if it must stop: the values are nested too deeply, a field name contains
// text that cannot be stored, or the text at Pos is not valid JSON.
type decoder struct {
	jsonscan.Scanner
	body       clickBody
	violations affiliate.Violations // repeated fields, wrong types, text that cannot be stored
	// seen has one bit per field: bit i is set after the field with the index i was read.
	// The bit fieldCount stands for the utm object.
	seen uint32
	// ignored contains the paths of the unknown fields that were read.
	ignored map[string]bool
}

// document parses the whole body. It returns a fault if the body as a whole is invalid,
// and otherwise "".
func (d *decoder) document() (fault string) {
	isObject := d.SkipSpace() == '{'
	ok := isObject && d.fields("") || !isObject && d.Skip()
	switch {
	case d.KeyFault != "":
		return d.KeyFault + " in the names of its fields"
	case d.TooDeep:
		return "must not be nested deeper than " + strconv.Itoa(jsonscan.MaxDepth) + " levels"
	case !ok:
		return "is not valid JSON at byte " + strconv.Itoa(d.Pos)
	case !isObject:
		return "must be a JSON object"
	}
	if d.SkipSpace(); d.Pos < len(d.Data) {
		return "must not continue after the JSON object"
	}
	return ""
}

// fields parses the fields of the body (if prefix is "") or of its utm object (if prefix
// is utmPrefix).
func (d *decoder) fields(prefix string) bool {
	return d.Object(func(name string) bool {
		c := d.SkipSpace()
		field := fieldOf(prefix, name)
		if prefix == "" && name == "utm" {
			field = fieldCount
		}
		switch {
		case field < 0:
			d.ignoreField(prefix + name)
		case d.seen&(1<<field) != 0:
			d.violations.Add(prefix+name, mustBeGivenOnce)
		default:
			d.seen |= 1 << field
			switch {
			case c == 'n': // null counts as absent
			case field == fieldCount && c == '{':
				return d.fields(utmPrefix)
			case field == fieldCount:
				d.violations.Add(name, "must be an object")
			case c == '"':
				return d.text(field)
			default:
				d.violations.Add(prefix+name, "must be a string")
			}
		}
		return d.Skip()
	})
}

// ignoreField notes that the body has an unknown field, which the collector ignores. If
// the body has the same unknown field twice, that is a violation.
func (d *decoder) ignoreField(path string) {
	if d.ignored[path] {
		d.violations.Add(printableName(path), mustBeGivenOnce)
		return
	}
	if d.ignored == nil {
		d.ignored = map[string]bool{}
	}
	d.ignored[path] = true
	d.body.ignored = append(d.body.ignored, path)
}

// text parses a string and stores it in the given field of the body. A string that
// contains only white space counts as absent.
func (d *decoder) text(field int) bool {
	text, fault, ok := d.Text()
	if fault != "" {
		d.violations.Add(fieldNames[field], fault)
	} else if ok && !blank(text) {
		d.body.text[field] = text
	}
	return ok
}

func blank(text string) bool {
	if text != "" && ' ' < text[0] && text[0] < utf8.RuneSelf {
		return false // most texts begin with visible ASCII
	}
	return strings.TrimSpace(text) == ""
}

// printableName makes the path of a field suitable for a response: it replaces control
// characters and bounds the length.
func printableName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return utf8.RuneError
		}
		return r
	}, name)
	if utf8.RuneCountInString(name) > maxShortText {
		name = string([]rune(name)[:maxShortText]) + "…"
	}
	return name
}
