package mail_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"go.uber.org/goleak"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/mail"
	"github.com/tributary-hq/tributary/mail/mailtest"
	servermail "github.com/tributary-hq/tributary/server/mail"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/storage/postgres"
	mails "github.com/tributary-hq/tributary/storage/postgres/mail"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }

const (
	recipient = "maria@example.com"
	token     = "vt_3nPq8s-Vw1xYz_5aBc"
	publicURL = "https://api.example.com"
	sender    = "Tributary <no-reply@example.com>"
)

var hashKeys = affiliate.HashKeys{bytes.Repeat([]byte{9}, 32)}

// fixture is a shop in test mode with a worker that sends to a mail server.
type fixture struct {
	*pgtest.Shop
	server   *mailtest.Server
	seal     *seal.Keys
	worker   *servermail.Worker
	config   servermail.WorkerConfig
	registry *prometheus.Registry
	log      *logBuffer
	texts    notificationTexts
}

// newFixture returns a fixture whose mail server has the given options.
func newFixture(t *testing.T, options mailtest.Options) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	f := &fixture{
		Shop: pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest), server: mailtest.NewServer(t, options),
		registry: prometheus.NewRegistry(), log: &logBuffer{}, texts: notificationTexts{},
	}
	f.Exec(`update users set email = $2, email_verified_at = created_at where id = $1`, f.Owner, recipient)
	var err error
	if f.seal, err = seal.New("k:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="); err != nil {
		t.Fatal(err)
	}
	f.config = servermail.WorkerConfig{
		DB: f.DB, From: sender, Seal: f.seal, HashKeys: hashKeys, Now: clock.Now,
		Sender: f.newSender(mail.Config{URL: f.server.URL(), From: sender, Roots: f.server.Roots}),
		Composer: servermail.NewComposer(servermail.ComposerConfig{
			PublicURL: publicURL + "/", Unsubscribe: notification.NewUnsubscribeTokens(hashKeys), Notifications: f.texts,
		}),
		Log: slog.New(slog.NewTextHandler(f.log, nil)), Metrics: servermail.NewMetrics(f.registry),
	}
	f.worker = servermail.NewWorker(f.config)
	return f
}

func (f *fixture) newSender(config mail.Config) *mail.Sender {
	f.Helper()
	s, err := mail.NewSender(config)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// notificationTexts returns the same texts for each mail. It is empty if all
// notifications were deleted.
type notificationTexts map[string][]servermail.NotificationText

func (n notificationTexts) Texts(context.Context, notification.Mail) ([]servermail.NotificationText, error) {
	return n["texts"], nil
}

// verification returns a mail with a token to the owner of the shop.
func (f *fixture) verification(changes ...func(*notification.Mail)) notification.Mail {
	id := affiliate.NewID[notification.MailID](f.Now())
	expires := f.Now().Add(24 * time.Hour)
	m := notification.Mail{
		ID: id, Kind: notification.MailVerification, Type: string(notification.MailVerification), Workspace: &f.Scope.Workspace, CreatedAt: f.Now(),
		Recipient: notification.Recipient{User: &f.Owner, Account: affiliate.Merchant, Name: "Maria", Address: recipient},
		Facts:     notification.MailFacts{ExpiresAt: &expires}, Secret: f.seal.Seal([]byte(token), id.UUID[:]),
	}
	for _, change := range changes {
		change(&m)
	}
	return m
}

// notification returns a mail with a notification in a mode to the owner of the shop.
func (f *fixture) notification(mode affiliate.Mode, changes ...func(*notification.Mail)) notification.Mail {
	f.texts["texts"] = []servermail.NotificationText{{Title: "A payout was paid", Body: "EUR 10.00", ActionURL: "https://app.example.com/payouts/1", CreatedAt: f.Now()}}
	return f.verification(append([]func(*notification.Mail){func(m *notification.Mail) {
		m.Kind, m.Type, m.Category, m.Mode, m.Secret, m.Facts = notification.MailNotifications, "payout.paid", notification.CategoryPayouts, &mode, nil, notification.MailFacts{}
	}}, changes...)...)
}

// send stores a mail and runs the first attempt to send it.
func (f *fixture) send(m notification.Mail) error {
	f.Helper()
	f.insert(m)
	return f.attempt(m, 1)
}

func (f *fixture) insert(mails ...notification.Mail) {
	f.Helper()
	if err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return tx.SendMail(f.Context(), mails...) }); err != nil {
		f.Fatal(err)
	}
}

// attempt runs an attempt to send a stored mail, without the job queue.
func (f *fixture) attempt(m notification.Mail, number int) error {
	f.Helper()
	return f.worker.Work(f.Context(), job(m, number))
}

func job(m notification.Mail, attempt int) *river.Job[notification.SendMail] {
	return &river.Job[notification.SendMail]{
		JobRow: &rivertype.JobRow{Attempt: attempt, MaxAttempts: notification.MailAttempts}, Args: notification.SendMail{Mail: m.ID},
	}
}

// requireStatus ends the test if a mail has another status or reason, or if it still has
// its token.
func (f *fixture) requireStatus(m notification.Mail, status notification.MailStatus, reason notification.MailReason) {
	f.Helper()
	got := f.Texts(`select status || ' ' || coalesce(reason, '') || case when secret is not null and status <> 'pending' then ' with token' else '' end from mails where id = $1`, m.ID)
	if len(got) != 1 || got[0] != string(status)+" "+string(reason) {
		f.Fatalf("the mail has the status and reason %q, want %s %s", got, status, reason)
	}
}

// suppress suppresses an address.
func (f *fixture) suppress(address string) {
	f.Helper()
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		return mails.Suppress(f.Context(), tx, notification.SuppressionBounced, f.Now(), notification.MailDigest(hashKeys, address).First())
	})
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) suppressed(address string) bool {
	f.Helper()
	found, err := mails.Suppressed(f.Context(), f.DB, notification.MailDigest(hashKeys, address))
	if err != nil {
		f.Fatal(err)
	}
	return found
}

// failures returns the number of failures with a reason in the metrics.
func (f *fixture) failures(reason string) float64 {
	f.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "tributary_mail_failures_total" && metric.GetLabel()[0].GetValue() == reason {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// logBuffer stores the log of a worker.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
