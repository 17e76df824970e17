package clickstream

import (
	"crypto/x509"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// The library logs errors to stderr as plain text, and repeats an error for each
// connection. This log is not needed, because the callers receive the errors and log
// them. The library's log setting is global, so init disables the log before the first
// client exists.
func init() { logging.Disable() }

// Kind is the kind of a Redis deployment.
type Kind string

// The kinds of Redis deployments. They differ in the data that a failover can lose
// (docs/operations/redis.md).
const (
	// Single is one server: redis://user:password@host:port/db.
	Single Kind = "single"
	// Sentinel is a master and its replicas, monitored by sentinels:
	// redis://sentinel:port/db?master_name=name&addr=sentinel:port&username=user&password=password.
	// A user and password before the host are for the sentinels.
	Sentinel Kind = "sentinel"
	// Cluster is a Redis Cluster. The URL contains one or more of its nodes:
	// redis://user:password@node:port?addr=node:port.
	Cluster Kind = "cluster"
)

// Endpoint is the address of a Redis deployment. If the scheme of the URL is rediss, all
// connections use TLS.
type Endpoint struct {
	URL string
	// Kind is Single if it is empty.
	Kind Kind
	// Roots returns the certificate authorities that sign the certificates of Redis and of
	// the sentinels. Each new connection calls it. If Roots is nil, the authorities of the
	// system are used.
	Roots func() *x509.CertPool
	// Far means that the deployment is in another region, so that the time-outs are longer.
	Far bool
}

// Connect returns a client for all commands except blocking reads. The client never
// repeats a command that may have been executed, because a second XADD would append a
// second entry. It sends a command again only if a Cluster redirects the command to
// another node. The deadline of a context also limits reads and writes on the socket.
//
// The client has a circuit breaker. After five failures in a row, the client rejects
// commands and sends only one command every half second, until a command succeeds. On a
// Cluster, each node has its own breaker, so the shards on other nodes keep working.
//
// The click stream, the directory and the rate limits must each use a separate client.
// Otherwise slow commands of one part could use all connections and delay the other
// parts, and the short deadlines of the rate limits could open the circuit breaker of the
// other parts.
func Connect(endpoint Endpoint) (redis.UniversalClient, error) {
	return endpoint.connect(0, func(server *redis.Client) { server.AddHook(&breaker{now: time.Now}) })
}

// ConnectBlocking returns the client for the blocking reads of a Reader. The client has
// no circuit breaker and can open one connection per shard. For a blocking read, the
// library uses a socket timeout of the block time plus ten seconds, because Redis may
// respond late (redis#12998).
func ConnectBlocking(endpoint Endpoint) (redis.UniversalClient, error) {
	return endpoint.connect(MaxShards, func(*redis.Client) {})
}

// connect returns a client for the kind of the endpoint. minPoolSize is the minimum size
// of the connection pool of each server. The library's default is ten connections per
// processor, or five on a Cluster. connect calls prepare with the client of each server.
func (e Endpoint) connect(minPoolSize int, prepare func(server *redis.Client)) (redis.UniversalClient, error) {
	switch e.Kind {
	case Single, "":
		options, err := e.singleOptions()
		if err != nil {
			return nil, err
		}
		options.PoolSize = max(options.PoolSize, minPoolSize)
		client := redis.NewClient(options)
		prepare(client)
		return client, nil
	case Sentinel:
		options, err := e.sentinelOptions()
		if err != nil {
			return nil, err
		}
		options.PoolSize = max(options.PoolSize, minPoolSize)
		client := redis.NewFailoverClient(options)
		prepare(client)
		client.AddHook(sentinelErrorHook{})
		return client, nil
	case Cluster:
		options, err := e.clusterOptions()
		if err != nil {
			return nil, err
		}
		options.PoolSize = max(options.PoolSize, minPoolSize)
		client := redis.NewClusterClient(options)
		client.OnNewNode(prepare)
		client.AddHook(noRetryHook{})
		return client, nil
	}
	return nil, errKind
}

// Check returns an error if the endpoint is not valid. It does not connect. The error
// does not contain the URL, because the URL may contain a password.
func (e Endpoint) Check() error {
	var err error
	switch e.Kind {
	case Single, "":
		_, err = e.singleOptions()
	case Sentinel:
		_, err = e.sentinelOptions()
	case Cluster:
		_, err = e.clusterOptions()
	default:
		err = errKind
	}
	return err
}

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
