package notification_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// wholeTable matches the scans that read a whole table that grows.
var wholeTable = regexp.MustCompile(`Seq Scan on (?:notification\w*|users|members)\b`)

// The statements of the Distributor and of the DigestWorker read only the rows that they
// need, with and without statistics.
func TestDistribution_UsesIndexes(t *testing.T) {
	pgtest.Slow(t)
	f := newFixture(t)
	now := f.Now()
	if _, err := postgres.EnsureWeekPartitions(t.Context(), f.DB, now.AddDate(0, 0, -180), now); err != nil {
		t.Fatal(err)
	}
	f.fill(30000)
	f.Exec(`insert into users (id, kind, email, password_hash, name, created_at)
		select md5(n::text)::uuid, case n % 2 when 0 then 'partner' else 'merchant' end, n || '@example.com', '', 'User', $1 from generate_series(1, 20000) n`, now)
	f.Exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select md5('w' || n)::uuid, 'Shop', 'EUR', 'UTC', $1, $1 from generate_series(1, 2500) n`, now)
	f.Exec(`insert into members (workspace_id, user_id, role, created_at)
		select md5('w' || n / 8 + 1)::uuid, md5(n::text)::uuid, 'viewer', $1 from generate_series(1, 19999, 2) n`, now)
	f.Exec(`insert into notification_preferences (user_id, category, email)
		select md5(n::text)::uuid, category, true from generate_series(1, 20000) n, unnest(array['conversions', 'payouts']) category`)
	f.Exec(`insert into notification_digests (user_id, mode, category, workspace_id, window_start, mailed, due_at)
		select md5(n::text)::uuid, 'live', 'payouts', $1, $2, '{}', $2::timestamptz + n * interval '1 second' from generate_series(1, 20000) n`,
		affiliate.WorkspaceID{}, now)
	f.Exec(`insert into notification_arrivals
		select gen_random_uuid(), array[$1::uuid], '{test}', '{payout.paid}', array[gen_random_uuid()], array[$1::uuid], '{null}' from generate_series(1, 20000)`,
		f.Scope.Workspace)

	digest := map[string]any{
		"user": f.Owner, "mode": affiliate.ModeLive, "category": notification.CategoryPayouts, "workspace": affiliate.WorkspaceID{},
		"window_start": now, "mailed": []notification.ID{}, "due_at": now,
	}
	since := now.Add(-time.Hour)
	gathered := map[string]any{
		"feed": f.reader.Feed, "mode": f.Scope.Mode, "category": notification.CategoryCommissions, "day": since.Truncate(24 * time.Hour),
		"first": affiliate.FirstID[notification.ID](since), "mailed": []notification.ID{affiliate.NewID[notification.ID](now)},
		"personal": false, "user": f.Owner, "all_workspaces": false, "workspace": f.Scope.Workspace, "limit": notification.MaxNotificationCount,
	}
	var feeds []notification.FeedID
	for range 20 {
		feeds = append(feeds, affiliate.NewID[notification.FeedID](now))
	}
	check := func(when string) {
		for name, tc := range map[string]struct {
			plan string
			want []string // parts of the plan
		}{
			"TakeArrivals":  {f.Plan(notifications.TakeArrivalsSQL, 200, 1000, notification.Types()), []string{"Index Scan using notification_arrivals_pkey"}},
			"OldestArrival": {f.Plan(notifications.OldestArrivalSQL, notification.Types()), []string{"using notification_arrivals_pkey"}},
			"Recipients": {f.PlanWith(notifications.RangePlan, notifications.SelectRecipientsSQL, feeds), []string{
				"Index Scan using members_pkey", "Index Scan using users_pkey", "Index Scan using notification_preferences_pkey",
			}},
			"FeedOf":        {f.Plan(notifications.SelectFeedSQL, f.Owner), []string{"users_pkey", "members_user_id_key"}},
			"OpenDigest":    {f.plan("", notifications.OpenDigestSQL, digest), []string{"Conflict Arbiter Indexes: notification_digests_pkey"}},
			"LockDueDigest": {f.Plan(notifications.LockDueDigestSQL, now), []string{"Index Scan using notification_digests_due"}},
			"UpdateDigest":  {f.plan("", notifications.UpdateDigestSQL, digest), []string{"Index Scan using notification_digests_pkey"}},
			"CloseDigest":   {f.plan("", notifications.CloseDigestSQL, digest), []string{"Index Scan using notification_digests_pkey"}},
			"Gathered":      {f.plan(notifications.RangePlan, notifications.SelectGatheredSQL, gathered), []string{"Index Scan using notifications_20260504_pkey"}},
		} {
			if scan := wholeTable.FindString(tc.plan); scan != "" {
				t.Errorf("%s, %s: the plan has the step %q\n%s", name, when, scan, tc.plan)
			}
			for _, part := range tc.want {
				if !strings.Contains(tc.plan, part) {
					t.Errorf("%s, %s: the plan does not contain %q\n%s", name, when, part, tc.plan)
				}
			}
		}
	}
	check("without statistics")
	f.VacuumAnalyze("notifications", "notification_arrivals", "notification_digests", "notification_preferences", "users", "members")
	check("with statistics")
}
