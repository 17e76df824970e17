package mail_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/mail"
	"github.com/tributary-hq/tributary/mail/mailtest"
)

// TestSend_RepliesOfServer also checks that the next attempt succeeds.
func TestSend_RepliesOfServer(t *testing.T) {
	const unknown = "5.1.1 <maria@example.com>: Recipient address rejected:\nUser unknown"
	for _, tc := range []struct {
		name  string
		phase mail.Phase
		reply mailtest.Reply
		want  mail.SendError
	}{
		{"greeting 4xx", mail.PhaseGreeting, mailtest.Reply{Code: 421, Text: "4.3.2 Try later"}, mail.SendError{Kind: mail.Temporary, Code: 421, Enhanced: "4.3.2"}},
		{"greeting 5xx", mail.PhaseGreeting, mailtest.Reply{Code: 554, Text: "No SMTP service here"}, mail.SendError{Kind: mail.Refused, Code: 554}},
		{"EHLO and HELO 4xx", mail.PhaseHello, mailtest.Reply{Code: 450, Text: "4.7.0 Slow down"}, mail.SendError{Kind: mail.Temporary, Code: 450, Enhanced: "4.7.0"}},
		{"EHLO and HELO 5xx", mail.PhaseHello, mailtest.Reply{Code: 550, Text: "5.7.1 Bad host name"}, mail.SendError{Kind: mail.Refused, Code: 550, Enhanced: "5.7.1"}},
		{"AUTH 4xx", mail.PhaseAuth, mailtest.Reply{Code: 454, Text: "4.7.0 Temporary authentication failure"}, mail.SendError{Kind: mail.Temporary, Code: 454, Enhanced: "4.7.0"}},
		{"AUTH 535", mail.PhaseAuth, mailtest.Reply{Code: 535, Text: "5.7.8 Bad credentials " + password}, mail.SendError{Kind: mail.Refused, Code: 535, Enhanced: "5.7.8"}},
		{"AUTH 534", mail.PhaseAuth, mailtest.Reply{Code: 534, Text: "Mechanism too weak"}, mail.SendError{Kind: mail.Refused, Code: 534}},
		{"MAIL FROM 4xx", mail.PhaseSender, mailtest.Reply{Code: 451, Text: "4.3.0 Error"}, mail.SendError{Kind: mail.Temporary, Code: 451, Enhanced: "4.3.0"}},
		{"MAIL FROM 5xx", mail.PhaseSender, mailtest.Reply{Code: 550, Text: "5.1.0 Sender rejected"}, mail.SendError{Kind: mail.Refused, Code: 550, Enhanced: "5.1.0"}},
		{"MAIL FROM 5xx without enhanced code", mail.PhaseSender, mailtest.Reply{Code: 553, Text: "Sender rejected"}, mail.SendError{Kind: mail.Refused, Code: 553}},
		{"RCPT TO 4xx", mail.PhaseRcpt, mailtest.Reply{Code: 450, Text: "4.2.0 Greylisted"}, mail.SendError{Kind: mail.Temporary, Code: 450, Enhanced: "4.2.0"}},
		{"RCPT TO 4xx about the address", mail.PhaseRcpt, mailtest.Reply{Code: 450, Text: "4.1.1 Unverified"}, mail.SendError{Kind: mail.Temporary, Code: 450, Enhanced: "4.1.1"}},
		{"unknown recipient", mail.PhaseRcpt, mailtest.Reply{Code: 550, Text: unknown}, mail.SendError{Kind: mail.RecipientRefused, Code: 550, Enhanced: "5.1.1"}},
		{"invalid recipient", mail.PhaseRcpt, mailtest.Reply{Code: 501, Text: "5.1.3 Bad address syntax"}, mail.SendError{Kind: mail.RecipientRefused, Code: 501, Enhanced: "5.1.3"}},
		{"domain without mail", mail.PhaseRcpt, mailtest.Reply{Code: 556, Text: "5.1.10 Null MX"}, mail.SendError{Kind: mail.RecipientRefused, Code: 556, Enhanced: "5.1.10"}},
		{"recipient without enhanced code", mail.PhaseRcpt, mailtest.Reply{Code: 550, Text: "No such user, see 5.7.1.2"}, mail.SendError{Kind: mail.RecipientRefused, Code: 550}},
		{"sender domain at RCPT TO", mail.PhaseRcpt, mailtest.Reply{Code: 550, Text: "5.1.8 Sender address rejected: Domain not found"}, mail.SendError{Kind: mail.Refused, Code: 550, Enhanced: "5.1.8"}},
		{"sender syntax at RCPT TO", mail.PhaseRcpt, mailtest.Reply{Code: 550, Text: "5.1.7 Bad sender"}, mail.SendError{Kind: mail.Refused, Code: 550, Enhanced: "5.1.7"}},
		{"policy at RCPT TO", mail.PhaseRcpt, mailtest.Reply{Code: 550, Text: "5.7.1 Relay access denied"}, mail.SendError{Kind: mail.Refused, Code: 550, Enhanced: "5.7.1"}},
		{"mailbox full", mail.PhaseRcpt, mailtest.Reply{Code: 552, Text: "5.2.2 Mailbox full"}, mail.SendError{Kind: mail.Refused, Code: 552, Enhanced: "5.2.2"}},
		{"authentication required at RCPT TO", mail.PhaseRcpt, mailtest.Reply{Code: 530, Text: "Authentication required"}, mail.SendError{Kind: mail.Refused, Code: 530}},
		{"command not allowed at RCPT TO", mail.PhaseRcpt, mailtest.Reply{Code: 503, Text: "Bad sequence of commands"}, mail.SendError{Kind: mail.Refused, Code: 503}},
		{"reply that violates the protocol", mail.PhaseRcpt, mailtest.Reply{Code: 354, Text: "Go ahead"}, mail.SendError{Kind: mail.Temporary, Code: 354}},
		{"DATA 4xx", mail.PhaseData, mailtest.Reply{Code: 451, Text: "4.3.0 Error"}, mail.SendError{Kind: mail.Temporary, Code: 451, Enhanced: "4.3.0"}},
		{"DATA 5xx", mail.PhaseData, mailtest.Reply{Code: 554, Text: "5.5.1 No valid recipients"}, mail.SendError{Kind: mail.Refused, Code: 554, Enhanced: "5.5.1"}},
		{"content 4xx", mail.PhaseAccept, mailtest.Reply{Code: 452, Text: "4.3.1 Disk full"}, mail.SendError{Kind: mail.Temporary, Code: 452, Enhanced: "4.3.1"}},
		{"content 5xx", mail.PhaseAccept, mailtest.Reply{Code: 554, Text: "5.7.1 Spam"}, mail.SendError{Kind: mail.Refused, Code: 554, Enhanced: "5.7.1"}},
		{"content 5xx about the address", mail.PhaseAccept, mailtest.Reply{Code: 550, Text: "5.1.1 Unknown"}, mail.SendError{Kind: mail.Refused, Code: 550, Enhanced: "5.1.1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := mailtest.NewServer(t, mailtest.Options{User: "user", Password: password})
			server.Fail(tc.phase, tc.reply)
			s := sender(t, server)
			tc.want.Phase = tc.phase
			checkError(t, s.Send(t.Context(), message(t)), tc.want)
			if n := len(server.Messages()); n != 0 {
				t.Errorf("the server has %d mails", n)
			}
			server.Recover()
			if err := s.Send(t.Context(), message(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSend_ErrorHasTextOfReply(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	server.RefuseRecipient("MARIA@example.com", mailtest.Reply{Code: 550, Text: "5.1.1 <Maria@Example.com>: rejected\nUser unknown"})
	err := sender(t, server).Send(t.Context(), message(t))
	if want := "mail: rcpt: 550 5.1.1 <recipient>: rejected User unknown"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	other := message(t)
	other.To.Address = "anna@example.com"
	if err := sender(t, server).Send(t.Context(), other); err != nil {
		t.Error(err)
	}
}

func TestSend_LostConnectionIsTemporary(t *testing.T) {
	for _, phase := range []mail.Phase{
		mail.PhaseGreeting, mail.PhaseHello, mail.PhaseAuth, mail.PhaseSender, mail.PhaseRcpt, mail.PhaseData, mail.PhaseAccept,
	} {
		t.Run(string(phase), func(t *testing.T) {
			server := mailtest.NewServer(t, mailtest.Options{User: "user", Password: password})
			server.Fail(phase, mailtest.Cut)
			s := sender(t, server)
			err := s.Send(t.Context(), message(t))
			want := mail.SendError{Kind: mail.Temporary, Phase: phase}
			if phase == mail.PhaseData {
				// The content fits into the buffers of the connection, so that the loss is
				// noticed when the reply is read.
				want.Phase = mail.PhaseAccept
			}
			checkError(t, err, want)
			server.Recover()
			if err := s.Send(t.Context(), message(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The server accepted the first mail, but the client did not get the reply.
func TestSend_RepetitionHasSameMessageID(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	server.FailOnce(mail.PhaseAccept, mailtest.Cut)
	s := sender(t, server)
	checkError(t, s.Send(t.Context(), message(t)), mail.SendError{Kind: mail.Temporary, Phase: mail.PhaseAccept})
	if err := s.Send(t.Context(), message(t)); err != nil {
		t.Fatal(err)
	}
	got := server.WaitMessages(2)
	first, second := got[0].Header.Get("Message-Id"), got[1].Header.Get("Message-Id")
	if first != second || first != "<job-42@mail.acme.example>" {
		t.Errorf("Message-ID %s and %s", first, second)
	}
}

func TestSend_FailureOfQuitCountsAsSent(t *testing.T) {
	for name, reply := range map[string]mailtest.Reply{
		"lost connection": mailtest.Cut, "4xx": {Code: 421, Text: "Bye"}, "5xx": {Code: 500, Text: "Unknown command"}, "no reply": mailtest.Stall,
	} {
		t.Run(name, func(t *testing.T) {
			server := mailtest.NewServer(t, mailtest.Options{})
			server.Fail(mailtest.PhaseQuit, reply)
			if err := sender(t, server).Send(t.Context(), message(t)); err != nil {
				t.Error(err)
			}
			server.WaitMessages(1)
		})
	}
}

var stallPhases = []mail.Phase{
	mail.PhaseGreeting, mail.PhaseHello, mail.PhaseAuth, mail.PhaseSender, mail.PhaseRcpt, mail.PhaseData, mail.PhaseAccept,
}

func TestSend_SilentServerEndsWithTimeout(t *testing.T) {
	for _, phase := range stallPhases {
		t.Run(string(phase), func(t *testing.T) {
			server := mailtest.NewServer(t, mailtest.Options{User: "user", Password: password})
			server.Fail(phase, mailtest.Stall)
			s := senderOf(t, mail.Config{URL: server.URL(), From: from, Timeout: 200 * time.Millisecond})
			err := s.Send(t.Context(), message(t))
			var sendErr *mail.SendError
			if !errors.As(err, &sendErr) || sendErr.Kind != mail.Temporary || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want a temporary error with the deadline", err)
			}
		})
	}
}

func TestSend_EndsWithContext(t *testing.T) {
	for _, phase := range stallPhases {
		t.Run(string(phase), func(t *testing.T) {
			server := mailtest.NewServer(t, mailtest.Options{User: "user", Password: password})
			server.Fail(phase, mailtest.Stall)
			s := sender(t, server)
			ctx, cancel := context.WithCancel(t.Context())
			sent := make(chan error, 1)
			go func() { sent <- s.Send(ctx, message(t)) }()
			server.WaitConnections(1)
			cancel()
			err := <-sent
			var sendErr *mail.SendError
			if !errors.As(err, &sendErr) || sendErr.Kind != mail.Temporary || !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want a temporary error with the cancellation", err)
			}
		})
	}
}

func TestSend_RestartedServer(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	s := sender(t, server)
	server.Stop()
	checkError(t, s.Send(t.Context(), message(t)), mail.SendError{Kind: mail.Temporary, Phase: mail.PhaseConnect})
	server.Start()
	if err := s.Send(t.Context(), message(t)); err != nil {
		t.Fatal(err)
	}
	server.WaitMessages(1)
}
