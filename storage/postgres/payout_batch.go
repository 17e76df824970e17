package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Whatever happens to payouts happens under the lock of their batch's row. A
// transaction locks the batch, its payouts, their participants and their
// commissions, in this order.

const batchColumns = `
	b.id, b.status, b.program_ids as programs, b.cutoff, b.created_by, b.confirmed_by, b.created_at, b.confirmed_at,
	b.completed_at, b.version`

// InsertPayoutBatch stores a new batch with its payouts, puts the commissions into
// them, and publishes and audits it. Participants and commissions are locked by
// LockPayoutsDue. It returns the batch with its counts and totals.
func (tx *Tx) InsertPayoutBatch(ctx context.Context, draft affiliate.PayoutBatchDraft, by affiliate.Actor) (affiliate.PayoutBatch, error) {
	const insert = `
		insert into payout_batches (workspace_id, id, mode, status, program_ids, cutoff, created_by, created_at, version)
		values (@workspace, @id, @mode, @status, @programs, @cutoff, @created_by, @created_at, @version)`
	batch := draft.Batch
	programs := append([]affiliate.ProgramID{}, batch.Programs...) // not null
	_, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"workspace": batch.Scope.Workspace, "id": batch.ID, "mode": batch.Scope.Mode, "status": batch.Status, "programs": programs,
		"cutoff": batch.Cutoff, "created_by": batch.CreatedBy, "created_at": batch.CreatedAt, "version": batch.Version,
	})
	if err != nil {
		return batch, fmt.Errorf("payout batch: %w", err)
	}
	if err := insertPayouts(ctx, tx, batch, draft.Payouts); err != nil {
		return batch, err
	}
	if err := hold(ctx, tx, batch.Scope, draft.Commissions, batch.CreatedAt); err != nil {
		return batch, err
	}
	if batch.Counts, batch.Totals, err = countPayouts(ctx, tx, batch); err != nil {
		return batch, err
	}
	if err := tx.Publish(ctx, draft.Events()...); err != nil {
		return batch, err
	}
	return batch, recordBatch(ctx, tx, batch, "create", batch.CreatedAt, by, nil, map[string]any{
		"program_ids": programs, "cutoff": affiliate.FormatTime(batch.Cutoff), "payout_count": len(draft.Payouts),
	})
}

// lockBatch locks a batch, which guards all its payouts. Errors: NOT_FOUND.
func lockBatch(ctx context.Context, tx *Tx, scope affiliate.Scope, id affiliate.PayoutBatchID) (affiliate.PayoutBatch, error) {
	const lock = `
		select ` + batchColumns + `
		from payout_batches b
		where b.workspace_id = $1 and b.mode = $2 and b.id = $3
		for no key update`
	rows, _ := tx.Query(ctx, lock, scope.Workspace, scope.Mode, id)
	return collectBatch(rows, scope)
}

func collectBatch(rows pgx.Rows, scope affiliate.Scope) (affiliate.PayoutBatch, error) {
	batch, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[affiliate.PayoutBatch])
	if errors.Is(err, pgx.ErrNoRows) {
		return batch, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return batch, fmt.Errorf("payout batch: %w", err)
	}
	return inUTC(batch, scope), nil
}

func inUTC(b affiliate.PayoutBatch, scope affiliate.Scope) affiliate.PayoutBatch {
	b.Scope = scope
	b.Cutoff, b.CreatedAt = b.Cutoff.UTC(), b.CreatedAt.UTC()
	b.ConfirmedAt, b.CompletedAt = UTC(b.ConfirmedAt), UTC(b.CompletedAt)
	return b
}

// standings are the statuses that a batch's payouts have. Each is looked for and
// none is counted, so that it costs the same whatever their number; the limited
// lateral keeps the planner from joining them all.
const standings = `
	select s.status
	from unnest($4::text[]) as s (status)
	cross join lateral (
		select from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = s.status
		limit 1
	) p`

var payoutStatuses = []affiliate.PayoutStatus{
	affiliate.PayoutDraft, affiliate.PayoutPending, affiliate.PayoutProcessing, affiliate.PayoutPaid, affiliate.PayoutFailed, affiliate.PayoutCanceled,
}

