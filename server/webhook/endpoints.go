package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/event"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// ListWebhooks returns one page of the workspace's endpoints in the mode of the call.
func (s *Service) ListWebhooks(ctx context.Context, req *affiliatev1.ListWebhooksRequest) (*affiliatev1.ListWebhooksResponse, error) {
	page := server.PageOf(req)
	endpoints, total, err := webhooks.Endpoints(ctx, s.DB, server.PrincipalFrom(ctx).Scope(), page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListWebhooksResponse{
		Data: server.ConvertAll(endpoints, toProto), Total: total, Page: toInt32(page.Number), Limit: toInt32(page.Size),
	}, nil
}

// GetWebhook returns one endpoint.
func (s *Service) GetWebhook(ctx context.Context, req *affiliatev1.GetWebhookRequest) (*affiliatev1.Webhook, error) {
	id, err := pathID[affiliate.EndpointID](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	endpoint, err := webhooks.Endpoint(ctx, s.DB, server.PrincipalFrom(ctx).Scope(), id)
	if err != nil {
		return nil, err
	}
	return toProto(endpoint), nil
}

// ListEventTypes returns all event types on one page.
func (s *Service) ListEventTypes(context.Context, *affiliatev1.ListEventTypesRequest) (*affiliatev1.ListEventTypesResponse, error) {
	types := server.ConvertAll(affiliate.Catalogue(), eventTypeToProto)
	return &affiliatev1.ListEventTypesResponse{Data: types, Total: int64(len(types)), Page: 1, Limit: toInt32(len(types))}, nil
}

// CreateWebhook creates an endpoint. It checks the addresses of the URL's host first.
func (s *Service) CreateWebhook(ctx context.Context, req *affiliatev1.CreateWebhookRequest) (*affiliatev1.CreatedWebhook, error) {
	url, _ := webhook.ParseURL(req.GetUrl()) // Service.Check has rejected invalid URLs
	if url.IsHTTP {
		return nil, affiliate.Refuse(affiliate.ReasonWebhookURLNotHTTPS)
	}
	if err := s.Client.Check(ctx, url); err != nil {
		return nil, err
	}
	endpoint := newEndpoint(req, server.PrincipalFrom(ctx).Scope(), url, s.currentTime())
	secret, sealed := s.newSecret(endpoint.ID)
	return postgres.InTx(ctx, s.DB, func(tx *postgres.Tx) (*affiliatev1.CreatedWebhook, error) {
		if err := postgres.LockWorkspace(ctx, tx, endpoint.Workspace); err != nil {
			return nil, err
		}
		count, err := webhooks.CountEndpoints(ctx, tx, endpoint.Scope)
		if err != nil {
			return nil, err
		}
		if err := webhook.RequireRoomForEndpoint(count); err != nil {
			return nil, err
		}
		if err := webhooks.InsertEndpoint(ctx, tx, endpoint, sealed); err != nil {
			return nil, err
		}
		return createdToProto(endpoint, secret), tx.Audit(ctx, endpoint.Audit("webhook.create", server.ActorFrom(ctx), endpoint.CreatedAt, nil, endpoint.AuditFields()))
	})
}

// UpdateWebhook changes the fields that the update mask names. If the fields already have
// the new values, it stores nothing.
func (s *Service) UpdateWebhook(ctx context.Context, req *affiliatev1.UpdateWebhookRequest) (*affiliatev1.Webhook, error) {
	id, err := pathID[affiliate.EndpointID](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	scope, by, at := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.currentTime()
	return postgres.InTx(ctx, s.DB, func(tx *postgres.Tx) (*affiliatev1.Webhook, error) {
		before, err := webhooks.LockEndpoint(ctx, tx, scope, id)
		if err != nil {
			return nil, err
		}
		after, changed, err := before.Update(changeOf(req), at)
		if err != nil || !changed {
			return toProto(after), err
		}
		if err := webhooks.UpdateEndpoint(ctx, tx, after); err != nil {
			return nil, err
		}
		if before.Active && !after.Active {
			if err := tx.Enqueue(ctx, after.CancelDeliveries()); err != nil {
				return nil, err
			}
		}
		line, err := after.AuditUpdated(before, by)
		if err != nil {
			return nil, err
		}
		return toProto(after), tx.Audit(ctx, line)
	})
}

// DeleteWebhook deletes an endpoint and its secrets. A job cancels the deliveries that
// wait for an attempt.
func (s *Service) DeleteWebhook(ctx context.Context, req *affiliatev1.DeleteWebhookRequest) (*affiliatev1.DeleteWebhookResponse, error) {
	id, err := pathID[affiliate.EndpointID](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	scope, by, at := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.currentTime()
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		before, err := webhooks.LockEndpoint(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		after := before.Delete(at)
		if err := webhooks.DeleteEndpoint(ctx, tx, after); err != nil {
			return err
		}
		if err := tx.Enqueue(ctx, after.CancelDeliveries()); err != nil {
			return err
		}
		return tx.Audit(ctx, after.Audit("webhook.delete", by, at, before.AuditFields(), nil))
	})
	return &affiliatev1.DeleteWebhookResponse{}, err
}

// RotateWebhookSecret creates a new signing secret. If the request has
// expire_immediately, the previous secret is no longer used. Otherwise events are signed
// with both the new and the previous secret for one day.
func (s *Service) RotateWebhookSecret(ctx context.Context, req *affiliatev1.RotateWebhookSecretRequest) (*affiliatev1.CreatedWebhook, error) {
	id, err := pathID[affiliate.EndpointID](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	scope, by, at := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.currentTime()
	var previousUntil *time.Time
	if !req.GetExpireImmediately() {
		until := at.Add(webhook.RotatedSecretGrace)
		previousUntil = &until
	}
	secret, sealed := s.newSecret(id)
	return postgres.InTx(ctx, s.DB, func(tx *postgres.Tx) (*affiliatev1.CreatedWebhook, error) {
		before, err := webhooks.LockEndpoint(ctx, tx, scope, id)
		if err != nil {
			return nil, err
		}
		after := before.RotateSecret(at)
		if err := webhooks.ReplaceSecret(ctx, tx, after, sealed, previousUntil); err != nil {
			return nil, err
		}
		details := map[string]any{"previous_until": affiliate.FormatOptionalTime(previousUntil)}
		return createdToProto(after, secret), tx.Audit(ctx, after.Audit("webhook.rotate_secret", by, at, nil, details))
	})
}

// newSecret generates a signing secret. sealed is the encrypted secret, which is stored
// in the database.
func (s *Service) newSecret(endpoint affiliate.EndpointID) (secret webhook.Secret, sealed []byte) {
	secret = webhook.NewSecret()
	return secret, s.Seal.Seal(secret, endpoint.UUID[:])
}

// pingTimeout is the time limit of a ping. It is half of the time limit of an API call.
const pingTimeout = 10 * time.Second

// TestWebhook sends a ping event to an endpoint and returns the outcome. It stores
// nothing.
func (s *Service) TestWebhook(ctx context.Context, req *affiliatev1.TestWebhookRequest) (*affiliatev1.TestWebhookResponse, error) {
	id, err := pathID[affiliate.EndpointID](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	endpoint, sealed, err := webhooks.EndpointSecrets(ctx, s.DB, scope, id, at)
	if err != nil {
		return nil, err
	}
	secrets, err := openSecrets(s.Seal, id, sealed)
	if err != nil {
		return nil, err
	}
	event := affiliate.NewEvent(scope, affiliate.EventWebhookPing, at, event.PingObject{Endpoint: id, Description: endpoint.Description}, nil)
	body, err := event.Body()
	if err != nil {
		return nil, fmt.Errorf("ping of endpoint %s: %w", id, err)
	}
	outcome := s.Client.Send(ctx, Request{
		URL: endpoint.URL, ID: event.WireID(), Attempt: 1, Body: body, Secrets: secrets, At: at, Timeout: pingTimeout,
	})
	response := &affiliatev1.TestWebhookResponse{Success: outcome.Succeeded(), ErrorMessage: server.OptionalString(outcome.ErrorCode)}
	if outcome.StatusCode != 0 {
		response.HttpStatusCode = server.OptionalInt32(&outcome.StatusCode)
	}
	return response, nil
}

func openSecrets(seal server.Sealer, endpoint affiliate.EndpointID, sealed [][]byte) ([]webhook.Secret, error) {
	secrets := make([]webhook.Secret, len(sealed))
	for i, s := range sealed {
		secret, err := seal.Open(s, endpoint.UUID[:])
		if err != nil {
			return nil, fmt.Errorf("secret of endpoint %s: %w", endpoint, err)
		}
		secrets[i] = secret
	}
	return secrets, nil
}

// ListDeliveries returns one page of an endpoint's deliveries, newest first.
func (s *Service) ListDeliveries(ctx context.Context, req *affiliatev1.ListDeliveriesRequest) (*affiliatev1.ListDeliveriesResponse, error) {
	id, err := pathID[affiliate.EndpointID](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	deliveries, total, err := webhooks.Deliveries(ctx, s.DB, server.PrincipalFrom(ctx).Scope(), id, s.currentTime().Add(-maxEventAge), filterOf(req), page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListDeliveriesResponse{
		Data: server.ConvertAll(deliveries, deliveryToProto), Total: server.Total(ctx, total), Page: toInt32(page.Number), Limit: toInt32(page.Size),
	}, nil
}

// GetDelivery returns one delivery with its attempts.
func (s *Service) GetDelivery(ctx context.Context, req *affiliatev1.GetDeliveryRequest) (*affiliatev1.DeliveryDetail, error) {
	id, deliveryID, err := deliveryIDs(req, s.currentTime())
	if err != nil {
		return nil, err
	}
	endpoint, err := webhooks.Endpoint(ctx, s.DB, server.PrincipalFrom(ctx).Scope(), id)
	if err != nil {
		return nil, err
	}
	delivery, err := webhooks.Delivery(ctx, s.DB, endpoint, deliveryID)
	if err != nil {
		return nil, err
	}
	return detailToProto(delivery, endpoint.URL), nil
}

// RetryDelivery schedules an attempt to be made now. If a later attempt was already
// scheduled, the new attempt replaces it.
func (s *Service) RetryDelivery(ctx context.Context, req *affiliatev1.RetryDeliveryRequest) (*affiliatev1.DeliveryDetail, error) {
	at := s.currentTime()
	id, deliveryID, err := deliveryIDs(req, at)
	if err != nil {
		return nil, err
	}
	scope, by := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx)
	var out *affiliatev1.DeliveryDetail
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		// The endpoint need not be locked. If another transaction disables the endpoint
		// at the same time, it increases the endpoint's epoch, and no attempts are made
		// for deliveries of an earlier epoch.
		endpoint, err := webhooks.Endpoint(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		if err := endpoint.RequireActive(); err != nil {
			return err
		}
		delivery, err := webhooks.LockDelivery(ctx, tx, scope, id, deliveryID)
		if err != nil {
			return err
		}
		if err := webhooks.UpdateDelivery(ctx, tx, scope, id, delivery.Retry(endpoint, at)); err != nil {
			return err
		}
		details := map[string]any{"delivery_id": deliveryID, "event_type": delivery.Type}
		if err := tx.Audit(ctx, endpoint.Audit("webhook.retry_delivery", by, at, nil, details)); err != nil {
			return err
		}
		retried, err := webhooks.Delivery(ctx, tx, endpoint, deliveryID)
		out = detailToProto(retried, endpoint.URL)
		return err
	})
	return out, err
}

// RecoverDeliveries inserts a job that sends the events of a time range again.
func (s *Service) RecoverDeliveries(ctx context.Context, req *affiliatev1.RecoverDeliveriesRequest) (*affiliatev1.RecoverDeliveriesResponse, error) {
	id, err := pathID[affiliate.EndpointID](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	scope, by := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx)
	job := recoveryOf(req, s.currentTime())
	job.Workspace, job.Mode, job.Endpoint = scope.Workspace, scope.Mode, id
	var queued int64
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		endpoint, err := webhooks.Endpoint(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		if err := endpoint.RequireActive(); err != nil {
			return err
		}
		if queued, err = webhooks.CountRecoverable(ctx, tx, job, endpoint.Epoch); err != nil {
			return err
		}
		if err := tx.Enqueue(ctx, job); err != nil {
			return err
		}
		details := map[string]any{
			"since": affiliate.FormatTime(job.Since), "until": affiliate.FormatTime(job.Until), "statuses": job.Statuses, "queued": queued,
		}
		return tx.Audit(ctx, endpoint.Audit("webhook.recover", by, job.RequestedAt, nil, details))
	})
	return &affiliatev1.RecoverDeliveriesResponse{Queued: queued}, err
}

// deliveryIDs returns the ids of the endpoint and the delivery in the request's path.
// Errors: WEBHOOK_NOT_FOUND if an id is not a UUID or if the delivery was created more
// than maxEventAge ago.
func deliveryIDs(req interface {
	GetWebhookId() string
	GetDeliveryId() string
}, now time.Time,
) (endpoint affiliate.EndpointID, id affiliate.DeliveryID, err error) {
	if endpoint, err = pathID[affiliate.EndpointID](req.GetWebhookId()); err != nil {
		return endpoint, id, err
	}
	if id, err = pathID[affiliate.DeliveryID](req.GetDeliveryId()); err != nil {
		return endpoint, id, err
	}
	if at, ok := id.Time(); !ok || at.Before(now.Add(-maxEventAge)) {
		return endpoint, id, affiliate.Refuse(affiliate.ReasonWebhookNotFound)
	}
	return endpoint, id, nil
}
