package ingest

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	stored, acknowledged, trimmed prometheus.Counter
	lost, recreated               prometheus.Counter
	unreachable, rejections       prometheus.Counter
	uniqueUnknown                 prometheus.Counter
	dead                          *prometheus.CounterVec
	rows, duration                prometheus.Histogram
	oldest                        prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "tributary_ingest_" + name, Help: help})
		registry.MustRegister(c)
		return c
	}
	m := &metrics{
		stored:       counter("clicks_stored_total", "Clicks committed. A click that is stored again is counted again."),
		acknowledged: counter("entries_acknowledged_total", "Stream entries acknowledged after their commit."),
		trimmed:      counter("entries_trimmed_total", "Stream entries removed after their clicks were stored."),
		lost:         counter("entries_lost_total", "Entries that disappeared from Redis before they were acknowledged, plus one for each time that Redis lost the latest entries of a stream. Alert if it is above 0."),
		recreated:    counter("groups_recreated_total", "Consumer groups that disappeared from Redis and were created again, because the stream was lost. Alert if it is above 0."),
		unreachable:  counter("store_unreachable_total", "Failed calls of the database or of Redis while a batch was processed. The call is repeated."),
		rejections:   counter("store_rejections_total", "Calls to store a batch or an entry that the database rejected because of the data."),
		uniqueUnknown: counter("unique_unknown_total",
			"Clicks stored as not unique because the check in Redis failed or took too long."),
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
	registry.MustRegister(m.dead, m.rows, m.duration, m.oldest)
	return m
}

func (m *metrics) observeBatch(clicks int, took time.Duration) {
	m.stored.Add(float64(clicks))
	m.rows.Observe(float64(clicks))
	m.duration.Observe(took.Seconds())
}
