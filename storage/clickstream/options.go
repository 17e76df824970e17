package clickstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

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
