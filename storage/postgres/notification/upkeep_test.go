package notification_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/notification"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestDeleteDismissed_DeletesInBatchesAfterTime(t *testing.T) {
	f := newFixture(t)
	var entries []affiliate.Notification
	for range 4 {
		entries = append(entries, f.notify(affiliate.NotificationType(affiliate.EventCommissionCreated)))
	}
	for i, age := range []int{31, 32, 29} {
		f.Exec(`update notifications set dismissed_at = $2 where id = $1`, entries[i].ID, f.Now().AddDate(0, 0, -age))
	}
	for _, want := range []int64{1, 1, 0} {
		if n, err := f.store.DeleteDismissed(t.Context(), f.Now().AddDate(0, 0, -30), 1); err != nil || n != want {
			t.Errorf("DeleteDismissed deleted %d notifications, %v, want %d", n, err, want)
		}
	}
	f.WantCount(2, "notifications", `select count(*) from notifications where id = any($1)`, []affiliate.NotificationID{entries[2].ID, entries[3].ID})
}

// dismissAll marks all notifications of the owner's feed as read and dismisses them.
func (f *fixture) dismissAll() {
	f.Helper()
	list := f.reader.Ranges(nil, "")
	if err := f.store.InTx(f.Context(), func(tx *notification.Tx) error {
		before := f.Now().Add(time.Millisecond)
		if _, err := tx.MarkAllRead(f.Context(), f.reader, list, before, f.Now()); err != nil {
			return err
		}
		_, err := tx.DismissRead(f.Context(), f.reader, list, before, f.Now())
		return err
	}); err != nil {
		f.Fatal(err)
	}
}

// A notification that is dismissed by a watermark is deleted 30 to 60 days later, even if
// the watermark is raised every day.
func TestPurgeDismissed_DeletesNotificationsBelowWatermark(t *testing.T) {
	f := newFixture(t)
	f.NewShop(affiliate.ModeTest) // has no notifications
	remaining := func() int { return f.Count(`select count(*) from notifications`) }
	purge := func(limit int) int64 {
		t.Helper()
		n, err := f.store.PurgeDismissed(t.Context(), f.Now(), limit)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 90 {
		f.notify(affiliate.NotificationType(affiliate.EventCommissionCreated))
		f.dismissAll()
		f.clock.Advance(24 * time.Hour)
		purge(100)
		if n := remaining(); n > 60 {
			t.Fatalf("%d notifications remain, want at most those of 60 days", n)
		}
	}
	if n := remaining(); n < 30 {
		t.Errorf("%d notifications remain, want those of the last 30 days", n)
	}
	kept := f.notify(affiliate.NotificationType(affiliate.EventCommissionCreated))
	f.clock.Advance(60 * 24 * time.Hour)
	if n := purge(7); n != 7 {
		t.Errorf("PurgeDismissed with the limit 7 deleted %d notifications", n)
	}
	purge(1000)
	f.clock.Advance(60 * 24 * time.Hour)
	purge(1000)
	if got := f.Texts(`select id::text from notifications`); !slices.Equal(got, []string{kept.ID.String()}) {
		t.Errorf("the notifications %q remain, want only %s, which was not dismissed", got, kept.ID)
	}
	if n := purge(1000); n != 0 {
		t.Errorf("the last call deleted %d notifications, want 0", n)
	}
	f.WantCount(0, "watermarks with an unfinished deletion", `select count(*) from notification_dismissals where purge_at is not null`)
}

func TestDeleteOldReads_KeepsReadStateOfVisibleNotifications(t *testing.T) {
	f := newFixture(t)
	oldest := f.Now().Add(-affiliate.NotificationLife)
	for i, day := range []time.Time{oldest.AddDate(0, 0, -2), oldest.AddDate(0, 0, -1), oldest, f.Now()} {
		f.Insert("notification_reads", pgtest.Row{
			"user_id": f.Owner, "mode": "test", "category": "payouts", "day": day, "notification_id": affiliate.NewID[affiliate.Notification](day), "read_at": day,
		})
		f.Insert("announcements", pgtest.Row{
			"id": affiliate.NewID[affiliate.Announcement](day), "title": strconv.Itoa(i), "body": "", "created_at": day,
		})
	}
	for _, want := range []int64{1, 1, 0} {
		if n, err := f.store.DeleteOldReads(t.Context(), oldest, 1); err != nil || n != want {
			t.Errorf("DeleteOldReads deleted %d rows, %v, want %d", n, err, want)
		}
		if n, err := f.store.DeleteOldAnnouncements(t.Context(), oldest, 1); err != nil || n != want {
			t.Errorf("DeleteOldAnnouncements deleted %d rows, %v, want %d", n, err, want)
		}
	}
	if got := f.Texts(`select title from announcements order by 1`); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("the announcements %q remain, want 2 and 3", got)
	}
}

func TestUpkeep_UsesIndexes(t *testing.T) {
	f := newFixture(t)
	f.fill(20000)
	f.Exec(`update notifications set dismissed_at = $1 where right(id::text, 2) = '00'`, f.Now().AddDate(0, 0, -31))
	f.Exec(`insert into notification_dismissals select gen_random_uuid(), 'test', 'payouts', $1::timestamptz, gen_random_uuid(), $1, $1, gen_random_uuid(), $1 from generate_series(1, 1000)`, f.Now().AddDate(1, 0, 0))
	f.dismissAll()
	f.Exec(`insert into notification_reads select $1, 'test', 'payouts', $2::timestamptz - n * interval '1 hour', gen_random_uuid(), $2 from generate_series(1, 20000) n`, f.Owner, f.Now())
	f.VacuumAnalyze("notifications", "notification_dismissals", "notification_reads")
	for name, tc := range map[string]struct {
		sql  string
		args map[string]any
	}{
		"DeleteDismissed": {notification.DeleteDismissedSQL, map[string]any{"before": f.Now().AddDate(0, 0, -30), "limit": 10}},
		"PurgeDismissed":  {notification.PurgeDismissedSQL, map[string]any{"now": f.Now().AddDate(0, 0, 31), "next": f.Now(), "limit": 10}},
		"DeleteOldReads":  {notification.DeleteOldReadsSQL, map[string]any{"day": f.Now().Add(-affiliate.NotificationLife), "limit": 10}},
	} {
		if plan := f.plan("", tc.sql, tc.args); strings.Contains(plan, "Seq Scan on notification") {
			t.Errorf("%s reads a whole table\n%s", name, plan)
		}
	}
}
