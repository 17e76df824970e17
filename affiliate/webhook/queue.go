package webhook

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Target is an endpoint with the data that the sender needs.
type Target struct {
	Key EndpointKey
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

// DueQuery asks for due deliveries of one endpoint.
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
	// Trace is the field Trace of the event.
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
