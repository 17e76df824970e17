package assemble

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/landing"
	"github.com/tributary-hq/tributary/landing/store"
	"github.com/tributary-hq/tributary/mail"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/ratelimit"
)

// Landing is the landing service with its connections. Create it with NewLanding.
type Landing struct {
	cfg     settings.Landing
	traces  *tracing.Traces
	log     *slog.Logger
	store   *store.Store
	cache   redis.UniversalClient // nil without Redis
	service *landing.Service
	handler http.Handler
	tls     *tls.Config // nil without a certificate
	jobs    *river.Client[pgx.Tx]
}

// NewLanding connects to the database and creates all parts. It does not wait for Redis. It
// adds the TLS files of the settings to the given files.
func NewLanding(
	ctx context.Context, cfg settings.Landing, files *certificates.Files, log *slog.Logger, registry prometheus.Registerer, process *clock.Clock,
) (*Landing, error) {
	l := &Landing{cfg: cfg, log: log}
	var err error
	if l.tls, err = cfg.ServerTLS(files); err != nil {
		return nil, err
	}
	roots, err := cfg.RedisRoots(files)
	if err != nil {
		return nil, err
	}
	if l.traces, err = tracing.Open(cfg.Traces, "tributary-landing", registry, log); err != nil {
		return nil, err
	}
	if err := l.build(ctx, cfg.Cache(roots), registry, process); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Landing) build(ctx context.Context, cache clickstream.Endpoint, registry prometheus.Registerer, process *clock.Clock) error {
	mailer, err := l.newMailer()
	if err != nil {
		return err
	}
	if cache.URL != "" {
		if l.cache, err = clickstream.Connect(cache); err != nil {
			return fmt.Errorf("TRIBUTARY_CACHE_REDIS_URL: %w", err)
		}
		if err := l.traces.InstrumentRedis(l.cache); err != nil {
			return err
		}
		registry.MustRegister(clickstream.PoolCollector{"landing": l.cache})
	} else {
		l.log.LogAttrs(ctx, slog.LevelWarn, "each process counts the rate limit on its own", slog.String("setting", "TRIBUTARY_CACHE_REDIS_URL"))
	}
	if l.store, err = store.Open(ctx, l.cfg.DatabaseURL(), statementTracer(l.traces)); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	registry.MustRegister(poolCollector{"landing": l.store.Pool()})
	if err := process.Compare(ctx, clock.Server{Name: "Postgres", Time: l.store.Time}, l.log, registry); err != nil {
		return err
	}
	l.service = landing.New(landing.Config{
		Store: l.store, WaitlistBase: l.cfg.WaitlistBase(), WaitlistTotal: l.cfg.WaitlistTotal(), Log: l.log, Registry: registry, Now: process.Now,
		ServerTime: process.ServerTime,
	})
	l.handler, err = l.service.Handler(landing.HTTPConfig{
		Limits: ratelimit.NewLimiter(l.cache, ratelimit.Options{
			HashKey: l.cfg.HashKeys.Keys().First(), Now: process.Now, Log: l.log, Timeout: l.cfg.LimitTimeout, Fallback: l.service.LimitFallback,
		}),
		Limit:          l.cfg.Limit,
		Origins:        l.cfg.Origins,
		TrustedProxies: l.cfg.TrustedProxies,
		AllowHTTP:      l.cfg.AllowHTTP,
	})
	if err != nil {
		return err
	}
	if l.jobs, err = l.service.Jobs(mailer); err != nil {
		return fmt.Errorf("job queue: %w", err)
	}
	return nil
}

// newMailer returns the mailer of contact messages. It returns nil and logs a warning if the
// settings name no mail server or no recipient.
func (l *Landing) newMailer() (*landing.Mailer, error) {
	if l.cfg.SMTPURL == "" || l.cfg.OperatorEmail == "" {
		l.log.LogAttrs(context.Background(), slog.LevelWarn, "contact messages are stored and not mailed; `landing contacts` prints them",
			slog.String("settings", "TRIBUTARY_SMTP_URL, TRIBUTARY_OPERATOR_EMAIL"))
		return nil, nil //nolint:nilnil // the service has no mailer
	}
	sender, err := mail.NewSender(mail.Config{URL: l.cfg.SMTPURL, From: l.cfg.MailFrom})
	if err != nil {
		return nil, fmt.Errorf("TRIBUTARY_SMTP_URL or TRIBUTARY_MAIL_FROM: %w", err)
	}
	operator, err := mail.ParseAddress(l.cfg.OperatorEmail)
	if err != nil {
		return nil, fmt.Errorf("TRIBUTARY_OPERATOR_EMAIL: %w", err)
	}
	return &landing.Mailer{Sender: sender, Operator: operator}, nil
}

// Run serves requests on listener and runs the jobs until ctx ends or a part fails.
func (l *Landing) Run(ctx context.Context, listener net.Listener) error {
	// The jobs do not use ctx, because they must stop after the requests that insert jobs.
	if err := l.jobs.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("job queue: %w", err)
	}
	err := serveHTTP(ctx, listener, httpedge.NewServer(l.traces.Handler(l.handler, landing.Traced), l.log), l.tls, l.cfg.ShutdownDelay)
	l.service.StopJobs(ctx, l.jobs, jobStopTimeout)
	return err
}

// Close closes the connections. The caller must not call it before Run has returned. It
// waits for the statements that are running, which have a time limit of 10 seconds.
func (l *Landing) Close() {
	if l.cache != nil {
		_ = l.cache.Close()
	}
	if l.store != nil {
		l.store.Close()
	}
	l.traces.Close()
}

// RunLanding serves the landing service, and its metrics on a port of their own, until ctx
// ends.
func RunLanding(ctx context.Context, cfg settings.Landing, files *certificates.Files, public, metrics net.Listener, log *slog.Logger) error {
	registry := private.NewRegistry()
	registry.MustRegister(files)
	process := clock.New(time.Now)
	l, err := NewLanding(ctx, cfg, files, log, registry, process)
	if err != nil {
		return err
	}
	defer l.Close()
	log.LogAttrs(ctx, slog.LevelInfo, "landing is listening",
		slog.String("address", public.Addr().String()), slog.Bool("tls", l.tls != nil), slog.String("metrics", metrics.Addr().String()))
	return runAll(ctx, map[string]func(context.Context) error{
		"TLS files": files.Run,
		"clock":     func(ctx context.Context) error { process.Run(ctx); return nil },
		"landing":   func(ctx context.Context) error { return l.Run(ctx, public) },
		"metrics": func(ctx context.Context) error {
			return serveMetrics(ctx, metrics, registry, l.service.Ready, cfg.ShutdownDelay, log)
		},
	})
}
