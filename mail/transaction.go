package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"
)

// transaction is one connection with one mail. It uses the SMTP client of go-mail, and
// not go-mail's Client: the error of the latter does not have the reply of the server, and
// it takes the first number that looks like an enhanced status code, such as a part of an
// IP address. It also leaves the connection open if EHLO or AUTH fails.
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
