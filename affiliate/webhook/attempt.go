package webhook

import (
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Words for what went wrong (DECISIONS.md section 9). With http_<code> they are all
// that is ever told.
const (
	// DNSError: the host did not resolve.
	DNSError = "dns_error"
	// ConnectionRefused: no connection, or one that broke off before an answer that
	// HTTP allows.
	ConnectionRefused = "connection_refused"
	// Timeout: no answer in time.
	Timeout = "timeout"
	// TLSError: no TLS, or a certificate that is not accepted.
	TLSError = "tls_error"
	// BlockedAddress: the host leads to an address that may not be called.
	BlockedAddress = "blocked_address"
	// Redirect: the answer was 3xx; redirects are not followed.
	Redirect = "redirect"
)

// Status codes that mean more than success or failure.
const (
	gone               = 410
	tooManyRequests    = 429
	badGateway         = 502
	serviceUnavailable = 503
	gatewayTimeout     = 504
)

// Outcome is what came of one attempt.
type Outcome struct {
	// StatusCode is that of the answer; 0: there was none.
	StatusCode int
	// Word says what went wrong; empty: it succeeded.
	Word string
	// RetryAfter is how long the receiver asks to be left alone; 0: it does not.
	RetryAfter time.Duration
}

// Answered is the outcome of an answer. retryAfter is what its header says.
func Answered(statusCode int, retryAfter time.Duration) Outcome {
	o := Outcome{StatusCode: statusCode}
	switch {
	case statusCode >= 200 && statusCode < 300:
		return o
	case statusCode >= 300 && statusCode < 400:
		o.Word = Redirect
	default:
		o.Word = "http_" + strconv.Itoa(statusCode)
	}
	if statusCode == tooManyRequests || statusCode == serviceUnavailable {
		o.RetryAfter = max(0, retryAfter)
	}
	return o
}

// Failed is the outcome of an attempt without an answer.
func Failed(word string) Outcome { return Outcome{Word: word} }

// Succeeded reports whether the receiver has the event: it answered 2xx.
func (o Outcome) Succeeded() bool { return o.StatusCode != 0 && o.Word == "" }

// Gone reports whether the receiver wants nothing more (410).
func (o Outcome) Gone() bool { return o.StatusCode == gone }

// strained reports whether the receiver, or what stands before it, may have too
// much to do.
func (o Outcome) strained() bool {
	switch o.StatusCode {
	case tooManyRequests, badGateway, serviceUnavailable, gatewayTimeout:
		return true
	default:
		return o.Word == Timeout
	}
}

const (
	// MaxAttempts are those of one schedule.
	MaxAttempts = 10
	// maxRetryAfter bounds what a receiver may ask for, strainedDelay is the least
	// delay after an answer that tells of strain.
	maxRetryAfter = 24 * time.Hour
	strainedDelay = time.Minute
	// jitter moves a delay by up to a fifth, either way.
	jitter = 0.2
)

// delays are those of Standard Webhooks, behind attempt 1, 2, …: 75 hours and 35
// minutes in all.
var delays = [MaxAttempts - 1]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// delay is how long to wait behind the attempt of a tier that failed. random is in
// [0, 1) and spreads attempts that failed together.
func delay(tier int, o Outcome, random float64) time.Duration {
	d := time.Duration(float64(delays[tier-1]) * (1 - jitter + 2*jitter*random))
	if o.strained() {
		d = max(d, strainedDelay)
	}
	return max(d, min(o.RetryAfter, maxRetryAfter))
}

// Standing is where a delivery stands.
type Standing struct {
	Status affiliate.DeliveryStatus
	// Tier counts the attempts of its schedule.
	Tier int
	// Extra counts attempts that were asked for and are still to be made.
	Extra int
}

// Next is where a delivery stands behind an attempt, and when the next is due; nil:
// there is none. random is in [0, 1).
func (s Standing) Next(o Outcome, now time.Time, random float64) (Standing, *time.Time) {
	waiting := s.Status == affiliate.DeliveryPending || s.Status == affiliate.DeliveryFailed
	if waiting {
		s.Tier++
	}
	var due *time.Time
	switch {
	case o.Succeeded():
		s.Status = affiliate.DeliveryDelivered
	case !waiting:
		// It had ended before; that stands.
	case o.Gone(), o.Word == BlockedAddress, s.Tier >= MaxAttempts:
		s.Status = affiliate.DeliveryDeadLettered
	default:
		s.Status = affiliate.DeliveryFailed
		at := now.Add(delay(s.Tier, o, random))
		due = &at
	}
	if s.Extra > 0 {
		s.Extra--
	}
	if o.Gone() {
		s.Extra = 0
	}
	if s.Extra > 0 {
		due = &now
	}
	return s, due
}

const (
	// BreakerFailures in a row open an endpoint's breaker.
	BreakerFailures = 10
	// BreakerPause is how long nothing is sent to it then; behind it goes one attempt
	// at a time until one succeeds.
	BreakerPause = time.Minute
	// DisableAfter is how long nothing may have succeeded before an endpoint is turned
	// off, if DisableDeadLetters or more were given up in that time.
	DisableAfter = 5 * 24 * time.Hour
	// DisableDeadLetters are the deliveries that DisableAfter speaks of.
	DisableDeadLetters = 20
	// InFlight bounds the attempts of one endpoint that are made at the same time.
	InFlight = 10
)
