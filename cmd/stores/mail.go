package stores

import (
	"context"

	"github.com/tributary-hq/tributary/server/mail"
	"github.com/tributary-hq/tributary/storage/postgres"
	mailpg "github.com/tributary-hq/tributary/storage/postgres/mail"
)

// Mail returns the store of package mail.
func Mail(db *postgres.DB) mail.Store { return mailStore{mailpg.NewStore(db)} }

type mailStore struct{ *mailpg.Store }

func (s mailStore) InTx(ctx context.Context, fn func(tx mail.Tx) error) error {
	return s.Store.InTx(ctx, func(tx *mailpg.Tx) error { return fn(tx) })
}
