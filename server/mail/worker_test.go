package mail_test

import (
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/mail"
	"github.com/tributary-hq/tributary/mail/mailtest"
	servermail "github.com/tributary-hq/tributary/server/mail"
	mails "github.com/tributary-hq/tributary/storage/postgres/mail"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestWork_DeliversAccountMailAndLogsItWithoutToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	m := f.verification()
	if err := f.send(m); err != nil {
		t.Fatal(err)
	}
	f.requireStatus(m, notification.MailDelivered, "")
	sent := f.server.Messages()
	if len(sent) != 1 || len(sent[0].To) != 1 || sent[0].To[0] != recipient {
		t.Fatalf("the server got %d mails, want one to %s", len(sent), recipient)
	}
	link := publicURL + "/verify-email#token=" + token
	if !strings.Contains(sent[0].Text, link) || !strings.Contains(sent[0].HTML, link) {
		t.Errorf("the mail does not contain the link %s:\n%s", link, sent[0].Text)
	}
	if id := sent[0].Header.Get("Message-ID"); id != "<"+m.ID.String()+"@example.com>" {
		t.Errorf("the Message-ID is %s, want one with the id of the mail", id)
	}
	if sent[0].Header.Get("List-Unsubscribe") != "" {
		t.Error("an account mail has the header List-Unsubscribe")
	}
	entry, err := mails.LogEntry(t.Context(), f.DB, f.Scope.Workspace, m.ID)
	if err != nil {
		t.Fatal(err)
	}
	if entry.Sender != sender || entry.Subject != sent[0].Subject {
		t.Errorf("the log has the sender %q and the subject %q, want those of the mail", entry.Sender, entry.Subject)
	}
	for name, part := range map[string]string{"HTML": entry.HTML, "text": entry.Text} {
		if strings.Contains(part, token) || !strings.Contains(part, publicURL+"/verify-email#token=[redacted]") {
			t.Errorf("the %s in the log must contain the link with [redacted] as its token:\n%s", name, part)
		}
	}
	if err := f.attempt(m, 2); err != nil || len(f.server.Messages()) != 1 {
		t.Errorf("a second run returns %v and sends the mail again, want no effect", err)
	}
	if strings.Contains(f.log.String(), token) {
		t.Error("the log contains the token")
	}
}

func TestWork_IgnoresDeletedMail(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	if err := f.attempt(f.verification(), 1); err != nil {
		t.Errorf("Work returns %v for a mail that does not exist, want no error", err)
	}
}

// Tokens consist of characters that need no encoding. A token with other characters must
// not be visible in the log either, in any encoding.
func TestWork_RedactsTokensWithSpecialCharacters(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	m := f.verification(func(m *notification.Mail) {
		m.Kind = notification.MailPasswordReset
		m.Secret = f.seal.Seal([]byte(`se&cr+et/<tok"en>=`), m.ID.UUID[:])
	})
	if err := f.send(m); err != nil {
		t.Fatal(err)
	}
	if text := f.server.Messages()[0].Text; !strings.Contains(text, "#kind=merchant&token=se%26cr%2Bet%2F%3Ctok%22en%3E%3D") {
		t.Errorf("the link of the mail does not contain the encoded token:\n%s", text)
	}
	entry, err := mails.LogEntry(t.Context(), f.DB, f.Scope.Workspace, m.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"cr+et", "cr%2Bet", "cr&#43;et", "tok&#34;en", "tok%22en"} {
		if strings.Contains(entry.HTML+entry.Text, part) {
			t.Errorf("the log contains %s of the token:\n%s", part, entry.Text)
		}
	}
}

func TestWork_SuppressesOrRedirectsMailOfTestMode(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	first := f.notification(affiliate.ModeTest)
	if err := f.send(first); err != nil {
		t.Fatal(err)
	}
	f.requireStatus(first, notification.MailSuppressed, notification.MailTestMode)
	entry, err := mails.LogEntry(t.Context(), f.DB, f.Scope.Workspace, first.ID)
	if err != nil || entry.Subject != "A payout was paid" || !strings.Contains(entry.HTML, "EUR 10.00") {
		t.Errorf("the log entry is %+v, %v; want the content of the mail", entry, err)
	}
	if unsubscribe := notification.NewUnsubscribeTokens(hashKeys).Token(f.Owner, notification.CategoryPayouts); strings.Contains(entry.HTML+entry.Text, unsubscribe) {
		t.Error("the log contains the token of the unsubscribe link")
	}

	f.RedirectTestMail("qa@example.com")
	second := f.notification(affiliate.ModeTest)
	if err := f.send(second); err != nil {
		t.Fatal(err)
	}
	f.requireStatus(second, notification.MailRedirected, "")
	if sent := f.server.Messages(); len(sent) != 1 || sent[0].To[0] != "qa@example.com" || strings.Contains(sent[0].Raw, recipient) {
		t.Errorf("the server got %d mails, want one to qa@example.com only", len(sent))
	}
	if sent := f.server.Messages(); strings.Contains(sent[0].Raw, "nsubscribe") {
		t.Error("a redirected mail contains an unsubscribe link, with which its reader could disable the mails of the recipient")
	}
	if redirected := f.Texts(`select redirected_to from mails where id = $1`, second.ID); redirected[0] != "qa@example.com" {
		t.Errorf("the mail was redirected to %q, want qa@example.com", redirected)
	}

	f.suppress("qa@example.com")
	third := f.notification(affiliate.ModeTest)
	if err := f.send(third); err != nil {
		t.Fatal(err)
	}
	f.requireStatus(third, notification.MailSuppressed, notification.MailAddressSuppressed)
	// Account mail is sent to its recipient in any mode.
	account := f.verification()
	if err := f.send(account); err != nil {
		t.Fatal(err)
	}
	f.requireStatus(account, notification.MailDelivered, "")
}

