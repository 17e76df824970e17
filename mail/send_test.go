package mail_test

import (
	"errors"
	netmail "net/mail"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/mail"
	"github.com/tributary-hq/tributary/mail/mailtest"
)

const (
	from    = "Acme Partners <no-reply@mail.acme.example>"
	maria   = "maria@example.com"
	oneStep = "https://api.example.com/unsubscribe?token=abc.def"
)

var date = time.Date(2026, 11, 23, 9, 30, 0, 0, time.UTC)

func message(t *testing.T) mail.Message {
	t.Helper()
	content, err := full.Render()
	if err != nil {
		t.Fatal(err)
	}
	return mail.Message{ID: "job-42", To: mail.Address{Name: "Maria Müller", Address: maria}, Content: content, UnsubscribeURL: oneStep, Date: date}
}

// sender returns a Sender for a server. The timeout is longer than any test.
func sender(t *testing.T, s *mailtest.Server) *mail.Sender {
	t.Helper()
	return senderOf(t, mail.Config{URL: s.URL(), From: from, ReplyTo: "support@acme.example", Roots: s.Roots, Timeout: time.Minute})
}

func senderOf(t *testing.T, config mail.Config) *mail.Sender {
	t.Helper()
	sender, err := mail.NewSender(config)
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func TestSend_DeliversBothParts(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	m := message(t)
	if err := sender(t, server).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	got := server.WaitMessages(1)[0]
	if got.From != "no-reply@mail.acme.example" || len(got.To) != 1 || got.To[0] != maria {
		t.Errorf("envelope from %s to %v", got.From, got.To)
	}
	if got.Subject != m.Content.Subject || got.Text != m.Content.Text || got.HTML != m.Content.HTML {
		t.Errorf("the content changed on the way:\n%s", got.Raw)
	}
	for name, want := range map[string]string{
		"From":                   `"Acme Partners" <no-reply@mail.acme.example>`,
		"To":                     "=?utf-8?q?Maria_M=C3=BCller?= <maria@example.com>",
		"Reply-To":               "<support@acme.example>",
		"Date":                   "Mon, 23 Nov 2026 09:30:00 +0000",
		"Message-Id":             "<job-42@mail.acme.example>",
		"Auto-Submitted":         "auto-generated",
		"List-Unsubscribe":       "<" + oneStep + ">",
		"List-Unsubscribe-Post":  "List-Unsubscribe=One-Click",
		"Mime-Version":           "1.0",
		"User-Agent":             "",
		"X-Mailer":               "",
		"Resend-Idempotency-Key": "",
	} {
		if values := got.Header[name]; strings.Join(values, "|") != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
	if strings.Count(got.Raw, "Content-Transfer-Encoding: quoted-printable") != 2 {
		t.Error("the parts are not quoted-printable")
	}
	for _, line := range strings.Split(got.Raw, "\r\n") {
		if len(line) > 100 || strings.ContainsAny(line, "\r\n") {
			t.Errorf("line of %d bytes: %q", len(line), line)
		}
	}
}

func TestSend_UnsubscribeHeadersOnlyForHTTPS(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	s := sender(t, server)
	for i, tc := range []struct{ url, want string }{
		{url: ""},
		{url: "http://api.example.com/unsubscribe"},
		{url: "mailto:a@example.com"},
		{url: "https:///path"},
		{url: "https://api.example.com/\r\nBcc: victim@example.com"},
		{url: "https://api.example.com/" + strings.Repeat("a", 1000)},
		{url: "https://api.example.com/?token=a>, <b c", want: "<https://api.example.com/?token=a%3E,%20%3Cb%20c>"},
		{url: "https://api.example.com/?token=" + strings.Repeat("a", 400), want: "<https://api.example.com/?token=" + strings.Repeat("a", 400) + ">"},
	} {
		m := message(t)
		m.UnsubscribeURL = tc.url
		if err := s.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		header := server.WaitMessages(i + 1)[i].Header
		if got := header.Get("List-Unsubscribe"); got != tc.want {
			t.Errorf("%q: List-Unsubscribe %q, want %q", tc.url, got, tc.want)
		}
		if _, ok := header["List-Unsubscribe-Post"]; ok != (tc.want != "") {
			t.Errorf("%q: List-Unsubscribe-Post is %v", tc.url, ok)
		}
	}
}

func TestSend_ReplyToOfMessage(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	s := sender(t, server)
	for i, tc := range []struct {
		name    string
		replyTo mail.Address
		want    string
	}{
		{name: "none", want: "<support@acme.example>"},
		{name: "with a name", replyTo: mail.Address{Name: "Ada Byron", Address: "ada@example.org"}, want: `"Ada Byron" <ada@example.org>`},
		{name: "foreign domain", replyTo: mail.Address{Address: "ada@bücher.example"}, want: "<ada@xn--bcher-kva.example>"},
		{name: "foreign local part", replyTo: mail.Address{Address: "jürgen@example.org"}},
		{name: "too long", replyTo: mail.Address{Address: strings.Repeat("a", 65) + "@example.org"}},
		{name: "line break", replyTo: mail.Address{Address: "ada@example.org\r\nBcc: victim@example.com"}},
		{name: "list", replyTo: mail.Address{Address: "ada@example.org, victim@example.com"}},
	} {
		m := message(t)
		m.ReplyTo = tc.replyTo
		if err := s.Send(t.Context(), m); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		header := server.WaitMessages(i + 1)[i].Header
		if got := strings.Join(header["Reply-To"], "|"); got != tc.want || header.Get("Bcc") != "" {
			t.Errorf("%s: Reply-To %q and headers %v, want %q", tc.name, got, header, tc.want)
		}
	}
}

func TestSend_TextNeverBecomesHeader(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	s := sender(t, server)
	const injection = "a\r\nBcc: victim@example.com\r\n\r\nbody\nX-A: b\x00\x0b\u2028c"
	for i, change := range []func(*mail.Message){
		func(m *mail.Message) { m.Content.Subject = injection },
		func(m *mail.Message) { m.To.Name = injection },
		func(m *mail.Message) { m.ReplyTo = mail.Address{Name: injection, Address: maria} },
		func(m *mail.Message) { m.ID = injection },
		func(m *mail.Message) { m.Content.Text = "a\r\n.\r\nQUIT\r\nBcc: victim@example.com\r\n" },
		func(m *mail.Message) { m.Content.Text = strings.Repeat("\r\n.\r\nDATA\r\n--boundary--\r\n", 3) },
	} {
		m := message(t)
		change(&m)
		if err := s.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		messages := server.WaitMessages(i + 1)
		got := messages[i]
		if len(messages) != i+1 || len(got.To) != 1 || got.Header.Get("Bcc") != "" || got.Header.Get("X-A") != "" || len(got.Header) != 11 {
			t.Errorf("%d mails to %v, headers %v", len(messages), got.To, got.Header)
		}
		if want := strings.ReplaceAll(m.Content.Text, "\r\n", "\n"); got.Text != want {
			t.Errorf("text %q, want %q", got.Text, want)
		}
	}
}

func TestSend_EncodesLongAndForeignText(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	s := sender(t, server)
	for i, tc := range []struct{ text, subject, name string }{
		{text: "Überweisung 東京 😀"},
		{text: strings.Repeat("é", 1000), subject: strings.Repeat("é", 199) + "…", name: strings.Repeat("é", 99) + "…"},
		{text: strings.Repeat("long word ", 15) + "end", name: strings.Repeat("long word ", 9) + "long word…"},
		{text: strings.Repeat("x", 1000), subject: strings.Repeat("x", 199) + "…", name: strings.Repeat("x", 99) + "…"},
		{text: `quotes " and \ and (comment), <a@b.example>`},
		{text: "=?utf-8?q?decoded?=", subject: "= ?utf-8?q?decoded?=", name: "= ?utf-8?q?decoded?="},
	} {
		m := message(t)
		m.Content.Subject, m.To.Name = tc.text, tc.text
		if err := s.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		got := server.WaitMessages(i + 1)[i]
		if want := either(tc.subject, tc.text); got.Subject != want {
			t.Errorf("subject %q, want %q", got.Subject, want)
		}
		to, err := netmail.ParseAddressList(got.Header.Get("To"))
		if want := either(tc.name, tc.text); err != nil || len(to) != 1 || to[0].Name != want || to[0].Address != maria {
			t.Errorf("To %q: %v, %v; want the name %q", got.Header.Get("To"), to, err, want)
		}
		for _, line := range strings.Split(got.Raw, "\r\n") {
			if len(line) > 998 || !isASCII(line) {
				t.Errorf("line of %d bytes: %q", len(line), line)
			}
		}
	}
}

func either(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > 126 }) < 0
}

