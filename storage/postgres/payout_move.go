package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// MovePayout marks a payout as paid or failed, tries it again, or cancels it, and
// returns it as the move left it. Of moves that race, each sees the outcome of the
// one before. Errors: NOT_FOUND, PAYOUT_STATE_INVALID.
func (s *Store) MovePayout(ctx context.Context, scope affiliate.Scope, id affiliate.PayoutID, t affiliate.PayoutTransition) (affiliate.PayoutItem, error) {
	var item affiliate.PayoutItem
	err := s.InTx(ctx, func(tx *Tx) error {
		batch, p, err := lockPayout(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		change, refusal := t.Apply(p)
		if refusal != nil {
			return refusal
		}
		settled := newSettlement()
		switch t.Move {
		case affiliate.MoveMarkPaid:
			err = s.payCommissions(ctx, tx, p, t, settled)
		case affiliate.MoveRetry:
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
		if err := recordPayout(ctx, tx, change); err != nil {
			return err
		}
		if item, err = readPayout(ctx, tx, scope, id); err != nil {
			return err
		}
		return settled.end(ctx, tx)
	})
	return item, err
}

// lockPayout locks a payout, behind its batch. Errors: NOT_FOUND.
func lockPayout(ctx context.Context, tx *Tx, scope affiliate.Scope, id affiliate.PayoutID) (affiliate.PayoutBatch, affiliate.Payout, error) {
	const batchOf = `select p.batch_id from payouts p where p.workspace_id = $1 and p.mode = $2 and p.id = $3`
	const lock = `
		select ` + payoutColumns + `
		from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.id = $3
		for no key update`
	var in affiliate.PayoutBatchID
	err := tx.QueryRow(ctx, batchOf, scope.Workspace, scope.Mode, id).Scan(&in)
	if errors.Is(err, pgx.ErrNoRows) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return affiliate.PayoutBatch{}, affiliate.Payout{}, err
	}
	batch, err := lockBatch(ctx, tx, scope, in)
	if err != nil {
		return batch, affiliate.Payout{}, err
	}
	rows, _ := tx.Query(ctx, lock, scope.Workspace, scope.Mode, id)
	found, err := collectPayouts(rows, scope.Workspace)
	if err != nil {
		return batch, affiliate.Payout{}, err
	}
	return batch, found[0], nil
}

// payBlock bounds the commissions of a payout that are in memory at a time.
const payBlock = 1000

// payCommissions pays what a payout holds, on behalf of the payout and not of who
// marks it, and tells of it; settled ends with the transaction. What was rejected
// or refunded meanwhile stays as it is: its own entry in the ledger has made a debt
// of it, which the next payout nets.
func (s *Store) payCommissions(ctx context.Context, tx *Tx, p affiliate.Payout, t affiliate.PayoutTransition, settled *settlement) error {
	const held = `
		select c.id from commissions c where c.workspace_id = $1 and c.mode = $2 and c.payout_id = $3 order by c.id`
	rows, _ := tx.Query(ctx, held, p.Scope.Workspace, p.Scope.Mode, p.ID)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.CommissionID])
	if err != nil {
		return fmt.Errorf("commissions of a payout: %w", err)
	}
	// The blocks follow the order of the ids, as one call would.
	for block := range slices.Chunk(ids, payBlock) {
		locked, err := lockCommissions(ctx, tx, p.Scope, block)
		if err != nil {
			return err
		}
		var changes []affiliate.CommissionChange
		var events []affiliate.Event
		for _, c := range locked {
			if c.Status != affiliate.CommissionApproved {
				continue
			}
			change, err := c.Move(affiliate.CommissionTransition{
				Scope: p.Scope, Program: c.Program, Commission: c.ID, Move: affiliate.MovePay, Actor: affiliate.System, At: t.At,
				PaidAt: t.PaidAt, Payout: &p.ID,
			})
			if err != nil {
				return err
			}
			changes, events = append(changes, change), append(events, change.Events()...)
		}
		if err := settled.write(ctx, tx, changes...); err != nil {
			return err
		}
		if err := tx.Publish(ctx, events...); err != nil {
			return err
		}
	}
	return nil
}

