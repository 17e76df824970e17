package assemble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/cmd/version"
	"github.com/tributary-hq/tributary/gateway"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/analytics"
	"github.com/tributary-hq/tributary/server/check"
	"github.com/tributary-hq/tributary/server/commission"
	conversionservice "github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/server/fx"
	"github.com/tributary-hq/tributary/server/instance"
	servermail "github.com/tributary-hq/tributary/server/mail"
	notificationservice "github.com/tributary-hq/tributary/server/notification"
	"github.com/tributary-hq/tributary/server/participant"
	privacyservice "github.com/tributary-hq/tributary/server/privacy"
	processorservice "github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/server/stats"
	"github.com/tributary-hq/tributary/server/upkeep"
	"github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/pgsession"
)

var queues = map[string]river.QueueConfig{
	river.QueueDefault:       {MaxWorkers: workers},
	affiliate.DirectoryQueue: {MaxWorkers: directoryWorkers},
	notification.MailQueue:   {MaxWorkers: mailWorkers},
	processor.Queue:          {MaxWorkers: processorWorkers},
	privacy.ExportQueue:      {MaxWorkers: exportWorkers},
}

// newWebhookClient returns the client that sends webhooks. It logs a warning if the
// settings allow private addresses.
func (c *Core) newWebhookClient() (*webhook.Client, error) {
	roots, err := c.cfg.WebhookRoots(c.files)
	if err != nil {
		return nil, err
	}
	if allowed := c.cfg.WebhookAllowCIDRs; len(allowed) > 0 {
		c.log.LogAttrs(context.Background(), slog.LevelWarn, "webhooks can be sent to private addresses",
			slog.String("setting", "TRIBUTARY_WEBHOOK_ALLOW_CIDRS"), slog.Any("cidrs", allowed))
	}
	return webhook.NewClient(webhook.ClientConfig{Allowed: c.cfg.WebhookAllowCIDRs, Roots: roots, Version: version.Release()}), nil
}

// buildWork creates the parts that do not serve requests: the jobs and the consumers of the
// click streams.
func (c *Core) buildWork(
	directories river.Worker[affiliate.SyncDirectory], mails *servermail.Worker, conversions *conversionservice.Service, services ...interface {
		AddWorkers(workers *river.Workers)
	},
) error {
	var err error
	if c.ingester, err = c.newIngester(c.cfg.HomeRegion, c.stream, c.blocking, c.cfg.StreamShards); err != nil {
		return err
	}
	for _, r := range c.regions {
		if r.ingester, err = c.newIngester(r.name, r.stream, r.blocking, c.cfg.RegionShards); err != nil {
			return err
		}
	}
	c.upkeep = upkeep.NewWorker(c.db, c.log, c.now)

	registered := river.NewWorkers()
	river.AddWorker(registered, c.upkeep)
	river.AddWorker(registered, directories)
	for _, service := range append(services, conversions) {
		service.AddWorkers(registered)
	}
	river.AddWorker(registered, participant.NewReviewWorker(c.db, c.now))
	river.AddWorker(registered, commission.NewSweepWorker(c.db, c.log, c.now))
	river.AddWorker(registered, stats.New(c.db, c.log, c.now))
	river.AddWorker(registered, analytics.NewWorker(c.db, c.log, c.now))
	river.AddWorker(registered, fx.New(c.db, c.cfg.FXFile, c.log, c.now))
	river.AddWorker(registered, check.New(c.db, c.log, c.clock.Machine))
	river.AddWorker(registered, mails)
	webhook.AddWorkers(registered, c.db, c.now)
	river.AddWorker(registered, notificationservice.NewPeriodWorker(c.db, c.now))
	river.AddWorker(registered, notificationservice.NewDigestWorker(c.db, c.now))

	periodic := []*river.PeriodicJob{
		upkeep.PeriodicJob(), commission.SweepJob(), stats.PeriodicJob(), analytics.PeriodicJob(), fx.PeriodicJob(), check.PeriodicJob(),
		notificationservice.DigestJob(), notificationservice.PeriodJob(),
	}
	periodic = append(periodic, processorservice.PeriodicJobs()...)
	periodic = append(periodic, privacyservice.PeriodicJobs()...)
	periodic = append(periodic, conversions.PeriodicJobs()...)

	config := &river.Config{
		Queues:               queues,
		ErrorHandler:         server.NewJobFailures(c.registry, queueNames()),
		Workers:              registered,
		PeriodicJobs:         periodic,
		RescueStuckJobsAfter: rescueAfter,
		FetchCooldown:        fetchCooldown,
		FetchPollInterval:    fetchPoll,
		Logger:               c.log,
	}
	pgsession.UseTime(config, c.clock.ServerTime)
	if c.jobs, err = c.db.WorkerClient(config); err != nil {
		return fmt.Errorf("job queue: %w", err)
	}
	return nil
}

// newInstance returns the service that describes this installation.
func (c *Core) newInstance() *instance.Service {
	console, portal := c.cfg.Apps()
	return instance.New(instance.Config{
		DB: c.db, Version: version.Release(), MerchantRegistration: c.cfg.MerchantRegistration, PartnerRegistration: c.cfg.PartnerRegistration,
		Mail: c.cfg.SMTPURL != "", ConsoleURL: console, PortalURL: portal, LinkURL: c.cfg.LinkURL,
	})
}

