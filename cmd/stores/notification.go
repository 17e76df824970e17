package stores

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/server/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	storage "github.com/tributary-hq/tributary/storage/postgres/notification"
)

// Notification returns the store of package notification.
func Notification(db *postgres.DB) notification.Store { return notificationStore{storage.NewStore(db)} }

type notificationStore struct{ *storage.Store }

func (s notificationStore) InTx(ctx context.Context, fn func(tx notification.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *storage.Tx) error { return fn(tx) })
}

// NotificationDistribution returns the store of the Distributor.
func NotificationDistribution(db *postgres.DB) notification.DistributionStore {
	return distributionStore{storage.NewStore(db)}
}

type distributionStore struct{ *storage.Store }

func (s distributionStore) InTx(ctx context.Context, fn func(tx notification.DistributionTx) error) error {
	return s.Store.InTx(ctx, func(tx *storage.Tx) error { return fn(tx) })
}

// NotificationDigests returns the store of the DigestWorker.
func NotificationDigests(db *postgres.DB) notification.DigestStore {
	return digestStore{storage.NewStore(db)}
}

type digestStore struct{ *storage.Store }

func (s digestStore) InTx(ctx context.Context, fn func(tx notification.DigestTx) error) error {
	return s.Store.InTx(ctx, func(tx *storage.Tx) error { return fn(tx) })
}

// NotificationPeriods returns the store of the PeriodWorker.
func NotificationPeriods(store *postgres.Store) notification.PeriodStore {
	return periodStore{storage.NewStore(store.DB), store}
}

type periodStore struct {
	*storage.Store
	commissions *postgres.Store
}

func (s periodStore) CommissionStats(ctx context.Context, scope affiliate.Scope, filter commission.Filter) (commission.Stats, error) {
	return s.commissions.CommissionStats(ctx, scope, filter)
}

func (s periodStore) InTx(ctx context.Context, fn func(tx notification.PeriodTx) error) error {
	return s.Store.InTx(ctx, func(tx *storage.Tx) error { return fn(tx) })
}

// NotificationHub returns the store of the Hub.
func NotificationHub(db *postgres.DB) notification.HubStore { return storage.NewStore(db) }
