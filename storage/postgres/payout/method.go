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

// payoutMethodObject has the fields of a payout method that are stored in the audit log
// of the partner. The bank account (or other account) to which the partner is paid is
// never stored in the audit log.
type payoutMethodObject struct {
	Method payout.Method `json:"method"`
	Hint   *string       `json:"account_hint"`
}

// isOwed reports whether a partner has a positive balance or pending commissions in live mode.
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

// SetMethod sets how a partner is paid. factorSince is when the second factor was
// enabled whose code authorised the change; it is nil if the password did. SetMethod
// notifies the partner, also at the former address if the address of the account was changed
// recently. If nothing changes, it writes and sends nothing. Errors: NOT_FOUND.
func SetMethod(
	ctx context.Context, db *postgres.DB, user affiliate.UserID, payoutAccount payout.SealedPayoutAccount, factorSince *time.Time, at time.Time, by affiliate.Actor,
) (payout.Details, error) {
	// The lock is on the user, because a user without a payout method has no row in
	// payout_methods.
	const lock = `select name, previous_email from users where id = $1 and kind = 'partner' and erased_at is null for no key update`
	const current = `select method, account, account_hint, updated_at, held_until from payout_methods where user_id = $1`
	const set = `
		insert into payout_methods (user_id, method, account, account_hint, updated_at, held_until)
		values ($1, $2, $3, $4, $5, $6)
		on conflict (user_id) do update
		set method = excluded.method, account = excluded.account, account_hint = excluded.account_hint, updated_at = excluded.updated_at,
			held_until = excluded.held_until`
	var details payout.Details
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		var name string
		var formerAddress *string
		if err := tx.QueryRow(ctx, lock, user).Scan(&name, &formerAddress); errors.Is(err, pgx.ErrNoRows) {
			return affiliate.Refuse(affiliate.ReasonNotFound)
		} else if err != nil {
			return err
		}
		var oldValues any
		change := payout.MethodChange{At: at, FactorSince: factorSince}
		var stored []byte
		err := tx.QueryRow(ctx, current, user).Scan(&details.Method, &stored, &details.Hint, &details.UpdatedAt, &details.HeldUntil)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			change.First = true
			if err := tx.QueryRow(ctx, isOwed, user).Scan(&change.Owed); err != nil {
				return fmt.Errorf("check whether a partner is owed money: %w", err)
			}
		case err != nil:
			return err
		case details.Method == payoutAccount.Method && payoutAccount.Matches(stored):
			return nil
		default:
			oldValues = payoutMethodObject{details.Method, details.Hint}
		}
		details = change.Apply(payout.Details{Method: payoutAccount.Method, Hint: payoutAccount.Hint})
		if _, err := tx.Exec(ctx, set, user, details.Method, payoutAccount.Ciphertext, details.Hint, at, details.HeldUntil); err != nil {
			return fmt.Errorf("set payout method: %w", err)
		}
		if err := tx.Notify(ctx, details.Notification(user)...); err != nil {
			return err
		}
		if formerAddress != nil {
			if err := tx.SendMail(ctx, details.Warning(user, name, *formerAddress)); err != nil {
				return err
			}
		}
		return tx.AuditAccount(ctx, affiliate.AccountAuditLine{
			User: user, Actor: by, At: at, Action: "payout_method.set", Before: oldValues, After: payoutMethodObject{details.Method, details.Hint},
		})
	})
	return details, err
}
