package stores

import (
	"context"

	"github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Conversion returns the store of package conversion.
func Conversion(store *postgres.Store) conversion.Store { return conversionStore{store} }

type conversionStore struct{ *postgres.Store }

func (s conversionStore) InTx(ctx context.Context, fn func(tx conversion.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *postgres.Tx) error { return fn(tx) })
}
