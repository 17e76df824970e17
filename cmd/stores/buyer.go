package stores

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/privacy/buyer"
	"github.com/tributary-hq/tributary/storage/postgres"
	buyerpg "github.com/tributary-hq/tributary/storage/postgres/buyer"
	exportpg "github.com/tributary-hq/tributary/storage/postgres/export"
)

// Buyer returns the store of package buyer.
func Buyer(db *postgres.DB) buyer.Store { return buyerStore{buyerpg.NewStore(db)} }

type buyerStore struct{ *buyerpg.Store }

func (s buyerStore) InTx(ctx context.Context, fn func(tx buyer.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *buyerpg.Tx) error { return fn(buyerTx{tx, exportpg.NewTx(tx.Tx)}) })
}

// buyerTx combines the methods of two storage packages.
type buyerTx struct {
	*buyerpg.Tx
	exports *exportpg.Tx
}

func (tx buyerTx) DeleteExportsWithSales(ctx context.Context, id affiliate.WorkspaceID) error {
	return tx.exports.DeleteExportsWithSales(ctx, id)
}
