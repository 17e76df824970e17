package webhook

import (
	"net/url"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// RequireRoomForEndpoint returns an error if a mode of a workspace that has count endpoints
// cannot have another endpoint. Errors: WEBHOOK_ENDPOINT_LIMIT_EXCEEDED.
func RequireRoomForEndpoint(count int) error {
	if count >= MaxEndpoints {
		return affiliate.Refuse(affiliate.ReasonWebhookLimitExceeded)
	}
	return nil
}

// RequireActive returns an error if the endpoint is not active. Errors:
// WEBHOOK_DISABLED.
func (e Endpoint) RequireActive() error {
	if !e.Active {
		return affiliate.Refuse(affiliate.ReasonWebhookDisabled)
	}
	return nil
}

// Update returns the endpoint after a change by a user, and whether anything changed.
// Disabling an endpoint that is already disabled does not change the reason.
func (e Endpoint) Update(change EndpointChange, at time.Time) (after Endpoint, changed bool, err error) {
	after = e
	if change.Subscriptions.Given && change.Subscriptions.Value != nil {
		after.Subscriptions = *change.Subscriptions.Value
	}
	if change.Description.Given {
		after.Description = change.Description.Value
	}
	if active := change.Active.Value; change.Active.Given && active != nil {
		switch {
		case *active && !e.Active:
			after = after.enable()
		case !*active && e.Active:
			after = after.disable(DisabledByMerchant)
		}
	}
	differs, _, err := affiliate.ChangedFields(e.AuditFields(), after.AuditFields())
	if err != nil || differs == nil {
		return e, false, err
	}
	return after.touch(at), true, nil
}

// Disable returns the endpoint after the service disabled it.
func (e Endpoint) Disable(reason DisabledReason, at time.Time) Endpoint {
	return e.disable(reason).touch(at)
}

// Delete returns the endpoint after its deletion.
func (e Endpoint) Delete(at time.Time) Endpoint {
	if e.Active {
		e = e.disable(DisabledByMerchant)
	} else {
		e.Epoch++
	}
	return e.touch(at)
}

// RotateSecret returns the endpoint after its secret was replaced.
func (e Endpoint) RotateSecret(at time.Time) Endpoint { return e.touch(at) }

// disable increases the epoch, so that waiting deliveries are not sent any more.
func (e Endpoint) disable(reason DisabledReason) Endpoint {
	e.Active, e.DisabledReason = false, &reason
	e.Epoch++
	return e
}

// enable resets the failure counts. It keeps the day of the last dead letter, because there is
// at most one notification on each day.
func (e Endpoint) enable() Endpoint {
	e.Active, e.DisabledReason = true, nil
	e.Health = Health{LastDeliveryAt: e.LastDeliveryAt, LastDeadLetterDay: e.LastDeadLetterDay}
	return e
}

func (e Endpoint) touch(at time.Time) Endpoint {
	e.UpdatedAt = at.UTC()
	e.Version++
	return e
}

// CancelDeliveries returns the job that sets the status of deliveries of earlier epochs
// to canceled.
func (e Endpoint) CancelDeliveries() CancelDeliveries {
	return CancelDeliveries{Workspace: e.Workspace, Mode: e.Mode, Endpoint: e.ID}
}

// Key returns the workspace and the id of the endpoint.
func (e Endpoint) Key() EndpointKey { return EndpointKey{Workspace: e.Workspace, ID: e.ID} }

// endpointAuditFields holds the fields of an endpoint that the audit log shows. It has
// only the host of the URL, because the rest often contains tokens.
type endpointAuditFields struct {
	Host           string          `json:"host"`
	Description    *string         `json:"description"`
	Subscriptions  []string        `json:"subscriptions"`
	Active         bool            `json:"active"`
	DisabledReason *DisabledReason `json:"disabled_reason"`
}

// AuditFields returns the fields of the endpoint that the audit log shows.
func (e Endpoint) AuditFields() any {
	fields := endpointAuditFields{
		Description: e.Description, Subscriptions: e.Subscriptions, Active: e.Active, DisabledReason: e.DisabledReason,
	}
	if u, err := url.Parse(e.URL); err == nil {
		fields.Host = u.Host
	}
	return fields
}

// AuditUpdated returns the audit log entry of the update that changed the endpoint before to e.
// The entry contains only the fields that the update changed.
func (e Endpoint) AuditUpdated(before Endpoint, by affiliate.Actor) (affiliate.AuditLine, error) {
	oldValues, newValues, err := affiliate.ChangedFields(before.AuditFields(), e.AuditFields())
	return e.Audit("webhook.update", by, e.UpdatedAt, oldValues, newValues), err
}

// disabledBecause are the reasons why the service disables an endpoint, as the end of a
// sentence.
var disabledBecause = map[DisabledReason]string{
	DisabledGone:    "it responded with the status 410",
	DisabledFailing: "all deliveries of the last five days have failed",
}

// Notification returns a notification about the endpoint for the workspace.
func (e Endpoint) Notification(kind notification.Type, at time.Time) notification.Notification {
	n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(e.Workspace), kind, &e.Mode, at)
	n.Workspace, n.Resource = &e.Workspace, &e.ID.UUID
	n.Facts = map[string]string{"url": e.URL}
	if e.DisabledReason != nil {
		n.Facts["reason"] = disabledBecause[*e.DisabledReason]
	}
	return n
}

// Audit returns an audit log entry about the endpoint.
func (e Endpoint) Audit(action string, by affiliate.Actor, at time.Time, before, after any) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: e.Workspace, Mode: &e.Mode, Actor: by, At: at,
		Action: action, ResourceType: "webhook", ResourceID: e.ID, Before: before, After: after,
	}
}

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

// CountOutcomes returns an endpoint after it has added the outcomes of attempts to the
// endpoint's Health. The changes must be in the order in which the attempts ended. The endpoint
// is disabled if it responded with status 410, or if it has failed for too long and too many
// deliveries became dead letters.
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
// CountOutcomes: about the first dead letter of a day, and about an endpoint that was disabled.
// The parameter at is the time at which the change is stored, which may be long after the
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
