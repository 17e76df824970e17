// Package assemble creates the core and the gateway from their parts: services, stores,
// job queue and servers. The commands and the tests of the whole system use it, so that
// they run the same composition.
//
// It guarantees that a process stops if one of its parts fails. It also guarantees the
// order of the shutdown. The parts that receive requests and clicks stop first. The jobs
// stop after them, because requests can insert jobs. The connections close last.
package assemble

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/gateway"
	"github.com/tributary-hq/tributary/gateway/site"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/account"
	"github.com/tributary-hq/tributary/server/analytics"
	"github.com/tributary-hq/tributary/server/attribution"
	"github.com/tributary-hq/tributary/server/branding"
	"github.com/tributary-hq/tributary/server/commission"
	conversionservice "github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/server/customer"
	"github.com/tributary-hq/tributary/server/directory"
	"github.com/tributary-hq/tributary/server/fraud"
	"github.com/tributary-hq/tributary/server/health"
	"github.com/tributary-hq/tributary/server/ingest"
	"github.com/tributary-hq/tributary/server/instance"
	"github.com/tributary-hq/tributary/server/ledger"
	"github.com/tributary-hq/tributary/server/link"
	servermail "github.com/tributary-hq/tributary/server/mail"
	notificationservice "github.com/tributary-hq/tributary/server/notification"
	"github.com/tributary-hq/tributary/server/participant"
	"github.com/tributary-hq/tributary/server/partner"
	"github.com/tributary-hq/tributary/server/payout"
	"github.com/tributary-hq/tributary/server/portal"
	privacyservice "github.com/tributary-hq/tributary/server/privacy"
	"github.com/tributary-hq/tributary/server/privacy/buyer"
	"github.com/tributary-hq/tributary/server/privacy/export"
	processorservice "github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/server/processor/stripe"
	"github.com/tributary-hq/tributary/server/program"
	"github.com/tributary-hq/tributary/server/promocode"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/server/search"
	"github.com/tributary-hq/tributary/server/servicetoken"
	"github.com/tributary-hq/tributary/server/testmode"
	"github.com/tributary-hq/tributary/server/upkeep"
	"github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/server/workspace"
	"github.com/tributary-hq/tributary/storage/clickstream"
	edge "github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/feedsignal"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/visitors"
)

const (
	// workers and directoryWorkers are the numbers of jobs of the default queue and of the
	// directory queue that a process runs at the same time. Their sum is much less than the
	// constant connections, so that requests find free connections.
	workers          = 20
	directoryWorkers = 4
	// mailWorkers is the number of mails that a process sends at the same time.
	mailWorkers = 8
	// processorWorkers is the number of events of payment processors that a process applies
	// at the same time. It is small, so that a burst of events does not slow down requests.
	processorWorkers = 4
	// exportWorkers is the number of large exports that a process makes at the same time. Each
	// uses two database connections.
	exportWorkers = 2
	// connections is the maximum number of connections in the pool that requests, jobs
	// and ingestion share.
	connections = 48
	// rescueAfter is the time after which the jobs of a crashed process run again. It is
	// longer than any job runs, so that no running job is started a second time.
	rescueAfter = 6 * time.Minute
	// fetchPoll is the time after which a process reads the job queue even without a
	// notification of a new job, because there are at most ten notifications per second and
	// a change must reach the edge directory within a second. fetchCooldown is the minimum
	// time between two reads.
	fetchPoll     = 200 * time.Millisecond
	fetchCooldown = 20 * time.Millisecond
	// jobStopTimeout is the maximum time for running jobs to end when the process stops.
	jobStopTimeout = 15 * time.Second
)

