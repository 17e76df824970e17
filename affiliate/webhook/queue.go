package webhook

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Target is an endpoint as its sender sees it.
type Target struct {
	Key affiliate.EndpointKey
	URL string
	// Secret and Previous are sealed; Previous also signs until PreviousUntil.
	Secret        []byte
	Previous      []byte
	PreviousUntil *time.Time
	// ConsecutiveFailures and LastDeliveryAt tell whether the breaker is open.
	ConsecutiveFailures int
	LastDeliveryAt      *time.Time
	// NextDue is when the first of its deliveries is due that is not due yet; nil:
	// none is.
	NextDue *time.Time
}

// Wanted asks for deliveries of one endpoint that are due.
type Wanted struct {
	Key affiliate.EndpointKey
	// From leaves out what was due before: its sender knows that nothing is left there.
	From  time.Time
	Limit int
}

// Due is a delivery that is to be attempted now.
type Due struct {
	Endpoint affiliate.EndpointID
	ID       affiliate.DeliveryID
	Event    affiliate.EventID
	Body     []byte
	// Standing and Attempts are as they were when it was read: how often it was
	// attempted before.
	Standing Standing
	Attempts int
	DueAt    time.Time
}

// Attempted is what came of an attempt.
type Attempted struct {
	Key     affiliate.EndpointKey
	Due     Due
	Outcome Outcome
	Started time.Time
	Ended   time.Time
	// Random spreads the next attempt; in [0, 1).
	Random float64
}

// Record is the attempt as it is kept.
func (a Attempted) Record() affiliate.Attempt {
	record := affiliate.Attempt{
		Number: a.Due.Attempts + 1, StartedAt: a.Started.UTC(), DurationMS: a.Ended.Sub(a.Started).Milliseconds(),
	}
	if a.Outcome.StatusCode != 0 {
		record.HTTPStatusCode = &a.Outcome.StatusCode
	}
	if !a.Outcome.Succeeded() {
		record.ErrorMessage = &a.Outcome.Word
	}
	return record
}

// TurnedOff is an endpoint that was turned off by attempts.
type TurnedOff struct {
	Key    affiliate.EndpointKey
	Reason affiliate.DisabledReason
}
