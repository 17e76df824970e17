package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// payoutMethodObject has the fields of a payout method that the account's audit log
// contains. The payment account itself is never in the audit log.
type payoutMethodObject struct {
	Method affiliate.PayoutMethod `json:"method"`
	Hint   *string                `json:"account_hint"`
}

// SetPayoutMethod sets how a partner is paid. If nothing changes, it writes no audit
// record. Errors: NOT_FOUND.
func (s *Store) SetPayoutMethod(
	ctx context.Context, user affiliate.UserID, account affiliate.SealedPayoutAccount, at time.Time, by affiliate.Actor,
) (affiliate.PayoutDetails, error) {
	// The lock is on the user, because a user without a payout method has no row in
	// payout_methods.
	const lock = `select id from users where id = $1 and kind = 'partner' and erased_at is null for no key update`
	const current = `select method, account, account_hint, updated_at from payout_methods where user_id = $1`
	const set = `
		insert into payout_methods (user_id, method, account, account_hint, updated_at)
		values ($1, $2, $3, $4, $5)
		on conflict (user_id) do update
		set method = excluded.method, account = excluded.account, account_hint = excluded.account_hint, updated_at = excluded.updated_at`
	var details affiliate.PayoutDetails
	err := s.InTx(ctx, func(tx *Tx) error {
		var id affiliate.UserID
		if err := tx.QueryRow(ctx, lock, user).Scan(&id); errors.Is(err, pgx.ErrNoRows) {
			return affiliate.Refuse(affiliate.ReasonNotFound)
		} else if err != nil {
			return err
		}
		var was any
		var stored []byte
		err := tx.QueryRow(ctx, current, user).Scan(&details.Method, &stored, &details.Hint, &details.UpdatedAt)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return err
		case details.Method == account.Method && account.Same(stored):
			details.UpdatedAt = details.UpdatedAt.UTC()
			return nil
		default:
			was = payoutMethodObject{details.Method, details.Hint}
		}
		details = affiliate.PayoutDetails{Method: account.Method, Hint: account.Hint, UpdatedAt: at}
		if _, err := tx.Exec(ctx, set, user, details.Method, account.Sealed, details.Hint, at); err != nil {
			return fmt.Errorf("set payout method: %w", err)
		}
		return tx.AuditAccount(ctx, affiliate.AccountAuditLine{
			User: user, Actor: by, At: at, Action: "payout_method.set", Before: was, After: payoutMethodObject{details.Method, details.Hint},
		})
	})
	return details, err
}
