package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

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
