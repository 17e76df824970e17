package payout

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

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
	return postgres.Value[bool](ctx, tx, "check whether a partner is owed money", isOwed, partner)
}

// Partner is a partner whose payout method is locked.
type Partner struct {
	Name          string
	PreviousEmail *string              // the former address, if the address was changed recently
	Method        *payout.SealedMethod `db:"-"` // nil if the partner has set none
}

// LockMethod locks a partner's payout method. Errors: NOT_FOUND.
func LockMethod(ctx context.Context, tx *postgres.Tx, partner affiliate.UserID) (Partner, error) {
	// The lock is on the user, because a user without a payout method has no row in
	// payout_methods.
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
	return postgres.Exec(ctx, tx, "set payout method", set, partner, m.Method, m.Account, m.Hint, m.UpdatedAt, m.HeldUntil)
}

// LockMethods keeps the payout methods of the partners of payouts unchanged until the
// transaction ends.
func LockMethods(ctx context.Context, tx *postgres.Tx, payouts []payout.Payout) error {
	const lock = `select m.user_id from payout_methods m where m.user_id = any($1) order by m.user_id for share`
	partners := make([]affiliate.UserID, len(payouts))
	for i, p := range payouts {
		partners[i] = p.Partner
	}
	return postgres.Exec(ctx, tx, "lock payout methods", lock, partners)
}

// CopyAccounts copies the accounts of the partners to the pending payouts of a batch that
// have no account yet.
func CopyAccounts(ctx context.Context, tx *postgres.Tx, batch payout.Batch) error {
	const update = `
		update payouts p set account = m.account, account_hint = m.account_hint
		from payout_methods m
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = 'pending' and p.account is null
			and m.user_id = p.partner_id and m.method = p.method and m.account is not null`
	return postgres.Exec(ctx, tx, "copy accounts to payouts", update, batch.Workspace, batch.Mode, batch.ID)
}
