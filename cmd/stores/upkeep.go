package stores

import (
	"github.com/tributary-hq/tributary/server/upkeep"
	"github.com/tributary-hq/tributary/storage/postgres"
	accountpg "github.com/tributary-hq/tributary/storage/postgres/account"
	buyerpg "github.com/tributary-hq/tributary/storage/postgres/buyer"
	exportpg "github.com/tributary-hq/tributary/storage/postgres/export"
	mailpg "github.com/tributary-hq/tributary/storage/postgres/mail"
	notificationpg "github.com/tributary-hq/tributary/storage/postgres/notification"
	processorpg "github.com/tributary-hq/tributary/storage/postgres/processor"
	webhookpg "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// Upkeep returns the store of package upkeep. It combines the methods of several storage
// packages.
func Upkeep(store *postgres.Store) upkeep.Store {
	return upkeepStore{
		Store: store, accounts: accountpg.NewStore(store.DB), mails: mailpg.NewStore(store.DB),
		webhooks: webhookpg.NewStore(store.DB), notifications: notificationpg.NewStore(store.DB),
		processors: processorpg.NewStore(store.DB), buyers: buyerpg.NewStore(store.DB),
		exports: exportpg.NewStore(store.DB),
	}
}

// These aliases give the embedded stores different field names.
type (
	accounts      = accountpg.Store
	webhooks      = webhookpg.Store
	notifications = notificationpg.Store
	mails         = mailpg.Store
	processors    = processorpg.Store
	buyers        = buyerpg.Store
	exports       = exportpg.Store
)

type upkeepStore struct {
	*postgres.Store
	*accounts
	*mails
	*webhooks
	*notifications
	*processors
	*buyers
	*exports
}
