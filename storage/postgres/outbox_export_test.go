package postgres

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// Publish publishes events in a transaction and then calls beforeCommit. The transaction
// commits if beforeCommit returns nil.
func Publish(ctx context.Context, db *DB, beforeCommit func() error, events ...affiliate.Event) error {
	return db.InTx(ctx, func(tx *Tx) error {
		if err := tx.Publish(ctx, events...); err != nil {
			return err
		}
		return beforeCommit()
	})
}
