package assemble

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/ratelimit"
)

// limiter gives the core's zones to the shared windows.
type limiter struct {
	windows *ratelimit.Limiter
	zones   map[server.Zone]ratelimit.Zone
}

func newLimiter(cache redis.UniversalClient, limits settings.Limits, timeout time.Duration, hashKey []byte, log *slog.Logger, now func() time.Time, registry prometheus.Registerer) *limiter {
	alone := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tributary_limit_alone_total",
		Help: "Requests counted by this process alone because Redis did not answer, by zone.",
	}, []string{"zone"})
	registry.MustRegister(alone)
	zone := func(name server.Zone, limit, local int) ratelimit.Zone {
		return ratelimit.Zone{Name: string(name), Limit: int64(limit), LocalLimit: int64(local)}
	}
	return &limiter{
		windows: ratelimit.NewLimiter(cache, ratelimit.Options{
			HashKey:  hashKey,
			Now:      now,
			Timeout:  timeout,
			Log:      log,
			Fallback: func(zone string) { alone.WithLabelValues(zone).Inc() },
		}),
		zones: map[server.Zone]ratelimit.Zone{
			server.ZoneGeneral:     zone(server.ZoneGeneral, limits.General, limits.General),
			server.ZoneConversions: zone(server.ZoneConversions, limits.Conversions, limits.Conversions),
			// Alone, each process allows half: guessing must not profit from an outage.
			server.ZoneAuth: zone(server.ZoneAuth, limits.Auth, max(1, limits.Auth/2)),
		},
	}
}

// Allow implements server.Limiter.
func (l *limiter) Allow(ctx context.Context, zone server.Zone, subject string) server.Allowance {
	got := l.windows.Allow(ctx, l.zones[zone], subject)
	return server.Allowance{
		Allowed:    got.Allowed,
		Limit:      int(got.Limit),
		Remaining:  int(got.Remaining),
		RetryAfter: int(got.RetryAfter / time.Second),
		Reset:      int((got.ResetAfter + time.Second - 1) / time.Second),
	}
}
