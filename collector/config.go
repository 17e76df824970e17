package collector

import "net/netip"

// Config is what a collector is told from outside. cmd/settings reads it from
// the environment.
type Config struct {
	// AllowHTTP accepts plain HTTP; for development.
	AllowHTTP bool
	// TrustedProxies may say who the client is and that it came over HTTPS.
	TrustedProxies []netip.Prefix
	// RedisURL holds the click stream.
	RedisURL string
	// CacheRedisURL holds limits and the directory.
	CacheRedisURL string
	// HashKey, 32 bytes or more, keys the hashes of addresses, agents and limit
	// subjects. Every process of a deployment has the same.
	HashKey []byte
	// LimitTracking is N of "at most N in any 60 s" per public key.
	LimitTracking int64
	// Shards is the number of click streams.
	Shards int
}
