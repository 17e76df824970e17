package collector

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// Config configures a collector. Package cmd/edge fills it from the settings.
type Config struct {
	// AllowHTTP makes the collector accept requests over plain HTTP. It is meant for
	// development.
	AllowHTTP bool
	// TrustedProxies are the networks of proxies. The collector takes the client's
	// address and scheme from the headers that these proxies set.
	TrustedProxies []netip.Prefix
	// Stream is the Redis server with the click stream. Cache is the Redis server with
	// the rate limits and the edge directory.
	Stream, Cache clickstream.Endpoint
	// HashKey is the secret key for the hashes of addresses and user agents, and for the
	// hashes in the names of the Redis keys that count requests. It has at least 32 bytes
	// and is the same in every process of a deployment.
	HashKey []byte
	// LimitTracking is the number of requests that one public key may make in any period
	// of 60 seconds.
	LimitTracking int64
	// LimitVisitor is the number of requests that one client address may make with one public
	// key in any period of 60 seconds, at this collector. 0 means no limit.
	LimitVisitor int64
	// LimitTimeout is the longest time that a click waits for the rate limit in Redis.
	LimitTimeout time.Duration
	// Shards is the number of Redis streams over which the clicks are distributed.
	Shards int
	// JournalDir is the folder of the journal, which stores clicks while the stream does
	// not accept them. Each collector needs its own folder. If JournalDir is empty, there
	// is no journal, and clicks are refused while the stream does not accept them.
	JournalDir string
	// CountryDB is the path of a MaxMind file (.mmdb) with countries or cities. The
	// collector looks up the country and region of each click in this file. If CountryDB
	// is empty, clicks have no country or region.
	CountryDB string
	// ShutdownDelay is the time between the start of the shutdown and the closing of the
	// port. During this time the collector still serves requests, but reports that it is
	// not ready, so that load balancers stop sending requests to it.
	ShutdownDelay time.Duration
	// Now returns the time of Redis, so that all collectors give clicks the time of the same
	// clock. nil means time.Now.
	Now func() time.Time
	// Traces records spans of requests and of commands of Redis. nil means that nothing is
	// recorded.
	Traces Traces
}

// Traces is implemented by *tracing.Traces.
type Traces interface {
	// Handler returns a handler that records a span for each request for which traced returns
	// true.
	Handler(next http.Handler, traced func(*http.Request) bool) http.Handler
	// InstrumentRedis records a span for each command of a client that belongs to a recorded
	// request.
	InstrumentRedis(client redis.UniversalClient) error
}
