package notification_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestDeleteDismissed_DeletesInBatchesAfterTime(t *testing.T) {
	f := newFixture(t)
	var entries []notification.Notification
	for range 4 {
		entries = append(entries, f.notify(notification.Type(affiliate.EventCommissionCreated)))
	}
	for i, age := range []int{31, 32, 29} {
		f.Exec(`update notifications set dismissed_at = $2 where id = $1`, entries[i].ID, f.Now().AddDate(0, 0, -age))
	}
	for _, want := range []int64{1, 1, 0} {
		if n, err := notifications.DeleteDismissed(t.Context(), f.DB, f.Now().AddDate(0, 0, -30), 1); err != nil || n != want {
			t.Errorf("DeleteDismissed deleted %d notifications, %v, want %d", n, err, want)
		}
	}
	f.WantCount(2, "notifications", `select count(*) from notifications where id = any($1)`, []notification.ID{entries[2].ID, entries[3].ID})
}

// dismissAll marks all notifications of the owner's feed as read and dismisses them.
func (f *fixture) dismissAll() {
	f.Helper()
	list := f.reader.Ranges(nil, "")
	if err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		before := f.Now().Add(time.Millisecond)
		if _, err := notifications.MarkAllRead(f.Context(), tx, f.reader, list, before, f.Now()); err != nil {
			return err
		}
		_, err := notifications.DismissRead(f.Context(), tx, f.reader, list, before, f.Now())
		return err
	}); err != nil {
		f.Fatal(err)
	}
}

// A notification that is dismissed by a watermark is deleted at most 30 days later, even
// if the watermark is raised every day.
func TestPurgeDismissed_DeletesNotificationsBelowWatermark(t *testing.T) {
	f := newFixture(t)
	f.NewShop(affiliate.ModeTest) // has no notifications
	remaining := func() int { return f.Count(`select count(*) from notifications`) }
	purge := func(limit int) int64 {
		t.Helper()
		n, err := notifications.PurgeDismissed(t.Context(), f.DB, f.Now(), limit)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for day := range 90 {
		f.notify(notification.Type(affiliate.EventCommissionCreated))
		f.dismissAll()
		f.clock.Advance(24 * time.Hour)
		purge(100)
		if n, want := remaining(), (day+1)%30; n != want {
			t.Fatalf("after %d days %d notifications remain, want %d", day+1, n, want)
		}
	}
	for range 10 {
		f.notify(notification.Type(affiliate.EventCommissionCreated))
	}
	f.dismissAll()
	f.clock.Advance(time.Minute)
	kept := f.notify(notification.Type(affiliate.EventCommissionCreated))
	f.clock.Advance(30*24*time.Hour - 2*time.Minute)
	if n := purge(1000); n != 0 {
		t.Errorf("%d notifications were deleted before 30 days", n)
	}
	f.clock.Advance(time.Minute)
	if n := purge(7); n != 7 {
		t.Errorf("PurgeDismissed with the limit 7 deleted %d notifications", n)
	}
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
	oldest := f.Now().Add(-notification.Life)
	for i, day := range []time.Time{oldest.AddDate(0, 0, -2), oldest.AddDate(0, 0, -1), oldest, f.Now()} {
		f.Insert("notification_reads", pgtest.Row{
			"user_id": f.Owner, "mode": "test", "category": "payouts", "day": day, "notification_id": affiliate.NewID[notification.ID](day), "read_at": day,
		})
		f.Insert("announcements", pgtest.Row{
			"id": affiliate.NewID[notification.AnnouncementID](day), "title": strconv.Itoa(i), "body": "", "created_at": day,
		})
	}
	for _, want := range []int64{1, 1, 0} {
		if n, err := notifications.DeleteOldReads(t.Context(), f.DB, oldest, 1); err != nil || n != want {
			t.Errorf("DeleteOldReads deleted %d rows, %v, want %d", n, err, want)
		}
		if n, err := notifications.DeleteOldAnnouncements(t.Context(), f.DB, oldest, 1); err != nil || n != want {
			t.Errorf("DeleteOldAnnouncements deleted %d rows, %v, want %d", n, err, want)
		}
	}
	if got := f.Texts(`select title from announcements order by 1`); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("the announcements %q remain, want 2 and 3", got)
	}
}

func TestUpkeep_DeletesStreamsInBatches(t *testing.T) {
	f := newFixture(t)
	before := f.Now()
	for i := range 4 {
		at, id := before.Add(time.Duration(i-3)*time.Second), affiliate.NewID[notification.StreamID](before)
		f.Insert("notification_stream_tickets", pgtest.Row{
			"digest": []byte{byte(i)}, "session_id": id, "kind": "merchant", "mode": "live", "created_at": at, "expires_at": at,
		})
		f.Insert("notification_streams", pgtest.Row{"id": id, "user_id": f.Owner, "seen_at": at})
		f.Insert("notification_positions", pgtest.Row{
			"feed_id": f.reader.Feed, "seq": i, "mode": "live", "category": "payouts", "day": at, "notification_id": id, "created_at": at,
		})
		f.Insert("notification_feeds", pgtest.Row{"feed_id": id, "last_seq": 1, "replay_after": 0, "version": 0, "streamed_until": at})
	}
	f.Insert("notification_feeds", pgtest.Row{"feed_id": f.reader.Feed, "last_seq": 3, "replay_after": -1, "version": 0, "streamed_until": before.Add(time.Hour)})
	for name, remove := range map[string]func(context.Context, *postgres.DB, time.Time, int) (int64, error){
		"DeleteExpiredTickets": notifications.DeleteExpiredTickets, "DeleteLostStreams": notifications.DeleteLostStreams,
		"DeleteOldPositions": notifications.DeleteOldPositions, "DeleteOldFeeds": notifications.DeleteOldFeeds,
	} {
		for _, want := range []int64{2, 1, 0} {
			if n, err := remove(t.Context(), f.DB, before, 2); err != nil || n != want {
				t.Errorf("%s deleted %d rows, %v, want %d", name, n, err, want)
			}
		}
	}
	states, err := notifications.FeedStates(t.Context(), f.DB, []notification.FeedID{f.reader.Feed})
	if err != nil || !states[f.reader.Feed].CanReplay(2) || states[f.reader.Feed].CanReplay(1) {
		t.Errorf("the feed has the state %v, %v, want that only position 3 can be replayed", states, err)
	}
}

