package payout

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
)

// ConfirmBatch confirms a draft batch, or stores the first of two confirmations
// (payout.Batch.Confirm). The confirmation first removes commissions that are no
// longer payable from their payouts, and computes amounts and adjustments again. If the
// new amount of a payout cannot be paid, it cancels the payout. It copies the accounts of
// the partners to the payouts. Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
func ConfirmBatch(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id payout.BatchID, confirmation payout.Confirmation,
) (payout.Batch, error) {
	at, by := confirmation.At, confirmation.By
	var batch payout.Batch
	err := db.InTx(ctx, func(tx *postgres.Tx) (err error) {
		limit, err := confirmationLimit(ctx, tx, scope, at)
		if err != nil {
			return err
		}
		if batch, err = lockBatch(ctx, tx, scope, id); err != nil {
			return err
		}
		if batch, err = completeBatch(ctx, tx, batch); err != nil {
			return err
		}
		oldStatus := batch.Status
		confirmed, complete, refusal := batch.Confirm(confirmation, limit)
		if refusal != nil {
			return refusal
		}
		if complete {
			batch, err = confirmPayouts(ctx, tx, confirmed, at, by)
		} else if batch, err = updateBatchStatus(ctx, tx, confirmed, at); err == nil {
			err = tx.Notify(ctx, confirmed.AwaitingNotification(at))
		}
		if err != nil {
			return err
		}
		if batch, err = completeBatch(ctx, tx, batch); err != nil {
			return err
		}
		return auditBatch(ctx, tx, batch, "confirm", at, by, map[string]any{"status": oldStatus}, map[string]any{
			"status": batch.Status, "payouts": batch.Counts,
		})
	})
	return batch, err
}

// sumConfirmed sums the payouts of the batches that were confirmed after a time. Canceled
// payouts do not count.
const sumConfirmed = `
	select p.currency, count(*) as count, sum(p.amount_cents)::bigint as amount_cents
	from payout_batches b
	join payouts p on p.workspace_id = b.workspace_id and p.batch_id = b.id
	where b.workspace_id = $1 and b.mode = $2 and b.confirmed_at > $3 and p.mode = $2 and p.status <> 'canceled'
	group by p.currency`

// confirmationLimit returns the limit of a workspace for confirmations by one member; nil if
// it has none. If it has one, the confirmations of the scope run one after another, so that
// none of them misses another one. The caller must not have locked rows before.
func confirmationLimit(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, at time.Time) (*payout.ConfirmationLimit, error) {
	const (
		above = `select w.second_person_above_cents from workspaces w where w.id = $1`
		lock  = `select pg_advisory_xact_lock(hashtextextended('payout_confirmations:' || $1::uuid || ':' || $2::text, 0))`
	)
	var cents *int64
	if err := tx.QueryRow(ctx, above, scope.Workspace).Scan(&cents); err != nil {
		return nil, fmt.Errorf("read the payout approval of the workspace: %w", err)
	}
	if cents == nil {
		return nil, nil
	}
	if _, err := tx.Exec(ctx, lock, scope.Workspace, scope.Mode); err != nil {
		return nil, fmt.Errorf("lock the confirmations of the workspace: %w", err)
	}
	rows, _ := tx.Query(ctx, sumConfirmed, scope.Workspace, scope.Mode, at.Add(-payout.ConfirmationWindow))
	confirmed, err := pgx.CollectRows(rows, pgx.RowToStructByName[payout.Total])
	if err != nil {
		return nil, fmt.Errorf("sum the confirmed batches: %w", err)
	}
	return &payout.ConfirmationLimit{Cents: *cents, Confirmed: confirmed}, nil
}

