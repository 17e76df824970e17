package landing

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	signups, contacts      prometheus.Counter
	rejected, mailFailures *prometheus.CounterVec
	mails, fallbacks       prometheus.Counter
	purged                 *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		signups: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_landing_signups_total",
			Help: "Sign-ups for the waitlist with response 201, including those of addresses that were on the waitlist before.",
		}),
		contacts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_landing_contact_messages_total",
			Help: "Contact messages that were stored.",
		}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_landing_requests_rejected_total",
			Help: "Requests with an error response, by error code.",
		}, []string{"code"}),
		mails: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_landing_mails_total",
			Help: "Contact messages that the mail server has accepted.",
		}),
		fallbacks: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_landing_limit_fallbacks_total",
			Help: "Requests that were counted without Redis because it did not respond in time. Each process counts such requests on its own.",
		}),
		mailFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_landing_mail_failures_total",
			Help: "Failed attempts to mail a contact message, by reason: temporary, refused, recipient_refused (of the mail server) or internal.",
		}, []string{"reason"}),
		purged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_landing_purged_rows_total",
			Help: "Rows that were deleted because of their age, by table: waitlist or contacts.",
		}, []string{"table"}),
	}
	registry.MustRegister(m.signups, m.contacts, m.rejected, m.mails, m.fallbacks, m.mailFailures, m.purged)
	return m
}

// LimitFallback counts a request that the rate limiter counted without Redis. It is the
// callback of ratelimit.Options.
func (s *Service) LimitFallback(string) { s.metrics.fallbacks.Inc() }
