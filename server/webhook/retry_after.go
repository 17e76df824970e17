package webhook

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// mostSeconds keeps a Retry-After within time.Duration; what is honoured of it is
// less.
const mostSeconds = 1 << 32

// retryAfter reads Retry-After, seconds or an HTTP date; 0: it is absent, past or
// neither.
func retryAfter(header string, now time.Time) time.Duration {
	seconds, err := strconv.ParseUint(header, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, mostSeconds)) * time.Second
	}
	date, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return max(0, date.Sub(now))
}