// A client must not continue with the number of a feed that was deleted.
func TestOpenStream_OfDeletedFeedBeginsWithHigherNumber(t *testing.T) {
	f := newFixture(t)
	open := func() (state notification.FeedState) {
		t.Helper()
		if err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) (err error) {
			state, err = notifications.OpenStream(t.Context(), tx, notification.Stream{ID: affiliate.NewID[notification.StreamID](f.Now()), Reader: f.reader}, f.Now())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return state
	}
	first := open()
	f.clock.Advance(2*notification.ReplayLife + account.AccessTokenLife)
	if n, err := notifications.DeleteOldFeeds(t.Context(), f.DB, f.Now(), 10); err != nil || n != 1 {
		t.Fatalf("DeleteOldFeeds deleted %d feeds, %v, want 1", n, err)
	}
	if second := open(); second.LastSeq <= first.LastSeq+1000 || second.CanReplay(first.LastSeq) {
		t.Errorf("the feed begins with %v, want numbers far above %d", second, first.LastSeq)
	}
}

func TestUpkeep_UsesIndexes(t *testing.T) {
	f := newFixture(t)
	f.fill(5000)
	f.Exec(`update notifications set dismissed_at = $1 where right(id::text, 2) = '00'`, f.Now().AddDate(0, 0, -31))
	f.Exec(`insert into notification_dismissals select gen_random_uuid(), 'test', 'payouts', $1::timestamptz, gen_random_uuid(), $1, null, null, $1 from generate_series(1, 1000)`, f.Now().AddDate(1, 0, 0))
	f.dismissAll()
	f.Exec(`insert into notification_reads select $1, 'test', 'payouts', $2::timestamptz - n * interval '1 hour', gen_random_uuid(), $2 from generate_series(1, 5000) n`, f.Owner, f.Now())
	f.Exec(`insert into notification_stream_tickets select int4send(n), gen_random_uuid(), 'merchant', 'test', $1, null, $1::timestamptz + n * interval '1 second' from generate_series(1, 5000) n`, f.Now())
	f.Exec(`insert into notification_streams select gen_random_uuid(), gen_random_uuid(), null, $1::timestamptz + n * interval '1 second' from generate_series(1, 5000) n`, f.Now())
	f.Exec(`insert into notification_feeds select md5(n::text)::uuid, n, 0, 0, $1::timestamptz + n * interval '1 second' from generate_series(1, 5000) n`, f.Now())
	f.Exec(`insert into notification_positions select md5((n % 5000 + 1)::text)::uuid, n, 'test', 'payouts', $1::timestamptz, gen_random_uuid(), $1::timestamptz + n * interval '1 second' from generate_series(1, 10000) n`, f.Now())
	f.VacuumAnalyze("notifications", "notification_dismissals", "notification_reads",
		"notification_stream_tickets", "notification_streams", "notification_feeds", "notification_positions")
	few := map[string]any{"before": f.Now().Add(time.Minute), "limit": 10}
	positions := map[string]any{"feeds": []notification.FeedID{f.reader.Feed}, "last": []int64{10}}
	for name, tc := range map[string]struct {
		sql  string
		args map[string]any
	}{
		"DeleteDismissed": {notifications.DeleteDismissedSQL, map[string]any{"before": f.Now().AddDate(0, 0, -30), "limit": 10}},
		"PurgeDismissed":  {notifications.PurgeDismissedSQL, map[string]any{"now": f.Now().AddDate(0, 0, 31), "next": f.Now(), "limit": 10}},
		"DeleteOldReads":  {notifications.DeleteOldReadsSQL, map[string]any{"day": f.Now().Add(-notification.Life), "limit": 10}},

		"DeleteExpiredTickets":          {notifications.DeleteExpiredTicketsSQL, few},
		"DeleteLostStreams":             {notifications.DeleteLostStreamsSQL, few},
		"DeleteOldPositions, selection": {notifications.OldPositionsSQL, few},
		"DeleteOldPositions, locks":     {notifications.LockFeedsSQL, positions},
		"DeleteOldPositions":            {notifications.DeleteOldPositionsSQL, positions},
		"DeleteOldFeeds":                {notifications.DeleteOldFeedsSQL, few},
	} {
		if plan := f.plan("", tc.sql, tc.args); strings.Contains(plan, "Seq Scan on notification") {
			t.Errorf("%s reads a whole table\n%s", name, plan)
		}
	}
}
