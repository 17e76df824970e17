// Package payout has the SQL of payouts and their batches, and of the payouts that follow a change
// of their commissions. Transactions lock participants, commissions and payouts in this order.
package payout

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
)

var payoutColumns = postgres.Columns[payout.Payout]("p")

// Lock locks a payout's batch and then the payout itself. Errors: NOT_FOUND.
func Lock(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.PayoutID) (payout.Batch, payout.Payout, error) {
	const batchOf = `select p.batch_id from payouts p where p.workspace_id = $1 and p.mode = $2 and p.id = $3`
	lock := `
		select ` + payoutColumns + `
		from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.id = $3
		for no key update`
	found, err := postgres.OneRow[struct{ BatchID payout.BatchID }](tx.Query(ctx, batchOf, scope.Workspace, scope.Mode, id))
	if err != nil {
		return payout.Batch{}, payout.Payout{}, err
	}
	batch, err := LockBatch(ctx, tx, scope, found.BatchID)
	if err != nil {
		return batch, payout.Payout{}, err
	}
	p, err := postgres.OneRow[payout.Payout](tx.Query(ctx, lock, scope.Workspace, scope.Mode, id))
	return batch, p, err
}

// LockOfBatch locks and returns those payouts that are in a locked batch and have one of
// the given statuses, in the order of their ids.
func LockOfBatch(ctx context.Context, tx *postgres.Tx, batch payout.Batch, statuses ...payout.Status) ([]payout.Payout, error) {
	lock := `
		select ` + payoutColumns + `
		from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = any($4)
		order by p.id
		for no key update`
	return postgres.List[payout.Payout](ctx, tx, "lock the payouts of a batch", lock, batch.Workspace, batch.Mode, batch.ID, statuses)
}

var (
	insertPayouts = postgres.RowsOf[payout.Payout](`insert into payouts ({columns}) values {rows}`)
	updatePayouts = postgres.RowsOf[payout.Payout](`
		update payouts p set {changes}, account = case when t.status = 'canceled' then null else p.account end
		from (values {typed rows}) as t ({columns})
		where p.workspace_id = t.workspace_id and p.mode = t.mode and p.id = t.id and p.version = t.version - 1`)
)

// Insert inserts a batch with its payouts and adds the commissions to the payouts. The
// caller must have locked the participants and commissions.
func Insert(ctx context.Context, tx *postgres.Tx, draft payout.DraftBatch) error {
	if _, err := insertBatch.Exec(ctx, tx, draft.Batch); err != nil {
		return fmt.Errorf("insert payout batch: %w", err)
	}
	batch := &pgx.Batch{}
	insertPayouts.Queue(batch, draft.Payouts...)
	if err := postgres.Send(ctx, tx, "insert payouts", batch); err != nil {
		return err
	}
	return AssignCommissions(ctx, tx, draft.Batch.Scope, draft.Commissions, draft.Batch.CreatedAt)
}

// Apply stores changes of locked payouts of one batch. It also stores what follows from the
// changes: ledger entries, the status of the batch, and events. It deletes the accounts of
// canceled payouts, because nothing is paid to them any more. The caller adds commissions
// to the payouts or removes them. The returned batch has no counts and totals.
func Apply(
	ctx context.Context, tx *postgres.Tx, batch payout.Batch, at time.Time, changes ...payout.Change,
) (payout.Batch, error) {
	updates, moved, ids := &pgx.Batch{}, make([]payout.Payout, len(changes)), make([]affiliate.PayoutID, len(changes))
	for i, change := range changes {
		moved[i], ids[i] = change.After, change.After.ID
	}
	for _, q := range updatePayouts.Queue(updates, moved...) {
		q.Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() != int64(q.N) {
				return fmt.Errorf("only %d of %d locked payouts have the expected version", tag.RowsAffected(), q.N)
			}
			return nil
		})
	}
	if err := postgres.Send(ctx, tx, "change payouts", updates); err != nil {
		return batch, err
	}
	batch, err := UpdateBatch(ctx, tx, batch, at)
	if err != nil {
		return batch, err
	}
	listed, err := listedCommissions(ctx, tx, batch.Scope, ids)
	if err != nil {
		return batch, err
	}
	var entries []ledger.Entry
	var events []affiliate.Event
	for _, change := range changes {
		if entry := change.LedgerEntry(); entry != nil {
			entries = append(entries, *entry)
		}
		if event, ok := change.Event(listed[change.After.ID]); ok {
			events = append(events, event)
		}
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return batch, err
	}
	return batch, ledgers.Insert(ctx, tx, entries...)
}
