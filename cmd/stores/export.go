package stores

import (
	"context"

	"github.com/tributary-hq/tributary/server/privacy/export"
	"github.com/tributary-hq/tributary/storage/postgres"
	exportpg "github.com/tributary-hq/tributary/storage/postgres/export"
)

// Export returns the store of package export.
func Export(db *postgres.DB) export.Store { return exportStore{exportpg.NewStore(db)} }

type exportStore struct{ *exportpg.Store }

func (s exportStore) InTx(ctx context.Context, fn func(tx export.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *exportpg.Tx) error { return fn(tx) })
}

func (s exportStore) Snapshot(ctx context.Context, fn func(r export.Reader) error) error {
	return s.Store.Snapshot(ctx, func(r *exportpg.Reader) error { return fn(r) })
}
