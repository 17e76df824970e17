package landing_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tributary-hq/tributary/landing"
	"github.com/tributary-hq/tributary/mail"
	"github.com/tributary-hq/tributary/mail/mailtest"
)

const operator = "team@example.com"

// waitLimit is longer than any wait of a test that passes.
const waitLimit = time.Minute

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s", what, waitLimit)
		}
	}
}

// mailer returns a Mailer that retries after 10 ms.
func mailer(t *testing.T, server *mailtest.Server) *landing.Mailer {
	t.Helper()
	sender, err := mail.NewSender(mail.Config{URL: server.URL(), From: "Landing <no-reply@example.com>", ReplyTo: "unused@example.com"})
	check(t, err)
	return &landing.Mailer{
		Sender: sender, Operator: mail.Address{Address: operator},
		RetryDelay: func(time.Duration) time.Duration { return 10 * time.Millisecond },
	}
}

// startJobs runs the jobs until stop is called or the test ends.
func (f *fixture) startJobs(m *landing.Mailer) (stop func()) {
	f.t.Helper()
	jobs, err := f.Jobs(m)
	check(f.t, err)
	check(f.t, jobs.Start(context.WithoutCancel(f.t.Context())))
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
			defer cancel()
			check(f.t, jobs.Stop(ctx))
		}
	}
	f.t.Cleanup(stop)
	return stop
}

func (f *fixture) sendContact(changes map[string]any) {
	f.t.Helper()
	if r := f.post(contact, body(contact, changes)); r.status != 201 {
		f.t.Fatalf("status %d %s", r.status, r.body)
	}
}

// allMailed reports whether n messages are stored and all are marked as mailed.
func (f *fixture) allMailed(n int) bool {
	list := f.contacts()
	for _, m := range list {
		if m.MailedAt == nil {
			return false
		}
	}
	return len(list) == n
}

func TestContact_IsMailedToOperator(t *testing.T) {
	t.Parallel()
	server := mailtest.NewServer(t, mailtest.Options{})
	f := newFixture(t, options{})
	f.startJobs(mailer(t, server))
	f.sendContact(map[string]any{"name": "Ada Byron", "email": "ada@bücher.example", "message": "First line.\n\nSecond <script>alert(1)</script> line."})
	got := server.WaitMessages(1)[0]
	if got.From != "no-reply@example.com" || len(got.To) != 1 || got.To[0] != operator {
		t.Errorf("the mail is from %s to %v, want from no-reply@example.com to %s", got.From, got.To, operator)
	}
	for name, want := range map[string]string{
		"Reply-To": `"Ada Byron" <ada@xn--bcher-kva.example>`, "Subject": "Contact form: Ada Byron", "Date": "Fri, 27 Nov 2026 10:00:00 +0000",
		"Message-Id": "<" + f.contacts()[0].ID.String() + "@example.com>",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), want)
		}
	}
	for _, want := range []string{"Ada Byron", "ada@bücher.example", "First line.\n", "Second <script>alert(1)</script> line."} {
		if !strings.Contains(got.Text, want) {
			t.Errorf("the text does not contain %q:\n%s", want, got.Text)
		}
	}
	if strings.Contains(got.HTML, "<script") || !strings.Contains(got.HTML, "&lt;script&gt;") {
		t.Errorf("the message is markup in the HTML part:\n%s", got.HTML)
	}
	waitFor(t, "the message is marked as mailed", func() bool { return f.allMailed(1) })
}

