package assemble

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/analytics"
	"github.com/tributary-hq/tributary/server/check"
	"github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

// registerGauges registers the metrics that are read at each scrape.
func (c *Core) registerGauges() {
	c.registry.MustRegister(
		poolCollector(c.db.Pools()),
		clickstream.PoolCollector{"stream": c.stream, "stream_blocking": c.blocking, "cache": c.cache, "limits": c.limits},
		analytics.NewGauges(c.db, c.now),
		check.NewGauges(c.db, c.now),
		server.NewJobGauges(c.db, queueNames(), c.now),
		webhook.NewGauges(c.db, c.now),
	)
}

func queueNames() []string { return slices.Sorted(maps.Keys(queues)) }

var (
	poolConnections = prometheus.NewDesc("tributary_postgres_connections",
		"Connections to Postgres, by pool and state: used, idle or opening.", []string{"pool", "state"}, nil)
	poolMaximum = prometheus.NewDesc("tributary_postgres_connections_max",
		"Maximum number of connections, by pool.", []string{"pool"}, nil)
	poolWaits = prometheus.NewDesc("tributary_postgres_connection_waits_total",
		"Statements and transactions that found no idle connection, by pool.", []string{"pool"}, nil)
	poolWaitSeconds = prometheus.NewDesc("tributary_postgres_connection_wait_seconds_total",
		"Time for which statements and transactions waited for a connection, by pool.", []string{"pool"}, nil)
)

// poolCollector is a prometheus.Collector for the connection pools to Postgres. The keys
// are the names of the pools, which must be unique in a registry.
type poolCollector map[string]*pgxpool.Pool

// Describe implements prometheus.Collector. It describes no metric, so that a process can
// register several collectors.
func (poolCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c poolCollector) Collect(values chan<- prometheus.Metric) {
	for name, pool := range c {
		stat := pool.Stat()
		for state, n := range map[string]int32{"used": stat.AcquiredConns(), "idle": stat.IdleConns(), "opening": stat.ConstructingConns()} {
			values <- prometheus.MustNewConstMetric(poolConnections, prometheus.GaugeValue, float64(n), name, state)
		}
		values <- prometheus.MustNewConstMetric(poolMaximum, prometheus.GaugeValue, float64(stat.MaxConns()), name)
		values <- prometheus.MustNewConstMetric(poolWaits, prometheus.CounterValue, float64(stat.EmptyAcquireCount()), name)
		values <- prometheus.MustNewConstMetric(poolWaitSeconds, prometheus.CounterValue, stat.EmptyAcquireWaitTime().Seconds(), name)
	}
}
