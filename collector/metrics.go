package collector

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/collector/journal"
)

type metrics struct {
	accepted, repeated, unresolved prometheus.Counter
	rejected                       *prometheus.CounterVec
	batchClicks, timeToDurable     prometheus.Histogram
	failedBatches                  prometheus.Counter
	journaled, replayed            prometheus.Counter
	fallbacks, redirects           *prometheus.CounterVec
}

var rejections = []affiliate.Reason{
	affiliate.ReasonForbidden, affiliate.ReasonHTTPSRequired, affiliate.ReasonInternal, affiliate.ReasonInvalidPublicKey, affiliate.ReasonMethodNotAllowed,
	affiliate.ReasonNotFound, affiliate.ReasonOriginNotAllowed, affiliate.ReasonPayloadTooLarge, affiliate.ReasonRateLimitExceeded,
	affiliate.ReasonServiceUnavailable, affiliate.ReasonUnsupportedMediaType, affiliate.ReasonValidation,
}

func newMetrics(registry prometheus.Registerer) *metrics {
	auto := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return auto.NewCounter(prometheus.CounterOpts{Name: "tributary_collector_" + name, Help: help})
	}
	counterBy := func(label, name, help string) *prometheus.CounterVec {
		return auto.NewCounterVec(prometheus.CounterOpts{Name: "tributary_collector_" + name, Help: help}, []string{label})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return auto.NewHistogram(prometheus.HistogramOpts{Name: "tributary_collector_" + name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		accepted: counter("clicks_accepted_total", "Clicks with response 201. They are durable in the stream or in the journal."),
		repeated: counter("clicks_repeated_total", "Clicks with response 200, because an earlier request had the same proposed id, key and code."),
		unresolved: counter("clicks_unresolved_total",
			"Clicks accepted although the directory could not be read; ingestion looks up their keys and codes. They also count as accepted clicks."),
		rejected:    counterBy("code", "requests_rejected_total", "Requests with an error response, by error code."),
		batchClicks: histogram("batch_clicks", "Clicks per batch.", prometheus.ExponentialBuckets(1, 2, 10)),
		timeToDurable: histogram("time_to_durable_seconds",
			"Time from the first click of a batch until the batch is in the stream or the journal.", prometheus.ExponentialBuckets(0.0001, 2, 15)),
		failedBatches: counter("batches_failed_total", "Batches that could be written neither to the stream nor to a journal. Their requests got a 503."),
		journaled:     counter("clicks_journaled_total", "Clicks written to the journal instead of the stream, including clicks of short links."),
		replayed:      counter("clicks_replayed_total", "Clicks moved from the journal to the stream. A click that is moved twice counts twice."),
		fallbacks: counterBy("zone", "limit_fallbacks_total",
			"Requests that were counted without Redis because it did not respond in time, by zone of the limit. Each process counts such requests on its own."),
		redirects: counterBy("outcome", "redirects_total", "Redirects to the target of a short link, by outcome: recorded (with a click), "+
			"uncounted (HEAD or prefetch), limited (rate limit, no click) or not_durable (the click could not be stored)."),
	}
	for _, reason := range rejections {
		m.rejected.WithLabelValues(string(reason))
	}
	for _, zone := range []string{zoneTracking, zoneAddress} {
		m.fallbacks.WithLabelValues(zone)
	}
	for _, outcome := range []string{redirectRecorded, redirectUncounted, redirectLimited, redirectNotDurable} {
		m.redirects.WithLabelValues(outcome)
	}
	return m
}

// watch registers the gauges of the queue, and the gauges and counters of the journal. The journal j is nil if no
// journal is configured, or if the journal could not be opened. In the second case, the parameter broken is true.
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
	gauge("queue_clicks", "Clicks that wait for a write to the stream or are being written.", func() float64 { return float64(b.records.Load()) })
	gauge("queue_bytes", "Bytes of the clicks in the queue.", func() float64 { return float64(b.bytes.Load()) })
	const brokenHelp = "1 while the journal cannot store clicks because its disk failed or is full, or because its folder could not be used at the start."
	if j == nil {
		gauge("journal_broken", brokenHelp, func() float64 {
			if broken {
				return 1
			}
			return 0
		})
		gauge("oldest_unpersisted_seconds", "Age of the oldest click in the queue of the collector, which is not in the stream yet.",
			func() float64 { return age(b.oldest()) })
		return
	}
	gauge("oldest_unpersisted_seconds", "Age of the oldest click in the queue or in the journal of the collector, which is not in the stream yet.",
		func() float64 { return max(age(b.oldest()), age(j.Stats().Oldest)) })
	gauge("journal_clicks", "Clicks in the journal that still have to be moved to the stream.", func() float64 { return float64(j.Stats().Clicks) })
	gauge("journal_bytes", "Bytes of the journal on disk.", func() float64 { return float64(j.Stats().Bytes) })
	gauge("journal_max_bytes", "Maximum of journal_bytes. When it is reached, clicks are refused while the stream is unavailable.",
		func() float64 { return float64(j.Stats().MaxBytes) })
	gauge("journal_disk_free_bytes", "Free space of the file system of the journal.", func() float64 {
		free, err := j.FreeBytes()
		if err != nil {
			return math.NaN()
		}
		return float64(free)
	})
	gauge("journal_oldest_seconds", "Age of the oldest record in the journal; 0 when it is empty.", func() float64 { return age(j.Stats().Oldest) })
	gauge("journal_broken", brokenHelp, func() float64 {
		if j.Stats().Broken != nil {
			return 1
		}
		return 0
	})
	counter := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "tributary_collector_" + name, Help: help}, value))
	}
	counter("journal_torn_tails_total",
		"Incomplete records removed from the end of the journal when it was opened. A crash during a write leaves one such record.",
		func() float64 { return float64(j.Stats().Truncated) })
	counter("journal_damaged_records_total", "Damaged records skipped since the start. Any value above 0 needs an alert.",
		func() float64 { return float64(j.Stats().Skipped) })
}

func (m *metrics) flushed(clicks int, duration time.Duration, err error) {
	m.batchClicks.Observe(float64(clicks))
	if err != nil {
		m.failedBatches.Inc()
		return
	}
	m.timeToDurable.Observe(duration.Seconds())
}

func (m *metrics) reject(reason affiliate.Reason) { m.rejected.WithLabelValues(string(reason)).Inc() }
