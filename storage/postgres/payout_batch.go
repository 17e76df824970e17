package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Payouts change only while their batch is locked. A transaction locks the batch, its
// payouts, their participants and their commissions, in this order.

const batchColumns = `
	b.id, b.status, b.program_ids as programs, b.cutoff, b.created_by, b.confirmed_by, b.created_at, b.confirmed_at,
	b.completed_at, b.version`

// InsertPayoutBatch stores a new batch with its payouts, adds the commissions to the
// payouts, and writes the events and the audit record. The caller must have locked the
// participants and commissions with LockPayoutsDue. The returned batch has its counts
// and totals.
func (tx *Tx) InsertPayoutBatch(ctx context.Context, draft affiliate.PayoutBatchDraft, by affiliate.Actor) (affiliate.PayoutBatch, error) {
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
	if batch.Counts, batch.Totals, err = countPayouts(ctx, tx, batch); err != nil {
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
	return normalizeBatch(batch, scope), nil
}

// normalizeBatch sets the scope of a batch that was read and converts its times to UTC.
func normalizeBatch(b affiliate.PayoutBatch, scope affiliate.Scope) affiliate.PayoutBatch {
	b.Scope = scope
	b.Cutoff, b.CreatedAt = b.Cutoff.UTC(), b.CreatedAt.UTC()
	b.ConfirmedAt, b.CompletedAt = UTC(b.ConfirmedAt), UTC(b.CompletedAt)
	return b
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

var payoutStatuses = []affiliate.PayoutStatus{
	affiliate.PayoutDraft, affiliate.PayoutPending, affiliate.PayoutProcessing, affiliate.PayoutPaid, affiliate.PayoutFailed, affiliate.PayoutCanceled,
}

// updateBatchStatus sets the status of a locked batch according to its payouts. The
// returned batch has no counts and totals.
func updateBatchStatus(ctx context.Context, tx *Tx, batch affiliate.PayoutBatch, at time.Time) (affiliate.PayoutBatch, error) {
	const update = `
		update payout_batches set status = $4, confirmed_by = $5, confirmed_at = $6, completed_at = $7, version = $8
		where workspace_id = $1 and mode = $2 and id = $3`
	rows, _ := tx.Query(ctx, selectPayoutStatuses, batch.Scope.Workspace, batch.Scope.Mode, batch.ID, payoutStatuses)
	found, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.PayoutStatus])
	if err != nil {
		return batch, fmt.Errorf("read payout statuses: %w", err)
	}
	present := affiliate.PayoutCounts{}
	for _, status := range found {
		present[status] = 1 // at least one
	}
	batch = batch.Follow(present, at)
	batch.Counts, batch.Totals = nil, nil
	batch.Version++
	_, err = tx.Exec(ctx, update, batch.Scope.Workspace, batch.Scope.Mode, batch.ID, batch.Status,
		batch.ConfirmedBy, batch.ConfirmedAt, batch.CompletedAt, batch.Version)
	if err != nil {
		return batch, fmt.Errorf("update payout batch: %w", err)
	}
	return batch, nil
}

// countPayouts returns the counts and totals of a batch's payouts.
func countPayouts(ctx context.Context, db Queryer, batch affiliate.PayoutBatch) (affiliate.PayoutCounts, []affiliate.PayoutTotal, error) {
	batches := []affiliate.PayoutBatch{batch}
	err := setPayoutCounts(ctx, db, batch.Scope, batches)
	return batches[0].Counts, batches[0].Totals, err
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
func setPayoutCounts(ctx context.Context, db Queryer, scope affiliate.Scope, batches []affiliate.PayoutBatch) error {
	type sum struct {
		Batch       affiliate.PayoutBatchID
		Status      affiliate.PayoutStatus
		Currency    string
		N           int64
		AmountCents int64
	}
	ids := make([]affiliate.PayoutBatchID, len(batches))
	indexOf := map[affiliate.PayoutBatchID]int{}
	for i := range batches {
		ids[i], indexOf[batches[i].ID] = batches[i].ID, i
		batches[i].Counts, batches[i].Totals = affiliate.PayoutCounts{}, nil
	}
	rows, _ := db.Query(ctx, sumBatches, scope.Workspace, scope.Mode, ids)
	sums, err := pgx.CollectRows(rows, pgx.RowToStructByName[sum])
	if err != nil {
		return fmt.Errorf("count payouts: %w", err)
	}
	for _, sum := range sums {
		b := &batches[indexOf[sum.Batch]]
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

// ConfirmPayoutBatch confirms a draft batch. It first removes commissions that are no
// longer payable from their payouts, and computes amounts and adjustments again. If the
// new amount of a payout cannot be paid, it cancels the payout. Errors: NOT_FOUND,
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
		changes, err := recheckPayouts(ctx, tx, batch, drafts, affiliate.MoveConfirm, at, by)
		if err != nil {
			return err
		}
		batch.ConfirmedBy, batch.ConfirmedAt = by.ID(), &at
		if batch, err = movePayouts(ctx, tx, batch, at, changes...); err != nil {
			return err
		}
		if batch.Counts, batch.Totals, err = countPayouts(ctx, tx, batch); err != nil {
			return err
		}
		return auditBatch(ctx, tx, batch, "confirm", at, by, map[string]any{"status": affiliate.BatchDraft}, map[string]any{
			"status": batch.Status, "payouts": batch.Counts,
		})
	})
	return batch, err
}

