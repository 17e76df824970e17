package account_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// Postgres logs the values of a violated unique index. So a taken address must be found
// before the index is violated. A violation would also end the transaction.
func TestTakenAddress_ViolatesNoIndex(t *testing.T) {
	f := newFixture(t)
	f.NewPartner("Jane", pgtest.Row{"email": "jane@example.com"})
	other := f.NewPartner("John", pgtest.Row{"email": "john@example.com"})
	user := account.User{ID: affiliate.NewID[affiliate.UserID](f.Now()), Kind: affiliate.Partner, Email: "jane@example.com", Name: "Jane", CreatedAt: f.Now()}
	err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		pgtest.RequireRefusal(t, accounts.InsertUser(t.Context(), tx, user, "hash"), affiliate.ReasonEmailTaken)
		pgtest.RequireRefusal(t, accounts.ChangeEmail(t.Context(), tx, other, "jane@example.com", f.Now()), affiliate.ReasonEmailTaken)
		user.Kind = affiliate.Merchant // the other kind can have the same address
		if err := accounts.InsertUser(t.Context(), tx, user, "hash"); err != nil {
			return err
		}
		return accounts.ChangeEmail(t.Context(), tx, other, "john@example.com", f.Now())
	})
	if err != nil {
		t.Fatalf("the transaction failed after the refusals: %v", err)
	}
	f.WantCount(1, "new accounts", `select count(*) from users where id = $1`, user.ID)
}

// Two transactions that give a user the same address run one after the other.
func TestTakenAddress_WaitsForConcurrentTransactions(t *testing.T) {
	f := newFixture(t)
	other := f.NewPartner("John", pgtest.Row{"email": "john@example.com"})
	user := account.User{ID: affiliate.NewID[affiliate.UserID](f.Now()), Kind: affiliate.Partner, Email: "jane@example.com", Name: "Jane", CreatedAt: f.Now()}
	changed := make(chan error, 1)
	err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		if err := accounts.InsertUser(t.Context(), tx, user, "hash"); err != nil {
			return err
		}
		go func() {
			changed <- f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
				return accounts.ChangeEmail(t.Context(), tx, other, "jane@example.com", f.Now())
			})
		}()
		pgtest.Eventually(t, "the change of the address waits for a lock", func() bool {
			return f.CountLockWaits() > 0
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, <-changed, affiliate.ReasonEmailTaken)
}
