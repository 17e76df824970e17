package clickstream

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Socket bounds of every client on a request's path (RELIABILITY.md 2): the
// library's own are too long for an edge that has to answer.
const (
	dialTimeout = 500 * time.Millisecond
	ioTimeout   = time.Second
	poolTimeout = 250 * time.Millisecond

	// A blocking read that found nothing may come back late; the socket has to
	// outwait it.
	blockingSlack = 10 * time.Second
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
	// redis://user:password@sentinel:port/db?master_name=name&addr=sentinel:port.
	Sentinel Kind = "sentinel"
	// Cluster is any of its nodes: redis://user:password@node:port?addr=node:port.
	Cluster Kind = "cluster"
)

// Endpoint says where a Redis is. An empty Kind is Single.
type Endpoint struct {
	URL  string
	Kind Kind
}

// Connect makes a client for one use on a request's path. Nothing is ever
// retried inside it, because a retried XADD is a second entry; deadlines of the
// context reach the socket; and after five failures in a row it fails at once,
// letting one call through each half second to see whether Redis is back. Give
// the stream, the directory and the limits a client each, so that one of them
// being slow does not blind the others.
func Connect(at Endpoint) (redis.UniversalClient, error) {
	options, err := parse(at.URL)
	if err != nil {
		return nil, err
	}
	options.ReadTimeout = ioTimeout
	client := redis.NewClient(options)
	client.AddHook(&breaker{now: time.Now})
	return client, nil
}

// ConnectBlocking makes the client that a Reader blocks on, apart from all
// others and without the breaker.
func ConnectBlocking(at Endpoint, block time.Duration) (redis.UniversalClient, error) {
	options, err := parse(at.URL)
	if err != nil {
		return nil, err
	}
	options.ReadTimeout = block + blockingSlack
	return redis.NewClient(options), nil
}

func parse(url string) (*redis.Options, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		// The library's error may quote the URL, which holds the password.
		return nil, errors.New("the Redis URL must look like redis://user:password@host:port/db")
	}
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true
	options.DialTimeout = dialTimeout
	options.DialerRetries = 1
	options.WriteTimeout = ioTimeout
	options.PoolTimeout = poolTimeout
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return options, nil
}
