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
	zone := func(name server.Zone, limit, local int) ratelimit.Zone {
		return ratelimit.Zone{Name: string(name), Limit: int64(limit), LocalLimit: int64(local), Window: time.Minute}
	}
	hourly := func(name server.Zone, limit int) ratelimit.Zone {
		return ratelimit.Zone{Name: string(name), Limit: int64(limit), Window: time.Hour}
	}
	daily := func(name server.Zone, limit int) ratelimit.Zone {
		return ratelimit.Zone{Name: string(name), Limit: int64(limit), Window: 24 * time.Hour}
	}
	l := &limiter{
		windows: ratelimit.NewLimiter(cache, ratelimit.Options{
			HashKey:  hashKey,
			Now:      now,
			Timeout:  timeout,
			Log:      log,
			Fallback: func(zone string) { fallbacks.WithLabelValues(zone).Inc() },
		}),
		zones: map[server.Zone]ratelimit.Zone{
			server.ZoneGeneral:      zone(server.ZoneGeneral, limits.General, limits.General),
			server.ZoneConversions:  zone(server.ZoneConversions, limits.Conversions, limits.Conversions),
			server.ZoneMailProvider: zone(server.ZoneMailProvider, limits.MailProvider, limits.MailProvider),
			server.ZoneUnsubscribe:  zone(server.ZoneUnsubscribe, limits.Unsubscribe, limits.Unsubscribe),
			// Without Redis, each process allows only half of the limit, because each
			// process then counts only its own requests, so several processes together
			// allow more guesses of a password than the limit.
			server.ZoneAuth:          zone(server.ZoneAuth, limits.Auth, max(1, limits.Auth/2)),
			server.ZoneResend:        hourly(server.ZoneResend, limits.Resend),
			server.ZoneErasure:       hourly(server.ZoneErasure, limits.Erasure),
			server.ZoneBuyerErasure:  hourly(server.ZoneBuyerErasure, limits.BuyerErasure),
			server.ZoneExport:        hourly(server.ZoneExport, limits.Export),
			server.ZoneInviteAddress: hourly(server.ZoneInviteAddress, limits.InviteAddress),
			server.ZoneInvites:       daily(server.ZoneInvites, limits.Invites),
		},
	}
	for name := range l.zones {
		fallbacks.WithLabelValues(string(name))
	}
	return l
}

// Allow implements server.Limiter.
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
