package webhook

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// record stores the outcomes of attempts. The results must be in the order in which the
// attempts ended. record disables an endpoint if its outcomes require this, and returns
// the disabled endpoints. An outcome that is already stored changes nothing. at is the
// current time.
func record(ctx context.Context, queue Queue, results []webhook.AttemptResult, at time.Time) (disabled []webhook.Endpoint, err error) {
	err = queue.InTx(ctx, func(tx QueueTx) error {
		disabled = nil
		applied, err := applyOutcomes(ctx, tx, results)
		if err != nil || len(applied) == 0 {
			return err
		}
		keys := make([]webhook.EndpointKey, 0, len(applied))
		for key := range applied {
			keys = append(keys, key)
		}
		endpoints, err := tx.LockEndpoints(ctx, keys)
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
		if err := tx.UpdateHealth(ctx, endpoints); err != nil {
			return err
		}
		for _, e := range disabled {
			err := errors.Join(tx.UpdateEndpoint(ctx, e), tx.Enqueue(ctx, e.CancelDeliveries()), tx.Audit(ctx, e.AuditDisabled()))
			if err != nil {
				return err
			}
		}
		return tx.Notify(ctx, notifications...)
	})
	return disabled, err
}

// applyOutcomes stores the effects of attempts on their deliveries. It returns the
// changes that it has stored, by endpoint.
func applyOutcomes(ctx context.Context, tx QueueTx, results []webhook.AttemptResult) (map[webhook.EndpointKey][]webhook.DeliveryChange, error) {
	changes := make([]webhook.DeliveryChange, len(results))
	for i, r := range results {
		changes[i] = r.Apply(r.Delivery.State)
	}
	ids, err := tx.ApplyOutcomes(ctx, changes)
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
func applyToChanged(ctx context.Context, tx QueueTx, r webhook.AttemptResult) (webhook.DeliveryChange, bool, error) {
	delivery, err := tx.LockDeliveryOf(ctx, r.Key, r.Delivery.ID)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonWebhookNotFound)) || err == nil && delivery.Attempts != r.Delivery.Attempts {
		return webhook.DeliveryChange{}, false, nil
	}
	if err != nil {
		return webhook.DeliveryChange{}, false, err
	}
	change := r.Apply(delivery.State)
	applied, err := tx.ApplyOutcomes(ctx, []webhook.DeliveryChange{change})
	return change, slices.Contains(applied, r.Delivery.ID), err
}