// Core is the gRPC core with all other parts of its process.
type Core struct {
	// Site is the site that a gateway in the process of the core serves. Default: the pages
	// of package web.
	Site *site.Site

	cfg    settings.Core
	files  *certificates.Files
	log    *slog.Logger
	clock  *clock.Clock
	now    func() time.Time // clock.Now
	health *health.Service
	// instance describes this installation.
	instance *instance.Service

	registry *prometheus.Registry
	traces   *tracing.Traces
	db       *postgres.DB
	stream   redis.UniversalClient // the Redis of the click stream
	blocking redis.UniversalClient // the same Redis as stream, for reads that wait for new entries
	cache    redis.UniversalClient // the Redis of the edge directory and the rate limits
	limits   redis.UniversalClient // the same Redis as cache, for the rate limits, which wait for a short time only

	grpc          *server.Server
	jobs          *river.Client[pgx.Tx]
	upkeep        *upkeep.Worker
	ingester      *ingest.Ingester
	keeper        *directory.Keeper
	regions       []*region // the other regions
	webhookClient *webhook.Client
	sender        *webhook.Sender
	distributor   *notificationservice.Distributor
	hub           *notificationservice.Hub
	erasureLog    *privacyservice.FileLog // nil: no log
}

// NewCore connects to the database and to Redis and creates all parts. Run starts them. The
// caller must call Close. NewCore returns an error if a migration is missing in the database
// (postgres.Migrate). It adds the TLS files of the settings to the given files. It compares the
// clock with the clock of Postgres, and the keys with the fingerprints in Postgres (CheckKeys).
func NewCore(ctx context.Context, cfg settings.Core, files *certificates.Files, log *slog.Logger, process *clock.Clock) (*Core, error) {
	c := &Core{cfg: cfg, files: files, log: log, clock: process, now: process.Now, registry: private.NewRegistry()}
	c.registry.MustRegister(files)
	var err error
	if c.traces, err = tracing.Open(cfg.Traces, "tributary-core", c.registry, log); err != nil {
		return nil, err
	}
	if err := c.connect(ctx); err != nil {
		c.Close()
		return nil, err
	}
	if err := c.build(); err != nil {
		c.Close()
		return nil, err
	}
	if err := CheckKeys(ctx, c.db, coreKeys(cfg)...); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Core) connect(ctx context.Context) error {
	schema, err := postgres.CheckSchema(ctx, c.cfg.DatabaseURL)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if schema.Newer() {
		c.log.LogAttrs(ctx, slog.LevelWarn, "the schema is newer than this core: upgrade the core",
			slog.Int64("schema", schema.Database), slog.Int64("known", schema.Known))
	}
	if c.db, err = postgres.Open(ctx, postgres.Config{
		URL: c.cfg.DatabaseURL, MaxConns: connections, ErasureKeys: privacy.NewErasureKeys(c.cfg.HashKeys.Keys()), Tracer: statementTracer(c.traces),
	}); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if err := c.clock.Compare(ctx, clock.Server{Name: "Postgres", Time: c.db.Time}, c.log, c.registry); err != nil {
		return err
	}
	roots, err := c.cfg.RedisRoots(c.files)
	if err != nil {
		return err
	}
	if c.stream, err = clickstream.Connect(c.cfg.Stream(roots)); err != nil {
		return fmt.Errorf("TRIBUTARY_REDIS_URL: %w", err)
	}
	if c.blocking, err = clickstream.ConnectBlocking(c.cfg.Stream(roots)); err != nil {
		return fmt.Errorf("TRIBUTARY_REDIS_URL: %w", err)
	}
	if c.cache, err = clickstream.Connect(c.cfg.Cache(roots)); err != nil {
		return fmt.Errorf("TRIBUTARY_CACHE_REDIS_URL: %w", err)
	}
	if c.limits, err = clickstream.Connect(c.cfg.Cache(roots)); err != nil {
		return fmt.Errorf("TRIBUTARY_CACHE_REDIS_URL: %w", err)
	}
	for _, client := range []redis.UniversalClient{c.stream, c.cache, c.limits} { // not blocking, which no request uses
		if err := c.traces.InstrumentRedis(client); err != nil {
			return err
		}
	}
	return c.connectRegions(roots)
}

