package mail

import (
	"errors"
	"fmt"
	netmail "net/mail"
	"strings"

	"golang.org/x/net/idna"
)

// Address is a mail address with an optional display name. Address is like
// "maria@example.com".
type Address struct{ Name, Address string }

// Limits of RFC 5321, in bytes, and the limit of a display name in a header, in
// characters.
const (
	maxLocalPart = 64
	maxAddress   = 254
	maxName      = 100
)

var errAddress = errors.New("the mail address is invalid")

// ParseAddress returns the address in s, which is like "maria@example.com" or
// "Maria <maria@example.com>". The error does not contain s.
func ParseAddress(s string) (Address, error) {
	if hasControl(s) {
		return Address{}, errAddress
	}
	parsed, err := netmail.ParseAddress(s)
	if err != nil {
		return Address{}, errAddress
	}
	return Address{Name: parsed.Name, Address: parsed.Address}.normalize()
}

// normalize returns the address as it is used in the envelope and in headers: the name is
// one line of limited length, and the domain is ASCII.
func (a Address) normalize() (Address, error) {
	if hasControl(a.Address) {
		return Address{}, errAddress
	}
	parsed, err := netmail.ParseAddress(a.Address)
	// In the Address field, a display name is not allowed.
	if err != nil || parsed.Name != "" {
		return Address{}, errAddress
	}
	at := strings.LastIndexByte(parsed.Address, '@')
	local, domain := parsed.Address[:at], parsed.Address[at+1:]
	if !isASCII(domain) {
		if domain, err = idna.Lookup.ToASCII(domain); err != nil {
			return Address{}, errAddress
		}
	}
	if len(local) > maxLocalPart || len(local)+1+len(domain) > maxAddress {
		return Address{}, errAddress
	}
	return Address{Name: shorten(line(a.Name), maxName), Address: local + "@" + domain}, nil
}

// path returns the address in angle brackets, as SMTP commands have it. The local part is
// quoted if it has to be.
func (a Address) path() string {
	return (&netmail.Address{Address: a.Address}).String()
}

func (a Address) domain() string {
	return a.Address[strings.LastIndexByte(a.Address, '@')+1:]
}

func (a Address) header() *netmail.Address {
	return &netmail.Address{Name: headerText(a.Name), Address: a.Address}
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}

func hasControl(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0
}

// parseSetting is ParseAddress for a setting whose name is in the error.
func parseSetting(name, s string) (Address, error) {
	a, err := ParseAddress(s)
	if err != nil {
		return Address{}, fmt.Errorf("mail: %s: %w", name, err)
	}
	return a, nil
}
