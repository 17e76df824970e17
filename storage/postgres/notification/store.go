// Package notification has the SQL for the notification feeds, the read state and the
// preferences of users.
//
// Package postgres inserts notifications, in the transaction of their cause. This package
// reads and changes them. It guarantees that a list, a count and a change of a whole
// category cost the same, however many notifications a feed contains: they read at most a
// page, or notification.MaxNotificationCount rows of each category.
//
// The time of a notification is the time in its id. A transaction that was still running
// when a user marked all notifications as read may add a notification with an earlier
// time, which then counts as read.
package notification

import (
	"context"

	"github.com/tributary-hq/tributary/storage/postgres"
)

// Store runs statements outside a transaction of the caller. Its methods are safe for
// concurrent use.
type Store struct{ db *postgres.DB }

// NewStore returns a Store that uses db.
func NewStore(db *postgres.DB) *Store { return &Store{db} }

// Tx is a database transaction with methods for the statements of this package.
type Tx struct{ *postgres.Tx }

// InTx runs fn in a transaction, as postgres.DB.InTx does.
func (s *Store) InTx(ctx context.Context, fn func(tx *Tx) error) error {
	return s.db.InTx(ctx, func(tx *postgres.Tx) error { return fn(&Tx{tx}) })
}
