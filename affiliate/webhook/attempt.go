package webhook

import (
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
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

// FailureCodes returns all error codes except http_<status>.
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

// delay returns the delay after a failed attempt. The parameter number is the position of the
// attempt in the schedule, counted from 1. The parameter random, in [0, 1), spreads the next
// attempts of deliveries that failed at the same time.
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

// Target is an endpoint with the data that the sender needs.
type Target struct {
	EndpointKey
	URL string
	// Secret and PreviousSecret are encrypted. Until PreviousUntil, bodies are signed
	// with both of them.
	Secret         []byte
	PreviousSecret []byte
	PreviousUntil  *time.Time
	// ConsecutiveFailures and LastDeliveryAt are the stored state of the circuit breaker,
	// which pauses an endpoint after failures.
	ConsecutiveFailures int
	LastDeliveryAt      *time.Time
	// NextDue is the earliest due time of the endpoint's deliveries that are not due
	// yet; nil if there are none.
	NextDue *time.Time
}

// DueQuery selects due deliveries of one endpoint.
type DueQuery struct {
	Key EndpointKey
	// From is the earliest due time to read. The sender already knows all deliveries
	// that were due before From.
	From  time.Time
	Limit int
}

// DueDelivery is a delivery whose next attempt is due.
type DueDelivery struct {
	Endpoint affiliate.EndpointID
	ID       affiliate.DeliveryID
	Event    affiliate.EventID
	Body     []byte
	// Trace is affiliate.Event.Trace of the event: the span that caused it.
	Trace []byte
	// State and Attempts (the number of attempts so far) have the values that were
	// stored at the time of the read.
	State    State
	Attempts int
	DueAt    time.Time
}

// AttemptResult is the outcome of one attempt with everything that is stored about it.
type AttemptResult struct {
	Key      EndpointKey
	Delivery DueDelivery
	Outcome  Outcome
	Started  time.Time
	Ended    time.Time
	// Random in [0, 1) spreads the times of the next attempts of different deliveries.
	Random float64
}

// Record returns the attempt as it is stored with the delivery.
func (r AttemptResult) Record() Attempt {
	record := Attempt{
		Number: r.Delivery.Attempts + 1, StartedAt: r.Started.UTC(), DurationMS: r.Ended.Sub(r.Started).Milliseconds(),
	}
	if r.Outcome.StatusCode != 0 {
		record.HTTPStatusCode = &r.Outcome.StatusCode
	}
	if !r.Outcome.Succeeded() {
		record.ErrorMessage = &r.Outcome.ErrorCode
	}
	return record
}

// Lateness describes the due deliveries of all active endpoints.
type Lateness struct {
	Endpoints int64      // number of active endpoints
	Late      int64      // number of endpoints with a delivery that has been due for too long
	OldestDue *time.Time // time since which the oldest delivery has been due; nil if none is due
}
