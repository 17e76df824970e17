// Package edge converts settings to the configuration of a collector. It is separate from
// cmd/assemble, so that the binary of the collector does not contain the core.
package edge

import (
	"crypto/x509"

	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/collector"
)

// Config returns the configuration of a collector. redisRoots comes from
// settings.Redis.RedisRoots.
func Config(s settings.Collector, redisRoots func() *x509.CertPool) collector.Config {
	return collector.Config{
		AllowHTTP:      s.AllowHTTP,
		TrustedProxies: s.TrustedProxies,
		Stream:         s.Stream(redisRoots),
		Cache:          s.Cache(redisRoots),
		HashKey:        s.HashKeys.Keys().First(),
		LimitTracking:  s.Tracking,
		LimitVisitor:   s.Visitor,
		LimitTimeout:   s.LimitTimeout,
		Shards:         s.StreamShards,
		JournalDir:     s.JournalDir,
		CountryDB:      s.CountryDB,
		ShutdownDelay:  s.ShutdownDelay,
	}
}
