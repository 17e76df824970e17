// Package stores connects the services to their storage.
//
// A service declares what it needs of a transaction as an interface, and storage
// cannot know that interface. Each adapter here converts the function that runs in
// the transaction; everything else is the storage's own method.
package stores

import (
	"context"

	"github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Commission returns the store of package commission.
func Commission(store *postgres.Store) commission.Store { return commissionStore{store} }

type commissionStore struct{ *postgres.Store }

func (s commissionStore) InTx(ctx context.Context, fn func(tx commission.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *postgres.Tx) error { return fn(tx) })
}
