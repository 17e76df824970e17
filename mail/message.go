package mail

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// Message is a mail to one recipient.
type Message struct {
	// ID is stable: every attempt has the same one. The Message-ID is <ID@domain of From>.
	// Resend also gets it as idempotency key. Characters other than ASCII letters, digits,
	// ".", "_" and "-" become "-".
	ID string
	To Address
	// ReplyTo is optional and replaces Config.ReplyTo. If its address is invalid or not
	// ASCII, the mail has no Reply-To.
	ReplyTo Address
	Content Content
	// UnsubscribeURL accepts the POST request of RFC 8058. If it is not an https URL, the
	// mail has neither List-Unsubscribe nor List-Unsubscribe-Post.
	UnsubscribeURL string
	Date           time.Time // zero: the time of the attempt
}

// maxURLHeader keeps the header List-Unsubscribe below the 998 bytes that a line can have.
const maxURLHeader = 900

// envelope is a composed message with the addresses of its SMTP transaction.
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

// headerText returns s as one line. Mail programs decode "=?" in a header as the start of
// an encoded word; the space prevents this, so that the text stays as it is.
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

// listUnsubscribe returns s as it is written into the header, or an empty string if s is
// not an https URL.
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
