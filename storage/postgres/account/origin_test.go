package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/fraud"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestDeleteOldOrigins_DeletesInBatches(t *testing.T) {
	f := newFixture(t)
	now, partner := f.Now(), f.NewPartner("Jane")
	store := func(network string, agent []byte, at time.Time) {
		t.Helper()
		if err := accounts.StoreOrigin(t.Context(), f.DB, fraud.Origin{User: partner, IPPrefix: network, AgentHash: agent, SeenAt: at}); err != nil {
			t.Fatal(err)
		}
	}
	store("203.0.113.0/24", nil, now.AddDate(0, 0, -31))
	store("203.0.113.0/24", []byte("agent"), now.AddDate(0, 0, -31))
	store("198.51.100.0/24", []byte("agent"), now.AddDate(0, 0, -31))
	store("203.0.113.0/24", []byte("agent"), now.AddDate(0, 0, -30))
	// A process whose clock is behind stores an earlier time. It must not replace the
	// time that is already stored.
	store("203.0.113.0/24", []byte("agent"), now.AddDate(0, 0, -40))
	if n := f.Count(`select count(*) from user_origins`); n != 3 {
		t.Fatalf("%d origins are stored, want 3", n)
	}
	for _, want := range []int64{1, 1, 0} {
		if got, err := accounts.DeleteOldOrigins(t.Context(), f.DB, now.Add(-fraud.OriginRetention), 1); err != nil || got != want {
			t.Fatalf("DeleteOldOrigins deleted %d origins, %v, want %d", got, err, want)
		}
	}
	remaining := f.Count(`select count(*) from user_origins where ip_prefix = '203.0.113.0/24' and ua_hash = 'agent' and seen_at = $1`, now.AddDate(0, 0, -30))
	if remaining != 1 || f.Count(`select count(*) from user_origins`) != 1 {
		t.Error("the remaining origins are not only the origin from 30 days ago")
	}
}

// A login can end while the account is erased. It stores no origin after that.
func TestStoreOrigin_StoresNothingAboutErasedAccounts(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane", pgtest.Row{"erased_at": f.Now()})
	if err := accounts.StoreOrigin(t.Context(), f.DB, fraud.Origin{User: partner, IPPrefix: "203.0.113.0/24", SeenAt: f.Now()}); err != nil {
		t.Fatal(err)
	}
	f.WantCount(0, "origins", `select count(*) from user_origins`)
}

func TestDeleteOldOrigins_UsesIndexes(t *testing.T) {
	f := newFixture(t)
	now, partner := f.Now(), f.NewPartner("Jane")
	f.Exec(`
		insert into user_origins (user_id, ip_prefix, ua_hash, seen_at)
		select $1, n || '/24', '', $2::timestamptz - n * interval '1 minute' from generate_series(1, 5000) n`, partner, now)
	f.Exec(`analyze user_origins`)
	plan := f.Plan(accounts.DeleteOldOriginsSQL, now.AddDate(0, 0, -30), 1000)
	if !strings.Contains(plan, "user_origins_by_age") || !strings.Contains(plan, "user_origins_pkey") || strings.Contains(plan, "Seq Scan") {
		t.Errorf("the plan does not use the indexes user_origins_by_age and user_origins_pkey only\n%s", plan)
	}
}
