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

// limitWindow is the length of the rolling window of every zone, in seconds.
const limitWindow = 60

// Allowance is the result of Limiter.Allow for one request.
type Allowance struct {
	Allowed bool
	// Limit and Remaining are numbers of requests in any 60 seconds.
	Limit     int
	Remaining int
	// RetryAfter is the number of seconds after which the next request is allowed. It is
	// at least 1 if Allowed is false. Reset is the number of seconds until the window is
	// empty.
	RetryAfter int
	Reset      int
}

// Limiter counts requests in strict rolling windows. It always returns a result: if it
// cannot reach its shared store, it counts in this process.
type Limiter interface {
	Allow(ctx context.Context, zone Zone, subject string) Allowance
}

// limit counts one request in its zone and returns RATE_LIMIT_EXCEEDED if the limit is
// reached. A request with a good credential counts for its user or API key. A request
// with a bad credential counts for its address, which limits how fast a client can guess
// credentials.
func limit(ctx context.Context, limiter Limiter, policy Policy, id identity) error {
	zone := policy.Zone
	if zone == ZoneNone {
		return nil
	}
	subject := "address:" + httpedge.LimitSubject(callerFrom(ctx).address)
	if policy.Accept&NoCredential == 0 {
		switch {
		case id.fault != noFault:
			zone = ZoneGeneral
		case id.principal.Kind&(SecretKey|PublicKey) != 0:
			subject = "key:" + id.principal.Key.String()
		default:
			subject = "user:" + id.principal.User.String()
			// The conversions zone is for API keys only.
			zone = ZoneGeneral
		}
	}
	allowance := limiter.Allow(ctx, zone, subject)
	reset := allowance.Reset
	if !allowance.Allowed {
		reset = allowance.RetryAfter
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(
		"ratelimit-policy", fmt.Sprintf(`"%s";q=%d;w=%d`, zone, allowance.Limit, limitWindow),
		"ratelimit", fmt.Sprintf(`"%s";r=%d;t=%d`, zone, allowance.Remaining, reset),
	))
	if allowance.Allowed {
		return nil
	}
	refusal := affiliate.Refuse(affiliate.ReasonRateLimitExceeded)
	refusal.Metadata = map[string]string{"retry_after": strconv.Itoa(allowance.RetryAfter)}
	return refusal
}