// followPayouts brings a locked batch to where its payouts stand, without its counts
// and totals.
func followPayouts(ctx context.Context, tx *Tx, batch affiliate.PayoutBatch, at time.Time) (affiliate.PayoutBatch, error) {
	const update = `
		update payout_batches set status = $4, confirmed_by = $5, confirmed_at = $6, completed_at = $7, version = $8
		where workspace_id = $1 and mode = $2 and id = $3`
	rows, _ := tx.Query(ctx, standings, batch.Scope.Workspace, batch.Scope.Mode, batch.ID, payoutStatuses)
	found, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.PayoutStatus])
	if err != nil {
		return batch, fmt.Errorf("payouts of a batch: %w", err)
	}
	some := affiliate.PayoutCounts{}
	for _, status := range found {
		some[status] = 1 // or more
	}
	batch = batch.Follow(some, at)
	batch.Counts, batch.Totals = nil, nil
	batch.Version++
	_, err = tx.Exec(ctx, update, batch.Scope.Workspace, batch.Scope.Mode, batch.ID, batch.Status,
		batch.ConfirmedBy, batch.ConfirmedAt, batch.CompletedAt, batch.Version)
	if err != nil {
		return batch, fmt.Errorf("payout batch: %w", err)
	}
	return batch, nil
}

// countPayouts counts and sums a batch's payouts.
func countPayouts(ctx context.Context, db Queryer, batch affiliate.PayoutBatch) (affiliate.PayoutCounts, []affiliate.PayoutTotal, error) {
	batches := []affiliate.PayoutBatch{batch}
	err := countEach(ctx, db, batch.Scope, batches)
	return batches[0].Counts, batches[0].Totals, err
}

// sumBatches counts the payouts of batches by status and currency.
const sumBatches = `
	select p.batch_id as batch, p.status, p.currency, count(*) as n, sum(p.amount_cents)::bigint as amount_cents
	from payouts p
	where p.workspace_id = $1 and p.mode = $2 and p.batch_id = any($3)
	group by p.batch_id, p.status, p.currency
	order by p.batch_id, p.currency`

// countEach fills in the counts and totals of batches.
func countEach(ctx context.Context, db Queryer, scope affiliate.Scope, batches []affiliate.PayoutBatch) error {
	type sum struct {
		Batch       affiliate.PayoutBatchID
		Status      affiliate.PayoutStatus
		Currency    string
		N           int64
		AmountCents int64
	}
	ids := make([]affiliate.PayoutBatchID, len(batches))
	at := map[affiliate.PayoutBatchID]int{}
	for i := range batches {
		ids[i], at[batches[i].ID] = batches[i].ID, i
		batches[i].Counts, batches[i].Totals = affiliate.PayoutCounts{}, nil
	}
	rows, _ := db.Query(ctx, sumBatches, scope.Workspace, scope.Mode, ids)
	sums, err := pgx.CollectRows(rows, pgx.RowToStructByName[sum])
	if err != nil {
		return fmt.Errorf("count payouts: %w", err)
	}
	for _, sum := range sums {
		b := &batches[at[sum.Batch]]
		b.Counts[sum.Status] += sum.N
		if sum.Status == affiliate.PayoutCanceled {
			continue
		}
		if n := len(b.Totals); n == 0 || b.Totals[n-1].Currency != sum.Currency {
			b.Totals = append(b.Totals, affiliate.PayoutTotal{Currency: sum.Currency})
		}
		total := &b.Totals[len(b.Totals)-1]
		total.Count += sum.N
		total.AmountCents += sum.AmountCents
	}
	return nil
}

// ConfirmPayoutBatch releases a draft. What has ceased to be payable leaves its
// payout first, amounts and adjustments are made anew, and a payout that comes to
// nothing that could be paid is canceled. Errors: NOT_FOUND,
// PAYOUT_STATE_INVALID.
func (s *Store) ConfirmPayoutBatch(
	ctx context.Context, scope affiliate.Scope, id affiliate.PayoutBatchID, at time.Time, by affiliate.Actor,
) (affiliate.PayoutBatch, error) {
	var batch affiliate.PayoutBatch
	err := s.InTx(ctx, func(tx *Tx) (err error) {
		if batch, err = lockBatch(ctx, tx, scope, id); err != nil {
			return err
		}
		if batch.Status != affiliate.BatchDraft {
			return batch.Refuse()
		}
		drafts, err := lockPayouts(ctx, tx, batch, affiliate.PayoutDraft)
		if err != nil {
			return err
		}
		changes, err := judgePayouts(ctx, tx, batch, drafts, affiliate.MoveConfirm, at, by)
		if err != nil {
			return err
		}
		batch.ConfirmedBy, batch.ConfirmedAt = by.User, &at
		if batch, err = movePayouts(ctx, tx, batch, at, changes...); err != nil {
			return err
		}
		if batch.Counts, batch.Totals, err = countPayouts(ctx, tx, batch); err != nil {
			return err
		}
		return recordBatch(ctx, tx, batch, "confirm", at, by, map[string]any{"status": affiliate.BatchDraft}, map[string]any{
			"status": batch.Status, "payouts": batch.Counts,
		})
	})
	return batch, err
}

