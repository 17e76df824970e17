package notification

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of streams and of the Distributor. They have no labels, because
// workspaces and users would create any number of time series.
type Metrics struct {
	open             prometheus.Gauge
	refused, resyncs prometheus.Counter
	delay            prometheus.Histogram
}

// NewMetrics returns Metrics and registers them in registry. undistributed is
// Distributor.Undistributed.
func NewMetrics(registry prometheus.Registerer, undistributed func() time.Duration) *Metrics {
	m := &Metrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tributary_notification_streams_open", Help: "Streams of notifications that are open in this process.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_notification_streams_refused_total", Help: "Streams that were refused because the user had too many.",
		}),
		resyncs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tributary_notification_stream_resyncs_total",
			Help: "Streams that could not continue without a gap, so that the client had to load the feed again.",
		}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tributary_notification_stream_delay_seconds",
			Help:    "Time from the creation of a notification until it was sent to a stream, for each stream. Replayed notifications are not counted.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
	}
	registry.MustRegister(m.open, m.refused, m.resyncs, m.delay, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tributary_notification_undistributed_seconds",
		Help: "Age of the oldest notification that this process is distributing to streams and mails, or could not distribute. 0 if there is none.",
	}, func() float64 { return undistributed().Seconds() }))
	return m
}
