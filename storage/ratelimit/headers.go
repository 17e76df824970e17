package ratelimit

import (
	"net/http"
	"strconv"
	"time"
)

// SetHeaders sets the headers RateLimit-Policy and RateLimit
// (draft-ietf-httpapi-ratelimit-headers). If the request was refused, it also sets
// Retry-After. The parameter t of RateLimit is the time until the window is empty. If the
// request was refused, t is equal to Retry-After.
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
