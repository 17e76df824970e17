package mail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/mail"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	mails "github.com/tributary-hq/tributary/storage/postgres/mail"
)

const (
	// jobTimeout is the longest time of one attempt. The Sender stops earlier.
	jobTimeout = time.Minute
	// storeTimeout is the longest time for storing the outcome of a mail. It begins after
	// the attempt, even if the attempt took the whole jobTimeout, because a mail whose
	// outcome is not stored is sent again.
	storeTimeout = 10 * time.Second
)

// retryDelays are the times between two attempts. Together they are about a day,
// because a mail server that has failed usually works again within a day.
var retryDelays = [notification.MailAttempts - 1]time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
}

// Sender sends a message to the mail server. Every error is a *mail.SendError.
type Sender interface {
	Send(ctx context.Context, m mail.Message) error
}

// WorkerConfig holds the dependencies of a Worker.
type WorkerConfig struct {
	DB *postgres.DB
	// Sender is nil if the service has no mail server. Every mail is then suppressed.
	Sender Sender
	// From is the header From, which the notification log shows.
	From     string
	Seal     server.Sealer // decrypts the tokens of mails
	Composer *Composer
	// HashKeys are the secret keys with which addresses are hashed.
	HashKeys affiliate.HashKeys
	Log      *slog.Logger
	Now      func() time.Time
	// ServerTime returns the time of Postgres, with which River compares the times of jobs.
	// Default: time.Now.
	ServerTime func() time.Time
	Metrics    *Metrics
}

// Worker runs the job notification.SendMail.
type Worker struct {
	river.WorkerDefaults[notification.SendMail]
	WorkerConfig
}

// NewWorker returns a Worker.
func NewWorker(c WorkerConfig) *Worker {
	if c.ServerTime == nil {
		c.ServerTime = time.Now
	}
	return &Worker{WorkerConfig: c}
}

// Timeout returns the time limit of one attempt.
func (*Worker) Timeout(*river.Job[notification.SendMail]) time.Duration { return jobTimeout }

// NextRetry returns the time of the next attempt.
func (w *Worker) NextRetry(job *river.Job[notification.SendMail]) time.Time {
	return server.RetryAt(w.ServerTime(), retryDelays[:], job.Attempt)
}

// Work makes one attempt to send a mail. It returns an error if another attempt follows.
func (w *Worker) Work(ctx context.Context, job *river.Job[notification.SendMail]) error {
	stored, err := mails.Mail(ctx, w.DB, job.Args.Mail)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return nil // the mail was deleted, for example with its workspace
	}
	if err != nil {
		return fmt.Errorf("read mail %s: %w", job.Args.Mail, err)
	}
	if stored.Status != notification.MailPending {
		return nil
	}
	result, err := w.attempt(ctx, stored)
	if err != nil && job.Attempt >= job.MaxAttempts {
		w.Metrics.fail(string(notification.MailUndeliverable))
		w.Log.LogAttrs(ctx, slog.LevelError, "a mail could not be sent in any attempt", append(attrs(stored), slog.Any("error", err))...)
		result.delivery, err = notification.SuppressMail(notification.MailUndeliverable), nil
	}
	if err != nil {
		return fmt.Errorf("send mail %s: %w", stored.ID, err)
	}
	return w.complete(ctx, stored, result)
}

type attemptResult struct {
	delivery notification.MailDelivery
	// content is the content for the notification log. It is nil if the log does not show
	// the mail, or if the mail could not be composed.
	content *notification.MailContent
	// refused is the address that the mail server has refused for good, or empty.
	refused string
}

