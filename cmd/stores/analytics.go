package stores

import (
	"context"

	"github.com/tributary-hq/tributary/server/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
	analyticspg "github.com/tributary-hq/tributary/storage/postgres/analytics"
)

// Analytics returns the store of package analytics.
func Analytics(db *postgres.DB) analytics.Store { return analyticsStore{analyticspg.NewStore(db)} }

type analyticsStore struct{ *analyticspg.Store }

func (s analyticsStore) InTx(ctx context.Context, fn func(tx analytics.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *analyticspg.Tx) error { return fn(tx) })
}

func (s analyticsStore) InSnapshot(ctx context.Context, fn func(r analytics.Reader) error) error {
	return s.Store.InSnapshot(ctx, func(r *analyticspg.Reader) error { return fn(r) })
}
