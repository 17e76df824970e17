// Package mail composes mails from documents and sends them over SMTP.
//
// Guarantees:
//   - A mail has an HTML part and a text part with the same content. Text of the document
//     stays text: it never becomes markup, a link or a header. CR, LF and NUL never reach
//     a header.
//   - The HTML part loads only the logo of the document: no external styles, no tracking pixels.
//   - Every attempt with the same message has the same Message-ID.
//   - Send returns nil only after the server accepted the mail. Every other result is a
//     *SendError that says how to treat the failure.
//   - The password is sent only over TLS, unless the URL has tls=none. No error contains
//     the password or the address of the recipient.
//
// Not guaranteed: that a mail is sent once. If the connection ends between the final dot
// and the reply, the server may have accepted the mail; a repetition sends it again.
// Send does not retry, does not queue, and opens a connection for every mail. A mail that
// the server accepted can still bounce later.
//
// The package imports nothing of this module, because the core and the landing service
// use it.
package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Config configures a Sender.
type Config struct {
	URL     string         // see CheckURL
	From    string         // "Acme <no-reply@example.com>" or only the address
	ReplyTo string         // optional, like From
	Roots   *x509.CertPool // the authorities of the server's certificate; nil: those of the system
	Timeout time.Duration  // of a whole attempt; default 30 s
}

const defaultTimeout = 30 * time.Second

// Sender sends messages to one SMTP server. It is safe for concurrent use.
type Sender struct {
	server  server
	from    Address
	replyTo Address // zero: none
	tls     *tls.Config
	timeout time.Duration
}

// NewSender returns a Sender. It does not connect. It returns an error if the URL or an
// address is invalid; the error does not contain the password.
func NewSender(c Config) (*Sender, error) {
	sv, err := parseURL(c.URL)
	if err != nil {
		return nil, fmt.Errorf("mail: %w", err)
	}
	from, err := parseSetting("From", c.From)
	if err != nil {
		return nil, err
	}
	s := &Sender{server: sv, from: from, timeout: c.Timeout, tls: &tls.Config{ServerName: sv.host, RootCAs: c.Roots, MinVersion: tls.VersionTLS12}}
	if c.ReplyTo != "" {
		if s.replyTo, err = parseSetting("ReplyTo", c.ReplyTo); err != nil {
			return nil, err
		}
	}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	return s, nil
}

// Send makes one attempt to send m. It returns nil if the server accepted the mail, even
// if the connection fails after that. Every error is a *SendError. Send returns when ctx
// ends or when Config.Timeout has passed; the error is then Temporary and wraps the error
// of the context.
func (s *Sender) Send(ctx context.Context, m Message) error {
	_, err := s.SendWithReply(ctx, m)
	return err
}

// SendWithReply is like Send and returns the reply with which the server accepted the
// mail, in one line, for example "250 2.0.0 Ok: queued as 4XyZ".
func (s *Sender) SendWithReply(ctx context.Context, m Message) (reply string, err error) {
	mail, err := s.compose(m)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	reply, phase, err := s.deliver(ctx, mail)
	if err == nil {
		return reply, nil
	}
	return "", s.sendError(ctx, phase, err, mail)
}

func (s *Sender) sendError(ctx context.Context, phase Phase, err error, mail envelope) error {
	var sendErr *SendError
	if errors.As(err, &sendErr) {
		return sendErr
	}
	var reply *textproto.Error
	if ctx.Err() != nil && !errors.As(err, &reply) {
		// The error of the connection only says that its deadline has passed.
		err = ctx.Err()
	}
	return newSendError(phase, err, newRedactor(s.server, mail.to))
}

// deliver makes the SMTP transaction. It returns the reply that accepted the mail, or the
// phase that failed.
func (s *Sender) deliver(ctx context.Context, mail envelope) (reply string, phase Phase, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.server.address())
	if err != nil {
		return "", PhaseConnect, err
	}
	defer conn.Close()
	// A deadline in the past ends every read and write.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	t := &transaction{sender: s, conn: &limitedConn{Conn: conn, rest: maxReplies}, phase: PhaseTLS}
	err = t.run(ctx, mail)
	if stop() {
		t.quit()
	}
	return t.reply, t.phase, err
}

