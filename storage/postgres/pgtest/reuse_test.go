package pgtest_test

import (
	"os"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

// A test must not see rows of an earlier test, and must not use a database that an earlier
// test has changed in another way.
func TestOpen_ReusesDatabase(t *testing.T) {
	for name, tc := range map[string]struct {
		test      func(*pgtest.Fixture)
		wantReuse bool
	}{
		"AfterInsertions": {func(f *pgtest.Fixture) {
			shop := f.NewShop(affiliate.ModeLive)
			shop.NewCommission(shop.Join("Pat"))
			shop.NewConversion(shop.Scope)
		}, true},
		"NotAfterNewTable":          {func(f *pgtest.Fixture) { f.Exec("create table extra ()") }, false},
		"NotAfterDisabledTrigger":   {func(f *pgtest.Fixture) { f.Exec("alter table ledger_entries disable trigger all") }, false},
		"NotAfterNewDefault":        {func(f *pgtest.Fixture) { f.Exec("alter table users alter name set default 'Pat'") }, false},
		"NotAfterAnalyze":           {func(f *pgtest.Fixture) { f.NewWorkspace(); f.Exec("analyze workspaces") }, false},
		"NotAfterVacuum":            {func(f *pgtest.Fixture) { f.NewWorkspace(); f.Exec("vacuum workspaces") }, false},
		"NotAfterChangeOfMigration": {func(f *pgtest.Fixture) { f.Exec("update goose_db_version set tstamp = now()") }, false},
		"NotAfterStoreIsClosed":     {func(f *pgtest.Fixture) { f.DB.Close() }, false},
		"NotAfterLostConnection": {func(f *pgtest.Fixture) {
			f.Exec("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
		}, false},
		"NotWithOtherSession": {func(f *pgtest.Fixture) { connect(t, f.URL) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			var used string
			t.Run("first test", func(t *testing.T) {
				f := pgtest.Open(t, time.Now)
				used = f.URL
				tc.test(f)
			})
			f := pgtest.Open(t, time.Now)
			if reused := f.URL == used; reused != tc.wantReuse {
				t.Errorf("the next test uses the same database: %t, want %t", reused, tc.wantReuse)
			}
			f.WantCount(0, "rows of the earlier test", `select (select count(*) from users) + (select count(*) from workspaces) + (select count(*) from commissions)`)
		})
	}
}
