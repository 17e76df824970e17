package mailsink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"net/smtp"
	"net/textproto"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

// running is a sink with both servers.
type running struct {
	*Sink
	smtpAddress string
	url         string
}

// start starts a sink that keeps the newest mails.
func start(t *testing.T, capacity int) running {
	t.Helper()
	s := New(capacity)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.ServeSMTP(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ServeSMTP returned %v, want nil after its context has ended", err)
		}
	})
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	return running{Sink: s, smtpAddress: listener.Addr().String(), url: server.URL}
}

// send sends a mail without authentication.
func (r running) send(t *testing.T, to, source string) {
	t.Helper()
	err := smtp.SendMail(r.smtpAddress, nil, "sender@shop.example", []string{to}, []byte(source))
	if err != nil {
		t.Fatal(err)
	}
}

// lines returns the source of a mail with CRLF as the line break.
func lines(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n" }

func TestSMTP_DecodesMail(t *testing.T) {
	t.Parallel()
	multipart := lines(
		"From: =?UTF-8?Q?Caf=C3=A9?= <mail@shop.example>",
		"To: Ada <ada@example.com>",
		"Subject: =?UTF-8?B?R3LDvMOfZQ==?= =?UTF-8?Q?_from_us?=",
		"message-id: <1@shop.example>",
		"List-Unsubscribe: <https://shop.example/a>,",
		" <https://shop.example/b>",
		"X-Tag: one",
		"X-Tag: two",
		"Mime-Version: 1.0",
		`Content-Type: multipart/mixed; boundary="outer"`,
		"",
		"--outer",
		`Content-Type: multipart/alternative; boundary="inner"`,
		"",
		"--inner",
		"Content-Type: text/plain; charset=utf-8",
		"Content-Transfer-Encoding: quoted-printable",
		"",
		"Gr=C3=BC=C3=9Fe =",
		"Ada",
		"..",
		"--inner",
		"Content-Type: text/html; charset=utf-8",
		"Content-Transfer-Encoding: base64",
		"",
		"PHA+R3LDvMOf", // <p>Grüß
		"ZTwvcD4=",     // e</p>
		"--inner--",
		"--outer",
		"Content-Type: text/plain",
		`Content-Disposition: attachment; filename="a.txt"`,
		"",
		"not the text",
		"--outer--",
	)
	for name, test := range map[string]struct {
		source string
		want   Message // without ID, To and CreatedAt
	}{
		"multipart/alternative, quoted-printable, base64": {multipart, Message{
			From: "Café <mail@shop.example>", Subject: "Grüße from us",
			Text: "Grüße Ada\n..", HTML: "<p>Grüße</p>",
			Headers: map[string]string{
				"From":             "=?UTF-8?Q?Caf=C3=A9?= <mail@shop.example>",
				"To":               "Ada <ada@example.com>",
				"Subject":          "=?UTF-8?B?R3LDvMOfZQ==?= =?UTF-8?Q?_from_us?=",
				"Message-Id":       "<1@shop.example>",
				"Mime-Version":     "1.0",
				"Content-Type":     `multipart/mixed; boundary="outer"`,
				"X-Tag":            "one\ntwo",
				"List-Unsubscribe": "<https://shop.example/a>, <https://shop.example/b>",
			},
		}},
		"plain text without a type": {lines("Subject: a", "", "one", "", "two"), Message{
			Subject: "a", Text: "one\n\ntwo\n", Headers: map[string]string{"Subject": "a"},
		}},
		"8bit": {lines("Subject: Grüße", "Content-Type: text/html; charset=utf-8", "Content-Transfer-Encoding: 8bit", "", "<p>Grüße"), Message{
			Subject: "Grüße", HTML: "<p>Grüße\n",
			Headers: map[string]string{"Subject": "Grüße", "Content-Type": "text/html; charset=utf-8", "Content-Transfer-Encoding": "8bit"},
		}},
		"another charset": {lines("Subject: =?ISO-8859-1?Q?Gr=FC=DFe?=", "Content-Type: text/plain; charset=iso-8859-1", "", "Gr\xfc\xdfe"), Message{
			Subject: "Grüße", Text: "Grüße\n",
			Headers: map[string]string{"Subject": "=?ISO-8859-1?Q?Gr=FC=DFe?=", "Content-Type": "text/plain; charset=iso-8859-1"},
		}},
		"unknown charset": {lines("Content-Type: text/plain; charset=x-none", "", "a\xff"), Message{
			Text: "a\uFFFD\n", Headers: map[string]string{"Content-Type": "text/plain; charset=x-none"},
		}},
		"no headers": {lines("", "only a body"), Message{Text: "only a body\n"}},
		"invalid headers": {lines("Subject", "", "a"), Message{
			Text: "Subject\n\na\n",
		}},
		"multipart without an end": {lines("Content-Type: multipart/mixed; boundary=b", "", "--b", "", "cut"), Message{
			Text: "cut", Headers: map[string]string{"Content-Type": "multipart/mixed; boundary=b"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, 10)
			r.send(t, "ada@example.com", test.source)
			all := r.Messages("")
			if len(all) != 1 {
				t.Fatalf("the sink has %d mails, want 1", len(all))
			}
			got, want := all[0], test.want
			if got.To != "ada@example.com" || got.From != want.From || got.Subject != want.Subject || got.Text != want.Text || got.HTML != want.HTML {
				t.Errorf("the mail is\n%+q\nwant\n%+q", got, want)
			}
			if !maps.Equal(got.Headers, want.Headers) {
				t.Errorf("the headers are\n%q\nwant\n%q", got.Headers, want.Headers)
			}
		})
	}
}

func TestSMTP_AcceptsEveryUserAndRecipient(t *testing.T) {
	t.Parallel()
	r := start(t, 10)
	for name, auth := range map[string]smtp.Auth{
		"without authentication": nil,
		"with authentication":    smtp.PlainAuth("", "anyone", "anything", "127.0.0.1"),
	} {
		err := smtp.SendMail(r.smtpAddress, auth, "", []string{"first@example.com", "second@nowhere.invalid"}, []byte(lines("Subject: "+name, "", "")))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := r.Messages("FIRST@Example.com"); len(got) != 2 {
		t.Errorf("the first recipient of the envelope has %d mails, want 2", len(got))
	}
}

func TestSMTP_RejectsHugeMail(t *testing.T) {
	t.Parallel()
	r := start(t, 10)
	client, err := smtp.Dial(r.smtpAddress)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	send := func(subject string, size int) error {
		if err := errors.Join(client.Mail("a@example.com"), client.Rcpt("b@example.com")); err != nil {
			return err
		}
		w, err := client.Data()
		if err != nil {
			return err
		}
		source := []byte(lines("Subject: "+subject, ""))
		for line := lines(strings.Repeat("x", 70)); len(source)+len(line) <= size; {
			source = append(source, line...)
		}
		if _, err := w.Write(source); err != nil {
			return err
		}
		return w.Close()
	}
	var refused *textproto.Error
	if err := send("large", maxMessageBytes+100); !errors.As(err, &refused) || refused.Code != 552 {
		t.Errorf("a mail above the limit: got %v, want 552", err)
	}
	if err := send("small", maxMessageBytes-100); err != nil {
		t.Errorf("a mail below the limit on the same connection: %v", err)
	}
	if got := r.Messages(""); len(got) != 1 || got[0].Subject != "small" {
		t.Errorf("the sink has %d mails, want only the mail below the limit", len(got))
	}
}

func TestSink_KeepsNewestMailsOfConcurrentSenders(t *testing.T) {
	t.Parallel()
	const senders, each, capacity = 8, 10, 30
	r := start(t, capacity)
	var group errgroup.Group
	for sender := range senders {
		group.Go(func() error {
			for i := range each {
				to := fmt.Sprintf("%d@example.com", sender)
				source := lines(fmt.Sprintf("Subject: %d", i), "", "")
				if err := smtp.SendMail(r.smtpAddress, nil, "a@example.com", []string{to}, []byte(source)); err != nil {
					return err
				}
				r.Messages(to)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	got := r.Messages("")
	if len(got) != capacity {
		t.Fatalf("the sink has %d mails, want its capacity of %d", len(got), capacity)
	}
	next := map[string]int{} // per recipient, the subject before the last seen one
	for i, m := range got {
		if want := strconv.Itoa(senders*each - i); m.ID != want {
			t.Errorf("the mail at %d has the id %s, want %s: newest first", i, m.ID, want)
		}
		if before, seen := next[m.To]; seen && m.Subject != strconv.Itoa(before) {
			t.Errorf("the mails to %s continue with %s, want %d", m.To, m.Subject, before)
		}
		subject, err := strconv.Atoi(m.Subject)
		if err != nil {
			t.Fatal(err)
		}
		next[m.To] = subject - 1
	}
}

func TestServeSMTP_StopsWithContext(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(1).ServeSMTP(ctx, listener); err != nil {
		t.Errorf("ServeSMTP returned %v, want nil", err)
	}
	if conn, err := net.Dial("tcp", listener.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("the port is still open")
	}
}