func (c *Core) build() error {
	tokens, err := server.ParseTokenKeys(c.cfg.JWTKeys, c.now)
	if err != nil {
		return fmt.Errorf("TRIBUTARY_JWT_KEYS: %w", err)
	}
	grpcTLS, err := c.cfg.GRPCTLS(c.files)
	if err != nil {
		return err
	}

	hashKeys := c.cfg.HashKeys.Keys()
	conversions := conversionservice.New(conversionservice.Config{
		DB:       c.db,
		Tail:     tail{clickstream.NewTail(c.stream, c.cfg.StreamShards), c.clock},
		HashKeys: hashKeys,
		Now:      c.now,
		Log:      c.log,
		Metrics:  conversionservice.NewMetrics(c.registry),
	})
	sealer, err := seal.New(c.cfg.EncryptionKeys)
	if err != nil {
		return fmt.Errorf("TRIBUTARY_ENCRYPTION_KEYS: %w", err)
	}
	if c.webhookClient, err = c.newWebhookClient(); err != nil {
		return err
	}
	c.hub = notificationservice.NewHub(c.db, feedsignal.New(c.cache), c.log, c.now)
	c.distributor = notificationservice.NewDistributor(c.db, c.hub.Changed, c.log, c.now)
	provider, err := c.newProviderService()
	if err != nil {
		return err
	}
	limits := newLimiter(c.limits, c.cfg.Limits, c.cfg.LimitTimeout, hashKeys.First(), c.log, c.now, c.registry)
	processors := processorservice.New(processorservice.Config{
		DB: c.db, Sales: conversions, Seal: sealer, PublicURL: c.cfg.PublicURL, Limiter: limits, Log: c.log, Now: c.now, ServerTime: c.clock.ServerTime,
		Processors: map[conversion.ProcessorName]processorservice.Processor{
			conversion.Stripe: stripe.New(stripe.Config{APIURL: c.cfg.StripeAPIURL}),
		},
	})
	edgeConfig := directory.Config{SigningKeys: signingKeys(tokens), HashKeys: hashKeyFingerprints(c.cfg.HashKeys), Now: c.now, Log: c.log}
	c.keeper = directory.New(c.db, edge.NewWriter(c.cache), edgeConfig)
	c.buildRegions(edgeConfig)
	directories := c.directories()
	c.db.OnDirectoryChange(directories.SyncNow)
	erasureLog, err := c.openErasureLog()
	if err != nil {
		return err
	}
	reports := analytics.New(c.db, c.log, c.now)
	erasureKeys := privacy.NewErasureKeys(hashKeys)
	deadLetters := clickstream.NewDeadLetters(c.stream)
	erasures := privacyservice.New(privacyservice.Config{
		DB: c.db, Directory: directories, DeadLetters: deadLetters, Analytics: reports, Log: erasureLog,
		HashKeys: hashKeys, Now: c.now,
	})
	exports := export.New(export.Config{DB: c.db, Seal: sealer, PublicURL: c.cfg.PublicURL, Log: c.log, Now: c.now})
	buyers := buyer.New(buyer.Config{
		DB: c.db, Events: processors, ErasureLog: erasureLog, Analytics: reports, BuyerKeys: privacy.BuyerKeys(hashKeys),
		ErasureKeys: erasureKeys, Disabled: !c.cfg.BuyerErasureEnabled, Log: c.log, Now: c.now,
	})
	invitations := server.Invitations{Limiter: limits, RequireVerified: c.cfg.SMTPURL != ""}
	accounts := account.New(account.Config{
		DB: c.db, Signer: tokens, Seal: sealer, HashKeys: hashKeys, Limiter: limits, Now: c.now,
		MerchantRegistration: c.cfg.MerchantRegistration, PartnerRegistration: c.cfg.PartnerRegistration,
	})
	c.instance = c.newInstance()
	testData := testmode.New(testmode.Config{
		DB: c.db, Edge: directories, Visitors: visitors.New(c.cache), DeadLetters: deadLetters, Log: c.log, Now: c.now, ServerTime: c.clock.ServerTime,
	})
	c.health = health.New(c.clock.ServerTime,
		health.Probe{Name: "database", Ping: c.db.Ping},
		health.Probe{Name: "cache", Ping: func(ctx context.Context) error { return c.cache.Ping(ctx).Err() }},
	)
	c.grpc, err = server.New(server.Config{
		DB:             c.db,
		Tokens:         tokens,
		Limiter:        limits,
		Log:            c.log,
		Now:            c.now,
		TrustedProxies: c.cfg.TrustedProxies,
		TLS:            grpcTLS,
		Metrics:        server.NewMetrics(c.registry),
		Traces:         callTraces(c.traces),

		RequireVerifiedEmail: c.cfg.RequireVerifiedEmail,
	},
		server.Service{Desc: &affiliatev1.HealthService_ServiceDesc, Impl: c.health},
		server.Service{Desc: &affiliatev1.AccountService_ServiceDesc, Impl: accounts},
		server.Service{Desc: &affiliatev1.ServiceTokenService_ServiceDesc, Impl: servicetoken.New(c.db, c.now)},
		server.Service{Desc: &affiliatev1.WorkspaceService_ServiceDesc, Impl: workspace.New(c.db, sealer, invitations, c.now)},
		server.Service{Desc: &affiliatev1.BrandingService_ServiceDesc, Impl: branding.New(c.db, c.cfg.PublicURL, c.now)},
		server.Service{Desc: &affiliatev1.PortalService_ServiceDesc, Impl: portal.New(portal.Config{
			DB: c.db, PublicURL: c.cfg.PublicURL, PartnerRegistration: c.cfg.PartnerRegistration, Now: c.now,
		})},
		server.Service{Desc: &affiliatev1.ProgramService_ServiceDesc, Impl: program.New(c.db, c.now)},
		server.Service{Desc: &affiliatev1.ParticipantService_ServiceDesc, Impl: participant.New(participant.Config{
			DB: c.db, Seal: sealer, Invitations: invitations, Signer: tokens, UnusableHash: account.UnusableHash, Now: c.now,
		})},
		server.Service{Desc: &affiliatev1.PartnerService_ServiceDesc, Impl: partner.New(partner.Config{
			DB: c.db, Seal: sealer, Reauthenticator: accounts, LinkHost: c.cfg.LinkURL, Now: c.now,
		})},
		server.Service{Desc: &affiliatev1.LinkService_ServiceDesc, Impl: link.New(c.db, c.cfg.LinkURL, c.now)},
		server.Service{Desc: &affiliatev1.PromoCodeService_ServiceDesc, Impl: promocode.New(c.db, c.now)},
		server.Service{Desc: &affiliatev1.ConversionService_ServiceDesc, Impl: conversions},
		server.Service{Desc: &affiliatev1.CustomerService_ServiceDesc, Impl: customer.New(c.db, hashKeys)},
		server.Service{Desc: &affiliatev1.CommissionService_ServiceDesc, Impl: commission.New(c.db, c.now)},
		server.Service{Desc: &affiliatev1.AnalyticsService_ServiceDesc, Impl: reports},
		server.Service{Desc: &affiliatev1.AttributionService_ServiceDesc, Impl: attribution.New(c.db, conversions)},
		server.Service{Desc: &affiliatev1.LedgerService_ServiceDesc, Impl: ledger.New(c.db, c.now)},
		server.Service{Desc: &affiliatev1.PayoutService_ServiceDesc, Impl: payout.New(payout.Config{DB: c.db, Seal: sealer, Now: c.now})},
		server.Service{Desc: &affiliatev1.FraudService_ServiceDesc, Impl: fraud.New(c.db, c.now)},
		server.Service{Desc: &affiliatev1.WebhookService_ServiceDesc, Impl: webhook.New(webhook.Config{
			DB: c.db, Seal: sealer, Client: c.webhookClient, Now: c.now,
		})},
		server.Service{Desc: &affiliatev1.NotificationService_ServiceDesc, Impl: notificationservice.New(notificationservice.Config{
			DB: c.db, Hub: c.hub, Log: c.log, Apps: c.apps(), HashKeys: hashKeys, Now: c.now,
			Metrics: notificationservice.NewMetrics(c.registry, c.distributor.Undistributed),
		})},
		server.Service{Desc: &affiliatev1.MailService_ServiceDesc, Impl: provider},
		server.Service{Desc: &affiliatev1.ProcessorService_ServiceDesc, Impl: processors},
		server.Service{Desc: &affiliatev1.BuyerErasureService_ServiceDesc, Impl: buyers},
		server.Service{Desc: &affiliatev1.ErasureService_ServiceDesc, Impl: erasures},
		server.Service{Desc: &affiliatev1.ExportService_ServiceDesc, Impl: exports},
		server.Service{Desc: &affiliatev1.NotificationLogService_ServiceDesc, Impl: servermail.NewLogService(c.db)},
		server.Service{Desc: &affiliatev1.TestModeService_ServiceDesc, Impl: testData},
		server.Service{Desc: &affiliatev1.InstanceService_ServiceDesc, Impl: c.instance},
		server.Service{Desc: &affiliatev1.SearchService_ServiceDesc, Impl: search.New(c.db)},
	)
	if err != nil {
		return err
	}
	c.sender = webhook.NewSender(webhook.SenderConfig{
		DB: c.db, Client: c.webhookClient, Seal: sealer, Log: c.log, Now: c.now, Metrics: webhook.NewMetrics(c.registry),
		Tracer: c.traces.Inner.Tracer(tracerName),
	})
	c.registerGauges()
	c.db.OnEvent(server.CountEvents(c.registry))
	c.db.OnDeliveries(c.sender.Wake)
	c.db.OnNotifications(c.distributor.Wake)
	mails, err := c.newMailWorker(sealer)
	if err != nil {
		return err
	}
	return c.buildWork(directories.Worker(), mails, conversions, processors, accounts, erasures, buyers, exports, testData)
}

