package collector

import (
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// Config configures a collector. cmd/edge makes it of the settings.
type Config struct {
	// AllowHTTP accepts plain HTTP; for development.
	AllowHTTP bool
	// TrustedProxies are networks whose headers name the client's address and scheme.
	TrustedProxies []netip.Prefix
	// Stream is the Redis of the click stream, Cache the Redis of limits and directory.
	Stream, Cache clickstream.Endpoint
	// HashKey keys the hashes of addresses, agents and limit subjects. It has 32 bytes
	// or more and is the same in every process of a deployment.
	HashKey []byte
	// LimitTracking is N of "at most N in any 60 s" per public key.
	LimitTracking int64
	// LimitTimeout is how long a click waits for Redis to count it.
	LimitTimeout time.Duration
	// Shards is the number of click streams.
	Shards int
	// JournalDir is the folder of the journal, which takes clicks while the stream does
	// not. One collector uses it. Empty means no journal: such clicks are refused.
	JournalDir string
	// CountryDB is a MaxMind file (.mmdb) with countries or cities, for the country and
	// region of a click. Empty means that clicks have neither.
	CountryDB string
	// ShutdownDelay is the shutdown delay: how long a stopping collector still serves, so
	// that balancers see that it is not ready before its port closes.
	ShutdownDelay time.Duration
}
