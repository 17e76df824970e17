package webhook

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate/webhook"
)

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
	registry.MustRegister(m.attempts, m.duration, m.delay, m.inFlight, m.served)
	return m
}

// observeAttempt counts an attempt and records its duration. For the first attempt of a
// delivery, it also records the delay since the event.
func (m *Metrics) observeAttempt(a webhook.AttemptResult) {
	outcome := a.Outcome.ErrorCode
	switch code := a.Outcome.StatusCode; {
	case a.Outcome.Succeeded():
		outcome = "delivered"
	case code >= 500:
		outcome = "http_5xx"
	case code >= 400:
		outcome = "http_4xx"
	case code >= 100 && code < 300:
		outcome = "http_other"
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