func TestSend_RejectsInvalidMessageWithoutConnection(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	s := sender(t, server)
	for _, tc := range []struct {
		name   string
		change func(*mail.Message)
		kind   mail.SendErrorKind
	}{
		{"no address", func(m *mail.Message) { m.To.Address = "" }, mail.RecipientRefused},
		{"address with CR LF", func(m *mail.Message) { m.To.Address = "maria@example.com\r\nRCPT TO:<victim@example.com>" }, mail.RecipientRefused},
		{"address with NUL", func(m *mail.Message) { m.To.Address = "maria\x00@example.com" }, mail.RecipientRefused},
		{"address with a name", func(m *mail.Message) { m.To.Address = "Maria <maria@example.com>" }, mail.RecipientRefused},
		{"two addresses", func(m *mail.Message) { m.To.Address = "maria@example.com,victim@example.com" }, mail.RecipientRefused},
		{"no domain", func(m *mail.Message) { m.To.Address = "maria" }, mail.RecipientRefused},
		{"long local part", func(m *mail.Message) { m.To.Address = strings.Repeat("m", 65) + "@example.com" }, mail.RecipientRefused},
		{"long address", func(m *mail.Message) { m.To.Address = "m@" + strings.Repeat("a.", 130) + "com" }, mail.RecipientRefused},
		{"invalid international domain", func(m *mail.Message) { m.To.Address = "maria@exa\u202emple.com" }, mail.RecipientRefused},
		{"no id", func(m *mail.Message) { m.ID = "" }, mail.Refused},
		{"no text", func(m *mail.Message) { m.Content.Text = "" }, mail.Refused},
		{"no html", func(m *mail.Message) { m.Content.HTML = "" }, mail.Refused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := message(t)
			tc.change(&m)
			err := s.Send(t.Context(), m)
			var sendErr *mail.SendError
			if !errors.As(err, &sendErr) || sendErr.Kind != tc.kind || sendErr.Phase != mail.PhaseCompose {
				t.Fatalf("error %v, want %s", err, tc.kind)
			}
			if strings.Contains(err.Error(), "maria") || strings.Contains(err.Error(), "victim") {
				t.Errorf("the error %q has the address", err)
			}
		})
	}
	if n := server.Connections(); n != 0 {
		t.Errorf("%d connections, want 0", n)
	}
}

