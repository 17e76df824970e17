package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gaugesTimeout bounds the time for which a scrape waits for the database.
const gaugesTimeout = time.Second

// Gauge describes a metric of Gauges.
type Gauge struct {
	Name, Help string
	// Labels are the names of the labels.
	Labels []string
}

// Gauges is a group of gauges that are read from the database at each scrape. All cores
// report the same numbers. The gauges are missing while the database does not respond; a
// counter shows this.
type Gauges struct {
	descriptions []*prometheus.Desc
	read         func(ctx context.Context, set SetGauge) error
	failures     prometheus.Counter
}

// SetGauge reports the value of the gauge with the given index. labels are the values of
// its labels.
type SetGauge func(index int, value float64, labels ...string)

// NewGauges returns a prometheus.Collector. At each scrape it calls read, which reports
// the values of the gauges. group is the name of the group in the metrics.
func NewGauges(group string, read func(ctx context.Context, set SetGauge) error, gauges ...Gauge) *Gauges {
	g := &Gauges{read: read, failures: prometheus.NewCounter(prometheus.CounterOpts{
		Name:        "tributary_gauges_failed_total",
		Help:        "Scrapes in which a group of gauges is missing, because the database did not respond within a second, by group.",
		ConstLabels: prometheus.Labels{"group": group},
	})}
	for _, gauge := range gauges {
		g.descriptions = append(g.descriptions, prometheus.NewDesc(gauge.Name, gauge.Help, gauge.Labels, nil))
	}
	return g
}

// Describe implements prometheus.Collector.
func (g *Gauges) Describe(descriptions chan<- *prometheus.Desc) {
	g.failures.Describe(descriptions)
	for _, description := range g.descriptions {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector. It reports either all gauges or none.
func (g *Gauges) Collect(values chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), gaugesTimeout)
	defer cancel()
	var read []prometheus.Metric
	err := g.read(ctx, func(index int, value float64, labels ...string) {
		read = append(read, prometheus.MustNewConstMetric(g.descriptions[index], prometheus.GaugeValue, value, labels...))
	})
	if err != nil {
		g.failures.Inc()
		read = nil
	}
	g.failures.Collect(values)
	for _, metric := range read {
		values <- metric
	}
}
