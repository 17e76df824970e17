package ingest

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate/click"
)

type metrics struct {
	stored, acknowledged, trimmed prometheus.Counter
	lost, recreated, unexpected   prometheus.Counter
	unreachable, rejections       prometheus.Counter
	uniqueUnknown, fromFuture     prometheus.Counter
	dead                          *prometheus.CounterVec
	rows, duration                prometheus.Histogram
	oldest                        prometheus.Gauge
	entries, bytes                prometheus.Gauge
	usedMemory, maxMemory         prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "tributary_ingest_" + name, Help: help})
		registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "tributary_clickstream_" + name, Help: help + " All cores report the same number."})
		registry.MustRegister(g)
		return g
	}
	m := &metrics{
		entries:      gauge("entries", "Entries in the click stream. An entry has up to 512 clicks and is removed when they are stored."),
		bytes:        gauge("bytes", "Memory of the click stream, as Redis estimates it."),
		usedMemory:   gauge("redis_used_memory_bytes", "Memory that the Redis of the click stream uses for everything. On a Cluster, that of the fullest master."),
		maxMemory:    gauge("redis_max_memory_bytes", "The maxmemory of the same server; 0 without a limit."),
		stored:       counter("clicks_stored_total", "Clicks committed. A click that is stored again is counted again."),
		acknowledged: counter("entries_acknowledged_total", "Stream entries acknowledged after their commit."),
		trimmed:      counter("entries_trimmed_total", "Stream entries removed after their clicks were stored."),
		lost:         counter("entries_lost_total", "Entries that disappeared from Redis before they were acknowledged, plus one for each time that Redis lost the latest entries of a stream. Alert if it is above 0."),
		recreated:    counter("groups_recreated_total", "Consumer groups that disappeared from Redis and were created again, because the stream was lost. Alert if it is above 0."),
		unexpected:   counter("unexpected_stream_clicks_total", "Clicks read from streams beyond TRIBUTARY_STREAM_SHARDS of this core, because a collector is configured with more streams. Clicks that are read again are counted again. Alert if it grows."),
		unreachable:  counter("store_unreachable_total", "Failed calls of the database or of Redis while a batch was processed. The call is repeated."),
		rejections:   counter("store_rejections_total", "Calls to store a batch or an entry that the database rejected because of the data."),
		uniqueUnknown: counter("unique_unknown_total",
			"Clicks stored as not unique because the check in Redis failed or took too long."),
		fromFuture: counter("clicks_from_future_total",
			"Clicks with a time of receipt more than two seconds in the future, because the clock of their collector is wrong. They are stored with the time at which Redis has stored them. Clicks that are read again are counted again. Alert if it grows."),
		dead: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tributary_ingest_dead_letters_total",
			Help: "Clicks stored as dead letters, by reason.",
		}, []string{"reason"}),
		rows: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tributary_ingest_batch_clicks", Help: "Clicks per committed batch.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 8),
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tributary_ingest_commit_seconds", Help: "Time to commit a batch.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tributary_ingest_oldest_pending_seconds",
			Help: "Age of the oldest entry that a consumer has read and not yet acknowledged. Use it in alerts instead of the consumer group's lag.",
		}),
	}
	for _, reason := range click.DeadReasons() {
		m.dead.WithLabelValues(string(reason))
	}
	registry.MustRegister(m.dead, m.rows, m.duration, m.oldest)
	return m
}

func (m *metrics) observeBatch(clicks int, took time.Duration) {
	m.stored.Add(float64(clicks))
	m.rows.Observe(float64(clicks))
	m.duration.Observe(took.Seconds())
}
