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

// limitWindow is the length in seconds of the rolling window in which each zone counts
// requests.
const limitWindow = 60

// Allowance is the result of Limiter.Allow for one request.
type Allowance struct {
	Allowed bool
	// Limit is the maximum number of requests in any 60 seconds. Remaining is the number
	// of requests that are still allowed now.
	Limit     int
	Remaining int
	// RetryAfter is the number of seconds until the next request is allowed. It is at
	// least 1 if Allowed is false.
	RetryAfter int
	// Reset is the number of seconds until all counted requests have left the window.
	Reset int
}

// Limiter counts requests in rolling windows. If it cannot reach the store that all
// processes share, it counts the requests of this process alone. Allow therefore always
// returns a result.
type Limiter interface {
	Allow(ctx context.Context, zone Zone, subject string) Allowance
}

// limit counts one request in its zone. It returns RATE_LIMIT_EXCEEDED if the limit is
// reached. If the method requires a credential and the request has a valid credential,
// the request counts against the limit of its user or API key. Every other request counts
// against the limit of the client's address. This also limits how fast a client can guess
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
			// All calls of users count in the general zone. This includes calls of methods
			// in the conversions zone. These methods accept only API keys, so a later step
			// rejects such a call.
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
