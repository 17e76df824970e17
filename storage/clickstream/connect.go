package clickstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
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
	// An empty Kind means Single.
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
// keys of the map are the names of the clients, which must be unique in a registry. A
// scrape sends no command.
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

const (
	// maxRedirects is the maximum number of redirections of a command in a Cluster.
	maxRedirects = 3
	// clusterReload is the maximum age of the client's map from slots to nodes. After a
	// failover, the client finds the new master after this time at the latest.
	clusterReload = time.Second
)

type timeouts struct{ dial, io, pool time.Duration }

// timeouts returns the time-outs for a deployment. The library's defaults are too long
// for requests that wait for Redis. No request waits for another region, where TCP and
// TLS need several round trips between continents.
func (e Endpoint) timeouts() timeouts {
	if e.Far {
		return timeouts{dial: 3 * time.Second, io: 5 * time.Second, pool: time.Second}
	}
	return timeouts{dial: 500 * time.Millisecond, io: time.Second, pool: 250 * time.Millisecond}
}

// master returns the maximum time to find a master through its sentinels. The client makes
// two attempts with the last used sentinel before it tries another sentinel. If the last used
// sentinel does not respond, each attempt takes the time-out of a response. With a shorter
// timeout, the client would never try another sentinel.
func (t timeouts) master() time.Duration { return 2*t.io + 2*t.dial }

// These errors replace the errors of the library, because an error of the library may
// contain the password from the URL.
var (
	errKind     = errors.New("the kind of Redis must be single, sentinel or cluster")
	errSingle   = errors.New("the Redis URL must look like redis://user:password@host:port/db")
	errSentinel = errors.New("the Redis URL must look like redis://sentinel:port/db?master_name=name&addr=sentinel:port&username=user&password=password")
	errCluster  = errors.New("the Redis URL must look like redis://user:password@node:port?addr=node:port")
	errReplicas = errors.New("the Redis URL must not enable reads from replicas, because replicas can return old data")
)

func (e Endpoint) singleOptions() (*redis.Options, error) {
	options, err := redis.ParseURL(e.URL)
	if err != nil {
		return nil, errSingle
	}
	limits := e.timeouts()
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true
	options.DialTimeout = limits.dial
	options.DialerRetries = 1
	options.ReadTimeout = limits.io
	options.WriteTimeout = limits.io
	options.PoolTimeout = limits.pool
	options.Dialer = e.dialer(options.TLSConfig)
	options.MaintNotificationsConfig = maintNotificationsDisabled()
	return options, nil
}

func (e Endpoint) sentinelOptions() (*redis.FailoverOptions, error) {
	options, err := redis.ParseFailoverURL(e.URL)
	if err != nil || options.MasterName == "" {
		return nil, errSentinel
	}
	if options.ReplicaOnly || options.RouteByLatency || options.RouteRandomly {
		return nil, errReplicas
	}
	limits := e.timeouts()
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true
	options.DialTimeout = limits.master()
	options.DialerRetries = 1
	options.ReadTimeout = limits.io
	options.WriteTimeout = limits.io
	options.PoolTimeout = limits.pool
	options.Dialer = e.dialer(options.TLSConfig)
	return options, nil
}

// dialer returns a function that opens a connection to any server of the deployment. If
// parsed is not nil, the connection uses TLS. parsed is the configuration that the library
// has made from the URL. It contains the first host of the URL as the name of all servers.
// The dialer requires instead that the certificate is valid for the host that it connects
// to, which can also be a host that a sentinel or a node of a Cluster has returned.
func (e Endpoint) dialer(parsed *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: e.timeouts().dial}
	if parsed == nil {
		return plain.DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		config := parsed.Clone()
		config.ServerName = "" // tls.Dialer uses the host of addr
		config.MinVersion = tls.VersionTLS12
		if e.Roots != nil {
			config.RootCAs = e.Roots()
		}
		return (&tls.Dialer{NetDialer: plain, Config: config}).DialContext(ctx, network, addr)
	}
}

func (e Endpoint) clusterOptions() (*redis.ClusterOptions, error) {
	options, err := redis.ParseClusterURL(e.URL)
	if err != nil || !validClusterPath(e.URL) {
		return nil, errCluster
	}
	if options.ReadOnly || options.RouteByLatency || options.RouteRandomly {
		return nil, errReplicas
	}
	limits := e.timeouts()
	options.MaxRetries = -1
	options.MaxRedirects = maxRedirects
	options.ContextTimeoutEnabled = true
	options.DialTimeout = limits.dial
	options.DialerRetries = 1
	options.ReadTimeout = limits.io
	options.WriteTimeout = limits.io
	options.PoolTimeout = limits.pool
	options.Dialer = e.dialer(options.TLSConfig)
	options.ClusterStateReloadInterval = clusterReload
	// The commands of this package need no routing policies, because all keys of a
	// command are in one slot. With routing policies, the library would first have to
	// load a table of commands from a node.
	options.DisableRoutingPolicies = true
	options.MaintNotificationsConfig = maintNotificationsDisabled()
	return options, nil
}

// validClusterPath reports whether the path of a URL is empty or selects database 0. A
// Cluster has no other database. The library ignores the path, so it does not return an
// error for another database.
func validClusterPath(rawURL string) bool {
	u, err := url.Parse(rawURL)
	return err == nil && (strings.Trim(u.Path, "/") == "" || u.Path == "/0")
}

func maintNotificationsDisabled() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
