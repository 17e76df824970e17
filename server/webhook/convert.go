package webhook

import (
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

func toProto(e webhook.Endpoint) *affiliatev1.Webhook {
	out := &affiliatev1.Webhook{
		Id:                  e.ID.String(),
		Url:                 e.URL,
		Description:         e.Description,
		Subscriptions:       e.Subscriptions,
		Active:              e.Active,
		Mode:                server.EnumValue[affiliatev1.Mode](e.Mode),
		Status:              server.EnumValue[affiliatev1.WebhookStatus](e.Status()),
		ConsecutiveFailures: toInt32(e.ConsecutiveFailures),
		LastDeliveryAt:      server.OptionalTimestamp(e.LastDeliveryAt),
		CreatedAt:           server.Timestamp(e.CreatedAt),
		UpdatedAt:           server.Timestamp(e.UpdatedAt),
	}
	if e.DisabledReason != nil {
		out.DisabledReason = server.EnumValue[affiliatev1.WebhookDisabledReason](*e.DisabledReason)
	}
	return out
}

// createdToProto converts an endpoint to the message with its new secret. The secret is
// returned when it is created and never again.
func createdToProto(e webhook.Endpoint, secret webhook.Secret) *affiliatev1.CreatedWebhook {
	out := &affiliatev1.CreatedWebhook{SigningSecret: secret.Text()}
	server.CopyShared(out.ProtoReflect(), toProto(e).ProtoReflect())
	return out
}

// newEndpoint converts a create request to an endpoint. Check has validated the request.
func newEndpoint(req *affiliatev1.CreateWebhookRequest, scope affiliate.Scope, url webhook.URL, at time.Time) webhook.Endpoint {
	e := webhook.Endpoint{
		ID: affiliate.NewID[affiliate.EndpointID](at), Scope: scope, URL: url.Text,
		Description:   server.OptionalString(req.GetDescription()),
		Subscriptions: distinct(slices.Concat(req.GetSubscriptions(), req.GetEvents())),
		Active:        req.Active == nil || req.GetActive(),
		Epoch:         1, CreatedAt: at, UpdatedAt: at, Version: 1,
	}
	if !e.Active {
		reason := webhook.DisabledByMerchant
		e.DisabledReason = &reason
	}
	return e
}

// changeOf returns the changes of the fields that the request's mask names. Check has
// validated the mask.
func changeOf(req *affiliatev1.UpdateWebhookRequest) webhook.EndpointChange {
	var change webhook.EndpointChange
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "subscriptions":
			change.Subscriptions = affiliate.Set(distinct(req.GetSubscriptions()))
		case "active":
			change.Active = affiliate.Set(req.GetActive())
		case "description":
			change.Description = affiliate.Change[string]{Given: true, Value: server.OptionalString(req.GetDescription())}
		}
	}
	return change
}

// distinct returns the texts without duplicates, in their original order.
func distinct(texts []string) []string {
	unique := make([]string, 0, len(texts))
	for _, text := range texts {
		if !slices.Contains(unique, text) {
			unique = append(unique, text)
		}
	}
	return unique
}

func eventTypeToProto(kind affiliate.EventKind) *affiliatev1.EventTypeInfo {
	return &affiliatev1.EventTypeInfo{Name: string(kind.Name), Description: kind.Description}
}

// filterOf returns the filter of a list request. Check has validated the request.
func filterOf(req *affiliatev1.ListDeliveriesRequest) webhook.DeliveryFilter {
	var filter webhook.DeliveryFilter
	if status := webhook.DeliveryStatus(server.EnumName(req.GetStatus())); status != "" {
		filter.Status = &status
	}
	if req.EventId != nil {
		// A text that is not an event id becomes the zero id, which no event has.
		event, _ := affiliate.ParseWireID(req.GetEventId())
		filter.Event = &event
	}
	return filter
}

func deliveryToProto(d webhook.Delivery) *affiliatev1.Delivery {
	return &affiliatev1.Delivery{
		Id:             d.ID.String(),
		EventId:        affiliate.WireID(d.Event),
		EventType:      string(d.Type),
		Status:         server.EnumValue[affiliatev1.DeliveryStatus](d.Status),
		AttemptCount:   toInt32(d.AttemptCount),
		HttpStatusCode: optionalInt32(d.HTTPStatusCode),
		ErrorMessage:   d.ErrorMessage,
		NextAttemptAt:  server.OptionalTimestamp(d.NextAttemptAt),
		CreatedAt:      server.Timestamp(d.CreatedAt),
		CompletedAt:    server.OptionalTimestamp(d.CompletedAt),
	}
}

func detailToProto(d webhook.Delivery, url string) *affiliatev1.DeliveryDetail {
	out := &affiliatev1.DeliveryDetail{RequestUrl: url, Attempts: server.ConvertAll(d.Attempts, attemptToProto)}
	server.CopyShared(out.ProtoReflect(), deliveryToProto(d).ProtoReflect())
	return out
}

func attemptToProto(a webhook.Attempt) *affiliatev1.DeliveryAttempt {
	return &affiliatev1.DeliveryAttempt{
		Number:         toInt32(a.Number),
		StartedAt:      server.Timestamp(a.StartedAt),
		DurationMs:     a.DurationMS,
		HttpStatusCode: optionalInt32(a.HTTPStatusCode),
		ErrorMessage:   a.ErrorMessage,
	}
}

// recoveryOf converts a recovery request to a job. The caller sets the endpoint of the
// job. Check has validated the request.
func recoveryOf(req *affiliatev1.RecoverDeliveriesRequest, now time.Time) webhook.RecoverDeliveries {
	job := webhook.RecoverDeliveries{
		Since: req.GetSince().AsTime(), Until: now, RequestedAt: now,
		Statuses: []webhook.DeliveryStatus{webhook.DeliveryDeadLettered, webhook.DeliveryCanceled},
	}
	if oldest := now.Add(-maxEventAge); job.Since.Before(oldest) {
		job.Since = oldest
	}
	if until := req.GetUntil(); until != nil {
		job.Until = until.AsTime()
	}
	if len(req.GetStatuses()) > 0 {
		job.Statuses = nil
		for _, status := range req.GetStatuses() {
			if name := webhook.DeliveryStatus(server.EnumName(status)); !slices.Contains(job.Statuses, name) {
				job.Statuses = append(job.Statuses, name)
			}
		}
	}
	return job
}

// toInt32 converts a page number, a number of attempts or an HTTP status for the API.
func toInt32(n int) int32 { return int32(n) } // #nosec G115 -- the values are small

func optionalInt32(n *int) *int32 {
	if n == nil {
		return nil
	}
	converted := toInt32(*n)
	return &converted
}
