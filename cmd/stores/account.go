package stores

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/account"
	"github.com/tributary-hq/tributary/server/servicetoken"
	"github.com/tributary-hq/tributary/server/workspace"
	"github.com/tributary-hq/tributary/storage/postgres"
	accountpg "github.com/tributary-hq/tributary/storage/postgres/account"
	notificationpg "github.com/tributary-hq/tributary/storage/postgres/notification"
)

// Credentials returns the store that authenticates requests.
func Credentials(db *postgres.DB) server.CredentialStore {
	return credentialStore{accountpg.NewStore(db), notificationpg.NewStore(db)}
}

type credentialStore struct {
	*accountpg.Store
	notifications *notificationpg.Store
}

func (s credentialStore) StreamTicket(ctx context.Context, digest []byte) (notification.StreamTicket, bool, error) {
	return s.notifications.StreamTicket(ctx, digest)
}

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

// ServiceTokens returns the store of package servicetoken.
func ServiceTokens(db *postgres.DB) servicetoken.Store {
	return serviceTokenStore{accountpg.NewStore(db)}
}

type serviceTokenStore struct{ *accountpg.Store }

func (s serviceTokenStore) InTx(ctx context.Context, fn func(tx servicetoken.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *accountpg.Tx) error { return fn(tx) })
}
