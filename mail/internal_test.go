package mail

import (
	"encoding/base64"
	"errors"
	"net/textproto"
	"strings"
	"testing"
)

func TestParseURL_Defaults(t *testing.T) {
	for url, want := range map[string]server{
		"smtp://mail.example.com":                          {host: "mail.example.com", port: "587", encryption: startTLS},
		"smtp://mail.example.com?tls=implicit":             {host: "mail.example.com", port: "465", encryption: implicitTLS},
		"smtp://mail.example.com?tls=none":                 {host: "mail.example.com", port: "25", encryption: noTLS},
		"smtp://[::1]:2525":                                {host: "::1", port: "2525", encryption: startTLS},
		"smtp://u%40b.example:p%2F%20+w@host?tls=starttls": {host: "host", port: "587", encryption: startTLS, user: "u@b.example", password: "p/ +w"},
	} {
		if got, err := parseURL(url); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", url, got, err, want)
		}
	}
}

func TestCompose_IdempotencyKeyOnlyForResend(t *testing.T) {
	for host, want := range map[string]bool{
		"smtp.resend.com": true, "SMTP.Resend.com.": true, "resend.com": true, "eu.smtp.resend.com": true,
		"smtp.example.com": false, "smtpresend.com": false, "resend.com.example.com": false,
	} {
		s, err := NewSender(Config{URL: "smtp://" + host, From: "a@example.com"})
		if err != nil {
			t.Fatal(err)
		}
		mail, err := s.compose(Message{ID: "job-42", To: Address{Address: "b@example.com"}, Content: Content{Subject: "s", Text: "t", HTML: "h"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(mail.data), "\r\nResend-Idempotency-Key: job-42\r\n"); got != want {
			t.Errorf("%s: key %v, want %v", host, got, want)
		}
	}
}

func TestNewSendError_RemovesCredentials(t *testing.T) {
	sv := server{user: "user", password: "s3cret"}
	redact := newRedactor(sv, Address{Address: "maria@example.com"})
	for _, secret := range []string{"s3cret", base64.StdEncoding.EncodeToString([]byte("s3cret")), base64.StdEncoding.EncodeToString([]byte("\x00user\x00s3cret"))} {
		err := newSendError(PhaseAuth, &textproto.Error{Code: 500, Msg: "unknown command: AUTH PLAIN " + secret}, redact)
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error %q has the secret", err)
		}
	}
}

// go-mail sends HELO if EHLO failed. Only the second error says how the attempt ended.
func TestNewSendError_UsesLastReply(t *testing.T) {
	refused := &textproto.Error{Code: 502, Msg: "5.5.1 not implemented"}
	redact := newRedactor(server{}, Address{Address: "maria@example.com"})
	if err := newSendError(PhaseHello, errors.Join(refused, errors.New("EOF")), redact); err.Kind != Temporary {
		t.Errorf("a lost connection after a refused EHLO is %s", err.Kind)
	}
	if err := newSendError(PhaseHello, errors.Join(refused, &textproto.Error{Code: 421, Msg: "busy"}), redact); err.Kind != Temporary || err.Code != 421 {
		t.Errorf("421 after a refused EHLO is %s with the code %d", err.Kind, err.Code)
	}
}
