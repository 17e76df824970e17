package assemble

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/server/directory"
	"github.com/tributary-hq/tributary/server/ingest"
	"github.com/tributary-hq/tributary/storage/clickstream"
	edge "github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/ratelimit"
)

// region is what the core does for a region other than the home region: it reads the click
// stream, keeps the edge directory up to date, and lends tokens of the rate limits. The
// core's requests and jobs never wait for the region.
type region struct {
	name string
	// The clients of the Redis of the region, one for each use.
	stream, blocking, directory, limits redis.UniversalClient

	ingester *ingest.Ingester
	keeper   *keeper
	exchange *ratelimit.Exchange
}

func (c *Core) connectRegions(roots func() *x509.CertPool) error {
	for _, configured := range c.cfg.Others {
		r := &region{name: configured.Name}
		c.regions = append(c.regions, r)
		endpoint := c.cfg.Region(configured, roots)
		var err error
		for _, client := range []*redis.UniversalClient{&r.stream, &r.directory, &r.limits} {
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

// buildRegions creates the keepers and the exchanges of the other regions. config is the
// configuration of the keeper of the home region.
func (c *Core) buildRegions(config directory.Config) {
	reached := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tributary_region_reached_timestamp_seconds",
		Help: "Time at which this core last exchanged rate limits with the Redis of another region, in Unix time; 0 if it has not reached the region since its start.",
	}, []string{"region"})
	c.registry.MustRegister(reached)
	for _, r := range c.regions {
		log := c.log.With("region", r.name)
		config.Log = log
		r.keeper = directory.New(c.store, edge.NewWriter(r.directory), config)
		gauge := reached.WithLabelValues(r.name)
		r.exchange = ratelimit.NewExchange(ratelimit.ExchangeConfig{
			Region: r.name, Home: c.limits, Away: r.limits, Regions: len(c.regions) + 1, Limit: c.cfg.Tracking,
			Reached: gauge.SetToCurrentTime, Log: log, Now: c.now,
		})
		c.registry.MustRegister(clickstream.PoolCollector{
			r.name + "_stream": r.stream, r.name + "_stream_blocking": r.blocking, r.name + "_directory": r.directory, r.name + "_limits": r.limits,
		})
	}
}

// directories returns what writes changes to the edge directories of all regions.
func (c *Core) directories() *directory.Regions[edge.Rebuild, *edge.Batch] {
	others := make(map[string]*keeper, len(c.regions))
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
		parts["limits of "+r.name] = func(ctx context.Context) error { r.exchange.Run(ctx); return nil }
		parts["durability of "+r.name] = func(ctx context.Context) error {
			clickstream.CheckDurability(ctx, r.stream, c.log.With("region", r.name))
			<-ctx.Done()
			return nil
		}
	}
	if len(c.regions) == 0 {
		parts["limits of one region"] = func(ctx context.Context) error {
			if err := ratelimit.UseOneRegion(ctx, c.limits); err != nil {
				c.log.LogAttrs(ctx, slog.LevelWarn, "the collectors may still divide the rate limits between regions", slog.Any("error", err))
			}
			<-ctx.Done()
			return nil
		}
	}
	return parts
}

func (r *region) close() {
	for _, client := range []redis.UniversalClient{r.stream, r.blocking, r.directory, r.limits} {
		if client != nil {
			_ = client.Close()
		}
	}
}
