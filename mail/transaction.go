package mail

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"regexp"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

// transaction is one connection with one mail. It uses the type smtp.Client of go-mail and not its type mail.Client,
// for three reasons. An error of mail.Client does not have the reply of the server. Its enhanced status code is the
// first number that looks like such a code, for example a part of an IP address. And mail.Client leaves the connection
// open if EHLO or AUTH fails.
type transaction struct {
	sender *Sender
	conn   net.Conn
	client *smtp.Client // nil before the greeting
	phase  Phase
	reply  string // with which the server accepted the mail, in one line
}

// run sends mail. If it fails, t.phase is the phase that failed.
func (t *transaction) run(ctx context.Context, mail envelope) error {
	steps := []struct {
		phase Phase
		do    func(context.Context, envelope) error
	}{
		{PhaseTLS, t.implicitTLS},
		{PhaseGreeting, t.greeting},
		{PhaseHello, t.hello},
		{PhaseTLS, t.startTLS},
		{PhaseAuth, t.auth},
		{PhaseSender, t.mailFrom},
		{PhaseRcpt, t.rcptTo},
		{PhaseData, t.data},
	}
	for _, step := range steps {
		t.phase = step.phase
		if err := step.do(ctx, mail); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) implicitTLS(ctx context.Context, _ envelope) error {
	if t.sender.server.encryption != implicitTLS {
		return nil
	}
	conn := tls.Client(t.conn, t.sender.tls)
	t.conn = conn
	return conn.HandshakeContext(ctx)
}

func (t *transaction) greeting(context.Context, envelope) (err error) {
	t.client, err = smtp.NewClient(t.conn, t.sender.server.host)
	return err
}

func (t *transaction) hello(context.Context, envelope) error {
	return t.client.Hello(helloName(t.conn))
}

func (t *transaction) startTLS(context.Context, envelope) error {
	if t.sender.server.encryption != startTLS {
		return nil
	}
	if ok, _ := t.client.Extension("STARTTLS"); !ok {
		return errors.New("the server does not offer STARTTLS")
	}
	err := t.client.StartTLS(t.sender.tls)
	if state, stateErr := t.client.GetTLSConnectionState(); stateErr == nil && state.HandshakeComplete {
		t.phase = PhaseHello // StartTLS also sends EHLO
	}
	return err
}

// auth sends the credentials with PLAIN or LOGIN. The connection has TLS, unless the URL
// has tls=none.
func (t *transaction) auth(context.Context, envelope) error {
	sv := t.sender.server
	if sv.user == "" {
		return nil
	}
	_, list := t.client.Extension("AUTH")
	insecure := sv.encryption == noTLS
	for _, mechanism := range strings.Fields(strings.ToUpper(list)) {
		switch mechanism {
		case "PLAIN":
			return t.client.Auth(smtp.PlainAuth("", sv.user, sv.password, sv.host, insecure))
		case "LOGIN":
			return t.client.Auth(smtp.LoginAuth(sv.user, sv.password, sv.host, insecure))
		}
	}
	return errors.New("the server offers neither AUTH PLAIN nor AUTH LOGIN")
}

// mailFrom sends MAIL FROM. It asks for SMTPUTF8 only if an address needs it, because the
// next server on the way may not have the extension.
func (t *transaction) mailFrom(_ context.Context, mail envelope) error {
	if mail.needsSMTPUTF8() {
		if ok, _ := t.client.Extension("SMTPUTF8"); !ok {
			return &SendError{Kind: Refused, Phase: PhaseSender, Enhanced: "5.6.7", text: "the server does not accept addresses that are not ASCII"}
		}
	}
	t.client.SkipSMTPUTF8(!mail.needsSMTPUTF8())
	return t.client.Mail(mail.from.path())
}

func (t *transaction) rcptTo(_ context.Context, mail envelope) error {
	return t.client.Rcpt(mail.to.path())
}

func (t *transaction) data(_ context.Context, mail envelope) error {
	w, err := t.client.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(mail.data); err != nil {
		return err
	}
	t.phase = PhaseAccept
	if err := w.Close(); err != nil {
		return err
	}
	t.reply = "250"
	if closed, ok := w.(*smtp.DataCloser); ok {
		t.reply = line("250 " + closed.ServerResponse())
	}
	return nil
}

// quitTimeout limits the time for the reply to QUIT. The reply does not matter.
const quitTimeout = time.Second

// quit ends the session. Without QUIT, servers log a lost connection. t.conn is closed
// afterwards.
func (t *transaction) quit() {
	if t.client == nil || !t.client.HasConnection() {
		return
	}
	if err := t.conn.SetDeadline(time.Now().Add(quitTimeout)); err == nil {
		_ = t.client.Quit()
	}
}

// maxReplies is the limit of all replies of a connection, in bytes. A certificate chain
// and the replies of a normal server need less than 20 kB.
const maxReplies = 1 << 20

var errTooLong = errors.New("the replies of the server are too long")

// limitedConn limits the memory for a server that sends without end, because the SMTP
// client reads lines of any length.
type limitedConn struct {
	net.Conn
	rest int
}

func (c *limitedConn) Read(p []byte) (int, error) {
	if c.rest <= 0 {
		return 0, errTooLong
	}
	n, err := c.Conn.Read(p)
	c.rest -= n
	return n, err
}

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

// SendError is the type of every error of Send. It contains neither the password nor
// the address of the recipient.
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

// splitEnhanced splits the enhanced status code from the text of a reply. It looks for the code
// only at the beginning, because later in the text an IP address can look like a code.
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
// default. Therefore refusesRecipient returns false for the codes about the sender address
// (RFC 3463), about commands (RFC 5321) and about authentication (RFC 4954).
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

// Phase is a step of an attempt. The Phase of a SendError is the step that failed.
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
