package payout

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
)

// The contents of a draft or pending payout depend on its commissions. A commission
// that is no longer payable is removed from its payout. If the amount of a commission
// decreases, the amount of its payout decreases too. The transaction that changes the
// commission also changes the payout.
//
// Transactions lock batches, their payouts, and the commissions of these payouts, in
// this order. A transaction that changes a commission therefore locks
// the commission's payout before the commission.

// errConcurrentPayout means that another transaction added a commission to a new
// payout, after this transaction looked for payouts and before it locked the
// commission. It is a serialization failure, so InTx starts this transaction again.
var errConcurrentPayout = &pgconn.PgError{Code: postgres.CodeSerializationFailure, Message: "the commission was added to a new payout"}

// Both statements look for the unsent payouts (draft or pending) that contain at least
// one of the given approved commissions. lockBatchesOf locks the batches of these
// payouts. lockPayoutsOf runs next and locks the payouts, so lockPayoutsOf sees the changes
// of transactions for which lockBatchesOf has waited.
const (
	lockBatchesOf = `
		select b.id
		from payout_batches b
		where b.workspace_id = $1 and b.mode = $2 and b.id in (
			select p.batch_id
			from commissions c
			join payouts p on p.workspace_id = c.workspace_id and p.id = c.payout_id
			where c.workspace_id = $1 and c.mode = $2 and c.id = any($3) and c.status = 'approved' and p.status in ('draft', 'pending'))
		order by b.id
		for no key update of b`
	lockPayoutsOf = `
		select p.id, p.batch_id as batch, p.status
		from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.status in ('draft', 'pending') and p.id in (
			select c.payout_id from commissions c
			where c.workspace_id = $1 and c.mode = $2 and c.id = any($3) and c.status = 'approved')
		order by p.id
		for no key update of p`
)

// unsentPayout is a locked payout that has not been sent yet.
type unsentPayout struct {
	ID     affiliate.PayoutID
	Batch  payout.BatchID
	Status payout.Status
}

// LockCommissions locks commissions in the same way as commissions.Lock. Before that, it
// locks the batches and the unsent payouts that contain the commissions. Every change of
// a commission that may affect its payout must use this function. It needs one round
// trip, and one more for each commission whose payout has been sent already or is new.
func LockCommissions(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.CommissionID) ([]commission.Locked, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var batches []payout.BatchID
	var payouts []unsentPayout
	var locked []commission.Locked
	batch := &pgx.Batch{}
	postgres.QueueValues(batch, &batches, lockBatchesOf, scope.Workspace, scope.Mode, ids)
	postgres.QueueList(batch, &payouts, lockPayoutsOf, scope.Workspace, scope.Mode, ids)
	postgres.QueueList(batch, &locked, commissions.LockSQL, scope.Workspace, scope.Mode, ids)
	if err := postgres.Send(ctx, tx, batch); err != nil {
		return nil, err
	}
	statuses := map[affiliate.PayoutID]payout.Status{}
	for _, p := range payouts {
		if !slices.Contains(batches, p.Batch) {
			return nil, errConcurrentPayout
		}
		statuses[p.ID] = p.Status
	}
	for i := range locked {
		c := &locked[i]
		if c.Payout == nil || c.Status != commission.Approved {
			continue
		}
		status, ok := statuses[*c.Payout]
		if !ok {
			const selectStatus = `select p.status from payouts p where p.workspace_id = $1 and p.mode = $2 and p.id = $3`
			if err := tx.QueryRow(ctx, selectStatus, scope.Workspace, scope.Mode, c.Payout).Scan(&status); err != nil {
				return nil, fmt.Errorf("read the payout of commission %s: %w", c.ID, err)
			}
			if status == payout.Draft || status == payout.Pending {
				return nil, errConcurrentPayout
			}
		}
		c.PayoutStatus = status
	}
	return locked, nil
}