func TestContact_TextNeverBecomesHeader(t *testing.T) {
	t.Parallel()
	server := mailtest.NewServer(t, mailtest.Options{})
	f := newFixture(t, options{})
	f.startJobs(mailer(t, server))
	const injection = "Ada\r\nBcc: victim@example.com\r\n\r\nbody\n.\r\nQUIT\r\n\u2028=?utf-8?q?x?="
	f.sendContact(map[string]any{"name": injection})
	f.sendContact(map[string]any{"message": injection})
	f.sendContact(map[string]any{"email": strings.Repeat("a", 300) + "@example.com"}) // no header can have it
	f.sendContact(map[string]any{"email": "jürgen@example.com"})
	messages := server.WaitMessages(4)
	if len(messages) != 4 {
		t.Fatalf("%d mails arrived, want 4", len(messages))
	}
	for _, m := range messages {
		if len(m.To) != 1 || m.To[0] != operator || m.Header.Get("Bcc") != "" {
			t.Errorf("a mail to %v with the headers %v", m.To, m.Header)
		}
		if reply := m.Header["Reply-To"]; len(reply) > 1 || len(reply) == 1 && !strings.HasSuffix(reply[0], "<ada@example.com>") {
			t.Errorf("Reply-To is %q, want the address of the form or none", reply)
		}
	}
	waitFor(t, "all messages are marked as mailed", func() bool { return f.allMailed(4) })
}

// A mail server that is away, refuses the mail or loses the connection delays a message,
// and loses none.
func TestContact_IsMailedWhenServerIsBack(t *testing.T) {
	t.Parallel()
	server := mailtest.NewServer(t, mailtest.Options{})
	f := newFixture(t, options{})
	f.startJobs(mailer(t, server))
	failures := func(reason string) float64 {
		t.Helper()
		metrics, err := f.registry.Gather()
		check(t, err)
		for _, family := range metrics {
			for _, m := range family.GetMetric() {
				if family.GetName() == "tributary_landing_mail_failures_total" && m.GetLabel()[0].GetValue() == reason {
					return m.GetCounter().GetValue()
				}
			}
		}
		return 0
	}
	server.Stop()
	for i := range 3 {
		f.sendContact(map[string]any{"name": fmt.Sprint("Person ", i)})
	}
	waitFor(t, "attempts have failed", func() bool { return failures("temporary") >= 6 })
	// River discards a job after 25 attempts. These attempts do not count.
	waitFor(t, "no attempt counts", func() bool {
		return f.texts(`select coalesce(max(attempt), 99)::text from landing_river.river_job where kind = 'mail_contact' and state <> 'running'`)[0] == "0"
	})
	server.Fail(mail.PhaseSender, mailtest.Reply{Code: 550, Text: "5.7.1 policy"})
	server.Start()
	waitFor(t, "the server has refused mails", func() bool { return failures("refused") >= 3 })
	server.Recover()
	server.RefuseRecipient(operator, mailtest.Reply{Code: 550, Text: "5.1.1 unknown"})
	waitFor(t, "the server has refused the recipient", func() bool { return failures("recipient_refused") >= 3 })
	server.Recover()
	waitFor(t, "all messages are mailed", func() bool { return f.allMailed(3) })
	names := map[string]bool{}
	for _, m := range server.Messages() {
		names[m.Header.Get("Subject")] = true
	}
	if len(names) != 3 {
		t.Errorf("the mails are %v, want one of each person", names)
	}
}

// Without a mail server the messages wait. They are mailed by the first process that has
// one.
func TestContact_WaitsForMailSettings(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	stop := f.startJobs(nil)
	f.sendContact(nil)
	if f.allMailed(1) {
		t.Error("a message is marked as mailed without a mail server")
	}
	stop()
	server := mailtest.NewServer(t, mailtest.Options{})
	later := newFixture(t, options{database: f.database})
	later.startJobs(mailer(t, server))
	server.WaitMessages(1)
	waitFor(t, "the message is marked as mailed", func() bool { return f.allMailed(1) })
}