// retryPayout fills a failed payout with those of its commissions that nobody
// else has paid, as they are now, and with what else is due now.
func retryPayout(ctx context.Context, tx *Tx, change affiliate.PayoutChange) (affiliate.PayoutChange, error) {
	p, at := change.After, change.Transition.At
	participants := []affiliate.ParticipantID{p.Participant}
	if err := lockParticipants(ctx, tx, p.Scope, participants); err != nil {
		return change, err
	}
	free, err := lockForPayout(ctx, tx, lockLost, heldArgs(p.Scope, []affiliate.PayoutID{p.ID}, at))
	if err != nil {
		return change, err
	}
	due, err := dueByAccount(ctx, tx, p.Scope, at, participants)
	if err != nil {
		return change, err
	}
	d := due[account{p.Participant, p.Currency}].WithCommissions(free)
	if d.Exclusion() != "" || len(free) == 0 && p.CommissionCount > 0 {
		return change, change.Before.Refuse()
	}
	for i := range free {
		free[i].Payout = &p.ID
	}
	if err := dropHeld(ctx, tx, p.Scope, []affiliate.PayoutID{p.ID}, free); err != nil {
		return change, err
	}
	change.After = p.WithAmounts(d)
	return change, hold(ctx, tx, p.Scope, free, at)
}

// SendPayouts moves the pending payouts of a batch to processing: all, or those
// of one method. Each is judged as when it was confirmed, and goes where its
// partner wants it now. Errors: NOT_FOUND,
// PAYOUT_STATE_INVALID for a batch that is not confirmed, or at its end.
func (s *Store) SendPayouts(
	ctx context.Context, scope affiliate.Scope, id affiliate.PayoutBatchID, method *affiliate.PayoutMethod, at time.Time, by affiliate.Actor,
) error {
	return s.InTx(ctx, func(tx *Tx) error {
		batch, err := lockBatch(ctx, tx, scope, id)
		if err != nil {
			return err
		}
		if batch.Status != affiliate.BatchConfirmed && batch.Status != affiliate.BatchProcessing {
			return batch.Refuse()
		}
		pending, err := lockPayouts(ctx, tx, batch, affiliate.PayoutPending)
		if err != nil {
			return err
		}
		if method != nil {
			if pending, err = paidBy(ctx, tx, pending, *method); err != nil {
				return err
			}
		}
		sent := 0
		if len(pending) > 0 {
			changes, err := judgePayouts(ctx, tx, batch, pending, affiliate.MoveSend, at, by)
			if err != nil {
				return err
			}
			for _, change := range changes {
				if change.After.Status == affiliate.PayoutProcessing {
					sent++
				}
			}
			if batch, err = movePayouts(ctx, tx, batch, at, changes...); err != nil {
				return err
			}
		}
		return recordBatch(ctx, tx, batch, "export", at, by, nil, map[string]any{
			"status": batch.Status, "method": method, "sent_count": sent,
		})
	})
}

// paidBy leaves the payouts whose partners are paid by a method now.
func paidBy(ctx context.Context, tx *Tx, payouts []affiliate.Payout, method affiliate.PayoutMethod) ([]affiliate.Payout, error) {
	const read = `select m.user_id, m.method from payout_methods m where m.user_id = any($1)`
	chosen := map[affiliate.UserID]affiliate.PayoutMethod{}
	for _, p := range payouts {
		chosen[p.Partner] = p.Method // who has none any more is judged by it
	}
	rows, _ := tx.Query(ctx, read, slices.Collect(maps.Keys(chosen)))
	var partner affiliate.UserID
	var now affiliate.PayoutMethod
	_, err := pgx.ForEachRow(rows, []any{&partner, &now}, func() error {
		chosen[partner] = now
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("payout methods: %w", err)
	}
	return slices.DeleteFunc(payouts, func(p affiliate.Payout) bool { return chosen[p.Partner] != method }), nil
}

// ExportPayouts returns the processing payouts of a batch, or those of one method,
// with their sealed accounts, as Export does: by currency, then by the partner's
// name. Errors: SERVICE_UNAVAILABLE.
func (s *Store) ExportPayouts(
	ctx context.Context, scope affiliate.Scope, id affiliate.PayoutBatchID, method *affiliate.PayoutMethod,
) iter.Seq2[affiliate.SentPayout, error] {
	const read = `
		select ` + payoutColumns + `, g.name as program_name, t.partner_name, m.account
		from payouts p` + payoutNames + `
		left join payout_methods m on m.user_id = p.partner_id and m.method = p.method
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = 'processing' and ($4::text is null or p.method = $4)
		order by p.currency, lower(t.partner_name), p.id`
	type sentRow struct {
		payoutItemRow
		Account []byte
	}
	convert := func(row pgx.CollectableRow) (affiliate.SentPayout, error) {
		r, err := pgx.RowToStructByNameLax[sentRow](row)
		return affiliate.SentPayout{PayoutItem: r.item(scope.Workspace), Account: r.Account}, err
	}
	return Export(ctx, s.DB, scope.Workspace, convert, read, scope.Workspace, scope.Mode, id, method)
}