func TestWork_StoresNoContentOfLiveNotifications(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	m := f.notification(affiliate.ModeLive)
	if err := f.send(m); err != nil {
		t.Fatal(err)
	}
	f.requireStatus(m, notification.MailDelivered, "")
	f.WantCount(0, "mails with content", `select count(*) from mails where html is not null or text is not null or subject is not null`)
	sent := f.server.Messages()
	unsubscribe := publicURL + "/api/v1/notifications/unsubscribe?token=" + notification.NewUnsubscribeTokens(hashKeys).Token(f.Owner, notification.CategoryPayouts)
	if got := sent[0].Header.Get("List-Unsubscribe"); got != "<"+unsubscribe+">" {
		t.Errorf("List-Unsubscribe is %q, want <%s>", got, unsubscribe)
	}
	if got := sent[0].Header.Get("List-Unsubscribe-Post"); got != "List-Unsubscribe=One-Click" {
		t.Errorf("List-Unsubscribe-Post is %q, want List-Unsubscribe=One-Click", got)
	}
	if err := f.send(f.notification(affiliate.ModeLive, func(m *notification.Mail) { m.Category = notification.CategorySecurity })); err != nil {
		t.Fatal(err)
	}
	if got := f.server.Messages()[1].Header.Get("List-Unsubscribe"); got != "" {
		t.Errorf("List-Unsubscribe of security mail is %q, want none", got)
	}
}

func TestWork_SendsOptionalMailOnlyToVerifiedAddresses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	f.Exec(`update users set email_verified_at = null where id = $1`, f.Owner)
	payout := f.notification(affiliate.ModeLive)
	security := f.notification(affiliate.ModeLive, func(m *notification.Mail) { m.Category, m.Mode = notification.CategorySecurity, nil })
	for _, m := range []notification.Mail{payout, security, f.verification()} {
		if err := f.send(m); err != nil {
			t.Fatal(err)
		}
	}
	f.requireStatus(payout, notification.MailSuppressed, notification.MailAddressNotVerified)
	f.requireStatus(security, notification.MailDelivered, "")
	if n := len(f.server.Messages()); n != 2 {
		t.Errorf("the server got %d mails, want the security mail and the verification", n)
	}
	f.Exec(`update users set email_verified_at = created_at where id = $1`, f.Owner)
	later := f.notification(affiliate.ModeLive)
	if err := f.send(later); err != nil {
		t.Fatal(err)
	}
	f.requireStatus(later, notification.MailDelivered, "")
}

func TestWork_SuppressesMailWithoutRecipientServerOrContent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	erased := f.NewPartner("Erased")
	f.Exec(`update users set erased_at = created_at where id = $1`, erased)
	gone := f.verification(func(m *notification.Mail) { m.User = &erased })
	f.suppress(recipient)
	invite := f.verification(func(m *notification.Mail) { m.Kind, m.User = notification.MailMemberInvite, nil })
	payout := f.notification(affiliate.ModeLive)
	security := f.notification(affiliate.ModeLive, func(m *notification.Mail) { m.Category, m.Mode = notification.CategorySecurity, nil })
	reset := f.verification(func(m *notification.Mail) { m.Kind = notification.MailPasswordReset })
	for name, tc := range map[string]struct {
		mail   notification.Mail
		status notification.MailStatus
		reason notification.MailReason
	}{
		"erased account":                     {gone, notification.MailSuppressed, notification.MailRecipientRemoved},
		"invite to a suppressed address":     {invite, notification.MailSuppressed, notification.MailAddressSuppressed},
		"notification to a suppressed one":   {payout, notification.MailSuppressed, notification.MailAddressSuppressed},
		"security mail to a suppressed one":  {security, notification.MailDelivered, ""},
		"password reset to a suppressed one": {reset, notification.MailDelivered, ""},
	} {
		t.Log(name)
		if err := f.send(tc.mail); err != nil {
			t.Fatal(err)
		}
		f.requireStatus(tc.mail, tc.status, tc.reason)
	}
	f.WantCount(0, "content of a mail to an erased account", `select count(*) from mails where id = $1 and html is not null`, gone.ID)

	f.RedirectTestMail("qa@example.com")
	for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
		empty := f.notification(mode)
		f.texts["texts"] = nil
		f.Exec(`delete from mail_suppressions`)
		if err := f.send(empty); err != nil {
			t.Fatal(err)
		}
		f.requireStatus(empty, notification.MailSuppressed, notification.MailWithoutContent)
	}

	off := f.config
	off.Sender = nil
	f.worker = servermail.NewWorker(off)
	unsent := f.verification()
	if err := f.send(unsent); err != nil {
		t.Fatal(err)
	}
	f.requireStatus(unsent, notification.MailSuppressed, notification.MailOff)
}

