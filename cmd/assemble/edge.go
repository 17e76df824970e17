package assemble

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/settings"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/directory"
	"github.com/tributary-hq/tributary/server/ingest"
	"github.com/tributary-hq/tributary/storage/clickstream"
	edge "github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/visitors"
)

// tailLimit is the maximum number of entries that are read from the end of the click
// stream to find a click that is not in the database yet. It limits the time of a report.
const tailLimit = 2000

// keeper updates the edge directory in Redis.
type keeper = directory.Keeper[edge.Rebuild, *edge.Batch]

// newIngester returns the ingester of a region, which reads its click stream and stores the
// clicks. It is a consumer in the consumer group that all cores share. All regions have the
// same dead-letter stream, in the home region.
func (c *Core) newIngester(region string, stream, blocking redis.UniversalClient, shards int) (*ingest.Ingester, error) {
	name, err := consumerName(c.cfg.GRPCListen)
	if err != nil {
		return nil, err
	}
	return ingest.New(ingest.Config{}, ingest.Deps{
		Reader: clickstream.NewReader(stream, blocking, clickstream.ReaderConfig{
			Shards:      shards,
			Consumer:    name,
			DeadLetters: c.stream,
		}),
		DB:       c.db,
		Visitors: visitors.New(c.cache),
		Log:      c.log.With("region", region),
		Registry: prometheus.WrapRegistererWith(prometheus.Labels{"region": region}, c.registry),
		Now:      c.now,
		StoredAt: c.clock.At,
		Tracer:   c.traces.Inner.Tracer(tracerName),
	}), nil
}

// consumerName returns the name of this process in the consumer group of the click
// stream. The name is the same after a restart, so that the process finds the entries
// that it has not acknowledged. Two cores on the same host have different names.
func consumerName(listen string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read the name of this host: %w", err)
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("TRIBUTARY_GRPC_LISTEN: %w", err)
	}
	return host + ":" + port, nil
}

// tail finds clicks that are in the click stream but not in the database yet.
type tail struct {
	stream *clickstream.Tail
	clock  *clock.Clock
}

// Find implements conversion.Tail.
func (t tail) Find(ctx context.Context, id affiliate.ClickID) (click.Click, bool, error) {
	found, storedAt, err := t.stream.Find(ctx, id, tailLimit)
	if err != nil || found == nil {
		return click.Click{}, false, err
	}
	click, ok := ingest.FromEdge(found, t.clock.At(storedAt), t.clock.Now())
	return click, ok, nil
}

// signingKeys returns the public keys with which collectors verify access tokens.
func signingKeys(tokens *server.TokenKeys) *edgev1.SigningKeys {
	public := tokens.Public()
	keys := &edgev1.SigningKeys{}
	for _, kid := range slices.Sorted(maps.Keys(public)) {
		keys.Keys = append(keys.Keys, &edgev1.SigningKey{Kid: kid, Ed25519PublicKey: public[kid]})
	}
	return keys
}

// hashKeyFingerprints returns the fingerprints with which collectors compare their first hash
// key. Each core writes its own list, and the last one remains. In a rotation, cores with
// different lists run at the same time, but each list contains the first key of every
// collector: a new key is the first one of a collector only after all cores have it, and the
// old key is removed after all collectors have the new one first.
func hashKeyFingerprints(keys settings.HashKeys) *edgev1.HashKeys {
	list := &edgev1.HashKeys{}
	for _, key := range keys.SettingKeys().Fingerprints() {
		list.Fingerprints = append(list.Fingerprints, key.Fingerprint)
	}
	return list
}
