package collector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/collector/journal"
)

type metrics struct {
	accepted, repeated, unresolved prometheus.Counter
	rejected                       *prometheus.CounterVec
	batchClicks, durable           prometheus.Histogram
	flushErrors                    prometheus.Counter
	journaled, replayed            prometheus.Counter
	fallbacks, redirects           *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		accepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_collector_clicks_accepted_total",
			Help: "Clicks with response 201: durable in the stream or in the journal.",
		}),
		repeated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_collector_clicks_repeated_total",
			Help: "Clicks with response 200: the same proposed id, key and code as before.",
		}),
		unresolved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_collector_clicks_unresolved_total",
			Help: "Clicks accepted without the directory, which ingestion resolves. Part of the accepted clicks.",
		}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_collector_requests_rejected_total",
			Help: "Requests with an error response, by its code.",
		}, []string{"code"}),
		batchClicks: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tributary_collector_batch_clicks",
			Help:    "Clicks per batch.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 10),
		}),
		durable: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tributary_collector_time_to_durable_seconds",
			Help:    "Time from the first click of a batch until the batch is in the stream or the journal.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 15),
		}),
		flushErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_collector_batches_failed_total",
			Help: "Batches that neither the stream nor a journal took; their requests got 503.",
		}),
		journaled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_collector_clicks_journaled_total",
			Help: "Clicks that were written to the journal instead of the stream, including clicks of short links.",
		}),
		replayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_collector_clicks_replayed_total",
			Help: "Clicks moved from the journal to the stream, including repetitions.",
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
	registry.MustRegister(m.accepted, m.repeated, m.unresolved, m.rejected, m.batchClicks, m.durable, m.flushErrors, m.journaled, m.replayed, m.fallbacks, m.redirects)
	return m
}

// watch registers the gauges of the queue and of the journal. broken means that the
// journal could not be opened; then j is nil.
func (m *metrics) watch(registry prometheus.Registerer, b *batcher, j *journal.Journal, broken bool, now func() time.Time) {
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tributary_collector_" + name, Help: help}, value))
	}
	age := func(since time.Time) float64 {
		if since.IsZero() {
			return 0
		}
		return max(0, now().Sub(since).Seconds())
	}
	gauge("queue_clicks", "Clicks waiting for, or on, their way to the stream.", func() float64 { return float64(b.records.Load()) })
	gauge("queue_bytes", "Bytes of the clicks in the queue.", func() float64 { return float64(b.bytes.Load()) })
	const brokenHelp = "1 while the journal takes nothing: its disk failed or is full, or its folder could not be used at the start."
	if broken {
		gauge("journal_broken", brokenHelp, func() float64 { return 1 })
	}
	if j == nil {
		gauge("oldest_unpersisted_seconds", "Age of the oldest click that is not in the stream.", func() float64 { return age(b.oldest()) })
		return
	}
	gauge("oldest_unpersisted_seconds", "Age of the oldest click that is not in the stream: waiting here or in the journal.",
		func() float64 { return max(age(b.oldest()), age(j.Stats().Oldest)) })
	gauge("journal_clicks", "Clicks in the journal, on their way to the stream.", func() float64 { return float64(j.Stats().Clicks) })
	gauge("journal_bytes", "Bytes of the journal on disk.", func() float64 { return float64(j.Stats().Bytes) })
	gauge("journal_max_bytes", "Bound of journal_bytes; beyond it clicks are refused while the stream is away.", func() float64 { return float64(j.Stats().MaxBytes) })
	gauge("journal_oldest_seconds", "Age of the oldest record in the journal; 0 when it is empty.", func() float64 { return age(j.Stats().Oldest) })
	gauge("journal_broken", brokenHelp, func() float64 {
		if j.Stats().Broken != nil {
			return 1
		}
		return 0
	})
	gauge("journal_torn_tails", "Incomplete records at the end of the journal that its start cut off: a process or a machine ended while it wrote.", func() float64 { return float64(j.Stats().Truncated) })
	gauge("journal_damaged_records", "Damaged records skipped since the start. Any is an alarm.", func() float64 { return float64(j.Stats().Skipped) })
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

// fallback is the hook of ratelimit.Options.
func (m *metrics) fallback(zone string) { m.fallbacks.WithLabelValues(zone).Inc() }
