// Package edge turns settings into the configuration of a collector. It is apart from
// cmd/assemble so that the collector's binary does not link the core.
package edge

import (
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/collector"
)

// Config returns the collector's part of its command's settings.
func Config(s settings.Collector) collector.Config {
	return collector.Config{
		AllowHTTP:      s.AllowHTTP,
		TrustedProxies: s.TrustedProxies,
		Stream:         s.Stream(),
		Cache:          s.Cache(),
		HashKey:        s.HashKey,
		LimitTracking:  s.Tracking,
		LimitTimeout:   s.LimitTimeout,
		Shards:         s.StreamShards,
		JournalDir:     s.JournalDir,
		CountryDB:      s.CountryDB,
		ShutdownDelay:  s.ShutdownDelay,
	}
}
