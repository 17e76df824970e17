package mailtest

import (
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/emersion/go-smtp"

	"github.com/tributary-hq/tributary/mail"
)

// PhaseQuit is the phase of QUIT. Package mail has no such phase, because no attempt fails at QUIT.
const PhaseQuit mail.Phase = "quit"

// Reply replaces the reply with which the server accepts a command. Text may begin with an enhanced status code and may
// have several lines.
type Reply struct {
	Code int
	Text string
}

var (
	// Cut closes the connection. In PhaseData, the server closes it after the reply 354, in the
	// middle of the content. In PhaseAccept, the server first records the mail, like a server
	// that has accepted a mail and is killed before its reply reaches the client.
	Cut = Reply{Code: -1}
	// Stall sends nothing until the client closes the connection.
	Stall = Reply{Code: -2}
)

// rule is a Reply for a phase.
type rule struct {
	reply     Reply
	recipient string // the only recipient with this reply; empty: all recipients
	once      bool
}

// Fail makes the server send the given reply in a phase until Recover is called. The phases mail.PhaseGreeting,
// PhaseHello, PhaseTLS, PhaseAuth, PhaseSender, PhaseRcpt, PhaseData, PhaseAccept and PhaseQuit are possible. On a
// server with STARTTLS, PhaseHello is the EHLO after the handshake, PhaseData accepts only Cut and Stall, and PhaseQuit
// is not possible.
func (s *Server) Fail(phase mail.Phase, reply Reply) {
	s.t.Helper()
	s.add(phase, rule{reply: reply})
}

// FailOnce is like Fail, but only for the next time.
func (s *Server) FailOnce(phase mail.Phase, reply Reply) {
	s.t.Helper()
	s.add(phase, rule{reply: reply, once: true})
}

// RefuseRecipient makes the server send the given reply to RCPT TO for one address.
func (s *Server) RefuseRecipient(address string, reply Reply) {
	s.t.Helper()
	s.add(mail.PhaseRcpt, rule{reply: reply, recipient: address})
}

// Recover removes all failures.
func (s *Server) Recover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rules)
}

func (s *Server) add(phase mail.Phase, r rule) {
	s.t.Helper()
	behindTLS := phase == PhaseQuit || phase == mail.PhaseData && r.reply != Cut && r.reply != Stall
	if s.options.TLS == StartTLS && behindTLS || phase == mail.PhaseConnect || phase == mail.PhaseCompose {
		s.t.Fatalf("the server cannot fail in phase %s", phase)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules[phase] = append(s.rules[phase], r)
}

// take returns the first reply for a phase and a recipient for which match returns true. It removes a FailOnce rule.
func (s *Server) take(phase mail.Phase, recipient string, match func(Reply) bool) (Reply, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.rules[phase] {
		if r.recipient != "" && !sameAddress(r.recipient, recipient) || !match(r.reply) {
			continue
		}
		if r.once {
			s.rules[phase] = append(s.rules[phase][:i:i], s.rules[phase][i+1:]...)
		}
		return r.reply, true
	}
	return Reply{}, false
}

func anyReply(Reply) bool     { return true }
func isText(r Reply) bool     { return r != Cut && r != Stall }
func isAbnormal(r Reply) bool { return !isText(r) }

// smtpError returns the reply as an error of a session. Text has the enhanced status code,
// if there is one.
func (r Reply) smtpError() error {
	return &smtp.SMTPError{Code: r.Code, EnhancedCode: smtp.NoEnhancedCode, Message: r.Text}
}

// write writes the reply to a connection.
func (r Reply) write(w io.Writer) error {
	lines := strings.Split(r.Text, "\n")
	for i, line := range lines {
		separator := "-"
		if i == len(lines)-1 {
			separator = " "
		}
		if _, err := fmt.Fprintf(w, "%d%s%s\r\n", r.Code, separator, line); err != nil {
			return err
		}
	}
	return nil
}

// breakOff cuts or stalls a connection. It returns when the connection is closed.
func (r Reply) breakOff(conn net.Conn) error {
	if r == Stall {
		_, _ = io.Copy(io.Discard, conn)
	}
	_ = conn.Close()
	return io.EOF
}
