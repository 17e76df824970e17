package stores

import (
	"context"

	"github.com/tributary-hq/tributary/server/webhook"
	storage "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// Webhook returns the store of package webhook.
func Webhook(store *storage.Store) webhook.Store { return webhookStore{store} }

type webhookStore struct{ *storage.Store }

func (s webhookStore) InTx(ctx context.Context, fn func(tx webhook.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *storage.Tx) error { return fn(tx) })
}

// WebhookQueue returns the queue of the webhook sender.
func WebhookQueue(store *storage.Store) webhook.Queue { return webhookQueue{store} }

type webhookQueue struct{ *storage.Store }

func (q webhookQueue) InTx(ctx context.Context, fn func(tx webhook.QueueTx) error) error {
	return q.InSendingTx(ctx, func(tx *storage.Tx) error { return fn(tx) })
}