// A mail server that does not respond must not keep the process from stopping, and must not
// leave a job in the queue that no process runs.
func TestStopJobs_CancelsHangingMail(t *testing.T) {
	t.Parallel()
	server := mailtest.NewServer(t, mailtest.Options{})
	server.Fail(mail.PhaseGreeting, mailtest.Stall)
	f := newFixture(t, options{})
	jobs, err := f.Jobs(mailer(t, server))
	check(t, err)
	check(t, jobs.Start(context.WithoutCancel(t.Context())))
	f.sendContact(nil)
	state := func() string {
		return f.texts(`select state::text from landing_river.river_job where kind = 'mail_contact'`)[0]
	}
	waitFor(t, "the mail is being sent", func() bool { return state() == "running" })
	start := time.Now()
	f.StopJobs(t.Context(), jobs, 10*time.Millisecond)
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("StopJobs took %s although the job can be cancelled", took)
	}
	if got := state(); got != "available" && got != "scheduled" && got != "retryable" {
		t.Errorf("the job is %s after the stop, want that it runs again", got)
	}
}

// A process can stop between the commit of a message and its mail, or during an attempt.
func TestContact_IsMailedAfterCrash(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	f.sendContact(map[string]any{"name": "Not started"}) // this process runs no jobs
	f.sendContact(map[string]any{"name": "Running"})
	f.texts(`update landing_river.river_job set state = 'running', attempt = 1, attempted_at = now() - interval '1 hour', attempted_by = array['gone']
		where id = (select max(id) from landing_river.river_job) returning id::text`)
	// A process without a mail server rescues the job, and must not discard it.
	stop := f.startJobs(nil)
	waitFor(t, "the job is rescued", func() bool {
		return len(f.texts(`select id::text from landing_river.river_job where state = 'running' and kind = 'mail_contact'`)) == 0
	})
	stop()
	f.texts(`update landing_river.river_job set scheduled_at = now() where state = 'retryable' returning id::text`)
	server := mailtest.NewServer(t, mailtest.Options{})
	later := newFixture(t, options{database: f.database})
	later.startJobs(mailer(t, server))
	server.WaitMessages(2)
	waitFor(t, "both messages are mailed", func() bool { return f.allMailed(2) })
}

// panicSender panics a number of times before it sends.
type panicSender struct {
	landing.Sender
	left atomic.Int64
}

func (s *panicSender) Send(ctx context.Context, m mail.Message) error {
	if s.left.Add(-1) >= 0 {
		panic("a fault of the sender")
	}
	return s.Sender.Send(ctx, m)
}

// River counts panics as attempts, and by default waits for attempt^4 seconds and discards
// the job after 25 attempts.
func TestContact_IsMailedAfterPanics(t *testing.T) {
	t.Parallel()
	server := mailtest.NewServer(t, mailtest.Options{})
	f := newFixture(t, options{})
	m := mailer(t, server)
	sender := &panicSender{Sender: m.Sender}
	sender.left.Store(30)
	m.Sender = sender
	f.startJobs(m)
	f.sendContact(nil)
	server.WaitMessages(1)
}

func TestContact_IsMailedAfterItsJobIsLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	for _, name := range []string{"deleted", "discarded", "waiting", "mailed"} {
		f.sendContact(map[string]any{"name": name})
	}
	job := func(name string) string {
		return `where args->>'message' = (select id::text from landing.contact_messages where name = '` + name + `') returning id::text`
	}
	f.texts(`delete from landing_river.river_job ` + job("deleted"))
	f.texts(`delete from landing_river.river_job ` + job("mailed"))
	f.texts(`update landing.contact_messages set mailed_at = now() where name = 'mailed' returning name`)
	f.texts(`update landing_river.river_job set state = 'discarded', finalized_at = now() ` + job("discarded"))
	server := mailtest.NewServer(t, mailtest.Options{})
	later := newFixture(t, options{database: f.database})
	later.startJobs(mailer(t, server))
	waitFor(t, "all messages are mailed", func() bool { return f.allMailed(4) })
	if n := len(server.Messages()); n != 3 {
		t.Errorf("%d mails arrived, want one of each message that was not mailed", n)
	}
}