// judgePayouts moves payouts on towards the partner: it judges them once more,
// under locks of their participants and commissions, gives back what they cannot
// keep, and cancels those that come to nothing that could be paid.
func judgePayouts(
	ctx context.Context, tx *Tx, batch affiliate.PayoutBatch, judged []affiliate.Payout, move affiliate.PayoutMove, at time.Time, by affiliate.Actor,
) ([]affiliate.PayoutChange, error) {
	participants, payouts := make([]affiliate.ParticipantID, len(judged)), make([]affiliate.PayoutID, len(judged))
	for i, p := range judged {
		participants[i], payouts[i] = p.Participant, p.ID
	}
	if err := lockParticipants(ctx, tx, batch.Scope, participants); err != nil {
		return nil, err
	}
	held, err := lockForPayout(ctx, tx, lockHeld, heldArgs(batch.Scope, payouts, batch.Cutoff))
	if err != nil {
		return nil, err
	}
	due, err := dueByAccount(ctx, tx, batch.Scope, batch.Cutoff, participants)
	if err != nil {
		return nil, err
	}
	stillPayable := map[affiliate.PayoutID][]affiliate.HeldCommission{}
	for _, c := range held {
		if c.Payable {
			stillPayable[*c.Payout] = append(stillPayable[*c.Payout], c)
		}
	}
	var changes []affiliate.PayoutChange
	var going []affiliate.PayoutID
	canceled := map[affiliate.PayoutID]bool{}
	for _, p := range judged {
		d := due[account{p.Participant, p.Currency}].WithCommissions(stillPayable[p.ID])
		d.AdjustmentCents += p.AdjustmentCents // it is an open payout itself
		t := affiliate.PayoutTransition{Move: move, Actor: by, At: at}
		if d.Exclusion() != "" {
			t.Move, canceled[p.ID] = affiliate.MoveCancel, true
		} else {
			going = append(going, p.ID)
		}
		change, refusal := t.Apply(p)
		if refusal != nil {
			return nil, refusal
		}
		if !canceled[p.ID] {
			change.After = change.After.WithAmounts(d)
		}
		changes = append(changes, change)
	}
	var kept, left []affiliate.HeldCommission
	for _, c := range held {
		if c.Payable && !canceled[*c.Payout] {
			kept = append(kept, c)
		} else {
			left = append(left, c)
		}
	}
	if err := release(ctx, tx, batch.Scope, left, at); err != nil {
		return nil, err
	}
	// What a canceled payout consisted of stays on record, like its amount.
	if err := dropHeld(ctx, tx, batch.Scope, going, kept); err != nil {
		return nil, err
	}
	return changes, noteHeld(ctx, tx, batch.Scope, kept)
}

// CancelPayoutBatch cancels the drafts and pending payouts of a batch none of
// which is processing or paid. Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
func (s *Store) CancelPayoutBatch(
	ctx context.Context, scope affiliate.Scope, id affiliate.PayoutBatchID, at time.Time, by affiliate.Actor,
) (affiliate.PayoutBatch, error) {
	var batch affiliate.PayoutBatch
	err := s.InTx(ctx, func(tx *Tx) (err error) {
		if batch, err = lockBatch(ctx, tx, scope, id); err != nil {
			return err
		}
		was := batch.Status
		if was != affiliate.BatchDraft && was != affiliate.BatchConfirmed {
			return batch.Refuse()
		}
		open, err := lockPayouts(ctx, tx, batch, affiliate.PayoutDraft, affiliate.PayoutPending)
		if err != nil {
			return err
		}
		changes, payouts := make([]affiliate.PayoutChange, len(open)), make([]affiliate.PayoutID, len(open))
		for i, p := range open {
			change, refusal := affiliate.PayoutTransition{Move: affiliate.MoveCancel, Actor: by, At: at}.Apply(p)
			if refusal != nil {
				return refusal
			}
			changes[i], payouts[i] = change, p.ID
		}
		if err := releaseAll(ctx, tx, scope, payouts, at); err != nil {
			return err
		}
		if batch, err = movePayouts(ctx, tx, batch, at, changes...); err != nil {
			return err
		}
		if batch.Counts, batch.Totals, err = countPayouts(ctx, tx, batch); err != nil {
			return err
		}
		return recordBatch(ctx, tx, batch, "cancel", at, by, map[string]any{"status": was}, map[string]any{"status": batch.Status})
	})
	return batch, err
}
