package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// shown is how old the event of a delivery may be that is shown, tried again or
// recovered. Partitions are kept for longer, so that none of them is dropped early.
const shown = 30 * 24 * time.Hour

// Sealer is what the service needs of the encryption keys (package seal).
type Sealer interface {
	// Seal encrypts; only with the same additional data does it open again.
	Seal(plain, aad []byte) []byte
	// Open decrypts what Seal made.
	Open(sealed, aad []byte) ([]byte, error)
}

// Config is what the service is made of.
type Config struct {
	Store Store
	// Seal encrypts signing secrets, each for its endpoint: the additional data are
	// the bytes of the endpoint's id.
	Seal Sealer
	// Client judges URLs and sends pings.
	Client *Client
	// Now is the clock.
	Now func() time.Time
}

// Service is affiliate.v1.WebhookService.
type Service struct {
	affiliatev1.UnimplementedWebhookServiceServer

	store  Store
	seal   Sealer
	client *Client
	now    func() time.Time
}

// New makes the service.
func New(c Config) *Service {
	return &Service{store: c.Store, seal: c.Seal, client: c.Client, now: c.Now}
}

// at is the instant of a call: UTC, to the millisecond, as the API shows it.
func (s *Service) at() time.Time { return at(s.now) }

// ListWebhooks pages through the mode's endpoints.
func (s *Service) ListWebhooks(ctx context.Context, req *affiliatev1.ListWebhooksRequest) (*affiliatev1.ListWebhooksResponse, error) {
	page := server.PageOf(req)
	endpoints, total, err := s.store.ListEndpoints(ctx, server.PrincipalFrom(ctx).Scope(), page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListWebhooksResponse{
		Data: each(endpoints, toProto), Total: total, Page: small(page.Number), Limit: small(page.Size),
	}, nil
}

// CreateWebhook makes an endpoint whose URL may be called.
func (s *Service) CreateWebhook(ctx context.Context, req *affiliatev1.CreateWebhookRequest) (*affiliatev1.CreatedWebhook, error) {
	url, _ := webhook.ParseURL(req.GetUrl()) // Check has said what is wrong with it
	if url.Plain {
		return nil, affiliate.Refuse(affiliate.ReasonWebhookURLNotHTTPS)
	}
	if err := s.client.Check(ctx, url); err != nil {
		return nil, err
	}
	at := s.at()
	endpoint := newEndpoint(req)
	endpoint.ID, endpoint.Scope, endpoint.URL = affiliate.NewID[affiliate.Endpoint](at), server.PrincipalFrom(ctx).Scope(), url.Text
	endpoint.CreatedAt, endpoint.UpdatedAt = at, at
	secret, sealed := s.newSecret(endpoint.ID)
	if err := s.store.CreateEndpoint(ctx, endpoint, sealed, server.ActorFrom(ctx)); err != nil {
		return nil, err
	}
	return withSecret(endpoint, secret), nil
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

// ListEventTypes lists the catalogue: all of it, on one page.
func (s *Service) ListEventTypes(context.Context, *affiliatev1.ListEventTypesRequest) (*affiliatev1.ListEventTypesResponse, error) {
	types := each(affiliate.Catalogue(), eventType)
	return &affiliatev1.ListEventTypesResponse{Data: types, Total: int64(len(types)), Page: 1, Limit: small(len(types))}, nil
}

// UpdateWebhook changes what is given.
func (s *Service) UpdateWebhook(ctx context.Context, req *affiliatev1.UpdateWebhookRequest) (*affiliatev1.Webhook, error) {
	id, err := pathID[affiliate.Endpoint](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	endpoint, err := s.store.UpdateEndpoint(ctx, server.PrincipalFrom(ctx).Scope(), id, changeOf(req), server.ActorFrom(ctx), s.at())
	if err != nil {
		return nil, err
	}
	return toProto(endpoint), nil
}

// DeleteWebhook ends an endpoint.
func (s *Service) DeleteWebhook(ctx context.Context, req *affiliatev1.DeleteWebhookRequest) (*affiliatev1.DeleteWebhookResponse, error) {
	id, err := pathID[affiliate.Endpoint](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	err = s.store.DeleteEndpoint(ctx, server.PrincipalFrom(ctx).Scope(), id, server.ActorFrom(ctx), s.at())
	return &affiliatev1.DeleteWebhookResponse{}, err
}

// RotateWebhookSecret makes a new secret.
func (s *Service) RotateWebhookSecret(ctx context.Context, req *affiliatev1.RotateWebhookSecretRequest) (*affiliatev1.CreatedWebhook, error) {
	id, err := pathID[affiliate.Endpoint](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	at := s.at()
	var keptUntil *time.Time
	if !req.GetExpireImmediately() {
		until := at.Add(affiliate.RotatedSecretKept)
		keptUntil = &until
	}
	secret, sealed := s.newSecret(id)
	endpoint, err := s.store.RotateSecret(ctx, server.PrincipalFrom(ctx).Scope(), id, sealed, keptUntil, server.ActorFrom(ctx), at)
	if err != nil {
		return nil, err
	}
	return withSecret(endpoint, secret), nil
}

// newSecret makes a secret, and its form for the row of the endpoint.
func (s *Service) newSecret(of affiliate.EndpointID) (secret webhook.Secret, sealed []byte) {
	secret = webhook.NewSecret()
	return secret, s.seal.Seal(secret, of.UUID[:])
}

// ListDeliveries pages through an endpoint's deliveries.
func (s *Service) ListDeliveries(ctx context.Context, req *affiliatev1.ListDeliveriesRequest) (*affiliatev1.ListDeliveriesResponse, error) {
	id, err := pathID[affiliate.Endpoint](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	deliveries, total, err := s.store.ListDeliveries(ctx, server.PrincipalFrom(ctx).Scope(), id, s.at().Add(-shown), filterOf(req), page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListDeliveriesResponse{
		Data: each(deliveries, listItem), Total: total, Page: small(page.Number), Limit: small(page.Size),
	}, nil
}

// GetDelivery reads one delivery.
func (s *Service) GetDelivery(ctx context.Context, req *affiliatev1.GetDeliveryRequest) (*affiliatev1.DeliveryDetail, error) {
	endpoint, id, err := deliveryIDs(req)
	if err != nil {
		return nil, err
	}
	delivery, url, err := s.store.Delivery(ctx, server.PrincipalFrom(ctx).Scope(), endpoint, id, s.at().Add(-shown))
	if err != nil {
		return nil, err
	}
	return detail(delivery, url), nil
}

// RetryDelivery asks for one more attempt.
func (s *Service) RetryDelivery(ctx context.Context, req *affiliatev1.RetryDeliveryRequest) (*affiliatev1.DeliveryDetail, error) {
	endpoint, id, err := deliveryIDs(req)
	if err != nil {
		return nil, err
	}
	at := s.at()
	delivery, url, err := s.store.RetryDelivery(ctx, server.PrincipalFrom(ctx).Scope(), endpoint, id, at.Add(-shown), server.ActorFrom(ctx), at)
	if err != nil {
		return nil, err
	}
	return detail(delivery, url), nil
}

// RecoverDeliveries sends deliveries of a time range again.
func (s *Service) RecoverDeliveries(ctx context.Context, req *affiliatev1.RecoverDeliveriesRequest) (*affiliatev1.RecoverDeliveriesResponse, error) {
	id, err := pathID[affiliate.Endpoint](req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	scope := server.PrincipalFrom(ctx).Scope()
	job := recoveryOf(req, s.at())
	job.Workspace, job.Mode, job.Endpoint = scope.Workspace, scope.Mode, id
	queued, err := s.store.RecoverDeliveries(ctx, job, server.ActorFrom(ctx))
	if err != nil {
		return nil, err
	}
	return &affiliatev1.RecoverDeliveriesResponse{Queued: queued}, nil
}

// pathID reads an id of a path; what is no UUID names no endpoint and no delivery.
func pathID[T any](text string) (affiliate.ID[T], error) {
	id, ok := affiliate.ParseID[T](text)
	if !ok {
		return id, affiliate.Refuse(affiliate.ReasonWebhookNotFound)
	}
	return id, nil
}

func deliveryIDs(req interface {
	GetWebhookId() string
	GetDeliveryId() string
},
) (endpoint affiliate.EndpointID, id affiliate.DeliveryID, err error) {
	if endpoint, err = pathID[affiliate.Endpoint](req.GetWebhookId()); err == nil {
		id, err = pathID[affiliate.Delivery](req.GetDeliveryId())
	}
	return endpoint, id, err
}
