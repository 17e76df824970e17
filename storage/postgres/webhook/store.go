// Package webhook stores webhook endpoints and deliveries and reads the queue of due
// deliveries. Events and their deliveries are inserted by package postgres, in the
// transaction of their cause.
//
// It contains SQL, row mapping and locking. It does not decide: which state follows,
// when an attempt is due and when an endpoint is disabled come from its callers. Every
// statement names workspace and mode, except those of the sender, which serves the
// endpoints of all workspaces and names their keys.
package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// planned makes Postgres plan a statement for the values of its parameters.
const planned = pgx.QueryExecModeCacheDescribe

// Store reads endpoints and deliveries and runs transactions on them. Its methods are
// safe for concurrent use.
type Store struct{ db *postgres.DB }

// NewStore makes a store.
func NewStore(db *postgres.DB) *Store { return &Store{db} }

// InTx runs fn in a transaction, as postgres.DB.InTx does.
func (s *Store) InTx(ctx context.Context, fn func(tx *Tx) error) error {
	return s.db.InTx(ctx, func(tx *postgres.Tx) error { return fn(&Tx{tx}) })
}

// InSendingTx is InTx on the connections of the sender, whose commits do not wait for
// the disk.
func (s *Store) InSendingTx(ctx context.Context, fn func(tx *Tx) error) error {
	return s.db.InSendingTx(ctx, func(tx *postgres.Tx) error { return fn(&Tx{tx}) })
}

// Tx is a transaction with the statements of this package.
type Tx struct{ *postgres.Tx }

// oneRow reads the only row of a query. Errors: WEBHOOK_NOT_FOUND without a row.
func oneRow[T any](rows pgx.Rows, err error) (T, error) {
	row, err := postgres.OneRow[T](rows, err)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		err = affiliate.Refuse(affiliate.ReasonWebhookNotFound)
	}
	return row, err
}

// dayOf returns the day of the id of an event or a delivery, which determines its
// partition. An id without a time is of no day that has one.
func dayOf[T any](id affiliate.ID[T]) time.Time {
	at, _ := id.Time()
	return at.Truncate(24 * time.Hour)
}

// keyColumns are endpoint keys as two arrays for unnest.
func keyColumns(keys []affiliate.EndpointKey) ([]affiliate.WorkspaceID, []affiliate.EndpointID) {
	workspaces, ids := make([]affiliate.WorkspaceID, len(keys)), make([]affiliate.EndpointID, len(keys))
	for i, key := range keys {
		workspaces[i], ids[i] = key.Workspace, key.ID
	}
	return workspaces, ids
}
