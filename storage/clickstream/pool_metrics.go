package clickstream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

var (
	poolConnections = prometheus.NewDesc("tributary_redis_connections",
		"Connections to Redis, by client and state: used or idle. On a Cluster, the connections to all nodes.", []string{"client", "state"}, nil)
	poolTimeouts = prometheus.NewDesc("tributary_redis_pool_timeouts_total",
		"Commands that failed because no connection of the pool became free in time, by client.", []string{"client"}, nil)
)

// PoolCollector is a prometheus.Collector for the connection pools of Redis clients. The
// keys are the names of the clients, which must be unique in a registry. A scrape sends no
// command.
type PoolCollector map[string]redis.UniversalClient

// Describe implements prometheus.Collector. It describes no metric, so that a process can
// register several PoolCollectors.
func (PoolCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c PoolCollector) Collect(values chan<- prometheus.Metric) {
	for name, client := range c {
		stats := client.PoolStats()
		used := max(0, int64(stats.TotalConns)-int64(stats.IdleConns))
		values <- prometheus.MustNewConstMetric(poolConnections, prometheus.GaugeValue, float64(used), name, "used")
		values <- prometheus.MustNewConstMetric(poolConnections, prometheus.GaugeValue, float64(stats.IdleConns), name, "idle")
		values <- prometheus.MustNewConstMetric(poolTimeouts, prometheus.CounterValue, float64(stats.Timeouts), name)
	}
}
