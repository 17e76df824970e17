package webhook

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// record stores the outcomes of attempts. The results must be in the order in which the
// attempts ended. record disables an endpoint if its outcomes require this, and returns
// the disabled endpoints. An outcome that is already stored changes nothing. at is the
// current time.
func record(ctx context.Context, db *postgres.DB, results []webhook.AttemptResult, at time.Time) (disabled []webhook.Endpoint, err error) {
	err = db.InSendingTx(ctx, func(tx *postgres.Tx) error {
		disabled = nil
		applied, err := applyOutcomes(ctx, tx, results)
		if err != nil || len(applied) == 0 {
			return err
		}
		keys := make([]webhook.EndpointKey, 0, len(applied))
		for key := range applied {
			keys = append(keys, key)
		}
		endpoints, err := webhooks.LockEndpoints(ctx, tx, keys)
		if err != nil {
			return err
		}
		var notifications []notification.Notification
		for i, before := range endpoints {
			after := webhook.CountOutcomes(before, applied[before.Key()])
			endpoints[i] = after
			notifications = append(notifications, webhook.HealthNotifications(before, after, at)...)
			if before.Active && !after.Active {
				disabled = append(disabled, after)
			}
		}
		if err := webhooks.UpdateEndpoints(ctx, tx, endpoints); err != nil {
			return err
		}
		for _, e := range disabled {
			if err := errors.Join(tx.Enqueue(ctx, e.CancelDeliveries()), tx.Audit(ctx, e.AuditDisabled())); err != nil {
				return err
			}
		}
		return tx.Notify(ctx, notifications...)
	})
	return disabled, err
}

// applyOutcomes stores the effects of attempts on their deliveries. It returns the
// changes that it has stored, by endpoint.
func applyOutcomes(ctx context.Context, tx *postgres.Tx, results []webhook.AttemptResult) (map[webhook.EndpointKey][]webhook.DeliveryChange, error) {
	changes := make([]webhook.DeliveryChange, len(results))
	for i, r := range results {
		changes[i] = r.Apply(r.Delivery.State)
	}
	ids, err := webhooks.ApplyOutcomes(ctx, tx, changes)
	if err != nil {
		return nil, err
	}
	unchanged := make(map[affiliate.DeliveryID]bool, len(ids))
	for _, id := range ids {
		unchanged[id] = true
	}
	applied := map[webhook.EndpointKey][]webhook.DeliveryChange{}
	for _, c := range changes {
		if !unchanged[c.Result.Delivery.ID] {
			changed, ok, err := applyToChanged(ctx, tx, c.Result)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			c = changed
		}
		applied[c.Result.Key] = append(applied[c.Result.Key], c)
	}
	return applied, nil
}

// applyToChanged stores the effect of an attempt on a delivery whose state changed during
// the attempt. This happens if a user requested a retry or if the endpoint was disabled.
// applyToChanged returns false if the attempt is already stored or if the delivery does
// not exist.
func applyToChanged(ctx context.Context, tx *postgres.Tx, r webhook.AttemptResult) (webhook.DeliveryChange, bool, error) {
	delivery, err := webhooks.LockDeliveryOf(ctx, tx, r.Key, r.Delivery.ID)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonWebhookNotFound)) || err == nil && delivery.Attempts != r.Delivery.Attempts {
		return webhook.DeliveryChange{}, false, nil
	}
	if err != nil {
		return webhook.DeliveryChange{}, false, err
	}
	change := r.Apply(delivery.State)
	applied, err := webhooks.ApplyOutcomes(ctx, tx, []webhook.DeliveryChange{change})
	return change, slices.Contains(applied, r.Delivery.ID), err
}
