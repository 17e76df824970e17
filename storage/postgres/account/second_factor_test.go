package account_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// Twenty transactions use the same code at the same time. Only one of them succeeds.
func TestSecondFactor_CodesWorkOnceInParallelTransactions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, user := f.Context(), f.NewPartner("Ada")
	codes, digests := account.NewRecoveryCodes()
	digest, ok := account.DigestRecoveryCode(codes[0])
	if !ok {
		t.Fatalf("%s is no recovery code", codes[0])
	}
	inTx := func(fn func(tx *postgres.Tx) error) {
		if err := f.DB.InTx(ctx, func(tx *postgres.Tx) error {
			if err := accounts.LockUserByID(ctx, tx, user); err != nil {
				return err
			}
			return fn(tx)
		}); err != nil {
			t.Error(err)
		}
	}
	inTx(func(tx *postgres.Tx) error {
		if err := accounts.InsertSecondFactor(ctx, tx, account.SecondFactor{User: user, Secret: []byte("sealed"), CreatedAt: f.Now()}); err != nil {
			return err
		}
		return accounts.ConfirmSecondFactor(ctx, tx, user, 1, digests, f.Now())
	})
	step := f.Now().Unix() / 30
	var steps, recoveries atomic.Int64
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			var used, recovered bool
			inTx(func(tx *postgres.Tx) error {
				used, recovered = false, false
				factor, _, err := accounts.SecondFactor(ctx, tx, user)
				if err != nil {
					return err
				}
				if _, used = factor.MatchStep(f.Now(), func(s int64) bool { return s == step }); used {
					if err := accounts.UseTimeStep(ctx, tx, user, step); err != nil {
						return err
					}
				}
				left, found, err := accounts.UseRecoveryCode(ctx, tx, user, digest, f.Now())
				if recovered = found; found && left != account.RecoveryCodes-1 {
					t.Errorf("%d codes are left, want %d", left, account.RecoveryCodes-1)
				}
				return err
			})
			if used {
				steps.Add(1)
			}
			if recovered {
				recoveries.Add(1)
			}
		})
	}
	calls.Wait()
	if steps.Load() != 1 || recoveries.Load() != 1 {
		t.Errorf("the code was used %d times and the recovery code %d times, want once each", steps.Load(), recoveries.Load())
	}
}
