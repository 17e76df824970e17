package mail_test

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/mail"
	"github.com/tributary-hq/tributary/mail/mailtest"
)

func TestSend_WithTLSAndAuthentication(t *testing.T) {
	for _, encryption := range []mailtest.Encryption{mailtest.StartTLS, mailtest.ImplicitTLS, mailtest.NoTLS} {
		for _, mechanism := range []string{"PLAIN", "LOGIN"} {
			t.Run(string(encryption)+" "+mechanism, func(t *testing.T) {
				server := mailtest.NewServer(t, mailtest.Options{TLS: encryption, User: "us er@example.com", Password: "p:/?#[]@ %é", Mechanisms: []string{"X-OTHER", mechanism}})
				if err := sender(t, server).Send(t.Context(), message(t)); err != nil {
					t.Fatal(err)
				}
				got := server.WaitMessages(1)[0]
				if got.User != "us er@example.com" || got.TLS != (encryption != mailtest.NoTLS) {
					t.Errorf("user %q, TLS %v", got.User, got.TLS)
				}
			})
		}
	}
}

func TestSend_WrongPassword(t *testing.T) {
	for _, mechanism := range []string{"PLAIN", "LOGIN"} {
		server := mailtest.NewServer(t, mailtest.Options{TLS: mailtest.ImplicitTLS, User: "user", Password: "another", Mechanisms: []string{mechanism}})
		config := mail.Config{URL: strings.Replace(server.URL(), "another", password, 1), From: from, Roots: server.Roots}
		err := senderOf(t, config).Send(t.Context(), message(t))
		checkError(t, err, mail.SendError{Kind: mail.Refused, Phase: mail.PhaseAuth, Code: 535, Enhanced: "5.7.8"})
	}
}

func TestSend_NoKnownMechanismIsTemporary(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{User: "user", Password: password, Mechanisms: []string{"X-OTHER"}})
	checkError(t, sender(t, server).Send(t.Context(), message(t)), mail.SendError{Kind: mail.Temporary, Phase: mail.PhaseAuth})
}

func TestSend_TLSFailuresAreTemporary(t *testing.T) {
	for _, encryption := range []mailtest.Encryption{mailtest.StartTLS, mailtest.ImplicitTLS} {
		t.Run("unknown authority, "+string(encryption), func(t *testing.T) {
			server := mailtest.NewServer(t, mailtest.Options{TLS: encryption})
			err := senderOf(t, mail.Config{URL: server.URL(), From: from}).Send(t.Context(), message(t))
			checkError(t, err, mail.SendError{Kind: mail.Temporary, Phase: mail.PhaseTLS})
		})
		t.Run("wrong host name, "+string(encryption), func(t *testing.T) {
			server := mailtest.NewServer(t, mailtest.Options{TLS: encryption, Host: "other.example"})
			checkError(t, sender(t, server).Send(t.Context(), message(t)), mail.SendError{Kind: mail.Temporary, Phase: mail.PhaseTLS})
		})
	}
	for name, reply := range map[string]mailtest.Reply{
		"454": {Code: 454, Text: "4.7.0 TLS not available"}, "502": {Code: 502, Text: "5.5.1 TLS not supported"},
		"lost connection": mailtest.Cut, "plain text after 220": {Code: 220, Text: "Go ahead"},
	} {
		t.Run("STARTTLS "+name, func(t *testing.T) {
			server := mailtest.NewServer(t, mailtest.Options{TLS: mailtest.StartTLS})
			server.Fail(mail.PhaseTLS, reply)
			want := mail.SendError{Kind: mail.Temporary, Phase: mail.PhaseTLS}
			if reply.Code >= 400 {
				want.Code, want.Enhanced = reply.Code, reply.Text[:5]
			}
			s := senderOf(t, mail.Config{URL: server.URL(), From: from, Roots: server.Roots, Timeout: 500 * time.Millisecond})
			checkError(t, s.Send(t.Context(), message(t)), want)
		})
	}
}

func TestSend_RefusedHelloAfterStartTLSIsPermanent(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{TLS: mailtest.StartTLS})
	server.Fail(mail.PhaseHello, mailtest.Reply{Code: 550, Text: "5.7.1 Blocked"})
	checkError(t, sender(t, server).Send(t.Context(), message(t)), mail.SendError{Kind: mail.Refused, Phase: mail.PhaseHello, Code: 550, Enhanced: "5.7.1"})
}

// recorder is a server that sends a fixed text, and records what it receives.
type recorder struct {
	address  string
	mu       sync.Mutex
	received []byte
}

func newRecorder(t *testing.T, text string) *recorder {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{address: listener.Addr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(text))
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			r.mu.Lock()
			r.received = append(r.received, buffer[:n]...)
			r.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	return r
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(slices.Clone(r.received))
}

func TestSend_UnexpectedServerIsTemporary(t *testing.T) {
	for _, tc := range []struct {
		name, text, tls string
		phase           mail.Phase
	}{
		{"SMTP without TLS on the port of implicit TLS", "220 mail.test ESMTP\r\n", "implicit", mail.PhaseTLS},
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", "starttls", mail.PhaseGreeting},
		{"bytes that are no text", "\x00\xff\xfe\r\n\x15\x03\x01\r\n", "starttls", mail.PhaseGreeting},
		{"line without end", strings.Repeat("2", 100_000), "none", mail.PhaseGreeting},
		{"more text than a server sends", strings.Repeat("220-text\r\n", 200_000), "none", mail.PhaseGreeting},
		{"nothing", "", "starttls", mail.PhaseGreeting},
		{"nothing on the port of implicit TLS", "", "implicit", mail.PhaseTLS},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRecorder(t, tc.text)
			s := senderOf(t, mail.Config{URL: "smtp://user:" + password + "@" + r.address + "?tls=" + tc.tls, From: from, Timeout: 200 * time.Millisecond})
			checkError(t, s.Send(t.Context(), message(t)), mail.SendError{Kind: mail.Temporary, Phase: tc.phase})
		})
	}
}

// An attacker between the client and the server can remove STARTTLS from the reply.
func TestSend_NoCredentialsWithoutTLS(t *testing.T) {
	server := newRecorder(t, "220 mail.test ESMTP\r\n250-mail.test\r\n250 AUTH PLAIN LOGIN\r\n")
	s := senderOf(t, mail.Config{URL: "smtp://user:" + password + "@" + server.address, From: from})
	checkError(t, s.Send(t.Context(), message(t)), mail.SendError{Kind: mail.Temporary, Phase: mail.PhaseTLS})
	if text := server.text(); strings.Contains(text, "AUTH") || strings.Contains(text, "MAIL") {
		t.Errorf("the client sent %q", text)
	}
}
