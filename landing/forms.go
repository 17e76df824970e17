package landing

import (
	netmail "net/mail"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/tributary-hq/tributary/affiliate"
)

// The bounds of elapsedMs, both included (docs/landing-page.md#against-spam).
const (
	minElapsedMs = 1500
	maxElapsedMs = 1_800_000
)

// The lengths of fields, in characters.
const (
	maxEmail   = 320
	maxName    = 100
	minMessage = 10
	maxMessage = 5000
)

// checkSpam refuses a form that was probably sent by a program. elapsedMs is 0 if the form
// has no valid elapsedMs.
func checkSpam(website string, elapsedMs float64) error {
	if website != "" || elapsedMs < minElapsedMs || elapsedMs > maxElapsedMs {
		return affiliate.Refuse(reasonAntiSpam)
	}
	return nil
}

// parseEmail returns an e-mail address without white space around it. It allows up to 320
// characters. SMTP allows fewer; package mail then sends the mail without Reply-To. A
// domain with non-ASCII letters keeps its spelling.
func parseEmail(text string) (string, error) {
	email := strings.TrimSpace(text)
	if utf8.RuneCountInString(email) > maxEmail {
		return "", affiliate.Refuse(reasonInvalidEmail) // the parser is slow for long texts
	}
	parsed, err := netmail.ParseAddress(email)
	// ParseAddress also accepts names, comments and quotes. The result is then not equal to
	// the text.
	if err != nil || parsed.Address != email {
		return "", affiliate.Refuse(reasonInvalidEmail)
	}
	domain := email[strings.LastIndexByte(email, '@')+1:]
	if ascii, err := idna.Lookup.ToASCII(domain); err != nil || !strings.Contains(ascii, ".") {
		return "", affiliate.Refuse(reasonInvalidEmail)
	}
	return email, nil
}

// trimmed returns a text without white space around it, if its length is allowed. message
// is the message of the error.
func trimmed(text string, shortest, longest int, message string) (string, error) {
	text = strings.TrimSpace(text)
	if n := utf8.RuneCountInString(text); n < shortest || n > longest {
		return "", &affiliate.Error{Reason: reasonInvalidRequest, Message: message}
	}
	return text, nil
}
