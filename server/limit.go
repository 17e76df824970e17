package server

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge"
)

// limitWindow is the rolling window of every zone, in seconds.
const limitWindow = 60

// Allowance is a limiter's answer about one request.
type Allowance struct {
	Allowed bool
	// Limit and Remaining are requests in any 60 seconds.
	Limit     int
	Remaining int
	// RetryAfter is in whole seconds, at least 1 when not allowed: waiting that
	// long suffices. Reset is when the window is empty again, in seconds.
	RetryAfter int
	Reset      int
}

// Limiter counts requests in strict rolling windows. It always answers: when
// its own dependency is lost it counts in process.
type Limiter interface {
	Allow(ctx context.Context, zone Zone, subject string) Allowance
}

// limit counts one request in its zone. A good credential is counted under its
// user or key; a refused one always under its address, so that garbage cannot
// be tried freely.
func limit(ctx context.Context, limiter Limiter, policy Policy, id identity) error {
	zone := policy.Zone
	if zone == ZoneNone {
		return nil
	}
	subject := "address:" + httpedge.LimitSubject(callerFrom(ctx).address)
	if policy.Accept&Nobody == 0 {
		switch {
		case id.fault != noFault:
			zone = ZoneGeneral
		case id.principal.Kind&(SecretKey|PublicKey) != 0:
			subject = "key:" + id.principal.Key.String()
		default:
			subject = "user:" + id.principal.User.String()
			// The conversion API's own zone is for its own keys.
			zone = ZoneGeneral
		}
	}
	got := limiter.Allow(ctx, zone, subject)
	reset := got.Reset
	if !got.Allowed {
		reset = got.RetryAfter
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(
		"ratelimit-policy", fmt.Sprintf(`"%s";q=%d;w=%d`, zone, got.Limit, limitWindow),
		"ratelimit", fmt.Sprintf(`"%s";r=%d;t=%d`, zone, got.Remaining, reset),
	))
	if got.Allowed {
		return nil
	}
	refusal := affiliate.Refuse(affiliate.ReasonRateLimitExceeded)
	refusal.Metadata = map[string]string{"retry_after": strconv.Itoa(got.RetryAfter)}
	return refusal
}
