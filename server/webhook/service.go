package webhook

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// maxEventAge is the maximum age of an event whose deliveries can be read, retried and
// recovered. Older deliveries stay in the tables for some time.
const maxEventAge = 30 * 24 * time.Hour

// Config holds the dependencies of a Service.
type Config struct {
	DB *postgres.DB
	// Seal encrypts signing secrets. The additional data is the endpoint's id in binary
	// form, so a secret cannot be decrypted as the secret of another endpoint.
	Seal server.Sealer
	// Client checks URLs and sends pings.
	Client *Client
	// Now is the clock.
	Now func() time.Time
}

// Service implements affiliate.v1.WebhookService.
type Service struct {
	affiliatev1.UnimplementedWebhookServiceServer
	Config
}

// New returns a Service.
func New(c Config) *Service { return &Service{Config: c} }

func (s *Service) currentTime() time.Time { return currentTime(s.Now) }

// pathID parses an id in a request's path. Errors: WEBHOOK_NOT_FOUND if the text is not a
// UUID.
func pathID[I affiliate.AnyID](text string) (I, error) {
	id, ok := affiliate.ParseID[I](text)
	if !ok {
		return id, affiliate.Refuse(affiliate.ReasonWebhookNotFound)
	}
	return id, nil
}

// clockSkew is the tolerated difference between the client's clock and this machine's
// clock. Without the tolerance, a client with a slightly different clock could not
// request the last 30 days or a time range that ends now.
const clockSkew = 5 * time.Minute

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.CreateWebhookRequest:
		s.checkURL(req.GetUrl(), &found)
		switch {
		case len(req.GetSubscriptions()) == 0 && len(req.GetEvents()) == 0:
			found.Add("subscriptions", "must have at least one event name")
		case len(req.GetSubscriptions()) > 0 && len(req.GetEvents()) > 0:
			found.Add("events", affiliate.MustNotBeWith("subscriptions")+", which is the same field")
		}
		checkSubscriptions("subscriptions", req.GetSubscriptions(), &found)
		checkSubscriptions("events", req.GetEvents(), &found)
	case *affiliatev1.UpdateWebhookRequest:
		server.CheckMask(req, &found, "subscriptions", "active")
		checkSubscriptions("subscriptions", req.GetSubscriptions(), &found)
	case *affiliatev1.ListDeliveriesRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
		known := func(kind affiliate.EventKind) bool { return string(kind.Name) == req.GetEventType() }
		if req.EventType != nil && !slices.ContainsFunc(affiliate.Catalogue(), known) {
			found.Add("event_type", "must be the name of an event")
		}
	case *affiliatev1.RecoverDeliveriesRequest:
		checkRecovery(req, s.currentTime(), &found)
	}
	return found
}

func (s *Service) checkURL(raw string, found *affiliate.Violations) {
	url, wrong := webhook.ParseURL(raw)
	for _, message := range wrong {
		found.Add("url", message)
	}
	if len(wrong) == 0 && s.Client.RefusesPort(url) {
		found.Add("url", portMessage)
	}
}

func checkSubscriptions(field string, subscriptions []string, found *affiliate.Violations) {
	for i, subscription := range subscriptions {
		if wrong := webhook.CheckSubscription(subscription); wrong != "" {
			found.Add(fmt.Sprintf("%s[%d]", field, i), wrong)
		}
	}
}

// checkRecovery validates the time range and the statuses of a recovery. It ignores
// invalid timestamps, because checks in package server reject them.
func checkRecovery(req *affiliatev1.RecoverDeliveriesRequest, now time.Time, found *affiliate.Violations) {
	since, until := req.GetSince(), req.GetUntil()
	if since.IsValid() && since.AsTime().Before(now.Add(-maxEventAge-clockSkew)) {
		found.Add("since", "must be in the last 30 days")
	}
	if since.IsValid() && until == nil && !since.AsTime().Before(now) {
		found.Add("since", "must be in the past")
	}
	if until.IsValid() && until.AsTime().After(now.Add(clockSkew)) {
		found.Add("until", "must not be in the future")
	}
	if since.IsValid() && until.IsValid() && !since.AsTime().Before(until.AsTime()) {
		found.Add("since", "must be before {until}")
	}
	for i, status := range req.GetStatuses() {
		if !slices.Contains(recoverable, webhook.DeliveryStatus(server.EnumName(status))) {
			found.Add(fmt.Sprintf("statuses[%d]", i), "must be one of dead_lettered, canceled, failed, delivered")
		}
	}
}

// recoverable lists the statuses that a recovery can select. The list does not contain
// pending deliveries, because they will be sent without a recovery.
var recoverable = []webhook.DeliveryStatus{
	webhook.DeliveryDeadLettered, webhook.DeliveryCanceled, webhook.DeliveryFailed, webhook.DeliveryDelivered,
}

func toProto(e webhook.Endpoint) *affiliatev1.Webhook {
	return &affiliatev1.Webhook{
		Id:                  e.ID.String(),
		Url:                 e.URL,
		Description:         e.Description,
		Subscriptions:       e.Subscriptions,
		Active:              e.Active,
		Mode:                server.EnumValue[affiliatev1.Mode](e.Mode),
		Status:              server.EnumValue[affiliatev1.WebhookStatus](e.Status()),
		DisabledReason:      server.OptionalEnum[affiliatev1.WebhookDisabledReason](e.DisabledReason),
		ConsecutiveFailures: toInt32(e.ConsecutiveFailures),
		LastDeliveryAt:      server.OptionalTimestamp(e.LastDeliveryAt),
		CreatedAt:           server.Timestamp(e.CreatedAt),
		UpdatedAt:           server.Timestamp(e.UpdatedAt),
	}
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
	filter.Type = affiliate.EventName(req.GetEventType())
	filter.Created, _ = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	return filter
}

func deliveryToProto(d webhook.Delivery) *affiliatev1.Delivery {
	return &affiliatev1.Delivery{
		Id:             d.ID.String(),
		EventId:        affiliate.WireID(d.Event),
		EventType:      string(d.Type),
		Status:         server.EnumValue[affiliatev1.DeliveryStatus](d.Status),
		AttemptCount:   toInt32(d.AttemptCount),
		HttpStatusCode: server.OptionalInt32(d.HTTPStatusCode),
		ErrorMessage:   d.ErrorMessage,
		NextAttemptAt:  server.OptionalTimestamp(d.NextAttemptAt),
		CreatedAt:      server.Timestamp(d.CreatedAt),
		CompletedAt:    server.OptionalTimestamp(d.CompletedAt),
	}
}

func detailToProto(d webhook.Delivery, url string) *affiliatev1.DeliveryDetail {
	out := &affiliatev1.DeliveryDetail{RequestUrl: url, Payload: d.Payload, Attempts: server.ConvertAll(d.Attempts, attemptToProto)}
	server.CopyShared(out.ProtoReflect(), deliveryToProto(d).ProtoReflect())
	return out
}

func attemptToProto(a webhook.Attempt) *affiliatev1.DeliveryAttempt {
	return &affiliatev1.DeliveryAttempt{
		Number:         toInt32(a.Number),
		StartedAt:      server.Timestamp(a.StartedAt),
		DurationMs:     a.DurationMS,
		HttpStatusCode: server.OptionalInt32(a.HTTPStatusCode),
		ErrorMessage:   a.ErrorMessage,
	}
}

// recoveryOf converts a recovery request to a job. The caller sets the scope and the
// endpoint of the job. Check has validated the request.
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