// helloName returns the name for EHLO: the host name if it has a domain, otherwise the
// local address, because servers reject a name that is not fully qualified.
func helloName(conn net.Conn) string {
	if name, err := os.Hostname(); err == nil && strings.Contains(name, ".") && isASCII(name) {
		return name
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return "localhost"
	}
	host, _, _ = strings.Cut(host, "%") // the zone of a link-local address
	if strings.Contains(host, ":") {
		host = "IPv6:" + host
	}
	return "[" + host + "]"
}

type encryption string

const (
	startTLS    encryption = "starttls"
	implicitTLS encryption = "implicit"
	noTLS       encryption = "none"
)

// defaultPorts has an entry for every valid encryption.
var defaultPorts = map[encryption]string{startTLS: "587", implicitTLS: "465", noTLS: "25"}

type server struct {
	host       string
	port       string
	user       string // empty: no authentication
	password   string
	encryption encryption
}

// CheckURL returns an error if s is not a valid SMTP URL:
// smtp://user:password@host:587?tls=starttls|implicit|none. The user, the port and tls are
// optional. Without tls, STARTTLS is required. The default port is 587 for starttls, 465 for
// implicit and 25 for none. Special characters of the user and the password are
// percent-encoded. The error does not contain s, because s contains a password.
func CheckURL(s string) error {
	_, err := parseURL(s)
	return err
}

func parseURL(s string) (server, error) {
	u, err := url.Parse(s)
	if err != nil {
		// The error of url.Parse contains the URL.
		return server{}, errors.New("the SMTP URL cannot be parsed; percent-encode special characters of the password")
	}
	if u.Scheme != "smtp" {
		return server{}, errors.New("the SMTP URL must begin with smtp://")
	}
	if u.Hostname() == "" || strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return server{}, errors.New("the SMTP URL must have an ASCII host name")
	}
	if strings.Trim(u.Path, "/") != "" || u.Opaque != "" || u.Fragment != "" {
		return server{}, errors.New("the SMTP URL must not have a path or fragment; percent-encode special characters of the password")
	}
	sv := server{host: u.Hostname(), port: u.Port()}
	if sv.encryption, err = parseEncryption(u.RawQuery); err != nil {
		return server{}, err
	}
	if sv.port == "" {
		sv.port = defaultPorts[sv.encryption]
	}
	if n, err := strconv.ParseUint(sv.port, 10, 16); err != nil || n == 0 {
		return server{}, errors.New("the port of the SMTP URL must be from 1 to 65535")
	}
	sv.user = u.User.Username()
	sv.password, _ = u.User.Password()
	if (sv.user == "") != (sv.password == "") {
		return server{}, errors.New("the SMTP URL must have both a user and a password, or neither")
	}
	if hasControl(sv.user) || hasControl(sv.password) {
		return server{}, errors.New("the user and the password of the SMTP URL must not have control characters")
	}
	return sv, nil
}

func parseEncryption(query string) (encryption, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("the query of the SMTP URL cannot be parsed")
	}
	for name, v := range values {
		if name != "tls" || len(v) != 1 {
			return "", errors.New("the SMTP URL accepts only the parameter tls, once")
		}
	}
	e := startTLS
	if values.Has("tls") {
		e = encryption(values.Get("tls"))
	}
	if _, ok := defaultPorts[e]; !ok {
		return "", fmt.Errorf("tls in the SMTP URL must be %s, %s or %s", startTLS, implicitTLS, noTLS)
	}
	return e, nil
}

func (s server) address() string { return net.JoinHostPort(s.host, s.port) }

// isResend reports whether the server is Resend's, which reads an idempotency key.
func (s server) isResend() bool {
	host := strings.ToLower(strings.TrimSuffix(s.host, "."))
	return host == "resend.com" || strings.HasSuffix(host, ".resend.com")
}
