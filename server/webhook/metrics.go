package webhook

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// The outcomes of attempts that are not error codes.
const (
	outcomeDelivered = "delivered"
	outcome5xx       = "http_5xx"
	outcome4xx       = "http_4xx"
	outcomeOther     = "http_other" // an invalid status
)

// lateAfter is the time after which an endpoint with a due delivery counts as late.
const lateAfter = time.Minute

// Metrics are the metrics of the sender. Labels contain no endpoints and no workspaces,
// so that the number of time series stays small.
type Metrics struct {
	attempts         *prometheus.CounterVec
	duration, delay  prometheus.Histogram
	inFlight, served prometheus.Gauge
}

// NewMetrics returns Metrics and registers them in registry.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_webhook_attempts_total",
			Help: "Attempts to deliver an event, by outcome: delivered, or the error code (http_4xx and http_5xx for responses).",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tributary_webhook_attempt_seconds", Help: "Duration of an attempt.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 13),
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tributary_webhook_delay_seconds", Help: "Time from an event to the start of its first attempt. It grows if the senders are too slow.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 10),
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tributary_webhook_attempts_in_flight", Help: "Attempts in flight, at most 1,000 per process.",
		}),
		served: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tributary_webhook_endpoints_served", Help: "Endpoints that this process serves.",
		}),
	}
	for _, outcome := range append(webhook.FailureCodes(), outcomeDelivered, outcome5xx, outcome4xx, outcomeOther) {
		m.attempts.WithLabelValues(outcome)
	}
	registry.MustRegister(m.attempts, m.duration, m.delay, m.inFlight, m.served)
	return m
}

// observeAttempt counts an attempt and records its duration. For the first attempt of a
// delivery, it also records the delay since the event.
func (m *Metrics) observeAttempt(a webhook.AttemptResult) {
	outcome := a.Outcome.ErrorCode
	switch code := a.Outcome.StatusCode; {
	case a.Outcome.Succeeded():
		outcome = outcomeDelivered
	case code >= 500:
		outcome = outcome5xx
	case code >= 400:
		outcome = outcome4xx
	case code >= 100 && code < 300:
		outcome = outcomeOther
	}
	m.attempts.WithLabelValues(outcome).Inc()
	m.duration.Observe(a.Ended.Sub(a.Started).Seconds())
	if a.Delivery.Attempts == 0 {
		if at, ok := a.Delivery.Event.Time(); ok {
			m.delay.Observe(max(0, a.Started.Sub(at).Seconds()))
		}
	}
}

// setGauges sets the number of attempts in flight and the number of served endpoints.
func (m *Metrics) setGauges(inFlight, served int) {
	m.inFlight.Set(float64(inFlight))
	m.served.Set(float64(served))
}

// NewGauges returns the gauges of the deliveries that are due. A scrape searches an index
// once for each active endpoint.
func NewGauges(db *postgres.DB, now func() time.Time) *server.Gauges {
	return server.NewGauges("webhooks", func(ctx context.Context, set server.SetGauge) error {
		at := now()
		lateness, err := webhooks.Lateness(ctx, db, at, at.Add(-lateAfter))
		age := 0.0
		if lateness.OldestDue != nil {
			age = max(0, at.Sub(*lateness.OldestDue).Seconds())
		}
		set(0, float64(lateness.Endpoints))
		set(1, float64(lateness.Late))
		set(2, age)
		return err
	},
		server.Gauge{Name: "tributary_webhook_endpoints", Help: "Active endpoints."},
		server.Gauge{Name: "tributary_webhook_endpoints_late", Help: "Active endpoints with a delivery that has been due for more than a minute. A slow receiver makes its own endpoint late."},
		server.Gauge{Name: "tributary_webhook_oldest_due_seconds", Help: "Time since which the oldest delivery of an active endpoint has been due. 0 if none is due."},
	)
}
