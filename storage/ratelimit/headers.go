package ratelimit

import (
	"net/http"
	"strconv"
	"time"
)

// SetHeaders tells the client where it stands: RateLimit-Policy and RateLimit
// (draft-ietf-httpapi-ratelimit-headers), whose t is when the window is empty
// again, on any answer; Retry-After on a refusal.
func (r Result) SetHeaders(h http.Header, zone string) {
	var buffer [64]byte
	name := append(append(append(buffer[:0], '"'), zone...), '"')
	policy := strconv.AppendInt(append(name, ";q="...), r.Limit, 10)
	h["Ratelimit-Policy"] = []string{string(append(policy, ";w=60"...))}
	state := strconv.AppendInt(append(name, ";r="...), r.Remaining, 10)
	state = strconv.AppendInt(append(state, ";t="...), int64(r.ResetAfter/time.Second), 10)
	h["Ratelimit"] = []string{string(state)}
	if !r.Allowed {
		h["Retry-After"] = []string{r.RetryAfterSeconds()}
	}
}
