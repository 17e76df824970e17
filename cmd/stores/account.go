package stores

import (
	"context"

	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/account"
	"github.com/tributary-hq/tributary/server/workspace"
	"github.com/tributary-hq/tributary/storage/postgres"
	accountpg "github.com/tributary-hq/tributary/storage/postgres/account"
)

// Credentials returns the store that authenticates requests.
func Credentials(db *postgres.DB) server.CredentialStore { return accountpg.NewStore(db) }

// Account returns the store of package account.
func Account(db *postgres.DB) account.Store { return accountStore{accountpg.NewStore(db)} }

type accountStore struct{ *accountpg.Store }

func (s accountStore) InTx(ctx context.Context, fn func(tx account.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *accountpg.Tx) error { return fn(tx) })
}

// Workspace returns the store of package workspace.
func Workspace(db *postgres.DB) workspace.Store { return workspaceStore{accountpg.NewStore(db)} }

type workspaceStore struct{ *accountpg.Store }

func (s workspaceStore) InTx(ctx context.Context, fn func(tx workspace.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *accountpg.Tx) error { return fn(tx) })
}
