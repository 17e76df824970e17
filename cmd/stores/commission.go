// Package stores connects the services to their storage. Each service declares an
// interface Tx with the methods that it needs in a transaction. The storage packages do
// not import these interfaces; their InTx methods call a function with a concrete
// transaction type. The adapters in this package implement the InTx methods that the
// services require, which call a function with the interface Tx of the service. They
// inherit all other methods from the storage packages.
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
