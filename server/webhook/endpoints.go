package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// ListWebhooks reads a page of the mode's endpoints.
func (s *Service) ListWebhooks(ctx context.Context, req *affiliatev1.ListWebhooksRequest) (*affiliatev1.ListWebhooksResponse, error) {
	page := server.PageOf(req)
	endpoints, total, err := s.store.Endpoints(ctx, server.PrincipalFrom(ctx).Scope(), page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListWebhooksResponse{
		Data: each(endpoints, toProto), Total: total, Page: small(page.Number), Limit: small(page.Size),
	}, nil
}

// GetWebhook reads one endpoint.
func (s *Service) GetWebhook(ctx context.Context, req *affiliatev1.GetWebhookRequest) (*affiliatev1.Webhook, error) {
	id, err := pathID[affiliate.Endpoint](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	endpoint, err := s.store.Endpoint(ctx, server.PrincipalFrom(ctx).Scope(), id)
	if err != nil {
		return nil, err
	}
	return toProto(endpoint), nil
}

// ListEventTypes lists the whole catalogue on one page.
func (s *Service) ListEventTypes(context.Context, *affiliatev1.ListEventTypesRequest) (*affiliatev1.ListEventTypesResponse, error) {
	types := each(affiliate.Catalogue(), eventType)
	return &affiliatev1.ListEventTypesResponse{Data: types, Total: int64(len(types)), Page: 1, Limit: small(len(types))}, nil
}

// CreateWebhook makes an endpoint whose URL may be called.
func (s *Service) CreateWebhook(ctx context.Context, req *affiliatev1.CreateWebhookRequest) (*affiliatev1.CreatedWebhook, error) {
	url, _ := webhook.ParseURL(req.GetUrl()) // Check has reported what is wrong with it
	if url.IsHTTP {
		return nil, affiliate.Refuse(affiliate.ReasonWebhookURLNotHTTPS)
	}
	if err := s.client.Check(ctx, url); err != nil {
		return nil, err
	}
	endpoint := newEndpoint(req, server.PrincipalFrom(ctx).Scope(), url, s.at())
	secret, sealed := s.newSecret(endpoint.ID)
	err := s.store.InTx(ctx, func(tx Tx) error {
		if err := tx.LockWorkspace(ctx, endpoint.Scope.Workspace); err != nil {
			return err
		}
		count, err := tx.CountEndpoints(ctx, endpoint.Scope)
		if err != nil {
			return err
		}
		if err := affiliate.RequireRoomForEndpoint(count); err != nil {
			return err
		}
		if err := tx.InsertEndpoint(ctx, endpoint, sealed); err != nil {
			return err
		}
		return tx.Audit(ctx, endpoint.AuditCreated(server.ActorFrom(ctx)))
	})
	if err != nil {
		return nil, err
	}
	return withSecret(endpoint, secret), nil
}

// UpdateWebhook changes the fields of the mask. An update that changes nothing leaves
// no trace.
func (s *Service) UpdateWebhook(ctx context.Context, req *affiliatev1.UpdateWebhookRequest) (*affiliatev1.Webhook, error) {
	id, err := pathID[affiliate.Endpoint](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	scope, by, at := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.at()
	var after affiliate.Endpoint
	err = s.store.InTx(ctx, func(tx Tx) error {
		before, err := tx.LockEndpoint(ctx, scope, id)
		if err != nil {
			return err
		}
		var changed bool
		after, changed, err = before.Update(changeOf(req), at)
		if err != nil || !changed {
			return err
		}
		if err := tx.UpdateEndpoint(ctx, after); err != nil {
			return err
		}
		if before.Active && !after.Active {
			if err := tx.Enqueue(ctx, after.CancelDeliveries()); err != nil {
				return err
			}
		}
		line, err := after.AuditUpdated(before, by)
		if err != nil {
			return err
		}
		return tx.Audit(ctx, line)
	})
	if err != nil {
		return nil, err
	}
	return toProto(after), nil
}

// DeleteWebhook deletes an endpoint and its secrets. Waiting
// deliveries are canceled.
func (s *Service) DeleteWebhook(ctx context.Context, req *affiliatev1.DeleteWebhookRequest) (*affiliatev1.DeleteWebhookResponse, error) {
	id, err := pathID[affiliate.Endpoint](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	scope, by, at := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.at()
	err = s.store.InTx(ctx, func(tx Tx) error {
		before, err := tx.LockEndpoint(ctx, scope, id)
		if err != nil {
			return err
		}
		after := before.Delete(at)
		if err := tx.DeleteEndpoint(ctx, after); err != nil {
			return err
		}
		if err := tx.Enqueue(ctx, after.CancelDeliveries()); err != nil {
			return err
		}
		return tx.Audit(ctx, after.AuditDeleted(before, by))
	})
	return &affiliatev1.DeleteWebhookResponse{}, err
}

// RotateWebhookSecret makes a new secret. The secret before also signs for a day, unless
// the request ends it at once.
func (s *Service) RotateWebhookSecret(ctx context.Context, req *affiliatev1.RotateWebhookSecretRequest) (*affiliatev1.CreatedWebhook, error) {
	id, err := pathID[affiliate.Endpoint](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	scope, by, at := server.PrincipalFrom(ctx).Scope(), server.ActorFrom(ctx), s.at()
	var keptUntil *time.Time
	if !req.GetExpireImmediately() {
		until := at.Add(affiliate.RotatedSecretGrace)
		keptUntil = &until
	}
	secret, sealed := s.newSecret(id)
	var after affiliate.Endpoint
	err = s.store.InTx(ctx, func(tx Tx) error {
		before, err := tx.LockEndpoint(ctx, scope, id)
		if err != nil {
			return err
		}
		after = before.RotateSecret(at)
		if err := tx.ReplaceSecret(ctx, after, sealed, keptUntil); err != nil {
			return err
		}
		return tx.Audit(ctx, after.AuditRotated(keptUntil, by))
	})
	if err != nil {
		return nil, err
	}
	return withSecret(after, secret), nil
}

// newSecret makes a secret, and its sealed form for the row of the endpoint.
func (s *Service) newSecret(of affiliate.EndpointID) (secret webhook.Secret, sealed []byte) {
	secret = webhook.NewSecret()
	return secret, s.seal.Seal(secret, of.UUID[:])
}
