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

// Socket bounds of every client (RELIABILITY.md 2): the library's own are too long
// for an edge that has to answer.
const (
	dialTimeout = 500 * time.Millisecond
	ioTimeout   = time.Second
	poolTimeout = 250 * time.Millisecond

	// masterTimeout bounds the way to a master by way of its sentinels. The one that
	// was last asked is asked twice before the others are, so one that hangs costs
	// two seconds; with less the client would ask no other.
	masterTimeout = 2*ioTimeout + 2*dialTimeout

	// maxRedirects bounds how often a Cluster may send a command elsewhere.
	maxRedirects = 3
	// clusterReload is how old the picture of who has which slot may be: so late a
	// replica that took over is found, when its master answers nothing any more.
	clusterReload = time.Second
)

// The library's errors may quote the URL, so these say all that there is to say.
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

// dialer connects to one sentinel or to the master that they named.
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
	// Every command here belongs to one slot. The library's other way would first
	// ask a node for its whole table of commands.
	options.DisableRoutingPolicies = true
	options.MaintNotificationsConfig = noMaintenance()
	return options, nil
}

// clusterPath says whether a URL names no database but the only one of a Cluster. The
// library reads over it.
func clusterPath(at string) bool {
	u, err := url.Parse(at)
	return err == nil && (strings.Trim(u.Path, "/") == "" || u.Path == "/0")
}

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
