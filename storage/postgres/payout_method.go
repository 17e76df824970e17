package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// payoutMethodObject has the fields of a payout method that are stored in the audit log
// of the partner. The bank account (or other account) to which the partner is paid is
// never stored in the audit log.
type payoutMethodObject struct {
	Method affiliate.PayoutMethod `json:"method"`
	Hint   *string                `json:"account_hint"`
}

// SetPayoutMethod sets how a partner is paid. If nothing changes, it writes no audit
// record. Errors: NOT_FOUND.
func (s *Store) SetPayoutMethod(
	ctx context.Context, user affiliate.UserID, payoutAccount affiliate.SealedPayoutAccount, at time.Time, by affiliate.Actor,
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
		var oldValues any
		var stored []byte
		err := tx.QueryRow(ctx, current, user).Scan(&details.Method, &stored, &details.Hint, &details.UpdatedAt)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return err
		case details.Method == payoutAccount.Method && payoutAccount.Matches(stored):
			details.UpdatedAt = details.UpdatedAt.UTC()
			return nil
		default:
			oldValues = payoutMethodObject{details.Method, details.Hint}
		}
		details = affiliate.PayoutDetails{Method: payoutAccount.Method, Hint: payoutAccount.Hint, UpdatedAt: at}
		if _, err := tx.Exec(ctx, set, user, details.Method, payoutAccount.Ciphertext, details.Hint, at); err != nil {
			return fmt.Errorf("set payout method: %w", err)
		}
		return tx.AuditAccount(ctx, affiliate.AccountAuditLine{
			User: user, Actor: by, At: at, Action: "payout_method.set", Before: oldValues, After: payoutMethodObject{details.Method, details.Hint},
		})
	})
	return details, err
}
