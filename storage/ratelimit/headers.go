package ratelimit

import (
	"fmt"
	"net/http"
	"time"
)

// SetHeaders tells the client where it stands: RateLimit-Policy and RateLimit
// (draft-ietf-httpapi-ratelimit-headers) on any answer, Retry-After on a
// refusal.
func (r Result) SetHeaders(h http.Header, zone string) {
	h.Set("RateLimit-Policy", fmt.Sprintf(`"%s";q=%d;w=60`, zone, r.Limit))
	wait := r.ResetAfter
	if !r.Allowed {
		wait = r.RetryAfter
		h.Set("Retry-After", r.RetryAfterSeconds())
	}
	h.Set("RateLimit", fmt.Sprintf(`"%s";r=%d;t=%d`, zone, r.Remaining, wait/time.Second))
}
