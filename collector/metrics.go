package collector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate"
)

type metrics struct {
	accepted, repeated, unresolved prometheus.Counter
	rejected                       *prometheus.CounterVec
	batchClicks, durable           prometheus.Histogram
	flushErrors                    prometheus.Counter
	fallbacks, redirects           *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		accepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_collector_clicks_accepted_total",
			Help: "Clicks answered 201: durable in the sink.",
		}),
		repeated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_collector_clicks_repeated_total",
			Help: "Clicks answered 200: the same proposed id, key and code as before.",
		}),
		unresolved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_collector_clicks_unresolved_total",
			Help: "Clicks taken without the directory, for ingestion to resolve. Part of the accepted ones.",
		}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_collector_requests_rejected_total",
			Help: "Requests answered with an error, by its code.",
		}, []string{"code"}),
		batchClicks: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tributary_collector_batch_clicks",
			Help:    "Clicks per batch.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		durable: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tributary_collector_time_to_durable_seconds",
			Help:    "From a batch's first click to the sink's acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 15),
		}),
		flushErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_collector_batches_failed_total",
			Help: "Batches that the sink did not acknowledge; their requests were answered 503.",
		}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_collector_limit_fallbacks_total",
			Help: "Requests counted by this process alone because Redis did not answer in time, by zone.",
		}, []string{"zone"}),
		redirects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_collector_redirects_total",
			Help: "Visitors sent to a short link's target: recorded, uncounted (HEAD, prefetch), or without a click because it was limited or not_durable.",
		}, []string{"outcome"}),
	}
	registry.MustRegister(m.accepted, m.repeated, m.unresolved, m.rejected, m.batchClicks, m.durable, m.flushErrors, m.fallbacks, m.redirects)
	return m
}

func (m *metrics) watch(registry prometheus.Registerer, b *batcher) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tributary_collector_queue_clicks",
			Help: "Clicks waiting for, or on, their way to the sink.",
		}, func() float64 { return float64(b.records.Load()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tributary_collector_queue_bytes",
			Help: "Bytes of the clicks in the queue.",
		}, func() float64 { return float64(b.bytes.Load()) }),
	)
}

func (m *metrics) flushed(clicks int, took time.Duration, err error) {
	m.batchClicks.Observe(float64(clicks))
	if err != nil {
		m.flushErrors.Inc()
		return
	}
	m.durable.Observe(took.Seconds())
}

func (m *metrics) reject(reason affiliate.Reason) { m.rejected.WithLabelValues(string(reason)).Inc() }

// Fallback is the hook of ratelimit.Options.
func (m *metrics) fallback(zone string) { m.fallbacks.WithLabelValues(zone).Inc() }
