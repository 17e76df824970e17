package affiliate

import (
	"strings"
	"unicode"
)

// Registration says who can create an account of one kind.
type Registration string

// With OpenRegistration, everybody can register. With InviteRegistration, a person needs
// the token of an invitation. With ClosedRegistration, no person can register. A person can
// then only accept an invitation to an existing workspace.
const (
	OpenRegistration   Registration = "open"
	InviteRegistration Registration = "invite"
	ClosedRegistration Registration = "closed"
)

// PlainName reports whether a name can be shown in mails. Mail programs turn a name with
// "://" or "www." into a link, so the name of a workspace could carry an
// advertisement to invited persons. Line breaks and the characters that change the direction of
// text could make a name look like other parts of the mail.
func PlainName(name string) bool {
	return PlainText(name) && !strings.ContainsAny(name, "\n\r")
}

// PlainText is like PlainName for a text that may have line breaks.
func PlainText(text string) bool {
	lower := strings.ToLower(text)
	return !strings.Contains(lower, "://") && !strings.Contains(lower, "www.") && !strings.ContainsFunc(text, func(r rune) bool {
		return strings.ContainsRune("\v\f\u0085\u2028\u2029", r) || unicode.Is(unicode.Bidi_Control, r)
	})
}
