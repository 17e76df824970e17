package webhook

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// DeliveryChange is the effect of an attempt on its delivery.
type DeliveryChange struct {
	Result AttemptResult
	// Before is the state to which the outcome was applied.
	Before State
	After  State
	DueAt  *time.Time // time of the next attempt; nil if there is none
	// CompletedAt is set if the attempt changed the status.
	CompletedAt *time.Time
}

// Apply returns the effect of the result on a delivery in the given state. The state
// can differ from the state before the attempt, because a user may have requested a
// retry or disabled the endpoint during the attempt.
func (r AttemptResult) Apply(state State) DeliveryChange {
	applied := state
	if r.Delivery.State.RequestedAttempts == 0 {
		applied.RequestedAttempts++ // this was a scheduled attempt, so all requested attempts must still be made
	}
	change := DeliveryChange{Result: r, Before: state}
	change.After, change.DueAt = applied.Next(r.Outcome, r.Ended, r.Random)
	if change.After.Status != state.Status {
		ended := r.Ended
		change.CompletedAt = &ended
	}
	return change
}

func (c DeliveryChange) becameDeadLetter() bool {
	return c.After.Status == DeliveryDeadLettered && c.Before.Status != DeliveryDeadLettered
}

const (
	// An endpoint is disabled when it has failed for disableAfter without any success
	// and at least disableDeadLetters deliveries became dead letters in that time.
	disableAfter       = 5 * 24 * time.Hour
	disableDeadLetters = 20
)

// CountOutcomes returns an endpoint after the outcomes of some of its attempts. changes
// are in the order in which the attempts ended. The endpoint is disabled if it responded
// with status 410, or if it has failed for too long and too many deliveries became dead
// letters.
func CountOutcomes(e Endpoint, changes []DeliveryChange) Endpoint {
	health := e.Health
	gone := false
	for _, c := range changes {
		ended := c.Result.Ended.UTC()
		health.LastDeliveryAt = &ended
		if c.Result.Outcome.Succeeded() {
			health = Health{LastDeliveryAt: &ended, LastDeadLetterDay: health.LastDeadLetterDay}
			continue
		}
		gone = gone || c.Result.Outcome.Gone()
		health.ConsecutiveFailures++
		if health.FailingSince == nil {
			health.FailingSince = &ended
		}
		if c.becameDeadLetter() {
			health.DeadLetters++
			day := ended.Truncate(24 * time.Hour)
			health.LastDeadLetterDay = &day
		}
	}
	e.Health = health
	switch {
	case !e.Active || len(changes) == 0:
		return e
	case gone:
		return e.Disable(DisabledGone, *health.LastDeliveryAt)
	case failedTooLong(health):
		return e.Disable(DisabledFailing, *health.LastDeliveryAt)
	default:
		return e
	}
}

// HealthNotifications returns the notifications about the change of an endpoint by
// CountOutcomes: about the first dead letter of a day, and about an endpoint that was
// disabled. at is the time at which the change is stored, which may be long after the
// attempts.
func HealthNotifications(before, after Endpoint, at time.Time) []notification.Notification {
	var all []notification.Notification
	day := after.LastDeadLetterDay
	if day != nil && (before.LastDeadLetterDay == nil || before.LastDeadLetterDay.Before(*day)) {
		all = append(all, after.Notification(notification.NotifyEndpointDeadLetter, at))
	}
	if before.Active && !after.Active {
		all = append(all, after.Notification(notification.NotifyEndpointDisabled, at))
	}
	return all
}

func failedTooLong(h Health) bool {
	return h.FailingSince != nil && h.LastDeliveryAt.Sub(*h.FailingSince) >= disableAfter && h.DeadLetters >= disableDeadLetters
}

// maxRequestedAttempts is the greatest number of requested attempts of one delivery
// that can wait to be made.
const maxRequestedAttempts = 100

// LockedDelivery is a delivery that a transaction has locked.
type LockedDelivery struct {
	ID   affiliate.DeliveryID
	Type affiliate.EventName `db:"event_type"`
	State
	Epoch       int // epoch of the endpoint when the delivery was created, recovered or retried
	Attempts    int `db:"attempt_count"`
	DueAt       *time.Time
	CompletedAt *time.Time
}

// Retry returns the delivery after a user requested one more attempt, which replaces
// the next scheduled attempt. If the endpoint was disabled while the delivery was
// waiting, the delivery counts as canceled since then: the requested attempt is made,
// but no further scheduled attempts.
func (d LockedDelivery) Retry(e Endpoint, at time.Time) LockedDelivery {
	if d.Epoch < e.Epoch {
		d.RequestedAttempts = 0
		if d.Status == DeliveryPending || d.Status == DeliveryFailed {
			d.Status, d.CompletedAt = DeliveryCanceled, &e.UpdatedAt
		}
	}
	d.Epoch, d.DueAt = e.Epoch, &at
	d.RequestedAttempts = min(d.RequestedAttempts+1, maxRequestedAttempts)
	return d
}
