package stores

import (
	"context"

	"github.com/tributary-hq/tributary/server/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Payout returns the store of package payout.
func Payout(store *postgres.Store) payout.Store { return payoutStore{store} }

type payoutStore struct{ *postgres.Store }

func (s payoutStore) InTx(ctx context.Context, fn func(tx payout.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *postgres.Tx) error { return fn(tx) })
}