func TestWork_ComposesMailWithoutPublicURL(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	f.config.Composer, f.config.Sender = servermail.NewComposer(servermail.ComposerConfig{}), nil
	f.worker = servermail.NewWorker(f.config)
	for _, m := range []notification.Mail{f.verification(), f.verification(func(m *notification.Mail) { m.Kind = notification.MailMemberInvite })} {
		if err := f.send(m); err != nil {
			t.Fatal(err)
		}
		f.requireStatus(m, notification.MailSuppressed, notification.MailOff)
	}
}

func TestWork_ClassifiesRefusals(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		phase  mail.Phase
		reply  mailtest.Reply
		reason notification.MailReason
		logged bool
	}{
		"unknown recipient":  {mail.PhaseRcpt, mailtest.Reply{Code: 550, Text: "5.1.1 <" + recipient + "> does not exist"}, notification.MailRecipientRefused, false},
		"without a code":     {mail.PhaseRcpt, mailtest.Reply{Code: 550, Text: "no"}, notification.MailRecipientRefused, false},
		"policy":             {mail.PhaseRcpt, mailtest.Reply{Code: 550, Text: "5.7.1 " + recipient + " rejected"}, notification.MailRefusedByServer, true},
		"sender":             {mail.PhaseSender, mailtest.Reply{Code: 550, Text: "5.1.8 no"}, notification.MailRefusedByServer, true},
		"content":            {mail.PhaseAccept, mailtest.Reply{Code: 554, Text: "5.6.0 spam"}, notification.MailRefusedByServer, true},
		"wrong password":     {mail.PhaseAuth, mailtest.Reply{Code: 535, Text: "5.7.8 no"}, notification.MailRefusedByServer, true},
		"not even a message": {mail.PhaseGreeting, mailtest.Reply{Code: 554, Text: "no service"}, notification.MailRefusedByServer, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, mailtest.Options{User: "user", Password: "password"})
			f.server.Fail(tc.phase, tc.reply)
			m := f.notification(affiliate.ModeLive)
			if err := f.send(m); err != nil {
				t.Fatalf("Work returns %v, want no further attempt", err)
			}
			f.requireStatus(m, notification.MailSuppressed, tc.reason)
			if got, want := f.suppressed(recipient), tc.reason == notification.MailRecipientRefused; got != want {
				t.Errorf("the address is suppressed: %t, want %t", got, want)
			}
			if got := strings.Contains(f.log.String(), "level=ERROR"); got != tc.logged {
				t.Errorf("the log contains an error: %t, want %t\n%s", got, tc.logged, f.log)
			}
			if strings.Contains(f.log.String(), recipient) {
				t.Errorf("the log contains the address:\n%s", f.log)
			}
			if n := f.failures(string(tc.reason)); n != 1 {
				t.Errorf("the metrics have %v failures with the reason %s, want 1", n, tc.reason)
			}
		})
	}
}

func TestWork_RetriesTemporaryFailures(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*mailtest.Server){
		"4xx": func(s *mailtest.Server) {
			s.FailOnce(mail.PhaseRcpt, mailtest.Reply{Code: 451, Text: "4.7.1 " + recipient + ", later"})
		},
		"cut in DATA": func(s *mailtest.Server) { s.FailOnce(mail.PhaseData, mailtest.Cut) },
		"bad TLS":     func(s *mailtest.Server) { s.FailOnce(mail.PhaseTLS, mailtest.Reply{Code: 454, Text: "no TLS"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, mailtest.Options{TLS: mailtest.StartTLS})
			fail(f.server)
			m := f.verification()
			err := f.send(m)
			if err == nil || strings.Contains(err.Error(), recipient) || strings.Contains(err.Error(), token) {
				t.Fatalf("Work returns %v, want an error without the address and the token", err)
			}
			f.requireStatus(m, notification.MailPending, "")
			if err := f.attempt(m, 2); err != nil {
				t.Fatal(err)
			}
			f.requireStatus(m, notification.MailDelivered, "")
			if n := len(f.server.Messages()); n != 1 || f.failures("temporary") != 1 {
				t.Errorf("the server got %d mails after %v failures, want 1 after 1", n, f.failures("temporary"))
			}
		})
	}
}