// confirmPayouts confirms the draft payouts of a locked batch.
func confirmPayouts(ctx context.Context, tx *postgres.Tx, batch payout.Batch, at time.Time, by affiliate.Actor) (payout.Batch, error) {
	// The lock makes sure that the methods do not change between the check and the copy.
	const lockMethods = `
		select m.user_id from payout_methods m where m.user_id = any($1) order by m.user_id for share`
	drafts, err := lockPayouts(ctx, tx, batch, payout.Draft)
	if err != nil {
		return batch, err
	}
	partners := column(drafts, func(p payout.Payout) affiliate.UserID { return p.Partner })
	if _, err := tx.Exec(ctx, lockMethods, partners); err != nil {
		return batch, fmt.Errorf("lock payout methods: %w", err)
	}
	changes, err := recheckPayouts(ctx, tx, batch, drafts, payout.MoveConfirm, at, by)
	if err != nil {
		return batch, err
	}
	if batch, err = movePayouts(ctx, tx, batch, at, changes...); err != nil {
		return batch, err
	}
	return batch, copyAccounts(ctx, tx, batch)
}

// copyAccounts copies the accounts of the partners to the pending payouts of a batch that
// have no account yet.
func copyAccounts(ctx context.Context, tx *postgres.Tx, batch payout.Batch) error {
	const update = `
		update payouts p set account = m.account, account_hint = m.account_hint
		from payout_methods m
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = 'pending' and p.account is null
			and m.user_id = p.partner_id and m.method = p.method and m.account is not null`
	if _, err := tx.Exec(ctx, update, batch.Scope.Workspace, batch.Scope.Mode, batch.ID); err != nil {
		return fmt.Errorf("copy accounts to payouts: %w", err)
	}
	return nil
}

// recheckPayouts returns the changes that move payouts to the next status; the caller
// stores them with movePayouts. recheckPayouts locks the participants and commissions of
// the payouts and then computes the amount of each payout again. It releases commissions
// that are no longer payable, and cancels payouts whose new amount cannot be paid.
func recheckPayouts(
	ctx context.Context, tx *postgres.Tx, batch payout.Batch, payouts []payout.Payout, move payout.Move, at time.Time, by affiliate.Actor,
) ([]payout.Change, error) {
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
	due, err := dueAmounts(ctx, tx, payout.Selection{Scope: batch.Scope, Cutoff: batch.Cutoff, At: at}, participants)
	if err != nil {
		return nil, err
	}
	stillPayable := map[affiliate.PayoutID][]payout.Candidate{}
	for _, c := range held {
		if c.Payable {
			stillPayable[*c.Payout] = append(stillPayable[*c.Payout], c)
		}
	}
	var changes []payout.Change
	var stillOpen []affiliate.PayoutID
	canceled := map[affiliate.PayoutID]bool{}
	for _, p := range payouts {
		d := due[ledgers.Key{Participant: p.Participant, Currency: p.Currency}].WithCommissions(stillPayable[p.ID])
		// The amount due does not contain the adjustments of open payouts. This payout is
		// open too, so its own adjustment is added again.
		d.AdjustmentCents += p.AdjustmentCents
		d = d.WithAccountOf(p).LimitAmount(p)
		t := payout.Transition{Move: move, Actor: by, At: at}
		if d.Exclusion() != "" {
			t.Move, canceled[p.ID] = payout.MoveCancel, true
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
	var kept, released []payout.Candidate
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

// CancelBatch cancels a batch with its draft and pending payouts. It refuses a
// batch that has a processing or paid payout. Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
func CancelBatch(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id payout.BatchID, at time.Time, by affiliate.Actor,
) (payout.Batch, error) {
	var batch payout.Batch
	err := db.InTx(ctx, func(tx *postgres.Tx) (err error) {
		if batch, err = lockBatch(ctx, tx, scope, id); err != nil {
			return err
		}
		oldStatus := batch.Status
		if oldStatus != payout.BatchDraft && oldStatus != payout.BatchAwaitingApproval && oldStatus != payout.BatchConfirmed {
			return batch.Refuse()
		}
		unsent, err := lockPayouts(ctx, tx, batch, payout.Draft, payout.Pending)
		if err != nil {
			return err
		}
		changes, payouts := make([]payout.Change, len(unsent)), make([]affiliate.PayoutID, len(unsent))
		for i, p := range unsent {
			change, refusal := payout.Transition{Move: payout.MoveCancel, Actor: by, At: at}.Apply(p)
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
		if batch, err = completeBatch(ctx, tx, batch); err != nil {
			return err
		}
		return auditBatch(ctx, tx, batch, "cancel", at, by, map[string]any{"status": oldStatus}, map[string]any{"status": batch.Status})
	})
	return batch, err
}
