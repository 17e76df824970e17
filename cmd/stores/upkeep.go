package stores

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/server/upkeep"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhookstore "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// Upkeep returns the store of package upkeep, whose tables belong to several packages.
func Upkeep(store *postgres.Store, webhooks *webhookstore.Store) upkeep.Store {
	return upkeepStore{store, webhooks}
}

type upkeepStore struct {
	*postgres.Store
	webhooks *webhookstore.Store
}

func (s upkeepStore) CancelLeft(ctx context.Context, now time.Time, limit int) (int64, error) {
	return s.webhooks.CancelLeft(ctx, now, limit)
}
