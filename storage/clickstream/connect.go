package clickstream

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Every error of a client reaches its caller. The library's own lines on stderr
// would only repeat it, unstructured and once for each connection of a pool. It
// is switched off before anybody has a client, because it is one switch for the
// process.
func init() { logging.Disable() }

// Kind is how the Redis behind a URL is run.
type Kind string

// The kinds. The stream's own promises are the same on each; what a failover may
// lose is not (docs/operations.md).
const (
	// Single is one server: redis://user:password@host:port/db.
	Single Kind = "single"
	// Sentinel is a master that sentinels know:
	// redis://sentinel:port/db?master_name=name&addr=sentinel:port&username=user&password=password.
	// A user and password before the host are the sentinels' own.
	Sentinel Kind = "sentinel"
	// Cluster is any of its nodes: redis://user:password@node:port?addr=node:port.
	Cluster Kind = "cluster"
)

// Endpoint says where a Redis is. An empty Kind is Single.
type Endpoint struct {
	URL  string
	Kind Kind
}

// Connect makes a client for one use on a request's path. What may have happened is
// never tried again inside it, because a second XADD is a second entry; it only
// follows what a Cluster says of where a key is. Deadlines of the context reach the
// socket; and a server that has failed five times in a row is left alone, but for one
// call at a time, half a second after the last, that sees whether it is back. On a
// Cluster that holds for each node by itself, so the shards of the others go on. Give
// the stream, the directory and the limits a client each, so that one of them being
// slow does not blind the others.
func Connect(at Endpoint) (redis.UniversalClient, error) {
	return at.connect(0, func(server *redis.Client) { server.AddHook(&breaker{now: time.Now}) })
}

// ConnectBlocking makes the client that a Reader blocks on, apart from all others and
// without the breaker. Each shard may hold one of its connections. Nothing depends on
// how long its reads block: the library lets the socket outwait each of them by ten
// seconds, because Redis may come back late (redis#12998).
func ConnectBlocking(at Endpoint) (redis.UniversalClient, error) {
	return at.connect(MaxShards, func(*redis.Client) {})
}

// connect makes the client that the kind asks for, with room for so many connections
// to each server (0: the library's ten, or on a Cluster five, for each processor),
// and prepares whatever speaks to one server.
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

// Check says what is wrong with an endpoint, without asking anybody and without
// quoting the URL, which may hold a password.
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
