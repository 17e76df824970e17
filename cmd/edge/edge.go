// Package edge converts settings to the configuration of a collector, and compares its clock
// with that of Redis and its hash key with those of the core. It is separate from
// cmd/assemble, so that the binary of the collector does not contain the core.
package edge

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/collector"
	"github.com/tributary-hq/tributary/storage/clickstream"
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

// CompareClock compares the clock with that of the click stream's Redis. Without Redis it only
// logs a warning, because a collector with a journal accepts clicks. The caller closes the
// connection after the clock's Run has returned.
func CompareClock(ctx context.Context, process *clock.Clock, stream clickstream.Endpoint, log *slog.Logger, registry prometheus.Registerer) (io.Closer, error) {
	client, err := clickstream.Connect(stream)
	if err != nil {
		return nil, err
	}
	server := clock.Server{Name: "Redis", Time: func(ctx context.Context) (time.Time, error) { return client.Time(ctx).Result() }}
	if err := process.Compare(ctx, server, log, registry); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}
