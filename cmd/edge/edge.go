// Package edge converts settings to the configuration of a collector, and compares its clock
// with that of Redis and its hash key with those of the core. It is separate from
// cmd/assemble, so that the binary of the collector does not contain the core.
package edge

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/collector"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
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

const (
	// hashKeyInterval is the time between two comparisons of the hash key.
	hashKeyInterval = time.Minute
	// hashKeyRetryInterval replaces hashKeyInterval while the key is not known to be right.
	hashKeyRetryInterval = 5 * time.Second
	// hashKeyTimeout is the time limit of a comparison.
	hashKeyTimeout = time.Second
)

// errHashKey means that the collector makes digests with a key that the cores do not have.
var errHashKey = errors.New(settings.HashKeySetting + ": the first key is not among the keys of the cores; " +
	"set the same keys as for the cores; if the keys are new, restart the cores first")

// HashKeyCheck compares the first hash key of a collector with the keys of the cores, whose
// fingerprints are in the edge directory. Create it with CompareHashKey.
type HashKeyCheck struct {
	fingerprint []byte
	client      redis.UniversalClient
	directory   *directory.Reader
	log         *slog.Logger
	wrong       prometheus.Gauge
	result      comparison // last result; noResult until Redis has responded
}

// comparison is the result of a comparison.
type comparison int

const (
	// noResult means that Redis does not respond, or that Redis has no list of keys because
	// it has lost its data.
	noResult comparison = iota
	rightKey
	wrongKey
)

// CompareHashKey registers the metric and compares the first of the keys. It returns an error
// if the key is wrong. Without a list of the keys of the cores, it returns no error, because a
// collector also starts without Redis.
func CompareHashKey(
	ctx context.Context, keys settings.HashKeys, cache clickstream.Endpoint, log *slog.Logger, registry prometheus.Registerer,
) (*HashKeyCheck, error) {
	client, err := clickstream.Connect(cache)
	if err != nil {
		return nil, err
	}
	k := &HashKeyCheck{
		fingerprint: keys.SettingKeys().Fingerprints()[0].Fingerprint,
		client:      client, directory: directory.NewReader(client, time.Now), log: log,
		wrong: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tributary_collector_hash_key_wrong",
			Help: "1 if the first hash key was not among the keys of the cores at the last comparison, otherwise 0.",
		}),
	}
	registry.MustRegister(k.wrong)
	if k.result = k.compare(ctx); k.result == wrongKey {
		return nil, errors.Join(errHashKey, client.Close())
	}
	return k, nil
}

// Run compares the key once a minute until ctx ends, and every five seconds while it is not
// known to be right. It logs an error when the key becomes wrong.
func (k *HashKeyCheck) Run(ctx context.Context) {
	for {
		wait := hashKeyInterval
		if k.result != rightKey {
			wait = hashKeyRetryInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		k.compareAgain(ctx)
	}
}

// Close closes the connection. The caller must not call it before Run has returned.
func (k *HashKeyCheck) Close() error { return k.client.Close() }

// compareAgain compares the key, updates the metric and logs a change. The last result
// remains if there is no new one.
func (k *HashKeyCheck) compareAgain(ctx context.Context) {
	last, result := k.result, k.compare(ctx)
	if result == noResult || result == last {
		return
	}
	k.result = result
	switch {
	case result == wrongKey:
		k.wrong.Set(1)
		k.log.LogAttrs(ctx, slog.LevelError, "the hash key is wrong", slog.Any("error", errHashKey))
	case last == wrongKey:
		k.wrong.Set(0)
		k.log.LogAttrs(ctx, slog.LevelInfo, "the hash key is among the keys of the cores again")
	}
}

func (k *HashKeyCheck) compare(ctx context.Context) comparison {
	ctx, cancel := context.WithTimeout(ctx, hashKeyTimeout)
	defer cancel()
	keys, state := k.directory.HashKeys(ctx)
	switch {
	case state != directory.Found:
		return noResult
	case slices.ContainsFunc(keys.GetFingerprints(), func(known []byte) bool { return bytes.Equal(known, k.fingerprint) }):
		return rightKey
	}
	return wrongKey
}
