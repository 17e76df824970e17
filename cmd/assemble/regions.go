package assemble

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"time"

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

// reachInterval is the time between two checks of whether a region can be reached.
const reachInterval = 5 * time.Second

// region is a region other than the home region. The core reads the click stream of the region
// and keeps the edge directory of the region up to date. The core's requests and jobs never
// wait for the region.
type region struct {
	name string
	// The clients of the Redis of the region, one for each use.
	stream, blocking, directory redis.UniversalClient

	ingester *ingest.Ingester
	keeper   *directory.Keeper
	reached  prometheus.Gauge
}

func (c *Core) connectRegions(roots func() *x509.CertPool) error {
	for _, configured := range c.cfg.Others {
		r := &region{name: configured.Name}
		c.regions = append(c.regions, r)
		endpoint := c.cfg.Region(configured, roots)
		var err error
		for _, client := range []*redis.UniversalClient{&r.stream, &r.directory} {
			if *client, err = clickstream.Connect(endpoint); err != nil {
				return fmt.Errorf("TRIBUTARY_REGIONS: region %s: %w", r.name, err)
			}
		}
		if r.blocking, err = clickstream.ConnectBlocking(endpoint); err != nil {
			return fmt.Errorf("TRIBUTARY_REGIONS: region %s: %w", r.name, err)
		}
	}
	return nil
}

// buildRegions creates the keepers and the metrics of the other regions. config is the
// configuration of the keeper of the home region.
func (c *Core) buildRegions(config directory.Config) {
	reached := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tributary_region_reached_timestamp_seconds",
		Help: "Time at which the Redis of another region last responded to this core, in Unix time; 0 if it has not responded since the start of the core.",
	}, []string{"region"})
	c.registry.MustRegister(reached)
	for _, r := range c.regions {
		config.Log = c.log.With("region", r.name)
		r.keeper = directory.New(c.db, edge.NewWriter(r.directory), config)
		r.reached = reached.WithLabelValues(r.name)
		c.registry.MustRegister(clickstream.PoolCollector{
			r.name + "_stream": r.stream, r.name + "_stream_blocking": r.blocking, r.name + "_directory": r.directory,
		})
	}
}

func (c *Core) directories() *directory.Regions {
	others := make(map[string]*directory.Keeper, len(c.regions))
	for _, r := range c.regions {
		others[r.name] = r.keeper
	}
	return directory.NewRegions(c.keeper, others)
}

// regionParts returns the parts of the process that work for other regions.
func (c *Core) regionParts() map[string]func(context.Context) error {
	parts := make(map[string]func(context.Context) error)
	for _, r := range c.regions {
		parts["ingestion from "+r.name] = func(ctx context.Context) error { r.ingester.Run(ctx); return nil }
		parts["directory of "+r.name] = r.keeper.Keep
		parts["reachability of "+r.name] = func(ctx context.Context) error { r.measureReachability(ctx); return nil }
		parts["durability of "+r.name] = func(ctx context.Context) error {
			clickstream.CheckDurability(ctx, r.stream, c.log.With("region", r.name))
			<-ctx.Done()
			return nil
		}
	}
	return parts
}

// measureReachability sets the metric of the region each time its Redis responds, until ctx
// ends.
func (r *region) measureReachability(ctx context.Context) {
	ticker := time.NewTicker(reachInterval)
	defer ticker.Stop()
	for {
		if r.stream.Ping(ctx).Err() == nil {
			r.reached.SetToCurrentTime()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (r *region) close() {
	for _, client := range []redis.UniversalClient{r.stream, r.blocking, r.directory} {
		if client != nil {
			_ = client.Close()
		}
	}
}

// tailLimit is the maximum number of entries that are read from the end of the click
// stream to find a click that is not in the database yet. It limits the time of a report.
const tailLimit = 2000

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
// key. During a rotation, cores with different keys overwrite each other's list, but each list
// contains the first key of every collector: a collector gets a new first key after all cores
// have it, and a core loses the old key after all collectors have lost it.
func hashKeyFingerprints(keys settings.HashKeys) *edgev1.HashKeys {
	list := &edgev1.HashKeys{}
	for _, key := range keys.SettingKeys().Fingerprints() {
		list.Fingerprints = append(list.Fingerprints, key.Fingerprint)
	}
	return list
}
