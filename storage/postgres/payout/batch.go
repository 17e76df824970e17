package payout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Payouts change only while their batch is locked. A transaction locks the batch, its
// payouts, their participants and their commissions, in this order.

const batchColumns = `
	b.id, b.status, b.program_ids as programs, b.cutoff, b.created_by, b.first_confirmed_by, b.first_confirmed_user,
	b.first_confirmed_at, b.confirmed_by, b.created_at, b.confirmed_at, b.completed_at, b.version`

// batchRow is a row with batchColumns.
type batchRow struct {
	payout.Batch
	FirstConfirmedBy   *affiliate.ActorID
	FirstConfirmedUser *affiliate.UserID
	FirstConfirmedAt   *time.Time
}

func (r batchRow) batch(scope affiliate.Scope) payout.Batch {
	b := r.Batch
	b.Scope = scope
	if r.FirstConfirmedBy != nil {
		b.First = &payout.FirstConfirmation{By: *r.FirstConfirmedBy, User: *r.FirstConfirmedUser, At: *r.FirstConfirmedAt}
	}
	return b
}

// InsertBatch stores a new batch with its payouts, adds the commissions to the
// payouts, and writes the events and the audit record. The caller must have locked the
// participants and commissions with LockDue. The returned batch has its counts
// and totals.
func InsertBatch(ctx context.Context, tx *postgres.Tx, draft payout.DraftBatch, by affiliate.Actor) (payout.Batch, error) {
	const insert = `
		insert into payout_batches (workspace_id, id, mode, status, program_ids, cutoff, created_by, created_at, version)
		values (@workspace, @id, @mode, @status, @programs, @cutoff, @created_by, @created_at, @version)`
	batch := draft.Batch
	programs := append([]affiliate.ProgramID{}, batch.Programs...) // an empty slice, because the column is not null
	_, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"workspace": batch.Scope.Workspace, "id": batch.ID, "mode": batch.Scope.Mode, "status": batch.Status, "programs": programs,
		"cutoff": batch.Cutoff, "created_by": batch.CreatedBy, "created_at": batch.CreatedAt, "version": batch.Version,
	})
	if err != nil {
		return batch, fmt.Errorf("insert payout batch: %w", err)
	}
	if err := insertPayouts(ctx, tx, batch, draft.Payouts); err != nil {
		return batch, err
	}
	if err := assignCommissions(ctx, tx, batch.Scope, draft.Commissions, batch.CreatedAt); err != nil {
		return batch, err
	}
	if batch, err = completeBatch(ctx, tx, batch); err != nil {
		return batch, err
	}
	if err := tx.Publish(ctx, draft.Events()...); err != nil {
		return batch, err
	}
	return batch, auditBatch(ctx, tx, batch, "create", batch.CreatedAt, by, nil, map[string]any{
		"program_ids": programs, "cutoff": affiliate.FormatTime(batch.Cutoff), "payout_count": len(draft.Payouts),
	})
}

// lockBatch locks a batch. While a batch is locked, no other transaction changes its
// payouts. Errors: NOT_FOUND.
func lockBatch(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id payout.BatchID) (payout.Batch, error) {
	const lock = `
		select ` + batchColumns + `
		from payout_batches b
		where b.workspace_id = $1 and b.mode = $2 and b.id = $3
		for no key update`
	rows, _ := tx.Query(ctx, lock, scope.Workspace, scope.Mode, id)
	return collectBatch(rows, scope)
}