// logSetupCode logs the code with which the first workspace of the installation is created, if
// there is none. The code has no effect after the first workspace was created.
func (c *Core) logSetupCode(ctx context.Context) error {
	required, err := c.instance.SetupRequired(ctx)
	if !required || err != nil {
		return err
	}
	console, _ := c.cfg.Apps()
	code := account.SetupCode(c.cfg.HashKeys.Keys())
	c.log.LogAttrs(ctx, slog.LevelWarn, "the installation has no workspace; open the page and enter the code to create the first one",
		slog.String("setup_code", code), slog.String("page", console+"/setup#code="+code))
	return nil
}

// Run runs all parts until ctx ends or a part fails. Then it stops all parts.
func (c *Core) Run(ctx context.Context, listeners Listeners) error {
	// This creates the partition for today's clicks before ingestion starts, unless another
	// transaction locks the table of clicks.
	if err := c.upkeep.Run(ctx); err != nil {
		return err
	}
	if err := c.logSetupCode(ctx); err != nil {
		return err
	}
	parts := map[string]func(context.Context) error{
		"TLS files": c.files.Run,
		"clock":     func(ctx context.Context) error { c.clock.Run(ctx); return nil },
		"gRPC":      func(ctx context.Context) error { return c.grpc.Serve(ctx, listeners.GRPC) },
		"metrics": func(ctx context.Context) error {
			return serveMetrics(ctx, listeners.Metrics, c.registry, c.health.Ready, c.cfg.ShutdownDelay, c.log)
		},
		"ingestion": func(ctx context.Context) error { c.ingester.Run(ctx); return nil },
		"durability": func(ctx context.Context) error {
			clickstream.CheckDurability(ctx, c.stream, c.log)
			<-ctx.Done()
			return nil
		},
		"directory":     c.keeper.Keep,
		"webhooks":      func(ctx context.Context) error { c.sender.Run(ctx); return nil },
		"notifications": func(ctx context.Context) error { c.distributor.Run(ctx); return nil },
		"streams":       func(ctx context.Context) error { c.hub.Run(ctx); return nil },
	}
	maps.Copy(parts, c.regionParts())
	if listeners.API != nil {
		handler, err := c.Gateway()
		if err != nil {
			return err
		}
		tlsConfig, err := c.cfg.ServerTLS(c.files)
		if err != nil {
			return err
		}
		parts["API"] = func(ctx context.Context) error {
			return serveHTTP(ctx, listeners.API, httpedge.NewServer(c.traces.Handler(handler, gateway.Traced), c.log), tlsConfig, c.cfg.ShutdownDelay)
		}
	}
	// The jobs do not use ctx, because they must stop after the requests that insert
	// jobs.
	if err := c.jobs.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("job queue: %w", err)
	}
	err := runAll(ctx, parts)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobStopTimeout)
	defer cancel()
	return errors.Join(err, c.jobs.Stop(stop))
}

// Close closes the connections. The caller must not call it before Run has returned.
func (c *Core) Close() {
	for _, client := range []redis.UniversalClient{c.stream, c.blocking, c.cache, c.limits} {
		if client != nil {
			_ = client.Close()
		}
	}
	for _, r := range c.regions {
		r.close()
	}
	if c.webhookClient != nil {
		c.webhookClient.Close()
	}
	if c.db != nil {
		c.db.Close()
	}
	if c.erasureLog != nil {
		_ = c.erasureLog.Close()
	}
	c.traces.Close()
}

func (c *Core) registerGauges() {
	c.registry.MustRegister(
		poolCollector(c.db.Pools()),
		clickstream.PoolCollector{"stream": c.stream, "stream_blocking": c.blocking, "cache": c.cache, "limits": c.limits},
		analytics.NewGauges(c.db, c.now),
		check.NewGauges(c.db, c.now),
		server.NewJobGauges(c.db, queueNames(), c.now),
		webhook.NewGauges(c.db, c.now),
	)
}

func queueNames() []string { return slices.Sorted(maps.Keys(queues)) }

var (
	poolConnections = prometheus.NewDesc("tributary_postgres_connections",
		"Connections to Postgres, by pool and state: used, idle or opening.", []string{"pool", "state"}, nil)
	poolMaximum = prometheus.NewDesc("tributary_postgres_connections_max",
		"Maximum number of connections, by pool.", []string{"pool"}, nil)
	poolWaits = prometheus.NewDesc("tributary_postgres_connection_waits_total",
		"Statements and transactions that found no idle connection, by pool.", []string{"pool"}, nil)
	poolWaitSeconds = prometheus.NewDesc("tributary_postgres_connection_wait_seconds_total",
		"Time for which statements and transactions waited for a connection, by pool.", []string{"pool"}, nil)
)

// poolCollector is a prometheus.Collector for the connection pools to Postgres. The keys
// are the names of the pools, which must be unique in a registry.
type poolCollector map[string]*pgxpool.Pool

// Describe implements prometheus.Collector. It describes no metric, so that a process can
// register several collectors.
func (poolCollector) Describe(chan<- *prometheus.Desc) {}

func (c poolCollector) Collect(values chan<- prometheus.Metric) {
	for name, pool := range c {
		stat := pool.Stat()
		for state, n := range map[string]int32{"used": stat.AcquiredConns(), "idle": stat.IdleConns(), "opening": stat.ConstructingConns()} {
			values <- prometheus.MustNewConstMetric(poolConnections, prometheus.GaugeValue, float64(n), name, state)
		}
		values <- prometheus.MustNewConstMetric(poolMaximum, prometheus.GaugeValue, float64(stat.MaxConns()), name)
		values <- prometheus.MustNewConstMetric(poolWaits, prometheus.CounterValue, float64(stat.EmptyAcquireCount()), name)
		values <- prometheus.MustNewConstMetric(poolWaitSeconds, prometheus.CounterValue, stat.EmptyAcquireWaitTime().Seconds(), name)
	}
}
