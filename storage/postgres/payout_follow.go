package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
)

// A draft or pending payout follows its commissions: a commission that stops being
// payable leaves it, and an amount that falls lowers it. The transaction that
// changes the commission writes both.
//
// Transactions lock batches, their payouts and the commissions of these payouts in
// this order, as those that move payouts do (payout_batch.go). So a change of a
// commission locks its payout before the commission itself.

// errTakenMeanwhile means that a new payout took a commission in after the
// transaction looked for payouts and before it locked the commission. It is a
// serialization failure, so InTx starts the transaction over.
var errTakenMeanwhile = &pgconn.PgError{Code: codeSerializationFailure, Message: "a new payout holds the commission"}

// The statements that find and lock what holds approved commissions and was not
// sent yet. Each sees what the one before has waited for.
const (
	lockHoldingBatches = `
		select b.id
		from payout_batches b
		where b.workspace_id = $1 and b.mode = $2 and b.id in (
			select p.batch_id
			from commissions c
			join payouts p on p.workspace_id = c.workspace_id and p.id = c.payout_id
			where c.workspace_id = $1 and c.mode = $2 and c.id = any($3) and c.status = 'approved' and p.status in ('draft', 'pending'))
		order by b.id
		for no key update of b`
	lockHoldingPayouts = `
		select p.id, p.batch_id as batch, p.status
		from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.status in ('draft', 'pending') and p.id in (
			select c.payout_id from commissions c
			where c.workspace_id = $1 and c.mode = $2 and c.id = any($3) and c.status = 'approved')
		order by p.id
		for no key update of p`
)

// holdingPayout is a locked payout that a commission may leave.
type holdingPayout struct {
	ID     affiliate.PayoutID
	Batch  affiliate.PayoutBatchID
	Status affiliate.PayoutStatus
}

