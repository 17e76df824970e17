// Package payout has the SQL of payouts and their batches. It also changes payouts when their commissions change.
// Transactions lock batches, payouts, participants and commissions in this order.
package payout

import (
	"context"
	"errors"
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

// LockOfBatch locks and returns the payouts of a locked batch that have one of the given
// statuses, in the order of their ids.
func LockOfBatch(ctx context.Context, tx *postgres.Tx, batch payout.Batch, statuses ...payout.Status) ([]payout.Payout, error) {
	lock := `
		select ` + payoutColumns + `
		from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = any($4)
		order by p.id
		for no key update`
	return postgres.List[payout.Payout](ctx, tx, lock, batch.Workspace, batch.Mode, batch.ID, statuses)
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
		return err
	}
	batch := &pgx.Batch{}
	insertPayouts.Queue(batch, draft.Payouts...)
	if err := postgres.Send(ctx, tx, batch); err != nil {
		return err
	}
	return AssignCommissions(ctx, tx, draft.Batch.Scope, draft.Commissions, draft.Batch.CreatedAt)
}

// Apply stores changes of locked payouts of one batch. It also stores what follows from the
// changes: ledger entries, the status of the batch, and events. It deletes the payout accounts
// on canceled payouts, because nothing is paid to them any more. The caller adds commissions
// to the payouts or removes them. The returned batch has no counts and totals.
func Apply(ctx context.Context, tx *postgres.Tx, batch payout.Batch, at time.Time, changes ...payout.Change) (payout.Batch, error) {
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
	if err := postgres.Send(ctx, tx, updates); err != nil {
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

const isOwed = `
	select exists (
		select from participants t
		join ledger_balances b on b.workspace_id = t.workspace_id and b.participant_id = t.id
		where t.partner_id = $1 and t.mode = 'live'
		group by b.workspace_id, b.participant_id, b.currency
		having sum(b.balance_cents) > 0
	) or exists (
		select from commissions c
		where c.partner_id = $1 and c.mode = 'live' and c.status = 'pending'
	)`

// IsOwed reports whether a partner has a positive balance or pending commissions in live mode.
func IsOwed(ctx context.Context, tx *postgres.Tx, partner affiliate.UserID) (bool, error) {
	return postgres.Value[bool](ctx, tx, isOwed, partner)
}

// Partner is a partner whose payout method is locked.
type Partner struct {
	Name          string
	PreviousEmail *string              // the former address, if the address was changed recently
	Method        *payout.SealedMethod `db:"-"` // nil if the partner has set none
}

// LockMethod locks a partner's payout method. Errors: NOT_FOUND.
func LockMethod(ctx context.Context, tx *postgres.Tx, partner affiliate.UserID) (Partner, error) {
	// A user without a payout method has no row in payout_methods to lock.
	const lock = `select name, previous_email from users where id = $1 and kind = 'partner' and erased_at is null for no key update`
	const current = `select method, account, account_hint, updated_at, held_until from payout_methods where user_id = $1`
	locked, err := postgres.OneRow[Partner](tx.Query(ctx, lock, partner))
	if err != nil {
		return locked, err
	}
	rows, _ := tx.Query(ctx, current, partner)
	locked.Method, err = pgx.CollectExactlyOneRow(rows, pgx.RowToAddrOfStructByName[payout.SealedMethod])
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return locked, err
}

// SetMethod stores a partner's payout method. The caller must have locked it with LockMethod.
func SetMethod(ctx context.Context, tx *postgres.Tx, partner affiliate.UserID, m payout.SealedMethod) error {
	const set = `
		insert into payout_methods (user_id, method, account, account_hint, updated_at, held_until)
		values ($1, $2, $3, $4, $5, $6)
		on conflict (user_id) do update
		set method = excluded.method, account = excluded.account, account_hint = excluded.account_hint, updated_at = excluded.updated_at,
			held_until = excluded.held_until`
	return postgres.Exec(ctx, tx, set, partner, m.Method, m.Account, m.Hint, m.UpdatedAt, m.HeldUntil)
}

// LockMethods prevents changes of the payout methods of the payouts' partners until the transaction ends.
func LockMethods(ctx context.Context, tx *postgres.Tx, payouts []payout.Payout) error {
	const lock = `select m.user_id from payout_methods m where m.user_id = any($1) order by m.user_id for share`
	partners := make([]affiliate.UserID, len(payouts))
	for i, p := range payouts {
		partners[i] = p.Partner
	}
	return postgres.Exec(ctx, tx, lock, partners)
}

// CopyAccounts copies the accounts of partners to the pending payouts of a batch that have no account yet.
func CopyAccounts(ctx context.Context, tx *postgres.Tx, batch payout.Batch) error {
	const update = `
		update payouts p set account = m.account, account_hint = m.account_hint
		from payout_methods m
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = 'pending' and p.account is null
			and m.user_id = p.partner_id and m.method = p.method and m.account is not null`
	return postgres.Exec(ctx, tx, update, batch.Workspace, batch.Mode, batch.ID)
}
