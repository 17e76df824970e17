package ratelimit

import (
	"net/http"
	"strconv"
	"time"
)

// SetHeaders sets RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers)
// and, on a refusal, Retry-After. The t of RateLimit is the time until the whole limit
// is free again; on a refusal it equals Retry-After.
func (r Result) SetHeaders(h http.Header, zone string) {
	var buffer [64]byte
	name := append(append(append(buffer[:0], '"'), zone...), '"')
	policy := strconv.AppendInt(append(name, ";q="...), r.Limit, 10)
	h["Ratelimit-Policy"] = []string{string(append(policy, ";w=60"...))}
	reset := r.ResetAfter
	if !r.Allowed {
		reset = r.RetryAfter
	}
	state := strconv.AppendInt(append(name, ";r="...), r.Remaining, 10)
	state = strconv.AppendInt(append(state, ";t="...), int64(reset/time.Second), 10)
	h["Ratelimit"] = []string{string(state)}
	if !r.Allowed {
		h["Retry-After"] = []string{r.RetryAfterSeconds()}
	}
}