// Registry returns the registry for the metrics of this process. Other parts of the
// process can register their metrics in it.
func (c *Core) Registry() *prometheus.Registry { return c.registry }

// Gateway returns the handler of the REST API for a gateway in the process of the core.
func (c *Core) Gateway() (http.Handler, error) {
	return gateway.New(gateway.Config{
		Conn:           c.grpc.Channel(),
		TrustedProxies: c.cfg.TrustedProxies,
		AllowHTTP:      c.cfg.AllowHTTP,
		AllowedOrigins: c.cfg.Origins,
		Site:           c.Site,
		Log:            c.log,
		Registry:       c.registry,
		Now:            c.now,
	})
}

// Listeners holds the open ports of a core. If API is nil, the process has no gateway.
type Listeners struct {
	GRPC    net.Listener
	Metrics net.Listener
	API     net.Listener
}

// openErasureLog opens the erasure log. It logs a warning if the settings name none.
func (c *Core) openErasureLog() (privacyservice.Log, error) {
	if c.cfg.ErasureLog == "" {
		c.log.LogAttrs(context.Background(), slog.LevelWarn, "erasures are not recorded, so they cannot be repeated after a restore of an older backup",
			slog.String("setting", "TRIBUTARY_ERASURE_LOG"))
		return privacyservice.NoLog{}, nil
	}
	var err error
	if c.erasureLog, err = privacyservice.OpenLog(c.cfg.ErasureLog); err != nil {
		return nil, err
	}
	return c.erasureLog, nil
}
