package webhook

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// maxRetryAfterSeconds limits the number of seconds in a header, so that the delay fits
// into a time.Duration. Its exact value does not matter, because the retry schedule
// limits the delay to a much smaller value.
const maxRetryAfterSeconds = 1 << 32

// retryAfter returns the delay in a Retry-After header, which contains a number of
// seconds or an HTTP date. It returns 0 if the header is absent or invalid, or if the
// date is in the past.
func retryAfter(header string, now time.Time) time.Duration {
	seconds, err := strconv.ParseUint(header, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, maxRetryAfterSeconds)) * time.Second
	}
	date, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return max(0, date.Sub(now))
}
