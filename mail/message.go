package mail

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	netmail "net/mail"
	"net/url"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"golang.org/x/net/idna"
)

// Message is a mail to one recipient.
type Message struct {
	// ID is the same in every attempt to send the message. The Message-ID is <ID@domain of From>.
	// Resend also gets the ID as idempotency key. Characters other than ASCII letters, digits,
	// ".", "_" and "-" become "-".
	ID string
	To Address
	// ReplyTo is optional and replaces Config.ReplyTo. If its address is invalid or not
	// ASCII, the mail has no Reply-To.
	ReplyTo Address
	Content Content
	// UnsubscribeURL accepts the POST request of RFC 8058. If it is not an https URL, or is too long for a header, the
	// mail has neither List-Unsubscribe nor List-Unsubscribe-Post.
	UnsubscribeURL string
	Date           time.Time // zero: the time of the attempt
}

// maxURLHeader keeps the header List-Unsubscribe below the 998 bytes that a line can have.
const maxURLHeader = 900

type envelope struct {
	from, to Address
	data     []byte
}

// needsSMTPUTF8 reports whether the local part of an address is not ASCII. Domains are
// ASCII already.
func (e envelope) needsSMTPUTF8() bool {
	return !isASCII(e.from.Address) || !isASCII(e.to.Address)
}

// compose returns the message as it is sent. Every error is a *SendError.
func (s *Sender) compose(m Message) (envelope, error) {
	to, err := m.To.normalize()
	if err != nil {
		return envelope{}, &SendError{Kind: RecipientRefused, Phase: PhaseCompose, Enhanced: "5.1.3", text: err.Error()}
	}
	id := messageID(m.ID)
	if id == "" {
		return envelope{}, composeError(errors.New("the message has no id"))
	}
	if m.Content.Text == "" || m.Content.HTML == "" {
		return envelope{}, composeError(errors.New("the message has no content"))
	}
	date := m.Date
	if date.IsZero() {
		date = time.Now()
	}
	// A fixed boundary could be part of a text. This one depends on the texts, so that no
	// text can contain it.
	sum := sha256.Sum256([]byte(id + "\x00" + m.Content.Text + "\x00" + m.Content.HTML))
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithBoundary(hex.EncodeToString(sum[:])))
	msg.SetAddrHeaderFromMailAddress(gomail.HeaderFrom, s.from.header())
	msg.SetAddrHeaderFromMailAddress(gomail.HeaderTo, to.header())
	replyTo := s.replyTo
	if m.ReplyTo.Address != "" {
		if replyTo, err = m.ReplyTo.normalize(); err != nil || !isASCII(replyTo.Address) {
			replyTo = Address{}
		}
	}
	if replyTo.Address != "" {
		msg.SetAddrHeaderFromMailAddress(gomail.HeaderReplyTo, replyTo.header())
	}
	msg.Subject(shorten(headerText(m.Content.Subject), maxSubject))
	msg.SetDateWithValue(date)
	msg.SetMessageIDWithValue(id + "@" + s.from.domain())
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if u := listUnsubscribe(m.UnsubscribeURL); u != "" {
		msg.SetGenHeader(gomail.HeaderListUnsubscribe, "<"+u+">")
		msg.SetGenHeader(gomail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
	}
	if s.server.isResend() {
		msg.SetGenHeader("Resend-Idempotency-Key", id)
	}
	msg.SetBodyString(gomail.TypeTextPlain, m.Content.Text)
	msg.AddAlternativeString(gomail.TypeTextHTML, m.Content.HTML)
	var data bytes.Buffer
	if _, err := msg.WriteTo(&data); err != nil {
		return envelope{}, composeError(err)
	}
	return envelope{from: s.from, to: to, data: data.Bytes()}, nil
}

func composeError(err error) *SendError {
	return &SendError{Kind: Refused, Phase: PhaseCompose, text: err.Error()}
}

// headerText returns s as one line. Mail programs decode "=?" in a header as the start of an encoded word. headerText
// inserts a space, so that they show the text and do not decode it.
func headerText(s string) string {
	return strings.ReplaceAll(line(s), "=?", "= ?")
}

func messageID(id string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, id)
}

// listUnsubscribe returns s as it is written into the header. It returns an empty string if s is not an https URL, is
// not ASCII after the encoding, or is longer than maxURLHeader.
func listUnsubscribe(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return ""
	}
	encoded := encodeURL(s)
	if !isASCII(encoded) || len(encoded) > maxURLHeader {
		return ""
	}
	return encoded
}

// Address is a mail address with an optional display name. The field Address is like "maria@example.com".
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
