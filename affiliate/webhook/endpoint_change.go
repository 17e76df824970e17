package webhook

import (
	"net/url"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// RequireRoomForEndpoint returns an error if a mode cannot have another endpoint. count
// is the number of its endpoints. Errors: WEBHOOK_ENDPOINT_LIMIT_EXCEEDED.
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
	differs, _, err := affiliate.ChangedFields(e.auditFields(), after.auditFields())
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

// enable resets the failure counts. It keeps the day of the last dead letter, because there
// is one notification on each day.
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

// Key returns the endpoint's key.
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

func (e Endpoint) auditFields() endpointAuditFields {
	fields := endpointAuditFields{
		Description: e.Description, Subscriptions: e.Subscriptions, Active: e.Active, DisabledReason: e.DisabledReason,
	}
	if u, err := url.Parse(e.URL); err == nil {
		fields.Host = u.Host
	}
	return fields
}

// AuditCreated returns the audit log entry of the endpoint's creation.
func (e Endpoint) AuditCreated(by affiliate.Actor) affiliate.AuditLine {
	return e.Audit("webhook.create", by, e.CreatedAt, nil, e.auditFields())
}

// AuditUpdated returns the audit log entry of an update. before is the endpoint before
// the update. The entry contains only the fields that the update changed.
func (e Endpoint) AuditUpdated(before Endpoint, by affiliate.Actor) (affiliate.AuditLine, error) {
	oldValues, newValues, err := affiliate.ChangedFields(before.auditFields(), e.auditFields())
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

// AuditDisabled returns the audit log entry of an endpoint that the service disabled.
func (e Endpoint) AuditDisabled() affiliate.AuditLine {
	newValues := map[string]any{"active": e.Active, "disabled_reason": e.DisabledReason}
	return e.Audit("webhook.disable", affiliate.System, e.UpdatedAt, nil, newValues)
}

// AuditDeleted returns the audit log entry of a deletion. before is the endpoint before
// the deletion.
func (e Endpoint) AuditDeleted(before Endpoint, by affiliate.Actor) affiliate.AuditLine {
	return e.Audit("webhook.delete", by, e.UpdatedAt, before.auditFields(), nil)
}

// AuditRotated returns the audit log entry of the rotation of a secret. previousUntil is
// when the previous secret expires; nil if it expired at once.
func (e Endpoint) AuditRotated(previousUntil *time.Time, by affiliate.Actor) affiliate.AuditLine {
	newValues := map[string]any{"previous_until": nil}
	if previousUntil != nil {
		newValues["previous_until"] = affiliate.FormatTime(*previousUntil)
	}
	return e.Audit("webhook.rotate_secret", by, e.UpdatedAt, nil, newValues)
}

// Audit returns an audit log entry about the endpoint.
func (e Endpoint) Audit(action string, by affiliate.Actor, at time.Time, before, after any) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: e.Workspace, Mode: &e.Mode, Actor: by, At: at,
		Action: action, ResourceType: "webhook", ResourceID: e.ID, Before: before, After: after,
	}
}
