package payout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
)

// Move marks a payout as paid or failed, retries it, or cancels it. It returns
// the changed payout. Concurrent moves of a payout run one after another. Errors:
// NOT_FOUND, PAYOUT_STATE_INVALID, and for MoveMarkPaid also PERIOD_CLOSED and
// VALIDATION_ERROR for PaidAt.
func Move(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.PayoutID, t payout.Transition) (payout.Item, error) {
	var item payout.Item
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		batch, p, err := lockPayout(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		change, refusal := t.Apply(p)
		if refusal != nil {
			return refusal
		}
		if t.Move == payout.MoveMarkPaid {
			if t, change, err = payInOpenPeriod(ctx, tx, change); err != nil {
				return err
			}
		}
		writer := commissions.NewWriter()
		switch t.Move {
		case payout.MoveMarkPaid:
			err = payCommissions(ctx, tx, p, t, writer)
		case payout.MoveRetry:
			change, err = retryPayout(ctx, tx, change)
		default:
			err = releaseAll(ctx, tx, scope, []affiliate.PayoutID{id}, t.At)
		}
		if err != nil {
			return err
		}
		if _, err := movePayouts(ctx, tx, batch, t.At, change); err != nil {
			return err
		}
		if err := auditPayout(ctx, tx, change); err != nil {
			return err
		}
		if item, err = readPayout(ctx, tx, scope, id); err != nil {
			return err
		}
		return writer.End(ctx, tx)
	})
	return item, err
}

// payInOpenPeriod returns the move of a payout that is marked as paid, dated into the open
// period, and its change. It locks the commissions of the payout before it holds the books,
// as all transactions that add entries do. Errors: PERIOD_CLOSED.
func payInOpenPeriod(ctx context.Context, tx *postgres.Tx, change payout.Change) (payout.Transition, payout.Change, error) {
	const lock = `select from commissions c where c.workspace_id = $1 and c.mode = $2 and c.payout_id = $3 order by c.id for update`
	p := change.Before
	if _, err := tx.Exec(ctx, lock, p.Scope.Workspace, p.Scope.Mode, p.ID); err != nil {
		return change.Transition, change, fmt.Errorf("lock the commissions of a payout: %w", err)
	}
	closed, err := postgres.HoldBooks(ctx, tx, p.Scope.Workspace)
	if err != nil {
		return change.Transition, change, err
	}
	t, refusal := change.Transition.InOpenPeriod(closed)
	if refusal == nil {
		change, refusal = t.Apply(p)
	}
	if refusal != nil {
		return t, change, refusal
	}
	return t, change, nil
}

// lockPayout locks a payout's batch and then the payout itself. Errors: NOT_FOUND.
func lockPayout(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.PayoutID) (payout.Batch, payout.Payout, error) {
	const batchOf = `select p.batch_id from payouts p where p.workspace_id = $1 and p.mode = $2 and p.id = $3`
	const lock = `
		select ` + payoutColumns + `
		from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.id = $3
		for no key update`
	var batchID payout.BatchID
	err := tx.QueryRow(ctx, batchOf, scope.Workspace, scope.Mode, id).Scan(&batchID)
	if errors.Is(err, pgx.ErrNoRows) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return payout.Batch{}, payout.Payout{}, err
	}
	batch, err := lockBatch(ctx, tx, scope, batchID)
	if err != nil {
		return batch, payout.Payout{}, err
	}
	rows, _ := tx.Query(ctx, lock, scope.Workspace, scope.Mode, id)
	found, err := collectPayouts(rows, scope.Workspace)
	if err != nil {
		return batch, payout.Payout{}, err
	}
	return batch, found[0], nil
}

// payChunk is the maximum number of commissions of a payout that are in memory at the
// same time.
const payChunk = 1000

