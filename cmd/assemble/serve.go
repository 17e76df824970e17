package assemble

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/ratelimit"
)

// drainTimeout is the maximum time for running requests to end when a server stops.
const drainTimeout = 15 * time.Second

// runAll runs parts at the same time until ctx ends or one of them returns. Then it
// cancels the context of all parts and waits for them. A part that returns before its
// context is canceled counts as failed.
func runAll(ctx context.Context, parts map[string]func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for name, part := range parts {
		group.Go(func() error {
			err := part(ctx)
			switch {
			case err != nil && !errors.Is(err, context.Canceled):
				return fmt.Errorf("%s: %w", name, err)
			case ctx.Err() == nil:
				return fmt.Errorf("%s: stopped unexpectedly", name)
			}
			return nil
		})
	}
	return group.Wait()
}

// readyPath is the path of the public readiness check of the gateway and of the landing
// service.
const readyPath = "/api/v1/health/ready"

// serveHTTP runs a server on a listener until ctx ends. Then it continues to serve requests for
// the duration delay, so that load balancers can notice that the process is not ready. In this
// time, each response closes its connection. After the delay, serveHTTP closes the port and waits
// for the running requests to end.
func serveHTTP(ctx context.Context, listener net.Listener, s *http.Server, config *tls.Config, delay time.Duration) error {
	s.Handler = closeConnections(ctx, s.Handler)
	failed := make(chan error, 1)
	go func() { failed <- httpedge.Serve(s, listener, config) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(delay):
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := s.Shutdown(stop); err != nil {
		return errors.Join(err, s.Close())
	}
	return <-failed
}

// closeConnections returns a handler that reports that the process is not ready, and closes
// each connection after its response, as soon as ctx has ended.
func closeConnections(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ctx.Err() != nil {
			w.Header().Set("Connection", "close")
			if r.URL.Path == readyPath {
				httpedge.WriteError(w, http.StatusServiceUnavailable, affiliate.ReasonServiceUnavailable, "The process is stopping.")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// serveMetrics serves metrics and health (package private) until ctx ends and the delay is over.
func serveMetrics(
	ctx context.Context, listener net.Listener, gatherer prometheus.Gatherer, ready func(context.Context) error, delay time.Duration, log *slog.Logger,
) error {
	return serveHTTP(ctx, listener, private.NewServer(ctx, gatherer, ready, log), nil, delay)
}

// tracerName is the name under which the spans of the service itself are reported.
const tracerName = "github.com/tributary-hq/tributary"

// statementTracer returns the tracer of SQL statements, or nil if traces are not enabled. It
// records no values of parameters.
func statementTracer(traces *tracing.Traces) pgx.QueryTracer {
	if !traces.Enabled() {
		return nil
	}
	return otelpgx.NewTracer(
		otelpgx.WithTracerProvider(traces.Inner), otelpgx.WithDisableConnectionDetailsInAttributes(), otelpgx.WithDisableAcquireTracer())
}

// callTraces returns the stats handlers that record the calls that a core receives, or nil if
// traces are not enabled.
func callTraces(traces *tracing.Traces) *server.Traces {
	if !traces.Enabled() {
		return nil
	}
	return &server.Traces{
		Trusted: otelgrpc.NewServerHandler(append(callOptions, otelgrpc.WithTracerProvider(traces.Trusted))...),
		Public:  otelgrpc.NewServerHandler(append(callOptions, otelgrpc.WithTracerProvider(traces.Public))...),
	}
}

// clientTraces returns the options of a connection to the core that record the calls over it.
func clientTraces(traces *tracing.Traces) []grpc.DialOption {
	if !traces.Enabled() {
		return nil
	}
	return []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(append(callOptions, otelgrpc.WithTracerProvider(traces.Inner))...))}
}

var callOptions = []otelgrpc.Option{
	otelgrpc.WithPropagators(tracing.Propagator),
	otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return !server.IsHealthCheck(info.FullMethodName) }),
}

// limiter implements server.Limiter with the rate limits of the settings.
type limiter struct {
	windows *ratelimit.Limiter
	zones   map[server.Zone]ratelimit.Zone
}

func newLimiter(
	cache redis.UniversalClient, limits settings.Limits, timeout time.Duration, hashKey []byte,
	log *slog.Logger, now func() time.Time, registry prometheus.Registerer,
) *limiter {
	fallbacks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tributary_limit_alone_total",
		Help: "Requests that only this process counted because Redis did not respond, by zone.",
	}, []string{"zone"})
	registry.MustRegister(fallbacks)
	zones := map[server.Zone]ratelimit.Zone{
		server.ZoneGeneral:      {Limit: limits.General},
		server.ZoneConversions:  {Limit: limits.Conversions},
		server.ZoneMailProvider: {Limit: limits.MailProvider},
		server.ZoneUnsubscribe:  {Limit: limits.Unsubscribe},
		// Without Redis, each process allows only half of the limit, because each
		// process then counts only its own requests, so several processes together
		// allow more guesses of a password than the limit.
		server.ZoneAuth:          {Limit: limits.Auth, LocalLimit: max(1, limits.Auth/2)},
		server.ZoneSession:       {Limit: limits.Session},
		server.ZoneResend:        {Limit: limits.Resend, Window: time.Hour},
		server.ZoneErasure:       {Limit: limits.Erasure, Window: time.Hour},
		server.ZoneBuyerErasure:  {Limit: limits.BuyerErasure, Window: time.Hour},
		server.ZoneExport:        {Limit: limits.Export, Window: time.Hour},
		server.ZoneInviteAddress: {Limit: limits.InviteAddress, Window: time.Hour},
		server.ZoneInvites:       {Limit: limits.Invites, Window: 24 * time.Hour},
	}
	for name, zone := range zones {
		zone.Name, zone.Window = string(name), cmp.Or(zone.Window, time.Minute)
		zones[name] = zone
		fallbacks.WithLabelValues(zone.Name)
	}
	return &limiter{zones: zones, windows: ratelimit.NewLimiter(cache, ratelimit.Options{
		HashKey: hashKey, Now: now, Timeout: timeout, Log: log, Fallback: func(zone string) { fallbacks.WithLabelValues(zone).Inc() },
	})}
}

func (l *limiter) Allow(ctx context.Context, zone server.Zone, subject string) server.Allowance {
	limit := l.zones[zone]
	result := l.windows.Allow(ctx, limit, subject)
	return server.Allowance{
		Allowed:    result.Allowed,
		Limit:      int(result.Limit),
		Window:     int(limit.Window / time.Second),
		Remaining:  int(result.Remaining),
		RetryAfter: int(result.RetryAfter / time.Second),
		Reset:      int((result.ResetAfter + time.Second - 1) / time.Second),
	}
}
