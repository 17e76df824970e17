package servicetoken

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server"
)

// Store reads and changes service tokens in the database.
type Store interface {
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// ServiceTokens returns one page of the tokens of the given modes that are active at
	// the given time, newest first, and counts all of them.
	ServiceTokens(ctx context.Context, workspace affiliate.WorkspaceID, modes []affiliate.Mode, now time.Time, page affiliate.Page) ([]account.ServiceToken, int64, error)
}

// Tx is a transaction.
type Tx interface {
	server.MemberTx
	// LockServiceToken locks and returns a token. Errors: NOT_FOUND.
	LockServiceToken(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ServiceTokenID) (account.ServiceToken, error)
	// CountServiceTokens counts the tokens of a scope that are active at the given time.
	CountServiceTokens(ctx context.Context, scope affiliate.Scope, now time.Time) (int, error)
	InsertServiceToken(ctx context.Context, token account.NewServiceToken) error
	// UpdateServiceToken stores when a token expires, when it was revoked and when it was
	// rolled.
	UpdateServiceToken(ctx context.Context, token account.ServiceToken) error
	// Audit adds a record to the audit log.
	Audit(ctx context.Context, line affiliate.AuditLine) error
	// Notify stores notifications.
	Notify(ctx context.Context, notifications ...notification.Notification) error
}
