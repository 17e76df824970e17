package collector

import (
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// Config is what a collector is told from outside. cmd/settings reads it from
// the environment.
type Config struct {
	// AllowHTTP accepts plain HTTP; for development.
	AllowHTTP bool
	// TrustedProxies may say who the client is and that it came over HTTPS.
	TrustedProxies []netip.Prefix
	// Stream is the Redis of the click stream, Cache that of limits and directory.
	Stream, Cache clickstream.Endpoint
	// HashKey, 32 bytes or more, keys the hashes of addresses, agents and limit
	// subjects. Every process of a deployment has the same.
	HashKey []byte
	// LimitTracking is N of "at most N in any 60 s" per public key.
	LimitTracking int64
	// Shards is the number of click streams.
	Shards int
	// JournalDir is where clicks go that the stream cannot take. It belongs to this
	// collector alone. Empty: no journal, such clicks are refused.
	JournalDir string
	// CountryDB is a MaxMind file (.mmdb) with countries, or cities, for the
	// record's country and region. Empty: neither is known.
	CountryDB string
	// Farewell is how long a stopping collector goes on answering, so that
	// balancers see it leave before its port closes.
	Farewell time.Duration
}