// UpdatePayouts changes the payouts of commissions that are removed from their payout or
// whose amount changes. If this cancels a payout, UpdatePayouts also takes the
// commissions of the given changes out of it. The caller must have locked the commissions
// with LockCommissions. The caller stores the changes of the commissions afterwards.
func UpdatePayouts(ctx context.Context, tx *postgres.Tx, changes []commission.Change) error {
	affected := map[affiliate.PayoutID][]commission.Change{}
	var payouts []affiliate.PayoutID
	for _, change := range changes {
		if !change.LeavesPayout() && !change.ChangesPayoutAmount() {
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
		status, err := updatePayout(ctx, tx, id, affected[id])
		if err != nil {
			return err
		}
		for i := range changes {
			if after := &changes[i].After; status == payout.Canceled && after.Payout != nil && *after.Payout == id {
				after.Payout = nil
			}
		}
	}
	return nil
}

// remainingContent sums the commissions that are left in a payout when the commissions $3 are removed and
// the commissions $4 get the amounts $5.
const remainingContent = `
	select count(*) as commission_count, coalesce(sum(coalesce(t.amount_cents, h.amount_cents)), 0)::bigint as commission_cents,
		min(coalesce(c.approved_at, c.created_at)) as period_start, max(coalesce(c.approved_at, c.created_at)) as period_end
	from payout_commissions h
	join commissions c on c.workspace_id = h.workspace_id and c.id = h.commission_id
	left join unnest($4::uuid[], $5::bigint[]) as t (id, amount_cents) on t.id = h.commission_id
	where h.workspace_id = $1 and c.mode = $6 and h.payout_id = $2 and h.commission_id <> all($3)`

// updatePayout changes a payout because of changes of its commissions, and returns its new
// status. It reads the payout and its batch, which are already locked, again with Lock.
func updatePayout(ctx context.Context, tx *postgres.Tx, id affiliate.PayoutID, changes []commission.Change) (payout.Status, error) {
	scope, t := changes[0].After.Scope, changes[0].Transition
	removed, lowered, amounts := []affiliate.CommissionID{}, []affiliate.CommissionID{}, []int64{}
	for _, change := range changes {
		if change.LeavesPayout() {
			removed = append(removed, change.After.ID)
		} else {
			lowered, amounts = append(lowered, change.After.ID), append(amounts, change.After.AmountCents)
		}
	}
	batch, p, err := Lock(ctx, tx, scope, id)
	if err != nil {
		return "", err
	}
	remaining, err := postgres.List[payout.Content](
		ctx, tx, remainingContent, scope.Workspace, id, removed, lowered, amounts, scope.Mode)
	if err != nil {
		return "", err
	}
	change, refusal := p.Follow(remaining[0], affiliate.System, t.At)
	if refusal != nil {
		return "", refusal
	}
	if change.After.Status == payout.Canceled {
		// A canceled payout keeps its amount and its list of commissions.
		err = ReleaseAll(ctx, tx, scope, []affiliate.PayoutID{id}, t.At)
	} else {
		err = updateContents(ctx, tx, scope, id, removed, lowered, amounts)
	}
	if err != nil {
		return "", err
	}
	_, err = Apply(ctx, tx, batch, t.At, change)
	return change.After.Status, err
}

// updateContents changes the list of commissions of a payout: it deletes the removed commissions and sets the
// given amounts for the lowered commissions.
func updateContents(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.PayoutID, removed, lowered []affiliate.CommissionID, amounts []int64,
) error {
	const remove = `delete from payout_commissions h where h.workspace_id = $1 and h.payout_id = $2 and h.commission_id = any($3)`
	const lower = `
		update payout_commissions h set amount_cents = t.amount_cents
		from unnest($3::uuid[], $4::bigint[]) as t (id, amount_cents)
		where h.workspace_id = $1 and h.payout_id = $2 and h.commission_id = t.id`
	batch := &pgx.Batch{}
	batch.Queue(remove, scope.Workspace, id, removed)
	batch.Queue(lower, scope.Workspace, id, lowered, amounts)
	return postgres.Send(ctx, tx, batch)
}

// LockCommission locks a commission of a programme. If the commission is in a payout
// that has not been sent yet, it locks this payout too. It waits for transactions that
// have locked the commission or the payout. Errors: NOT_FOUND.
func LockCommission(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID,
) (commission.Locked, error) {
	found, err := LockCommissions(ctx, tx, scope, []affiliate.CommissionID{id})
	return commissions.FirstLocked(found, err, program)
}

// ApplyCommissionChanges stores changes of locked commissions and everything that follows
// from them. A transaction calls it once, with all its changes, after all other locks.
func ApplyCommissionChanges(ctx context.Context, tx *postgres.Tx, changes ...commission.Change) error {
	if err := UpdatePayouts(ctx, tx, changes); err != nil {
		return err
	}
	if err := commissions.StoreChanges(ctx, tx, changes...); err != nil {
		return err
	}
	var events []affiliate.Event
	for _, change := range changes {
		events = append(events, change.Events()...)
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return err
	}
	for _, change := range changes {
		if line, ok := change.AuditLine(); ok {
			if err := tx.Audit(ctx, line); err != nil {
				return err
			}
		}
	}
	return nil
}