// attempt decides about a mail and sends it if the decision is to send it. It returns an
// error if the attempt has failed and another attempt can succeed. The error contains no
// address and no token.
func (w *Worker) attempt(ctx context.Context, m notification.StoredMail) (attemptResult, error) {
	var result attemptResult
	var err error
	if result.delivery, err = w.decide(ctx, m); err != nil {
		w.Metrics.fail(failureInternal)
		return result, err
	}
	if result.delivery.Reason == notification.MailRecipientRemoved {
		// Nothing about a person whose account was erased is stored.
		return result, nil
	}
	if m.Logged() {
		if result.content, err = w.logContent(ctx, m.Mail); err != nil {
			w.Metrics.fail(failureInternal)
			return result, err
		}
		if result.content == nil {
			result.delivery = notification.SuppressMail(notification.MailWithoutContent)
		}
	}
	if result.delivery.Status == notification.MailSuppressed {
		return result, nil
	}
	message, found, err := w.message(ctx, m.Mail, result.delivery)
	if err != nil {
		w.Metrics.fail(failureInternal)
		return result, err
	}
	if !found {
		result.delivery = notification.SuppressMail(notification.MailWithoutContent)
		return result, nil
	}
	return w.send(ctx, m, message, result)
}

func (w *Worker) decide(ctx context.Context, m notification.StoredMail) (notification.MailDelivery, error) {
	m.Off = w.Sender == nil
	delivery := m.Delivery(m.MailConditions)
	if delivery.Status == notification.MailSuppressed || !delivery.ChecksSuppression {
		return delivery, nil
	}
	suppressed, err := mails.Suppressed(ctx, w.DB, notification.MailDigest(w.HashKeys, delivery.Address))
	if suppressed {
		delivery = notification.SuppressMail(notification.MailAddressSuppressed)
	}
	return delivery, err
}

// send makes one attempt to send a message. It changes the delivery in result if the mail
// server has refused the mail for good.
func (w *Worker) send(ctx context.Context, m notification.StoredMail, message mail.Message, result attemptResult) (attemptResult, error) {
	err := w.Sender.Send(ctx, message)
	if err == nil {
		return result, nil
	}
	var failure *mail.SendError
	if !errors.As(err, &failure) {
		w.Metrics.fail(failureInternal)
		return result, err
	}
	switch failure.Kind {
	case mail.RecipientRefused:
		result.refused = result.delivery.Address
		result.delivery = notification.SuppressMail(notification.MailRecipientRefused)
		w.Metrics.fail(string(notification.MailRecipientRefused))
		return result, nil
	case mail.Refused:
		result.delivery = notification.SuppressMail(notification.MailRefusedByServer)
		w.Metrics.fail(string(notification.MailRefusedByServer))
		w.Log.LogAttrs(ctx, slog.LevelError, "the mail server has refused a mail for good", append(attrs(m), slog.Any("error", err))...)
		return result, nil
	default:
		w.Metrics.fail(failureTemporary)
		return result, err
	}
}

func (w *Worker) complete(ctx context.Context, m notification.StoredMail, result attemptResult) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	outcome := notification.MailOutcome{
		Mail: m.ID, Recipient: m.Address, Status: result.delivery.Status, Reason: result.delivery.Reason,
		Content: result.content, At: w.Now().UTC().Truncate(time.Millisecond),
	}
	if outcome.Status == notification.MailRedirected {
		outcome.RedirectedTo = result.delivery.Address
	}
	err := w.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if result.refused != "" {
			digest := notification.MailDigest(w.HashKeys, result.refused).First()
			if err := mails.Suppress(ctx, tx, notification.SuppressionRefused, outcome.At, digest); err != nil {
				return err
			}
		}
		return mails.CompleteMail(ctx, tx, outcome)
	})
	if err == nil {
		w.Metrics.observe(m.Mail, outcome)
	}
	return err
}

// attrs returns the attributes of a mail in logs. They contain no address.
func attrs(m notification.StoredMail) []slog.Attr {
	return []slog.Attr{slog.String("mail", m.ID.String()), slog.String("kind", string(m.Kind)), slog.String("type", m.Type)}
}