// A server that does not respond must not keep the job longer than the timeout.
func TestWork_GivesUpOnSlowServer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	f.server.FailOnce(mail.PhaseData, mailtest.Stall)
	f.config.Sender = f.newSender(mail.Config{URL: f.server.URL(), From: sender, Timeout: 100 * time.Millisecond})
	f.worker = servermail.NewWorker(f.config)
	m := f.verification()
	if err := f.send(m); err == nil {
		t.Error("Work returns no error, want the timeout")
	}
	f.requireStatus(m, notification.MailPending, "")
}

func TestWork_EndsTheMailAfterTheLastAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	f.server.Stop()
	m := f.verification()
	f.insert(m)
	for number := 1; number < notification.MailAttempts; number++ {
		if err := f.attempt(m, number); err == nil {
			t.Fatalf("attempt %d returns no error", number)
		}
	}
	f.requireStatus(m, notification.MailPending, "")
	if err := f.attempt(m, notification.MailAttempts); err != nil {
		t.Fatalf("the last attempt returns %v, want no error", err)
	}
	f.requireStatus(m, notification.MailSuppressed, notification.MailUndeliverable)
	if f.failures("undeliverable") != 1 || !strings.Contains(f.log.String(), "level=ERROR") {
		t.Errorf("the last failure must be in the metrics and in the log:\n%s", f.log)
	}
	entry, err := mails.LogEntry(t.Context(), f.DB, f.Scope.Workspace, m.ID)
	if err != nil || entry.Text == "" || strings.Contains(entry.HTML+entry.Text, token) {
		t.Errorf("the log entry is %+v, %v; want the content without the token", entry, err)
	}
}

func TestWork_EndsMailThatCannotBeComposed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	m := f.verification(func(m *notification.Mail) { m.Secret = []byte("sealed with a lost key") })
	if err := f.send(m); err == nil {
		t.Error("Work returns no error for a token that cannot be decrypted")
	}
	if err := f.attempt(m, notification.MailAttempts); err != nil {
		t.Error(err)
	}
	f.requireStatus(m, notification.MailSuppressed, notification.MailUndeliverable)
	unknown := f.verification(func(m *notification.Mail) { m.Kind = "greeting" })
	if err := f.send(unknown); err == nil {
		t.Error("Work returns no error for an unknown kind")
	}
}

func TestNextRetry_DistributesAttemptsOverADay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	now := time.Now().Add(-10 * time.Minute) // the machine is ten minutes ahead of Postgres
	f.config.ServerTime = func() time.Time { return now }
	f.worker = servermail.NewWorker(f.config)
	m := f.verification()
	var total time.Duration
	previous := time.Duration(0)
	for number := 1; number < notification.MailAttempts; number++ {
		delay := f.worker.NextRetry(job(m, number)).Sub(now)
		if delay <= previous {
			t.Errorf("the delay after attempt %d is %v, want more than %v", number, delay, previous)
		}
		previous = delay
		total += delay
	}
	if total < 20*time.Hour || total > 25*time.Hour {
		t.Errorf("the attempts are distributed over %v, want about a day", total)
	}
}

// The mail server is killed after it has recorded the mail and before it replies. The
// queue runs the job again. Both mails have the same Message-ID, so that the recipient's
// mail server can recognize the repetition.
func TestQueue_RepeatsMailOfKilledServerWithTheSameMessageID(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	f.server.FailOnce(mail.PhaseAccept, mailtest.Cut)
	workers := river.NewWorkers()
	river.AddWorker(workers, &immediateRetry{f.worker})
	f.StartWorkers(&river.Config{
		Queues: map[string]river.QueueConfig{notification.MailQueue: {MaxWorkers: 2}}, Workers: workers,
	})
	m := f.verification()
	f.insert(m)
	sent := f.server.WaitMessages(2)
	if first, second := sent[0].Header.Get("Message-ID"), sent[1].Header.Get("Message-ID"); first != second || first == "" {
		t.Errorf("the mails have the ids %q and %q, want the same", first, second)
	}
	pgtest.Eventually(t, "the mail is delivered", func() bool {
		return f.Count(`select count(*) from mails where status = 'delivered'`) == 1
	})
}

// immediateRetry runs a failed job again without a delay.
type immediateRetry struct{ *servermail.Worker }

func (*immediateRetry) NextRetry(*river.Job[notification.SendMail]) time.Time { return time.Now() }
