package assemble

import (
	"cmp"
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
	zones := map[server.Zone]ratelimit.Zone{
		server.ZoneGeneral:      {Limit: limits.General},
		server.ZoneConversions:  {Limit: limits.Conversions},
		server.ZoneMailProvider: {Limit: limits.MailProvider},
		server.ZoneUnsubscribe:  {Limit: limits.Unsubscribe},
		// Without Redis, each process allows only half of the limit, because each
		// process then counts only its own requests, so several processes together
		// allow more guesses of a password than the limit.
		server.ZoneAuth:          {Limit: limits.Auth, LocalLimit: max(1, limits.Auth/2)},
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