// message returns the message that is sent for a mail. found is false if the mail has no
// content any more.
func (w *Worker) message(ctx context.Context, m notification.Mail, delivery notification.MailDelivery) (message mail.Message, found bool, err error) {
	token, err := w.token(m)
	if err != nil {
		return mail.Message{}, false, err
	}
	document, found, err := w.Composer.document(ctx, m, w.Composer.tokens(m, token))
	if err != nil || !found {
		return mail.Message{}, false, err
	}
	to := mail.Address{Name: m.Name, Address: delivery.Address}
	if delivery.Status == notification.MailRedirected {
		// The reader is not the recipient, and must not disable the recipient's mails.
		to.Name, document.Footer.UnsubscribeURL = "", ""
	}
	content, err := document.Render()
	if err != nil {
		return mail.Message{}, false, err
	}
	return mail.Message{
		ID: m.ID.String(), To: to, ReplyTo: document.replyTo, Content: content, UnsubscribeURL: document.Footer.UnsubscribeURL, Date: m.CreatedAt,
	}, true, nil
}

// redacted replaces tokens in the content that is stored.
const redacted = "[redacted]"

// logContent returns the content of a mail for the notification log, without tokens. It
// is nil if the mail has no content any more.
func (w *Worker) logContent(ctx context.Context, m notification.Mail) (*notification.MailContent, error) {
	document, found, err := w.Composer.document(ctx, m, tokens{link: redacted, unsubscribe: redacted})
	if err != nil || !found {
		return nil, err
	}
	content, err := document.Render()
	if err != nil {
		return nil, err
	}
	return &notification.MailContent{Sender: w.From, Subject: content.Subject, HTML: content.HTML, Text: content.Text}, nil
}

// token returns the token of the link in a mail. It is empty if the mail has none.
func (w *Worker) token(m notification.Mail) (string, error) {
	if m.Secret == nil {
		return "", nil
	}
	token, err := w.Seal.Open(m.Secret, m.ID.UUID[:])
	if err != nil {
		return "", fmt.Errorf("decrypt the token: %w", err)
	}
	return string(token), nil
}

// Reasons of failures in the metrics. Failures that end a mail are also counted with their
// notification.MailReason.
const (
	failureTemporary = "temporary"
	failureInternal  = "internal"
)

// Metrics are the metrics of the mail jobs. Labels contain no addresses and no workspaces,
// so that the number of time series stays small.
type Metrics struct {
	mails    *prometheus.CounterVec
	failures *prometheus.CounterVec
	delay    prometheus.Histogram
}

// NewMetrics returns Metrics and registers them in registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		mails: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_mails_total",
			Help: "Mails that reached their final status, by kind and status: delivered, redirected or suppressed.",
		}, []string{"kind", "status"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_mail_failures_total",
			Help: "Failed attempts to send a mail, by reason: temporary, recipient_refused, refused_by_server, internal. " +
				"undeliverable counts mails whose last attempt has failed.",
		}, []string{"reason"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tributary_mail_delay_seconds", Help: "Time from the event that caused a mail until the mail server accepted the mail.",
			Buckets: prometheus.ExponentialBuckets(0.1, 4, 10),
		}),
	}
	for _, kind := range notification.MailKinds() {
		for _, status := range []notification.MailStatus{notification.MailDelivered, notification.MailRedirected, notification.MailSuppressed} {
			m.mails.WithLabelValues(string(kind), string(status))
		}
	}
	for _, reason := range []string{
		failureTemporary, failureInternal, string(notification.MailRecipientRefused), string(notification.MailRefusedByServer),
		string(notification.MailUndeliverable),
	} {
		m.failures.WithLabelValues(reason)
	}
	registry.MustRegister(m.mails, m.failures, m.delay)
	return m
}

func (m *Metrics) observe(mail notification.Mail, outcome notification.MailOutcome) {
	m.mails.WithLabelValues(string(mail.Kind), string(outcome.Status)).Inc()
	if outcome.Status != notification.MailSuppressed {
		m.delay.Observe(max(0, outcome.At.Sub(mail.CreatedAt)).Seconds())
	}
}

func (m *Metrics) fail(reason string) { m.failures.WithLabelValues(reason).Inc() }
