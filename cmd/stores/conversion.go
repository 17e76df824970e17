package stores

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
	processorpg "github.com/tributary-hq/tributary/storage/postgres/processor"
)

// Conversion returns the store of package conversion.
func Conversion(store *postgres.Store) conversion.Store {
	return conversionStore{store, processorpg.NewStore(store.DB)}
}

type conversionStore struct {
	*postgres.Store
	processors *processorpg.Store
}

func (s conversionStore) PromoCodes(ctx context.Context, scope affiliate.Scope, promotionCodes []string) (map[string]string, error) {
	return s.processors.PromoCodes(ctx, scope, promotionCodes)
}

func (s conversionStore) InTx(ctx context.Context, fn func(tx conversion.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *postgres.Tx) error { return fn(tx) })
}
