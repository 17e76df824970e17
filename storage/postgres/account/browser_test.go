package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestBrowserSession_IsFoundByKeys(t *testing.T) {
	pgtest.Slow(t)
	f := newFixture(t)
	now := f.Now()
	f.Exec(`
		insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), 'partner', n || '@example.com', '', 'Jane', $1 from generate_series(1, 5000) n`, now)
	f.Exec(`
		insert into sessions (id, user_id, created_at, idle_expires_at, expires_at, browser_digest)
		select gen_random_uuid(), id, $1, $1, $1, sha256(id::text::bytea) from users`, now)
	f.VacuumAnalyze()
	var digest [32]byte
	session := affiliate.NewID[affiliate.SessionID](now)
	plans := f.PlansOf(func(db *postgres.DB) error {
		stored, _, _, err := accounts.BrowserSession(t.Context(), db, digest)
		if err != nil {
			return err
		}
		stored.ID, stored.IdleExpiresAt = session, now.Add(time.Hour)
		if _, err := accounts.ExtendSession(t.Context(), db, stored, now); err != nil {
			return err
		}
		return accounts.EndBrowserSession(t.Context(), db, digest, now)
	})
	pgtest.CheckPlan(t, "session of a browser", strings.Join(plans, "\n"),
		[]string{"Index Scan using sessions_by_browser", "Index Scan using users_pkey", "Index Scan using sessions_pkey"}, pgtest.ScansOf("sessions", "users"))
	if len(plans) != 3 {
		t.Errorf("%d statements were sent, want 3", len(plans))
	}
}
