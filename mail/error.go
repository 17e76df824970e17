package mail

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"strings"
)

// SendErrorKind says how a failed attempt is to be treated.
type SendErrorKind int

const (
	// Temporary failures can succeed later: replies 4xx, lost connections, timeouts, every
	// failure of TLS, and a server that does not offer STARTTLS or authentication. Some of
	// them are faults of the configuration; a retry does no harm there.
	Temporary SendErrorKind = iota + 1
	// RecipientRefused means that the address does not exist or is invalid. Retries are
	// useless, and the address should get no more mail.
	RecipientRefused
	// Refused is every other permanent failure, for example of authentication, of the
	// sender address, or of a policy. The operator has to act. The address of the recipient
	// is not at fault.
	Refused
)

// String returns the name of the kind in snake case.
func (k SendErrorKind) String() string {
	switch k {
	case Temporary:
		return "temporary"
	case RecipientRefused:
		return "recipient_refused"
	case Refused:
		return "refused"
	default:
		return "unknown"
	}
}

// SendError is every error of Send. It contains neither the password nor the address of
// the recipient.
type SendError struct {
	Kind     SendErrorKind
	Phase    Phase
	Code     int    // the reply code of SMTP; 0 if the server did not reply
	Enhanced string // the enhanced status code, like "5.1.1"; empty if the reply has none

	text  string // the text of the reply, or of cause
	cause error  // nil if the server replied
}

// Error returns the phase and the reply or the cause, in one line.
func (e *SendError) Error() string {
	b := "mail: " + string(e.Phase) + ": "
	if e.Code != 0 {
		b += fmt.Sprintf("%d ", e.Code)
	}
	if e.Enhanced != "" {
		b += e.Enhanced + " "
	}
	return strings.TrimSpace(b + e.text)
}

// Unwrap returns the error of the network or of the context, or nil if the server
// replied.
func (e *SendError) Unwrap() error { return e.cause }

// maxReplyText is the limit of a reply in an error, in characters.
const maxReplyText = 300

// newSendError classifies the failure of a phase.
func newSendError(phase Phase, err error, redact redactor) *SendError {
	var reply *textproto.Error
	if !errors.As(lastError(err), &reply) {
		return &SendError{Kind: Temporary, Phase: phase, text: cleanText(err.Error(), redact), cause: err}
	}
	enhanced, text := splitEnhanced(line(reply.Msg))
	return &SendError{
		Kind: kindOf(phase, reply.Code, enhanced), Phase: phase, Code: reply.Code, Enhanced: enhanced, text: cleanText(text, redact),
	}
}

// lastError returns the last of joined errors. go-mail joins the errors of EHLO and of
// HELO, which it sends if EHLO failed. The later one is the reason of the failure.
func lastError(err error) error {
	var joined interface{ Unwrap() []error }
	for errors.As(err, &joined) {
		all := joined.Unwrap()
		err = all[len(all)-1]
	}
	return err
}

var enhancedCode = regexp.MustCompile(`^([245]\.\d{1,3}\.\d{1,3})(?: |$)`)

// splitEnhanced splits the enhanced status code from the text of a reply. The code counts
// only at the beginning; later in the text, an IP address can look like one.
func splitEnhanced(text string) (enhanced, rest string) {
	if m := enhancedCode.FindStringSubmatch(text); m != nil {
		return m[1], strings.TrimSpace(text[len(m[1]):])
	}
	return "", text
}

func kindOf(phase Phase, code int, enhanced string) SendErrorKind {
	switch {
	case code < 500 || code > 599:
		// 4xx, and replies that violate the protocol.
		return Temporary
	case phase == PhaseTLS:
		return Temporary
	case phase == PhaseRcpt && refusesRecipient(code, enhanced):
		return RecipientRefused
	default:
		return Refused
	}
}

// refusesRecipient reports whether a permanent reply to RCPT TO is about the address of
// the recipient. Servers may delay every refusal until RCPT TO, as Postfix does by
// default. Therefore it excludes the codes about the sender address (RFC 3463), about
// commands (RFC 5321) and about authentication (RFC 4954).
func refusesRecipient(code int, enhanced string) bool {
	if enhanced != "" {
		return strings.HasPrefix(enhanced, "5.1.") && enhanced != "5.1.7" && enhanced != "5.1.8"
	}
	switch code {
	case 500, 502, 503, 504, 530, 534, 535, 538:
		return false
	default:
		return true
	}
}

func cleanText(text string, redact redactor) string {
	return shorten(redact(line(text)), maxReplyText)
}

// redactor removes secrets from a text.
type redactor func(string) string

// newRedactor returns a redactor for the credentials of the server and the address of the
// recipient. Replies repeat the address, and some servers repeat the line of a command
// that they did not accept.
func newRedactor(s server, to Address) redactor {
	recipient := regexp.MustCompile("(?i)" + regexp.QuoteMeta(to.Address))
	var pairs []string
	if s.password != "" {
		encode := base64.StdEncoding.EncodeToString
		for _, secret := range []string{encode([]byte("\x00" + s.user + "\x00" + s.password)), encode([]byte(s.password)), s.password} {
			pairs = append(pairs, secret, "[redacted]")
		}
	}
	credentials := strings.NewReplacer(pairs...)
	return func(text string) string {
		return recipient.ReplaceAllLiteralString(credentials.Replace(text), "recipient")
	}
}

// Phase is the step of an attempt that failed.
type Phase string

// The phases of an attempt, in order.
const (
	PhaseCompose  Phase = "compose"  // the message is invalid, nothing was sent
	PhaseConnect  Phase = "connect"  // name resolution and TCP
	PhaseTLS      Phase = "tls"      // STARTTLS or the implicit handshake
	PhaseGreeting Phase = "greeting" // before PhaseTLS with STARTTLS, after it otherwise
	PhaseHello    Phase = "hello"    // EHLO or HELO
	PhaseAuth     Phase = "auth"     // AUTH
	PhaseSender   Phase = "sender"   // MAIL FROM
	PhaseRcpt     Phase = "rcpt"     // RCPT TO
	PhaseData     Phase = "data"     // DATA and the content
	PhaseAccept   Phase = "accept"   // the reply after the final dot
)
