package analytics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapeTimeout bounds the time for which a scrape waits for the database.
const scrapeTimeout = time.Second

var oldestEntry = prometheus.NewDesc("tributary_analytics_oldest_entry_seconds",
	"Age of the oldest change that the analytics do not contain yet, or 0 if they contain all changes. All cores report the same number.", nil, nil)

// Collector reads its metric from the database at each scrape. The metric is missing while the
// database does not respond.
type Collector struct {
	store Store
	now   func() time.Time
}

// NewCollector returns a Collector; now is its clock.
func NewCollector(store Store, now func() time.Time) *Collector { return &Collector{store, now} }

// Describe implements prometheus.Collector.
func (*Collector) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- oldestEntry }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(values chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	at, err := c.store.Oldest(ctx)
	if err != nil {
		return
	}
	age := 0.0
	if at != nil {
		age = max(0, c.now().Sub(*at).Seconds())
	}
	values <- prometheus.MustNewConstMetric(oldestEntry, prometheus.GaugeValue, age)
}