// recheckPayouts returns the changes that move payouts to the next status; the caller
// stores them with movePayouts. recheckPayouts locks the participants and commissions of
// the payouts and then computes the amount of each payout again. It releases commissions
// that are no longer payable, and cancels payouts whose new amount cannot be paid.
func recheckPayouts(
	ctx context.Context, tx *Tx, batch affiliate.PayoutBatch, payouts []affiliate.Payout, move affiliate.PayoutMove, at time.Time, by affiliate.Actor,
) ([]affiliate.PayoutChange, error) {
	participants, ids := make([]affiliate.ParticipantID, len(payouts)), make([]affiliate.PayoutID, len(payouts))
	for i, p := range payouts {
		participants[i], ids[i] = p.Participant, p.ID
	}
	if err := lockParticipants(ctx, tx, batch.Scope, participants); err != nil {
		return nil, err
	}
	held, err := lockForPayout(ctx, tx, lockAssigned, payoutCommissionArgs(batch.Scope, ids, batch.Cutoff))
	if err != nil {
		return nil, err
	}
	due, err := dueAmounts(ctx, tx, batch.Scope, batch.Cutoff, participants)
	if err != nil {
		return nil, err
	}
	stillPayable := map[affiliate.PayoutID][]affiliate.PayoutCandidate{}
	for _, c := range held {
		if c.Payable {
			stillPayable[*c.Payout] = append(stillPayable[*c.Payout], c)
		}
	}
	var changes []affiliate.PayoutChange
	var stillOpen []affiliate.PayoutID
	canceled := map[affiliate.PayoutID]bool{}
	for _, p := range payouts {
		d := due[participantCurrency{p.Participant, p.Currency}].WithCommissions(stillPayable[p.ID])
		// The amount due does not contain the adjustments of open payouts. This payout is
		// open too, so its own adjustment is added again.
		d.AdjustmentCents += p.AdjustmentCents
		t := affiliate.PayoutTransition{Move: move, Actor: by, At: at}
		if d.Exclusion() != "" {
			t.Move, canceled[p.ID] = affiliate.MoveCancel, true
		} else {
			stillOpen = append(stillOpen, p.ID)
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
	var kept, released []affiliate.PayoutCandidate
	for _, c := range held {
		if c.Payable && !canceled[*c.Payout] {
			kept = append(kept, c)
		} else {
			released = append(released, c)
		}
	}
	if err := releaseCommissions(ctx, tx, batch.Scope, released, at); err != nil {
		return nil, err
	}
	// A canceled payout keeps its amount and its list of commissions.
	if err := pruneContents(ctx, tx, batch.Scope, stillOpen, kept); err != nil {
		return nil, err
	}
	return changes, recordContents(ctx, tx, batch.Scope, kept)
}

// CancelPayoutBatch cancels a batch with its draft and pending payouts. It refuses a
// batch that has a processing or paid payout. Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
func (s *Store) CancelPayoutBatch(
	ctx context.Context, scope affiliate.Scope, id affiliate.PayoutBatchID, at time.Time, by affiliate.Actor,
) (affiliate.PayoutBatch, error) {
	var batch affiliate.PayoutBatch
	err := s.InTx(ctx, func(tx *Tx) (err error) {
		if batch, err = lockBatch(ctx, tx, scope, id); err != nil {
			return err
		}
		oldStatus := batch.Status
		if oldStatus != affiliate.BatchDraft && oldStatus != affiliate.BatchConfirmed {
			return batch.Refuse()
		}
		unsent, err := lockPayouts(ctx, tx, batch, affiliate.PayoutDraft, affiliate.PayoutPending)
		if err != nil {
			return err
		}
		changes, payouts := make([]affiliate.PayoutChange, len(unsent)), make([]affiliate.PayoutID, len(unsent))
		for i, p := range unsent {
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
		return auditBatch(ctx, tx, batch, "cancel", at, by, map[string]any{"status": oldStatus}, map[string]any{"status": batch.Status})
	})
	return batch, err
}