func TestSend_QuotesLocalPart(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	m := message(t)
	m.To.Address = `"maria > <x"@example.com`
	if err := sender(t, server).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got := server.WaitMessages(1)[0].To; len(got) != 1 || got[0] != "maria > <x@example.com" {
		t.Errorf("recipients %q", got)
	}
}

func TestSend_InternationalDomainIsEncoded(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	m := message(t)
	m.To.Address = "maria@bücher.example"
	if err := sender(t, server).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got := server.WaitMessages(1)[0]; got.To[0] != "maria@xn--bcher-kva.example" || got.SMTPUTF8 {
		t.Errorf("recipient %q, SMTPUTF8 %v", got.To[0], got.SMTPUTF8)
	}
}

func TestSend_InternationalLocalPartNeedsSMTPUTF8(t *testing.T) {
	m := message(t)
	m.To.Address = "müller@example.com"
	t.Run("server without it refuses", func(t *testing.T) {
		server := mailtest.NewServer(t, mailtest.Options{})
		checkError(t, sender(t, server).Send(t.Context(), m), mail.SendError{Kind: mail.Refused, Phase: mail.PhaseSender, Enhanced: "5.6.7"})
	})
	t.Run("server with it accepts", func(t *testing.T) {
		server := mailtest.NewServer(t, mailtest.Options{SMTPUTF8: true})
		s := sender(t, server)
		for _, m := range []mail.Message{m, message(t)} {
			if err := s.Send(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		messages := server.WaitMessages(2)
		if got := messages[0]; got.To[0] != "müller@example.com" || !got.SMTPUTF8 {
			t.Errorf("recipient %q, SMTPUTF8 %v", got.To[0], got.SMTPUTF8)
		}
		if messages[1].SMTPUTF8 {
			t.Error("a mail with ASCII addresses needs SMTPUTF8")
		}
	})
}

func TestSend_SameIDAndDateGiveSameMail(t *testing.T) {
	server := mailtest.NewServer(t, mailtest.Options{})
	s := sender(t, server)
	for range 2 {
		if err := s.Send(t.Context(), message(t)); err != nil {
			t.Fatal(err)
		}
	}
	if got := server.WaitMessages(2); got[0].Raw != got[1].Raw {
		t.Errorf("the mails differ:\n%s\n%s", got[0].Raw, got[1].Raw)
	}
}

// checkError compares the fields of a *mail.SendError.
func checkError(t *testing.T, err error, want mail.SendError) {
	t.Helper()
	var got *mail.SendError
	if !errors.As(err, &got) {
		t.Fatalf("error %v, want a SendError", err)
	}
	if got.Kind != want.Kind || got.Phase != want.Phase || got.Code != want.Code || got.Enhanced != want.Enhanced {
		t.Errorf("error %q: %s in %s, code %d %q; want %s in %s, code %d %q", got,
			got.Kind, got.Phase, got.Code, got.Enhanced, want.Kind, want.Phase, want.Code, want.Enhanced)
	}
	if text := got.Error(); strings.Contains(text, password) || strings.Contains(text, maria) || strings.Contains(text, "\n") {
		t.Errorf("the error %q has the password, the recipient or a line break", text)
	}
}
