// Package collector is the HTTP service that registers clicks. It runs at the edge, near
// visitors. It receives clicks, stores them durably and then responds. It uses:
//
//   - the directory, a copy of the keys, referral codes and links in Redis
//   - the stream, the Redis stream from which the core ingests clicks into its database
//   - the journal, files on the collector's own disk that store clicks while the stream
//     is unavailable
//
// The collector writes each click as a record. Records of concurrent requests share a
// batch:
//
//	request ─▶ checks ─▶ record ─┐             ┌── write ──▶ stream ◀──┐
//	request ─▶ checks ─▶ record ─┼─▶ batch ─▶──┤                       │ replay
//	request ─▶ checks ─▶ record ─┘             └─ on error ─▶ journal ─┘
//
// Records that arrive while a batch is being written form the next batch. A busier
// collector therefore writes larger batches, and no request waits for a timer. If the
// stream does not accept a batch, the collector writes the batch to the journal. When the
// stream accepts batches again, the collector moves the records from the journal to the
// stream. When a visitor opens a short link, the collector writes the same kind of record
// in the same batches. It responds with a redirect to a URL that contains the click id.
//
// Guarantees: before the collector responds with 200, 201, or a redirect with a click id,
// the click is durable in the stream or in the journal. The collector never refuses a
// click because it cannot read the directory. In that case it accepts any key with a
// valid checksum, and the core looks up the key and the code when it ingests the click. A
// visitor who opens a known link reaches its target even if the click cannot be stored. If
// the directory cannot be read, a link is known if this process, or an earlier process with
// the same journal folder, read it in the last 24 hours.
//
// Limits: a click can be written to the stream more than once. A click may also be stored
// although the client got a 503 or no response. The core stores each click id only once.
// A request may propose the id of its click. If the client repeats the request with the
// same proposed id, it gets the same click id again. A collector remembers proposed ids
// for ten minutes and does not share them with other collectors.
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
	// Traces records spans of requests and Redis commands. nil means that nothing is
	// recorded.
	Traces Traces
}

// Traces is implemented by *tracing.Traces.
type Traces interface {
	// Handler returns a handler that records a span for each request for which traced returns
	// true.
	Handler(next http.Handler, traced func(*http.Request) bool) http.Handler
	// InstrumentRedis makes the given Redis client record a span for each command that it executes for a recorded
	// request.
	InstrumentRedis(client redis.UniversalClient) error
}
