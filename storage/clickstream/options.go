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

// Socket timeouts of every client (RELIABILITY.md 2). The library's defaults are too long
// for an edge.
const (
	dialTimeout = 500 * time.Millisecond
	ioTimeout   = time.Second
	poolTimeout = 250 * time.Millisecond

	// masterTimeout bounds finding a master through its sentinels. The client tries the
	// last used sentinel twice before the others, so a sentinel that hangs costs two
	// seconds. With a shorter timeout the client would never try another one.
	masterTimeout = 2*ioTimeout + 2*dialTimeout

	// maxRedirects bounds the redirections of a command in a Cluster.
	maxRedirects = 3
	// clusterReload is the longest age of the map of slots, and so the delay until a
	// promoted replica is found when its former master does not respond.
	clusterReload = time.Second
)

// The library's errors may quote the URL, so these errors replace them.
var (
	errKind     = errors.New("the kind of a Redis is single, sentinel or cluster")
	errSingle   = errors.New("the Redis URL must look like redis://user:password@host:port/db")
	errSentinel = errors.New("the Redis URL must look like redis://sentinel:port/db?master_name=name&addr=sentinel:port&username=user&password=password")
	errCluster  = errors.New("the Redis URL must look like redis://user:password@node:port?addr=node:port")
	errReplicas = errors.New("the Redis URL must not ask for reads from replicas, which may lag behind")
)

func singleOptions(at string) (*redis.Options, error) {
	options, err := redis.ParseURL(at)
	if err != nil {
		return nil, errSingle
	}
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true
	options.DialTimeout = dialTimeout
	options.DialerRetries = 1
	options.ReadTimeout = ioTimeout
	options.WriteTimeout = ioTimeout
	options.PoolTimeout = poolTimeout
	options.MaintNotificationsConfig = noMaintenance()
	return options, nil
}

func sentinelOptions(at string) (*redis.FailoverOptions, error) {
	options, err := redis.ParseFailoverURL(at)
	if err != nil || options.MasterName == "" {
		return nil, errSentinel
	}
	if options.ReplicaOnly || options.RouteByLatency || options.RouteRandomly {
		return nil, errReplicas
	}
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true
	options.DialTimeout = masterTimeout
	options.DialerRetries = 1
	options.ReadTimeout = ioTimeout
	options.WriteTimeout = ioTimeout
	options.PoolTimeout = poolTimeout
	options.Dialer = dialer(options.TLSConfig)
	return options, nil
}

// dialer connects to one sentinel or to the master that the sentinels named.
func dialer(config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: dialTimeout}
	if config == nil {
		return plain.DialContext
	}
	return (&tls.Dialer{NetDialer: plain, Config: config}).DialContext
}

func clusterOptions(at string) (*redis.ClusterOptions, error) {
	options, err := redis.ParseClusterURL(at)
	if err != nil || !clusterPath(at) {
		return nil, errCluster
	}
	if options.ReadOnly || options.RouteByLatency || options.RouteRandomly {
		return nil, errReplicas
	}
	options.MaxRetries = -1
	options.MaxRedirects = maxRedirects
	options.ContextTimeoutEnabled = true
	options.DialTimeout = dialTimeout
	options.DialerRetries = 1
	options.ReadTimeout = ioTimeout
	options.WriteTimeout = ioTimeout
	options.PoolTimeout = poolTimeout
	options.ClusterStateReloadInterval = clusterReload
	// Every command here belongs to one slot. With routing policies the library would
	// first load a node's table of commands.
	options.DisableRoutingPolicies = true
	options.MaintNotificationsConfig = noMaintenance()
	return options, nil
}

// clusterPath reports whether a URL names no database or database 0, the only one of a
// Cluster. The library ignores the path.
func clusterPath(at string) bool {
	u, err := url.Parse(at)
	return err == nil && (strings.Trim(u.Path, "/") == "" || u.Path == "/0")
}

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
