package landing

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/mail"
)

type metrics struct {
	signups, contacts      prometheus.Counter
	rejected, mailFailures *prometheus.CounterVec
	mails, fallbacks       prometheus.Counter
}

// failureInternal is the reason of a failure to mail a message if the service, not the mail
// server, caused the failure.
const failureInternal = "internal"

var rejections = []affiliate.Reason{
	reasonAntiSpam, affiliate.ReasonHTTPSRequired, affiliate.ReasonInternal, reasonInvalidEmail, reasonInvalidRequest,
	affiliate.ReasonMethodNotAllowed, affiliate.ReasonNotFound, affiliate.ReasonPayloadTooLarge, reasonRateLimited,
	affiliate.ReasonServiceUnavailable, affiliate.ReasonUnsupportedMediaType,
}

func newMetrics(registry prometheus.Registerer) *metrics {
	auto := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: "tributary_landing_" + name, Help: help})
	}
	counterBy := func(label, name, help string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: "tributary_landing_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		signups: counter("signups_total",
			"Sign-ups for the waitlist with response 201, including those of addresses that were on the waitlist before."),
		contacts: counter("contact_messages_total", "Contact messages that were stored."),
		rejected: counterBy("code", "requests_rejected_total", "Requests with an error response, by error code."),
		mails:    counter("mails_total", "Contact messages that the mail server has accepted."),
		fallbacks: counter("limit_fallbacks_total",
			"Requests that were counted without Redis because it did not respond in time. Each process counts such requests on its own."),
		mailFailures: counterBy("reason", "mail_failures_total",
			"Failed attempts to mail a contact message, by reason: temporary, refused or recipient_refused (by the mail server), or internal."),
	}
	for _, reason := range rejections {
		m.rejected.WithLabelValues(string(reason))
	}
	for _, reason := range []string{mail.Temporary.String(), mail.Refused.String(), mail.RecipientRefused.String(), failureInternal} {
		m.mailFailures.WithLabelValues(reason)
	}
	return m
}

// LimitFallback counts a request that the rate limiter counted without Redis. It is the
// callback of ratelimit.Options.
func (s *Service) LimitFallback(string) { s.metrics.fallbacks.Inc() }

// unmailedTimeout bounds the time for which a scrape waits for the database.
const unmailedTimeout = time.Second

var (
	unmailedMessages = prometheus.NewDesc("tributary_landing_unmailed_messages",
		"Stored contact messages that the mail server has not accepted. All processes with the same database report the same number.", nil, nil)
	oldestUnmailed = prometheus.NewDesc("tributary_landing_oldest_unmailed_seconds",
		"Age of the oldest message of tributary_landing_unmailed_messages. 0 if there is none.", nil, nil)
)

// unmailedCollector reads its metrics from the database at each scrape. They are missing
// while the database does not respond.
type unmailedCollector struct{ service *Service }

func (unmailedCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- unmailedMessages
	descriptions <- oldestUnmailed
}

func (c unmailedCollector) Collect(values chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), unmailedTimeout)
	defer cancel()
	n, oldest, err := c.service.config.Store.Unmailed(ctx)
	if err != nil {
		return
	}
	age := 0.0
	if n > 0 {
		age = c.service.config.Now().Sub(oldest).Seconds()
	}
	values <- prometheus.MustNewConstMetric(unmailedMessages, prometheus.GaugeValue, float64(n))
	values <- prometheus.MustNewConstMetric(oldestUnmailed, prometheus.GaugeValue, age)
}
