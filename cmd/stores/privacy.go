package stores

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	privacypg "github.com/tributary-hq/tributary/storage/postgres/privacy"
)

// Privacy returns the store of package privacy.
func Privacy(db *postgres.DB, key affiliate.ErasureKey) privacy.Store {
	return privacyStore{privacypg.NewStore(db, key)}
}

type privacyStore struct{ *privacypg.Store }

func (s privacyStore) InTx(ctx context.Context, fn func(tx privacy.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *privacypg.Tx) error { return fn(tx) })
}