// After a lost connection it is unknown whether the server has accepted the mail.
func TestContact_RepeatedMailHasSameID(t *testing.T) {
	t.Parallel()
	server := mailtest.NewServer(t, mailtest.Options{})
	server.FailOnce(mail.PhaseAccept, mailtest.Cut)
	f := newFixture(t, options{})
	f.startJobs(mailer(t, server))
	f.sendContact(nil)
	messages := server.WaitMessages(2)
	if first, second := messages[0].Header.Get("Message-Id"), messages[1].Header.Get("Message-Id"); first != second || first == "" {
		t.Errorf("the Message-Ids are %s and %s, want the same", first, second)
	}
}

func TestMetrics_ShowUnmailedMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	shows := func(messages, seconds int) bool {
		t.Helper()
		want := fmt.Sprintf(`# HELP tributary_landing_oldest_unmailed_seconds Age of the oldest message of tributary_landing_unmailed_messages. 0 if there is none.
# TYPE tributary_landing_oldest_unmailed_seconds gauge
tributary_landing_oldest_unmailed_seconds %d
# HELP tributary_landing_unmailed_messages Stored contact messages that the mail server has not accepted. All processes with the same database report the same number.
# TYPE tributary_landing_unmailed_messages gauge
tributary_landing_unmailed_messages %d
`, seconds, messages)
		return testutil.GatherAndCompare(f.registry, strings.NewReader(want), "tributary_landing_unmailed_messages", "tributary_landing_oldest_unmailed_seconds") == nil
	}
	if !shows(0, 0) {
		t.Error("without messages the metrics are not 0")
	}
	f.sendContact(nil)
	f.clock.advance(time.Minute)
	f.sendContact(nil)
	if !shows(2, 60) {
		t.Error("the metrics do not show two messages, the oldest 60 seconds old")
	}
	f.setDatabase(false)
	if n, err := testutil.GatherAndCount(f.registry, "tributary_landing_unmailed_messages"); err != nil || n != 0 {
		t.Errorf("without the database the metric has %d values, %v; want none", n, err)
	}
	f.setDatabase(true)
	f.startJobs(mailer(t, mailtest.NewServer(t, mailtest.Options{})))
	waitFor(t, "the metrics show that all messages are mailed", func() bool { return shows(0, 0) })
}

func TestPurge_RunsAtStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	f.sendContact(nil)
	f.post(waitlist, body(waitlist, nil))
	f.clock.advance(364 * 24 * time.Hour)
	stop := f.startJobs(nil)
	waitFor(t, "the purge has run", func() bool {
		return len(f.texts(`select id::text from landing_river.river_job where kind = 'purge' and state = 'completed'`)) == 1
	})
	if len(f.emails()) != 1 || len(f.contacts()) != 1 {
		t.Error("the purge has deleted rows before they were 12 months old")
	}
	stop()
	f.clock.advance(24 * time.Hour)
	f.startJobs(nil)
	waitFor(t, "the purge has deleted the rows", func() bool { return len(f.emails()) == 0 && len(f.contacts()) == 0 })
}

// River would wait for attempt^4 seconds, and insert no other purge in this time.
func TestPurge_IsRepeatedWithinAnHour(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	stop := f.startJobs(nil)
	job := func(state string) int {
		return len(f.texts(`select id::text from landing_river.river_job where kind = 'purge' and state = '` + state + `'`))
	}
	waitFor(t, "the first purge has run", func() bool { return job("completed") == 1 })
	stop()
	f.texts(`update landing_river.river_job set state = 'available', finalized_at = null, attempt = 15 where kind = 'purge' returning id::text`)
	f.texts(`alter table landing.waitlist_entries rename to gone`)
	f.startJobs(nil)
	waitFor(t, "the purge has failed", func() bool { return job("retryable") == 1 })
	late := f.texts(`select id::text from landing_river.river_job where kind = 'purge' and scheduled_at > now() + interval '1 hour'`)
	if len(late) != 0 {
		t.Error("the next attempt is more than an hour away")
	}
}
