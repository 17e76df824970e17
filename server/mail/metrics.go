package mail

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate/notification"
)

// The reasons of failures in the metrics. The reason of a failure that ends a mail is an
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
		failureTemporary, failureInternal, string(notification.MailRecipientRefused), string(notification.MailRefusedByServer), string(notification.MailUndeliverable),
	} {
		m.failures.WithLabelValues(reason)
	}
	registry.MustRegister(m.mails, m.failures, m.delay)
	return m
}

// observe counts a mail that has reached its final status.
func (m *Metrics) observe(mail notification.Mail, outcome notification.MailOutcome) {
	m.mails.WithLabelValues(string(mail.Kind), string(outcome.Status)).Inc()
	if outcome.Status != notification.MailSuppressed {
		m.delay.Observe(max(0, outcome.At.Sub(mail.CreatedAt)).Seconds())
	}
}

// fail counts a failure.
func (m *Metrics) fail(reason string) { m.failures.WithLabelValues(reason).Inc() }
