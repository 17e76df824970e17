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
		return createdToProto(endpoint, secret), tx.Audit(ctx, endpoint.AuditCreated(server.ActorFrom(ctx)))
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
		return tx.Audit(ctx, after.AuditDeleted(before, by))
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
		return createdToProto(after, secret), tx.Audit(ctx, after.AuditRotated(previousUntil, by))
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

func openSecrets(seal Sealer, endpoint affiliate.EndpointID, sealed [][]byte) ([]webhook.Secret, error) {
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
