// Package buyer has the SQL for the erasure of buyers: its operations, the search for the
// conversions of a buyer, and the statements that replace or delete data.
//
// The package reads, locks and stores rows. Its callers decide which values it stores. The
// methods of Tx run in the caller's transaction. Each method of Store runs on its own.
package buyer

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
