package webhook

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// DeliveryChange is the effect of an attempt on its delivery.
type DeliveryChange struct {
	Result AttemptResult
	// Before is the state to which the outcome was applied.
	Before State
	After  State
	DueAt  *time.Time // of the next attempt; nil after the last
	// CompletedAt is set if the attempt has changed the status.
	CompletedAt *time.Time
}

// Apply returns the effect of the result on a delivery in a state, which may differ
// from the state before the attempt: a user may have requested a retry meanwhile, or
// disabled the endpoint.
func (r AttemptResult) Apply(state State) DeliveryChange {
	applied := state
	if r.Due.State.Extra == 0 {
		applied.Extra++ // this attempt was not a requested one: those are still to come
	}
	change := DeliveryChange{Result: r, Before: state}
	change.After, change.DueAt = applied.Next(r.Outcome, r.Ended, r.Random)
	if change.After.Status != state.Status {
		ended := r.Ended
		change.CompletedAt = &ended
	}
	return change
}

// gaveUp reports whether the attempt was the last one of a schedule that failed.
func (c DeliveryChange) gaveUp() bool {
	return c.After.Status == affiliate.DeliveryDeadLettered && c.Before.Status != affiliate.DeliveryDeadLettered
}

const (
	// disableAfter is how long an endpoint may fail without any success before it is
	// disabled, if at least disableDeadLetters deliveries were given up meanwhile.
	disableAfter       = 5 * 24 * time.Hour
	disableDeadLetters = 20
)

// CountOutcomes returns an endpoint after outcomes of its attempts, in the order in
// which they ended. It is disabled if it responded 410, or if it has failed for too
// long with too many deliveries given up.
func CountOutcomes(e affiliate.Endpoint, changes []DeliveryChange) affiliate.Endpoint {
	health := e.Health
	gone := false
	for _, c := range changes {
		ended := c.Result.Ended.UTC()
		health.LastDeliveryAt = &ended
		if c.Result.Outcome.Succeeded() {
			health = affiliate.EndpointHealth{LastDeliveryAt: &ended}
			continue
		}
		gone = gone || c.Result.Outcome.Gone()
		health.ConsecutiveFailures++
		if health.FailingSince == nil {
			health.FailingSince = &ended
		}
		if c.gaveUp() {
			health.DeadLetters++
		}
	}
	e.Health = health
	switch {
	case !e.Active || len(changes) == 0:
		return e
	case gone:
		return e.Disable(affiliate.DisabledGone, *health.LastDeliveryAt)
	case failedTooLong(health):
		return e.Disable(affiliate.DisabledFailing, *health.LastDeliveryAt)
	default:
		return e
	}
}

func failedTooLong(h affiliate.EndpointHealth) bool {
	return h.FailingSince != nil && h.LastDeliveryAt.Sub(*h.FailingSince) >= disableAfter && h.DeadLetters >= disableDeadLetters
}

// maxExtra bounds the requested attempts of a delivery that are still to be made.
const maxExtra = 100

// LockedDelivery is a delivery that a transaction has locked.
type LockedDelivery struct {
	ID          affiliate.DeliveryID
	Type        affiliate.EventName
	State       State
	Epoch       int // of the endpoint when the delivery was made, recovered or retried
	Attempts    int
	DueAt       *time.Time
	CompletedAt *time.Time
}

// Retry returns the delivery after a user has requested one more attempt, which takes
// the place of the next scheduled one. A delivery that waited when its endpoint was
// disabled is canceled since then: it gets this attempt and no schedule.
func (d LockedDelivery) Retry(e affiliate.Endpoint, at time.Time) LockedDelivery {
	if d.Epoch < e.Epoch {
		d.State.Extra = 0
		if d.State.Status == affiliate.DeliveryPending || d.State.Status == affiliate.DeliveryFailed {
			d.State.Status, d.CompletedAt = affiliate.DeliveryCanceled, &e.UpdatedAt
		}
	}
	d.Epoch, d.DueAt = e.Epoch, &at
	d.State.Extra = min(d.State.Extra+1, maxExtra)
	return d
}
