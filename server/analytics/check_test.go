package analytics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// checks returns the results of the consistency checks of the analytics, by name.
func (f *fixture) checks() map[string]affiliate.CheckResult {
	f.Helper()
	results, err := f.Store.CheckAccounts(f.Context(), time.Now)
	if err != nil {
		f.Fatal(err)
	}
	found := map[string]affiliate.CheckResult{}
	for _, r := range results {
		if strings.HasPrefix(r.Name, "analytics_") {
			found[r.Name] = r
		}
	}
	return found
}

// The nightly checks accept the sums of random histories, and detect each kind of difference.
func TestCheckAccounts_ComparesAnalytics(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	f.addHistory()
	yesterday := f.clock.Now().UTC().Truncate(24 * time.Hour).Add(-time.Hour)
	f.NewClick(f.pat, func(c *affiliate.Click) {
		c.ID = affiliate.NewID[affiliate.Click](yesterday)
		c.ClickedAt, c.ReceivedAt = yesterday, yesterday
	})
	for _, waiting := range []bool{true, false} {
		if !waiting {
			f.addWaiting()
		}
		for name, r := range f.checks() {
			if r.Violated > 0 || !waiting && r.Compared == 0 {
				t.Errorf("with entries in the log %t, check %s compares %d items and reports %v", waiting, name, r.Compared, r.Violations)
			}
		}
	}
	for name, tc := range map[string]struct{ check, corrupt string }{
		"a lost click": {"analytics_clicks", `
			update analytics_days set clicks = clicks - 1
			where dimension = '' and day = $1::date and participant_id <> '00000000-0000-0000-0000-000000000000'`},
		"a click that was not counted": {"analytics_clicks", `update clicks set is_bot = not is_bot where received_at = $1::timestamptz`},
		"a conversion that was not counted again": {
			"analytics_conversions", `update conversions set refunded_amount_cents = refunded_amount_cents + 1 where $1::timestamptz is not null and attributed`,
		},
		"a conversion that was not counted": {
			"analytics_conversions", `
			update analytics_conversions set conversion_id = gen_random_uuid()
			where $1::timestamptz is not null and conversion_id = (select min(conversion_id::text)::uuid from analytics_conversions)`,
		},
		"a sum of conversions": {"analytics_sums", `
			update analytics_days set conversions = conversions + 1
			where $1::timestamptz is not null and dimension = '' and participant_id = '00000000-0000-0000-0000-000000000000'`},
		"a sum of a value": {"analytics_programs", `
			insert into analytics_days (workspace_id, mode, program_id, participant_id, dimension, day, value, currency, link_id, clicks, quarters)
			select workspace_id, mode, program_id, participant_id, 'country', $1::date, 'XX', '', link_id, 1, '\x' from analytics_days
			where participant_id = '00000000-0000-0000-0000-000000000000' and program_id <> participant_id limit 1`},
	} {
		t.Run(name, func(t *testing.T) {
			results := f.checksAfter(tc.corrupt, yesterday)
			if results[tc.check].Violated == 0 {
				t.Errorf("check %s reports no violation", tc.check)
			}
		})
	}
	for name, r := range f.checks() {
		if r.Violated > 0 {
			t.Errorf("check %s reports %v, although nothing was changed", name, r.Violations)
		}
	}
}

// checksAfter returns the results of the checks after a change, which it takes back.
func (f *fixture) checksAfter(sql string, at time.Time) map[string]affiliate.CheckResult {
	f.Helper()
	copies := map[string]string{}
	for _, table := range []string{"analytics_days", "analytics_conversions", "clicks", "conversions"} {
		copies[table] = "copy_of_" + table
		f.Exec(`create table copy_of_` + table + ` as select * from ` + table)
	}
	defer func() {
		for table, copied := range copies {
			f.ExecWithoutForeignKeys(`delete from ` + table)
			f.ExecWithoutForeignKeys(`insert into ` + table + ` select * from ` + copied)
			f.Exec(`drop table ` + copied)
		}
	}()
	f.ExecWithoutForeignKeys(sql, at)
	return f.checks()
}
