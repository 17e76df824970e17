package stores

import (
	"context"

	"github.com/tributary-hq/tributary/server/testmode"
	"github.com/tributary-hq/tributary/storage/postgres"
	testmodepg "github.com/tributary-hq/tributary/storage/postgres/testmode"
)

// TestMode returns the store of package testmode.
func TestMode(db *postgres.DB) testmode.Store { return testModeStore{testmodepg.NewStore(db)} }

type testModeStore struct{ *testmodepg.Store }

func (s testModeStore) InTx(ctx context.Context, fn func(tx testmode.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *testmodepg.Tx) error { return fn(tx) })
}

func (s testModeStore) InSnapshot(ctx context.Context, fn func(tx testmode.Tx) error) error {
	return s.Store.InSnapshot(ctx, func(tx *testmodepg.Tx) error { return fn(tx) })
}
