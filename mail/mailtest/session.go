package mailtest

import (
	"errors"
	"io"
	"slices"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/tributary-hq/tributary/mail"
)

// session is the part of a connection after EHLO.
type session struct {
	server *Server
	conn   *smtp.Conn
	user   string // empty: not authenticated
	from   string
	to     []string
	utf8   bool
}

func (s *Server) newSession(conn *smtp.Conn) (smtp.Session, error) {
	se := &session{server: s, conn: conn}
	if _, encrypted := conn.TLSConnectionState(); s.options.TLS == StartTLS && !encrypted {
		return se, nil
	}
	if err := se.fail(mail.PhaseHello, ""); err != nil {
		return nil, err
	}
	return se, nil
}

// fail returns the error for the reply that was set for a phase, or nil.
func (se *session) fail(phase mail.Phase, recipient string) error {
	reply, ok := se.server.take(phase, recipient, anyReply)
	switch {
	case !ok:
		return nil
	case isText(reply):
		return reply.smtpError()
	default:
		return reply.breakOff(se.conn.Conn())
	}
}

func (se *session) AuthMechanisms() []string {
	if se.server.options.User == "" {
		return nil
	}
	return se.server.options.Mechanisms
}

func (se *session) Auth(mechanism string) (sasl.Server, error) {
	if err := se.fail(mail.PhaseAuth, ""); err != nil {
		return nil, err
	}
	switch {
	case !slices.Contains(se.AuthMechanisms(), mechanism):
		return nil, smtp.ErrAuthUnknownMechanism
	case mechanism == "LOGIN":
		return &loginServer{session: se}, nil
	default:
		return sasl.NewPlainServer(func(_, user, password string) error { return se.login(user, password) }), nil
	}
}

func (se *session) login(user, password string) error {
	if user != se.server.options.User || password != se.server.options.Password {
		return smtp.ErrAuthFailed
	}
	se.user = user
	return nil
}

// loginServer is the server side of AUTH LOGIN.
type loginServer struct {
	session *session
	asked   bool
	user    *string
}

func (l *loginServer) Next(response []byte) (challenge []byte, done bool, err error) {
	switch {
	case !l.asked:
		l.asked = true
		return []byte("Username:"), false, nil
	case l.user == nil:
		user := string(response)
		l.user = &user
		return []byte("Password:"), false, nil
	default:
		return nil, true, l.session.login(*l.user, string(response))
	}
}

func (se *session) Mail(from string, options *smtp.MailOptions) error {
	if se.server.options.User != "" && se.user == "" {
		return smtp.ErrAuthRequired
	}
	if err := se.fail(mail.PhaseSender, ""); err != nil {
		return err
	}
	se.from, se.utf8 = from, options.UTF8
	return nil
}

func (se *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if err := se.fail(mail.PhaseRcpt, to); err != nil {
		return err
	}
	se.to = append(se.to, to)
	return nil
}

func (se *session) Data(r io.Reader) error {
	if reply, ok := se.server.take(mail.PhaseData, "", isAbnormal); ok {
		if reply == Cut {
			// A part of the content arrives.
			_, _ = io.ReadFull(r, make([]byte, 100))
		}
		return reply.breakOff(se.conn.Conn())
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	message, err := parse(raw)
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: err.Error()}
	}
	_, message.TLS = se.conn.TLSConnectionState()
	message.TLS = message.TLS || se.server.options.TLS == ImplicitTLS
	message.From, message.To, message.User, message.SMTPUTF8 = se.from, slices.Clone(se.to), se.user, se.utf8
	reply, ok := se.server.take(mail.PhaseAccept, "", anyReply)
	if !ok || reply == Cut {
		se.server.change(func() { se.server.messages = append(se.server.messages, message) })
	}
	switch {
	case !ok:
		return nil
	case isText(reply):
		return reply.smtpError()
	default:
		return reply.breakOff(se.conn.Conn())
	}
}

func (se *session) Reset() { se.from, se.to = "", nil }

func (se *session) Logout() error { return nil }

var errNotMultipart = errors.New("the content is not multipart/alternative")
