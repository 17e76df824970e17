package webhook

import (
	"strconv"
	"time"
)

// Error codes of a failed attempt (docs/merchant/webhooks.md#look-up-a-delivery). The API
// shows one of them, or http_<status>, and no other details of the failure.
const (
	// DNSError means that the host name could not be resolved.
	DNSError = "dns_error"
	// ConnectionFailed means that no connection was established, or that the connection
	// was closed or reset before the response.
	ConnectionFailed = "connection_refused"
	// Timeout means that no connection was established, or no response received, within
	// the time limit.
	Timeout = "timeout"
	// TLSError means that TLS failed or that the certificate was not accepted.
	TLSError = "tls_error"
	// ProtocolError means that the response was not complete HTTP, that its header was
	// too long, or that too many 1xx responses came before it.
	ProtocolError = "protocol_error"
	// BlockedAddress means that the host resolves to an address that must not be
	// called.
	BlockedAddress = "blocked_address"
	// Redirect means that the response had a 3xx status. Redirects are not followed.
	Redirect = "redirect"
)

// FailureCodes returns all error codes but http_<status>.
func FailureCodes() []string {
	return []string{DNSError, ConnectionFailed, Timeout, TLSError, ProtocolError, BlockedAddress, Redirect}
}

// Status codes that need special treatment.
const (
	gone               = 410
	tooManyRequests    = 429
	badGateway         = 502
	serviceUnavailable = 503
	gatewayTimeout     = 504
)

// Outcome is the result of one attempt.
type Outcome struct {
	// StatusCode is the status of the response; 0 if there was none.
	StatusCode int
	// ErrorCode names the error; empty if the attempt succeeded.
	ErrorCode string
	// RetryAfter is the delay that the receiver requested; 0 if it requested none.
	RetryAfter time.Duration
}

// ResponseOutcome returns the outcome of an attempt with a response. retryAfter is the
// value of the Retry-After header.
func ResponseOutcome(statusCode int, retryAfter time.Duration) Outcome {
	o := Outcome{StatusCode: statusCode}
	switch {
	case statusCode >= 200 && statusCode < 300:
		return o
	case statusCode >= 300 && statusCode < 400:
		o.ErrorCode = Redirect
	default:
		o.ErrorCode = "http_" + strconv.Itoa(statusCode)
	}
	if statusCode == tooManyRequests || statusCode == serviceUnavailable {
		o.RetryAfter = max(0, retryAfter)
	}
	return o
}

// FailureOutcome returns the outcome of an attempt without a response.
func FailureOutcome(errorCode string) Outcome { return Outcome{ErrorCode: errorCode} }

// Succeeded reports whether the receiver accepted the event with a 2xx status.
func (o Outcome) Succeeded() bool { return o.StatusCode != 0 && o.ErrorCode == "" }

// Gone reports whether the receiver responded with status 410, which means that it does
// not want more events.
func (o Outcome) Gone() bool { return o.StatusCode == gone }

// TimedOut reports whether there was no response within the time limit.
func (o Outcome) TimedOut() bool { return o.ErrorCode == Timeout }

// overloaded reports whether the outcome may be caused by high load on the receiver or
// on a proxy in front of it.
func (o Outcome) overloaded() bool {
	switch o.StatusCode {
	case tooManyRequests, badGateway, serviceUnavailable, gatewayTimeout:
		return true
	default:
		return o.TimedOut()
	}
}

const (
	// MaxAttempts is the number of attempts of one schedule.
	MaxAttempts = 10
	// maxRetryAfter is the longest delay that a receiver can request.
	maxRetryAfter = 24 * time.Hour
	// overloadDelay is the shortest delay after an outcome that may be caused by high
	// load on the receiver.
	overloadDelay = time.Minute
	// jitter is the greatest relative change of a delay, a fifth. A delay of the
	// schedule is shortened or lengthened. A delay that is set by Retry-After or
	// overloadDelay is only lengthened.
	jitter = 0.2
)

// delays are the delays after attempts 1, 2, …, as in Standard Webhooks. Their sum is
// 75 hours and 35 minutes.
var delays = [MaxAttempts - 1]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// delay returns the delay after a failed attempt. number is the number of the attempt
// in the schedule, starting at 1. random in [0, 1) spreads the next attempts of
// deliveries that failed at the same time.
func delay(number int, o Outcome, random float64) time.Duration {
	least := min(o.RetryAfter, maxRetryAfter)
	if o.overloaded() {
		least = max(least, overloadDelay)
	}
	return max(scale(delays[number-1], 1-jitter+2*jitter*random), scale(least, 1+jitter*random))
}

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// State is the position of a delivery in its schedule.
type State struct {
	Status DeliveryStatus
	// ScheduledAttempts is the number of attempts that were made in the current schedule.
	ScheduledAttempts int `db:"tier"`
	// RequestedAttempts is the number of attempts that users requested and that were
	// not made yet.
	RequestedAttempts int `db:"extra"`
}

// Next returns the state after an attempt, and the time of the next attempt; nil if
// there is none. random is in [0, 1).
func (s State) Next(o Outcome, now time.Time, random float64) (State, *time.Time) {
	waiting := s.Status == DeliveryPending || s.Status == DeliveryFailed
	if waiting {
		s.ScheduledAttempts++
	}
	var due *time.Time
	switch {
	case o.Succeeded():
		s.Status = DeliveryDelivered
	case !waiting:
		// The delivery had already ended before this attempt, so its status stays.
	case o.Gone(), o.ErrorCode == BlockedAddress, s.ScheduledAttempts >= MaxAttempts:
		s.Status = DeliveryDeadLettered
	default:
		s.Status = DeliveryFailed
		at := now.Add(delay(s.ScheduledAttempts, o, random))
		due = &at
	}
	if s.RequestedAttempts > 0 {
		s.RequestedAttempts--
	}
	if o.Gone() {
		s.RequestedAttempts = 0
	}
	if s.RequestedAttempts > 0 {
		due = &now
	}
	return s, due
}

const (
	// BreakerFailures is the number of consecutive failures that opens the circuit
	// breaker of an endpoint.
	BreakerFailures = 10
	// BreakerPause is how long an open circuit breaker stops all attempts. After the
	// pause, one attempt at a time is made until an attempt succeeds.
	BreakerPause = time.Minute
	// InFlight is the greatest number of attempts of one endpoint that are in flight in
	// all processes together.
	InFlight = 10
)
