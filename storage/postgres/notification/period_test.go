package notification_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

// The walks read the primary keys of workspaces and users in their order, and only look
// other rows up. The sums read only the rows of the period.
func TestPeriodStatements_UseIndexes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`
		insert into users (id, kind, email, name, password_hash, created_at)
		select gen_random_uuid(), 'partner', n || '@example.com', 'Pat', 'x', $1 from generate_series(1, 5000) n`, f.Now())
	f.Exec(`
		insert into notification_periods (feed_id, mode, type, period)
		select id, 'both', 'summary.monthly', date '2026-05-01' from users where email like '1%@example.com'`)
	f.Exec(`
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
			application_answers, applied_at, created_at, updated_at)
		select $1, gen_random_uuid(), $2, 'live', id, name, email, 'approved', id::text, '{}', at, at, at
		from (select *, $3::timestamptz - row_number() over () * interval '1 hour' as at from users where kind = 'partner') u`,
		f.Scope.Workspace, f.Program, f.Now())
	f.VacuumAnalyze("users", "notification_periods", "workspaces", "participants")
	month := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	common := map[string]any{
		"after": affiliate.UserID{}, "mode": notification.NotificationsBothModes, "type": notification.NotifyMonthlySummary, "period": month, "limit": 500,
		"workspace": f.Scope.Workspace, "partner": f.Owner, "from": month, "before": f.Now(),
	}
	for name, tc := range map[string]struct {
		sql     string
		indexes []string
	}{
		"partners":   {notifications.PartnersWithoutSQL, []string{"users_pkey"}},
		"workspaces": {notifications.WorkspacesWithoutSQL, []string{"workspaces_pkey"}},
		"week":       {notifications.CountWeekSQL, []string{"participants_by_age"}},
		"month":      {notifications.SumMonthSQL, []string{"commissions_by_partner", "payouts_by_partner"}},
		"owed":       {notifications.OwedWithoutMethodSQL, []string{"participants_by_partner", "ledger_balances_pkey", "payout_methods_pkey"}},
	} {
		plan := f.plan("set local enable_seqscan = off", tc.sql, common)
		for _, index := range tc.indexes {
			if !strings.Contains(plan, index) {
				t.Errorf("%s: the plan does not use the index %s\n%s", name, index, plan)
			}
		}
		if strings.Contains(plan, "Seq Scan") {
			t.Errorf("%s: the plan scans a whole table\n%s", name, plan)
		}
	}
}