// payCommissions marks the commissions of a payout as paid and publishes their events.
// The actor of these changes is the system, not the user who marks the payout as paid.
// The changes are stored with the given writer. The caller must call the writer's method
// end at the end of the transaction. A commission that has been rejected or refunded
// since the payout was sent does not change. The ledger entry of the rejection or refund
// is then a debt, which the next payout subtracts.
func payCommissions(ctx context.Context, tx *postgres.Tx, p payout.Payout, t payout.Transition, writer *commissions.Writer) error {
	const held = `
		select c.id from commissions c where c.workspace_id = $1 and c.mode = $2 and c.payout_id = $3 order by c.id`
	rows, _ := tx.Query(ctx, held, p.Scope.Workspace, p.Scope.Mode, p.ID)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.CommissionID])
	if err != nil {
		return fmt.Errorf("read commissions of a payout: %w", err)
	}
	// The chunks together lock the commissions in the order of their ids, in the same
	// way as a single call would.
	for block := range slices.Chunk(ids, payChunk) {
		locked, err := commissions.Lock(ctx, tx, p.Scope, block)
		if err != nil {
			return err
		}
		var changes []commission.Change
		var events []affiliate.Event
		for _, c := range locked {
			if c.Status != commission.Approved {
				continue
			}
			change, err := c.Move(commission.Transition{
				Scope: p.Scope, Program: c.Program, Commission: c.ID, Move: commission.MovePay, Actor: affiliate.System, At: t.At,
				PaidAt: t.PaidAt, Payout: &p.ID,
			})
			if err != nil {
				return err
			}
			changes, events = append(changes, change), append(events, change.Events()...)
		}
		if err := writer.Write(ctx, tx, changes...); err != nil {
			return err
		}
		if err := tx.Publish(ctx, events...); err != nil {
			return err
		}
	}
	return nil
}

// retryPayout adds commissions to a failed payout again. It adds a commission if the
// payout contained it before, it is still payable, and it is in no other payout. The
// payout gets the current amounts of these commissions and the adjustment that is due
// now, but not more than its amount before. It keeps its account.
func retryPayout(ctx context.Context, tx *postgres.Tx, change payout.Change) (payout.Change, error) {
	p, at := change.After, change.Transition.At
	participants := []affiliate.ParticipantID{p.Participant}
	if err := lockParticipants(ctx, tx, p.Scope, participants); err != nil {
		return change, err
	}
	released, err := lockForPayout(ctx, tx, lockReleased, payoutCommissionArgs(p.Scope, []affiliate.PayoutID{p.ID}, at))
	if err != nil {
		return change, err
	}
	due, err := dueAmounts(ctx, tx, payout.Selection{Scope: p.Scope, Cutoff: at, At: at}, participants)
	if err != nil {
		return change, err
	}
	d := due[ledgers.Key{Participant: p.Participant, Currency: p.Currency}].WithCommissions(released).WithAccountOf(p).LimitAmount(p)
	if d.Exclusion() != "" || len(released) == 0 && p.CommissionCount > 0 {
		return change, change.Before.Refuse()
	}
	for i := range released {
		released[i].Payout = &p.ID
	}
	if err := pruneContents(ctx, tx, p.Scope, []affiliate.PayoutID{p.ID}, released); err != nil {
		return change, err
	}
	change.After = p.WithAmounts(d)
	return change, assignCommissions(ctx, tx, p.Scope, released, at)
}

// ProcessBatch changes the pending payouts of a batch to processing. It checks each
// payout again, as ConfirmBatch does. Errors: NOT_FOUND, PAYOUT_STATE_INVALID if the
// batch is neither confirmed nor processing.
func ProcessBatch(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id payout.BatchID, at time.Time, by affiliate.Actor,
) (payout.Batch, error) {
	var batch payout.Batch
	err := db.InTx(ctx, func(tx *postgres.Tx) (err error) {
		if batch, err = lockBatch(ctx, tx, scope, id); err != nil {
			return err
		}
		oldStatus := batch.Status
		if oldStatus != payout.BatchConfirmed && oldStatus != payout.BatchProcessing {
			return batch.Refuse()
		}
		pending, err := lockPayouts(ctx, tx, batch, payout.Pending)
		if err != nil {
			return err
		}
		if len(pending) == 0 {
			batch, err = completeBatch(ctx, tx, batch)
			return err
		}
		changes, err := recheckPayouts(ctx, tx, batch, pending, payout.MoveProcess, at, by)
		if err != nil {
			return err
		}
		if batch, err = movePayouts(ctx, tx, batch, at, changes...); err != nil {
			return err
		}
		if batch, err = completeBatch(ctx, tx, batch); err != nil {
			return err
		}
		return auditBatch(ctx, tx, batch, "process", at, by, map[string]any{"status": oldStatus}, map[string]any{
			"status": batch.Status, "payouts": batch.Counts,
		})
	})
	return batch, err
}
