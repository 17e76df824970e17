// Package privacy has the SQL that erases personal data: of a participant, of a partner's
// account, and of a workspace.
//
// An erasure has two parts. The first part runs in the transaction of the call. It ends
// every access of the subject and replaces what members, partners and receivers of webhooks
// can see. The second part is a list of steps (step.go). Each step walks through a table in
// pages; each page is one transaction, which also stores the position. A step can therefore
// stop and continue at any time.
//
// The package decides nothing: its callers check who may erase what, and in which order.
package privacy

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// planForArgs makes Postgres plan a statement for its actual arguments, because a
// statement for one participant needs another plan than the same statement for a workspace.
const planForArgs = pgx.QueryExecModeCacheDescribe

// Store runs erasures. Its methods are safe for concurrent use.
type Store struct {
	db  *postgres.DB
	key privacy.ErasureKey
}

// NewStore returns a Store that uses db. key is the key of the digests of erased codes.
func NewStore(db *postgres.DB, key privacy.ErasureKey) *Store { return &Store{db, key} }

// Tx is a database transaction with methods for the statements of this package.
type Tx struct {
	*postgres.Tx
	key privacy.ErasureKey
}

// InTx runs fn in a transaction, as postgres.DB.InTx does.
func (s *Store) InTx(ctx context.Context, fn func(tx *Tx) error) error {
	return s.db.InTx(ctx, func(tx *postgres.Tx) error { return fn(&Tx{tx, s.key}) })
}
