package clickstream

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// The library would log each error to stderr, unstructured and once per connection of a
// pool, although the caller gets it too. The switch is global, so it is set before the
// first client exists.
func init() { logging.Disable() }

// Kind is the kind of Redis deployment that a URL names.
type Kind string

// The kinds. They differ in what a failover can lose (docs/operations/redis.md).
const (
	// Single is one server: redis://user:password@host:port/db.
	Single Kind = "single"
	// Sentinel is a master that sentinels watch:
	// redis://sentinel:port/db?master_name=name&addr=sentinel:port&username=user&password=password.
	// A user and password before the host are those of the sentinels.
	Sentinel Kind = "sentinel"
	// Cluster is a Redis Cluster with any of its nodes:
	// redis://user:password@node:port?addr=node:port.
	Cluster Kind = "cluster"
)

// Endpoint is the address of a Redis. An empty Kind is Single.
type Endpoint struct {
	URL  string
	Kind Kind
}

// Connect makes a client for the path of a request. It never repeats a command that may
// have been executed, because a second XADD is a second entry; it only follows the
// redirections of a Cluster. Deadlines of the context apply to the socket. After five
// failures in a row a server gets one call at a time, half a second apart, until one
// succeeds. On a Cluster each node has its own breaker, so other shards go on. The
// stream, the directory and the limits need a client each, so that a slow one does not
// delay the others.
func Connect(at Endpoint) (redis.UniversalClient, error) {
	return at.connect(0, func(server *redis.Client) { server.AddHook(&breaker{now: time.Now}) })
}

// ConnectBlocking makes the client for the blocking reads of a Reader. It has no breaker
// and room for one connection per shard. The library makes the socket timeout of each
// read ten seconds longer than its block time, because Redis may respond late
// (redis#12998).
func ConnectBlocking(at Endpoint) (redis.UniversalClient, error) {
	return at.connect(MaxShards, func(*redis.Client) {})
}

// connect makes the client of the kind. room is the number of connections to each server
// (0: ten per processor, or five on a Cluster). prepare is called with the client of each
// server.
func (at Endpoint) connect(room int, prepare func(server *redis.Client)) (redis.UniversalClient, error) {
	switch at.Kind {
	case Single, "":
		options, err := singleOptions(at.URL)
		if err != nil {
			return nil, err
		}
		options.PoolSize = max(options.PoolSize, room)
		client := redis.NewClient(options)
		prepare(client)
		return client, nil
	case Sentinel:
		options, err := sentinelOptions(at.URL)
		if err != nil {
			return nil, err
		}
		options.PoolSize = max(options.PoolSize, room)
		client := redis.NewFailoverClient(options)
		prepare(client)
		client.AddHook(lookup{})
		return client, nil
	case Cluster:
		options, err := clusterOptions(at.URL)
		if err != nil {
			return nil, err
		}
		options.PoolSize = max(options.PoolSize, room)
		client := redis.NewClusterClient(options)
		client.OnNewNode(prepare)
		client.AddHook(once{})
		return client, nil
	}
	return nil, errKind
}

// Check returns the fault of an endpoint, without connecting. The error does not quote the
// URL, which may contain a password.
func (at Endpoint) Check() error {
	var err error
	switch at.Kind {
	case Single, "":
		_, err = singleOptions(at.URL)
	case Sentinel:
		_, err = sentinelOptions(at.URL)
	case Cluster:
		_, err = clusterOptions(at.URL)
	default:
		err = errKind
	}
	return err
}