func collectBatch(rows pgx.Rows, scope affiliate.Scope) (payout.Batch, error) {
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[batchRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return payout.Batch{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return payout.Batch{}, fmt.Errorf("payout batch: %w", err)
	}
	return row.batch(scope), nil
}

// selectPayoutStatuses returns the statuses that a batch's payouts have. It searches
// the index once per status and counts nothing, so its cost does not depend on the
// number of payouts. The lateral join with a limit keeps the planner from joining all
// payouts.
const selectPayoutStatuses = `
	select s.status
	from unnest($4::text[]) as s (status)
	cross join lateral (
		select from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = s.status
		limit 1
	) p`

var payoutStatuses = []payout.Status{
	payout.Draft, payout.Pending, payout.Processing, payout.Paid, payout.Failed, payout.Canceled,
}

// updateBatchStatus stores the confirmations of a locked batch and sets its status
// according to its payouts. The returned batch has no counts, totals and names.
func updateBatchStatus(ctx context.Context, tx *postgres.Tx, batch payout.Batch, at time.Time) (payout.Batch, error) {
	const update = `
		update payout_batches set status = @status, confirmed_by = @confirmed_by, confirmed_at = @confirmed_at,
			first_confirmed_by = @first_by, first_confirmed_user = @first_user, first_confirmed_at = @first_at,
			completed_at = @completed_at, version = @version
		where workspace_id = @workspace and mode = @mode and id = @id`
	rows, _ := tx.Query(ctx, selectPayoutStatuses, batch.Scope.Workspace, batch.Scope.Mode, batch.ID, payoutStatuses)
	found, err := pgx.CollectRows(rows, pgx.RowTo[payout.Status])
	if err != nil {
		return batch, fmt.Errorf("read payout statuses: %w", err)
	}
	present := payout.Counts{}
	for _, status := range found {
		present[status] = 1 // at least one
	}
	batch = batch.Follow(present, at)
	batch.Counts, batch.Totals = nil, nil
	batch.Version++
	args := pgx.NamedArgs{
		"workspace": batch.Scope.Workspace, "mode": batch.Scope.Mode, "id": batch.ID, "status": batch.Status,
		"confirmed_by": batch.ConfirmedBy, "confirmed_at": batch.ConfirmedAt, "first_by": nil, "first_user": nil, "first_at": nil,
		"completed_at": batch.CompletedAt, "version": batch.Version,
	}
	if first := batch.First; first != nil {
		args["first_by"], args["first_user"], args["first_at"] = first.By, first.User, first.At
	}
	if _, err = tx.Exec(ctx, update, args); err != nil {
		return batch, fmt.Errorf("update payout batch: %w", err)
	}
	return batch, nil
}

// completeBatch returns a batch with its counts, totals and names.
func completeBatch(ctx context.Context, db postgres.Queryer, batch payout.Batch) (payout.Batch, error) {
	batches := []payout.Batch{batch}
	err := completeBatches(ctx, db, batch.Scope, batches)
	return batches[0], err
}

// completeBatches sets the counts, totals and names of batches.
func completeBatches(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, batches []payout.Batch) error {
	if err := setPayoutCounts(ctx, db, scope, batches); err != nil {
		return err
	}
	return setBatchNames(ctx, db, scope, batches)
}

// setBatchNames sets the names of the users and service tokens that created and confirmed
// the batches.
func setBatchNames(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, batches []payout.Batch) error {
	const read = `
		select t.id, coalesce(u.name, 'service:' || s.name) as name
		from unnest($2::uuid[]) as t (id)
		left join users u on u.id = t.id
		left join service_tokens s on s.workspace_id = $1 and s.id = t.id
		where u.id is not null or s.id is not null`
	names := map[affiliate.ActorID]string{}
	var ids []affiliate.ActorID
	for i := range batches {
		b := &batches[i]
		b.Names = names
		ids = append(ids, b.CreatedBy)
		if b.First != nil {
			ids = append(ids, b.First.By)
		}
		if b.ConfirmedBy != nil {
			ids = append(ids, *b.ConfirmedBy)
		}
	}
	rows, _ := db.Query(ctx, read, scope.Workspace, ids)
	var id affiliate.ActorID
	var name string
	if _, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names[id] = name
		return nil
	}); err != nil {
		return fmt.Errorf("read the names in payout batches: %w", err)
	}
	return nil
}

// sumBatches counts the payouts of batches by status and currency.
const sumBatches = `
	select p.batch_id as batch, p.status, p.currency, count(*) as n, sum(p.amount_cents)::bigint as amount_cents
	from payouts p
	where p.workspace_id = $1 and p.mode = $2 and p.batch_id = any($3)
	group by p.batch_id, p.status, p.currency
	order by p.batch_id, p.currency`

// setPayoutCounts sets the counts and totals of batches. Canceled payouts are counted,
// but they are not part of the totals.
func setPayoutCounts(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, batches []payout.Batch) error {
	type sum struct {
		Batch       payout.BatchID
		Status      payout.Status
		Currency    string
		N           int64
		AmountCents int64
	}
	ids := make([]payout.BatchID, len(batches))
	indexOf := map[payout.BatchID]int{}
	for i := range batches {
		ids[i], indexOf[batches[i].ID] = batches[i].ID, i
		batches[i].Counts, batches[i].Totals = payout.Counts{}, nil
	}
	rows, _ := db.Query(ctx, sumBatches, scope.Workspace, scope.Mode, ids)
	sums, err := pgx.CollectRows(rows, pgx.RowToStructByName[sum])
	if err != nil {
		return fmt.Errorf("count payouts: %w", err)
	}
	for _, sum := range sums {
		b := &batches[indexOf[sum.Batch]]
		b.Counts[sum.Status] += sum.N
		if sum.Status == payout.Canceled {
			continue
		}
		if n := len(b.Totals); n == 0 || b.Totals[n-1].Currency != sum.Currency {
			b.Totals = append(b.Totals, payout.Total{Currency: sum.Currency})
		}
		total := &b.Totals[len(b.Totals)-1]
		total.Count += sum.N
		total.AmountCents += sum.AmountCents
	}
	return nil
}
