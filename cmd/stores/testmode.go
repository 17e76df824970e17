package stores

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/testmode"
	"github.com/tributary-hq/tributary/storage/postgres"
	exportpg "github.com/tributary-hq/tributary/storage/postgres/export"
	testmodepg "github.com/tributary-hq/tributary/storage/postgres/testmode"
)

// TestMode returns the store of package testmode.
func TestMode(db *postgres.DB) testmode.Store { return testModeStore{testmodepg.NewStore(db)} }

type testModeStore struct{ *testmodepg.Store }

func (s testModeStore) InTx(ctx context.Context, fn func(tx testmode.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *testmodepg.Tx) error { return fn(testModeTx{tx, exportpg.NewTx(tx.Tx)}) })
}

func (s testModeStore) InSnapshot(ctx context.Context, fn func(tx testmode.Tx) error) error {
	return s.Store.InSnapshot(ctx, func(tx *testmodepg.Tx) error { return fn(testModeTx{tx, exportpg.NewTx(tx.Tx)}) })
}

// testModeTx combines the methods of two storage packages.
type testModeTx struct {
	*testmodepg.Tx
	exports *exportpg.Tx
}

func (tx testModeTx) DeleteTestExports(ctx context.Context, id affiliate.WorkspaceID) error {
	return tx.exports.DeleteTestExports(ctx, id)
}
