package mailsink

import (
	"context"
	"io"
	"log"
	"net"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

const (
	// maxMessageBytes is the maximum size of a mail.
	maxMessageBytes = 2 << 20
	// commandTimeout limits the time between two commands, and the time of each write.
	commandTimeout = 5 * time.Minute
)

// ServeSMTP receives mails on listener until ctx ends. It closes listener. It returns nil
// if ctx has ended. Connections are not encrypted. Clients may authenticate with PLAIN.
// A mail of more than 2 MiB is rejected with 552.
func (s *Sink) ServeSMTP(ctx context.Context, listener net.Listener) error {
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &session{sink: s}, nil
	}))
	server.Domain = "localhost"
	server.MaxMessageBytes = maxMessageBytes
	server.AllowInsecureAuth = true
	server.EnableSMTPUTF8 = true
	server.ReadTimeout = commandTimeout
	server.WriteTimeout = commandTimeout
	server.ErrorLog = log.New(io.Discard, "", 0) // clients cause these errors and also receive them
	stop := context.AfterFunc(ctx, func() {
		_ = server.Close()
		_ = listener.Close() // the server does not know it yet if ctx ends before Serve begins
	})
	defer stop()
	return server.Serve(listener)
}

// session is one SMTP connection.
type session struct {
	sink *Sink
	to   string // the first recipient of the current mail
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

// Auth accepts every user name and password.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, _, _ string) error { return nil }), nil
}

func (s *session) Mail(string, *smtp.MailOptions) error { return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.to == "" {
		s.to = to
	}
	return nil
}

func (s *session) Data(r io.Reader) error {
	source, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m := parse(source)
	m.To = s.to
	s.sink.add(m)
	return nil
}

func (s *session) Reset() { s.to = "" }

func (s *session) Logout() error { return nil }
