package clickstream

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// The library logs each error to stderr, unstructured and once per connection of a pool.
// The callers receive the same errors and log them. The library's setting is global, so
// init disables the logging before the first client exists.
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

// Endpoint is the address of a Redis deployment. An empty Kind means Single.
type Endpoint struct {
	URL  string
	Kind Kind
}

// Connect returns a client for commands that requests wait for. The client never repeats
// a command that may have been executed, because a second XADD would append a second
// entry. It only follows the redirections of a Cluster. Deadlines of the context apply to
// the socket.
//
// The client has a circuit breaker. After five failures in a row, the server receives
// only one command at a time, with a pause of half a second, until a command succeeds. On
// a Cluster each node has its own breaker, so the shards on other nodes keep working.
//
// The click stream, the directory and the rate limits must each use a separate client, so
// that a slow one does not delay the others.
func Connect(at Endpoint) (redis.UniversalClient, error) {
	return at.connect(0, func(server *redis.Client) { server.AddHook(&breaker{now: time.Now}) })
}

// ConnectBlocking returns the client for the blocking reads of a Reader. The client has
// no circuit breaker and can open one connection per shard. The library makes the socket
// timeout of a blocking read ten seconds longer than its block time, because Redis may
// respond late (redis#12998).
func ConnectBlocking(at Endpoint) (redis.UniversalClient, error) {
	return at.connect(MaxShards, func(*redis.Client) {})
}

// connect returns a client for the kind of the endpoint. minPoolSize is the minimum size
// of the connection pool to each server. The library's default is ten per processor, or
// five on a Cluster. connect calls prepare with the client of each server.
func (at Endpoint) connect(minPoolSize int, prepare func(server *redis.Client)) (redis.UniversalClient, error) {
	switch at.Kind {
	case Single, "":
		options, err := singleOptions(at.URL)
		if err != nil {
			return nil, err
		}
		options.PoolSize = max(options.PoolSize, minPoolSize)
		client := redis.NewClient(options)
		prepare(client)
		return client, nil
	case Sentinel:
		options, err := sentinelOptions(at.URL)
		if err != nil {
			return nil, err
		}
		options.PoolSize = max(options.PoolSize, minPoolSize)
		client := redis.NewFailoverClient(options)
		prepare(client)
		client.AddHook(sentinelErrorHook{})
		return client, nil
	case Cluster:
		options, err := clusterOptions(at.URL)
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
