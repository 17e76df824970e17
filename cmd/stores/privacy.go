package stores

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	privacyservice "github.com/tributary-hq/tributary/server/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
	exportpg "github.com/tributary-hq/tributary/storage/postgres/export"
	privacypg "github.com/tributary-hq/tributary/storage/postgres/privacy"
)

// Privacy returns the store of package privacy.
func Privacy(db *postgres.DB, key privacy.ErasureKey) privacyservice.Store {
	return privacyStore{privacypg.NewStore(db, key)}
}

type privacyStore struct{ *privacypg.Store }

func (s privacyStore) InTx(ctx context.Context, fn func(tx privacyservice.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *privacypg.Tx) error { return fn(privacyTx{tx, exportpg.NewTx(tx.Tx)}) })
}

// privacyTx combines the methods of two storage packages.
type privacyTx struct {
	*privacypg.Tx
	exports *exportpg.Tx
}

func (tx privacyTx) DeleteExportsWithParticipant(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ParticipantID) error {
	return tx.exports.DeleteExportsWithParticipant(ctx, workspace, id)
}

func (tx privacyTx) DeleteExportsWithPartner(ctx context.Context, user affiliate.UserID) error {
	return tx.exports.DeleteExportsWithPartner(ctx, user)
}

func (tx privacyTx) DeleteExportsOfWorkspace(ctx context.Context, id affiliate.WorkspaceID) error {
	return tx.exports.DeleteExportsOfWorkspace(ctx, id)
}