// lockHeldCommissions is lockCommissions for changes that may take commissions out
// of their payouts: payouts that were not sent yet are locked with their batches. One
// round trip.
func lockHeldCommissions(
	ctx context.Context, tx *Tx, scope affiliate.Scope, ids []affiliate.CommissionID,
) ([]affiliate.LockedCommission, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var batches []affiliate.PayoutBatchID
	var payouts []holdingPayout
	var locked []affiliate.LockedCommission
	batch := &pgx.Batch{}
	batch.Queue(lockHoldingBatches, scope.Workspace, scope.Mode, ids).Query(func(rows pgx.Rows) (err error) {
		batches, err = pgx.CollectRows(rows, pgx.RowTo[affiliate.PayoutBatchID])
		return err
	})
	batch.Queue(lockHoldingPayouts, scope.Workspace, scope.Mode, ids).Query(func(rows pgx.Rows) (err error) {
		payouts, err = pgx.CollectRows(rows, pgx.RowToStructByName[holdingPayout])
		return err
	})
	batch.Queue(lockCommissionsSQL, scope.Workspace, scope.Mode, ids).Query(func(rows pgx.Rows) (err error) {
		locked, err = collectLocked(rows, scope)
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("lock commissions and payouts: %w", err)
	}
	holders := map[affiliate.PayoutID]affiliate.PayoutStatus{}
	for _, p := range payouts {
		if !slices.Contains(batches, p.Batch) {
			return nil, errTakenMeanwhile
		}
		holders[p.ID] = p.Status
	}
	for i := range locked {
		c := &locked[i]
		if c.Payout == nil || c.Status != affiliate.CommissionApproved {
			continue
		}
		status, ok := holders[*c.Payout]
		if !ok {
			const sent = `select p.status from payouts p where p.workspace_id = $1 and p.mode = $2 and p.id = $3`
			if err := tx.QueryRow(ctx, sent, scope.Workspace, scope.Mode, c.Payout).Scan(&status); err != nil {
				return nil, fmt.Errorf("payout of commission %s: %w", c.ID, err)
			}
			if status == affiliate.PayoutDraft || status == affiliate.PayoutPending {
				return nil, errTakenMeanwhile
			}
		}
		c.PayoutStatus = status
	}
	return locked, nil
}

// followCommissions changes the payouts that the commissions of changes leave, or
// bring less to. The commissions were locked by lockHeldCommissions; the changes
// themselves are not written yet.
func followCommissions(ctx context.Context, tx *Tx, changes ...affiliate.CommissionChange) error {
	affected := map[affiliate.PayoutID][]affiliate.CommissionChange{}
	var payouts []affiliate.PayoutID
	for _, change := range changes {
		if !change.LeavesPayout() && !change.LowersPayout() {
			continue
		}
		id := *change.Before.Payout
		if affected[id] == nil {
			payouts = append(payouts, id)
		}
		affected[id] = append(affected[id], change)
	}
	slices.SortFunc(payouts, func(a, b affiliate.PayoutID) int { return bytes.Compare(a.UUID[:], b.UUID[:]) })
	for _, id := range payouts {
		if err := followInto(ctx, tx, id, affected[id]); err != nil {
			return err
		}
	}
	return nil
}

// remainingContent sums up a payout without the commissions in $3 and with the
// amounts in $5 for those in $4.
const remainingContent = `
	select count(*) as commission_count, coalesce(sum(coalesce(t.amount_cents, h.amount_cents)), 0)::bigint as commission_cents,
		min(coalesce(c.approved_at, c.created_at)) as period_start, max(coalesce(c.approved_at, c.created_at)) as period_end
	from payout_commissions h
	join commissions c on c.workspace_id = h.workspace_id and c.id = h.commission_id
	left join unnest($4::uuid[], $5::bigint[]) as t (id, amount_cents) on t.id = h.commission_id
	where h.workspace_id = $1 and c.mode = $6 and h.payout_id = $2 and h.commission_id <> all($3)`

// followInto changes one payout, which is locked with its batch.
func followInto(ctx context.Context, tx *Tx, id affiliate.PayoutID, changes []affiliate.CommissionChange) error {
	scope, t := changes[0].After.Scope, changes[0].Transition
	gone, lowered, amounts := []affiliate.CommissionID{}, []affiliate.CommissionID{}, []int64{}
	for _, change := range changes {
		if change.LeavesPayout() {
			gone = append(gone, change.After.ID)
		} else {
			lowered, amounts = append(lowered, change.After.ID), append(amounts, change.After.AmountCents)
		}
	}
	batch, p, err := lockPayout(ctx, tx, scope, id)
	if err != nil {
		return err
	}
	rows, _ := tx.Query(ctx, remainingContent, scope.Workspace, id, gone, lowered, amounts, scope.Mode)
	left, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[affiliate.PayoutContent])
	if err != nil {
		return fmt.Errorf("content of a payout: %w", err)
	}
	left.PeriodStart, left.PeriodEnd = UTC(left.PeriodStart), UTC(left.PeriodEnd)
	change, refusal := p.Follow(left, affiliate.System, t.At)
	if refusal != nil {
		return refusal
	}
	if change.After.Status == affiliate.PayoutCanceled {
		// The record keeps what the payout consisted of, like its amount.
		err = releaseAll(ctx, tx, scope, []affiliate.PayoutID{id}, t.At)
	} else {
		err = changeContent(ctx, tx, scope, id, gone, lowered, amounts)
	}
	if err != nil {
		return err
	}
	_, err = movePayouts(ctx, tx, batch, t.At, change)
	return err
}

// changeContent removes commissions from the record of what a payout consists of,
// and notes the amounts of others.
func changeContent(
	ctx context.Context, tx *Tx, scope affiliate.Scope, id affiliate.PayoutID, gone, lowered []affiliate.CommissionID, amounts []int64,
) error {
	const remove = `delete from payout_commissions h where h.workspace_id = $1 and h.payout_id = $2 and h.commission_id = any($3)`
	const lower = `
		update payout_commissions h set amount_cents = t.amount_cents
		from unnest($3::uuid[], $4::bigint[]) as t (id, amount_cents)
		where h.workspace_id = $1 and h.payout_id = $2 and h.commission_id = t.id`
	batch := &pgx.Batch{}
	batch.Queue(remove, scope.Workspace, id, gone)
	batch.Queue(lower, scope.Workspace, id, lowered, amounts)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("commissions of a payout: %w", err)
	}
	return nil
}
