package upkeep_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/server/upkeep"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestRun_CreatesClickPartitionsAWeekAhead(t *testing.T) {
	// In UTC it is already 29 December.
	clock := pgtest.NewClock(time.Date(2026, 12, 28, 23, 59, 59, 999e6, time.FixedZone("", -5*3600)))
	f := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest)
	var log bytes.Buffer
	worker := upkeep.NewWorker(f.DB, slog.New(slog.NewTextHandler(&log, nil)), clock.Now)
	for range 2 {
		if err := worker.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	partitions := f.Texts(`select relname from pg_class where relname ~ '^clicks_\d{8}$' order by 1`)
	if n := len(partitions); n != 15 || partitions[0] != "clicks_20261222" || partitions[n-1] != "clicks_20270105" {
		t.Errorf("Run created the partitions %q, want 15 from clicks_20261222 to clicks_20270105", partitions)
	}
	if log.Len() != 0 {
		t.Errorf("Run logged %s, want nothing", &log)
	}
	clickTime := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	f.NewClick(f.Join("Jane"), func(c *click.Click) { c.ClickedAt, c.ReceivedAt = clickTime, clickTime })
	if err := worker.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "default partition"; !strings.Contains(log.String(), want) {
		t.Errorf("Run with a click of 2020 logged %q, want a line with %q", &log, want)
	}
}

func TestRun_DeletesExpiredTokensAndOldRequests(t *testing.T) {
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	f := pgtest.Open(t, clock.Now)
	user := f.NewPartner("Jane")
	for i, age := range []time.Duration{24*time.Hour - time.Minute, 24*time.Hour + time.Minute} {
		at := f.Now().Add(-age)
		f.Insert("email_tokens", pgtest.Row{
			"digest": []byte{byte(i)}, "user_id": user, "purpose": "verify", "address": "jane@example.com",
			"created_at": at, "expires_at": at.Add(account.VerifyTokenLife),
		})
		f.Insert("email_requests", pgtest.Row{
			"id": affiliate.NewID[account.EmailRequestID](at), "purpose": "reset", "account_kind": "partner", "address": "jane@example.com", "created_at": at,
		})
	}
	if err := upkeep.NewWorker(f.DB, slog.New(slog.DiscardHandler), clock.Now).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.WantCount(1, "tokens, which have not expired", `select count(*) from email_tokens where expires_at > $1`, f.Now())
	f.WantCount(1, "tokens", `select count(*) from email_tokens`)
	f.WantCount(1, "requests", `select count(*) from email_requests`)
}

// The job removes visitor data from clicks that are older than 90 days. Then it
// replaces the clicks of days that ended 13 months ago by sums. While a transaction uses
// the table clicks, this second step fails. The first step still succeeds, because it
// runs before the second step.
func TestWork_AppliesTheRetentionOfClicks(t *testing.T) {
	ctx := t.Context()
	now := time.Now().UTC()
	f := pgtest.Open(t, func() time.Time { return now }).NewShop(affiliate.ModeLive)
	young, old := now.Add(-90*24*time.Hour+time.Minute), now.Add(-90*24*time.Hour-time.Minute)
	// withVisitor returns a value for each click that has visitor data: "true" if the
	// click is younger than 90 days, and "false" otherwise.
	withVisitor := func() []string {
		return f.Texts(`select (received_at > $1)::text from clicks where ip_hash is not null or ip_prefix is not null or ua_hash is not null`, old.Add(time.Second))
	}
	rolls := 0
	worker := upkeep.NewWorker(f.OpenHooked(func(sql string, _ []any) error {
		if strings.Contains(sql, "roll_clicks(") {
			rolls++
			if left := withVisitor(); len(left) != 1 {
				t.Errorf("when days are replaced by sums, %d clicks have visitor data, want 1", len(left))
			}
		}
		return nil
	}), slog.New(slog.DiscardHandler), f.Now)
	day := now.AddDate(0, -13, -2)
	if _, err := postgres.EnsureClickPartitions(ctx, f.DB, day, day); err != nil {
		t.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil { // creates the other partitions, before the table is in use
		t.Fatal(err)
	}
	jane := f.Join("Jane")
	for _, at := range []time.Time{young, old, day, now.AddDate(0, -14, 0)} {
		f.NewClick(jane, func(c *click.Click) {
			c.ClickedAt, c.ReceivedAt, c.ExpiresAt, c.CreatedAt = at, at, at, at
			c.IPHash, c.IPPrefix, c.UAHash = []byte("a"), "203.0.113.0/24", []byte("b")
		})
		f.Insert("click_dead_letters", pgtest.Row{"id": affiliate.NewID[affiliate.ClickID](at), "reason": "malformed", "record": []byte{1}, "created_at": at})
	}
	// work runs the job and returns the remaining rows.
	work := func() (remaining string, err error) {
		err = worker.Work(ctx, nil)
		return fmt.Sprintf("%d clicks, %d in sums, %d dead letters, clicks with visitor data are young: %v",
			f.Count(`select count(*) from clicks`), f.Count(`select coalesce(sum(clicks), 0) from click_days`),
			f.Count(`select count(*) from click_dead_letters`), withVisitor()), err
	}
	reader, err := f.SQL.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := reader.Exec(ctx, `select from clicks limit 1`); err != nil {
		t.Fatal(err)
	}
	want := "4 clicks, 0 in sums, 1 dead letters, clicks with visitor data are young: [true]"
	if got, err := work(); err == nil || got != want {
		t.Errorf("while a transaction reads clicks, Work returned the error %v and left %s, want an error and %s", err, got, want)
	}
	if err := reader.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	want = "2 clicks, 2 in sums, 1 dead letters, clicks with visitor data are young: [true]"
	for range 2 {
		if got, err := work(); err != nil || got != want {
			t.Errorf("Work returned the error %v and left %s, want %s", err, got, want)
		}
	}
	if rolls == 0 {
		t.Error("Work replaced no day by sums")
	}
}

// A dump locks clicks for a long time. A process must be able to start during a dump,
// although it cannot move clicks from the default partition.
func TestRun_ContinuesWhileADumpLocksClicks(t *testing.T) {
	now := time.Now().UTC()
	f := pgtest.Open(t, func() time.Time { return now }).NewShop(affiliate.ModeLive)
	f.NewClick(f.Join("Jane"))
	var log bytes.Buffer
	worker := upkeep.NewWorker(f.DB, slog.New(slog.NewTextHandler(&log, nil)), f.Now)
	dump, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dump.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := dump.Exec(t.Context(), `lock table clicks in access share mode`); err != nil {
		t.Fatal(err)
	}
	if err := worker.Run(t.Context()); err != nil {
		t.Errorf("during a dump, Run returned %v", err)
	}
	if want := "daily partitions could not be created"; !strings.Contains(log.String(), want) {
		t.Errorf("Run logged %q, want a line with %q", &log, want)
	}
	if err := dump.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := worker.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.WantCount(0, "clicks in the default partition", `select count(*) from clicks_default`)
}

// The job creates weekly partitions of events, deliveries and notifications in advance, drops old
// partitions, and logs rows in the default partitions.
func TestWork_MaintainsEventPartitions(t *testing.T) {
	ctx := t.Context()
	now := time.Now().UTC()
	f := pgtest.Open(t, func() time.Time { return now })
	var log bytes.Buffer
	worker := upkeep.NewWorker(f.DB, slog.New(slog.NewTextHandler(&log, nil)), f.Now)
	old := now.AddDate(0, 0, -200)
	if _, err := postgres.EnsureWeekPartitions(ctx, f.DB, old, old); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := worker.Work(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "old events, deliveries and notifications were dropped"); n != 1 {
		t.Errorf("Work logged %d times that it dropped partitions, want once:\n%s", n, &log)
	}
	for _, table := range []string{"events", "webhook_deliveries", "notifications"} {
		// There are partitions for the last week, this week and the next week.
		f.WantCount(3, "weekly partitions of "+table, `select count(*) from pg_class where relkind = 'r' and relname ~ ('^' || $1 || '_[0-9]{8}$')`, table)
	}
	log.Reset()
	f.Insert("events", pgtest.Row{
		"workspace_id": affiliate.NewID[affiliate.WorkspaceID](now), "id": affiliate.NewID[affiliate.EventID](now), "day": now.AddDate(0, 0, 20),
		"mode": "live", "type": "payout.paid", "body": []byte("{}"), "created_at": now,
	})
	if err := worker.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if want := "events, deliveries or notifications are in a default partition"; !strings.Contains(log.String(), want) {
		t.Errorf("Run with an event dated 20 days ahead logged %q, want a line with %q", &log, want)
	}
}

// The job deletes dismissed notifications after 30 days. It also deletes the read state of
// notifications, and announcements, after 180 days. Of streams, it deletes expired tickets,
// streams that were not seen for an hour, and what cannot be replayed any more.
func TestWork_DeletesOldNotifications(t *testing.T) {
	ctx := t.Context()
	now := time.Now().UTC()
	f := pgtest.Open(t, func() time.Time { return now }).NewShop(affiliate.ModeLive)
	worker := upkeep.NewWorker(f.DB, slog.New(slog.DiscardHandler), f.Now)
	for _, age := range []int{29, 31, 179, 182} {
		at := now.AddDate(0, 0, -age)
		created, id := now.AddDate(0, 0, -40), affiliate.NewID[notification.ID](at)
		f.Insert("notifications", pgtest.Row{
			"feed_id": f.Scope.Workspace, "mode": "live", "category": "payouts", "day": created, "id": id, "type": "payout.paid", "facts": "{}", "dismissed_at": at,
		})
		f.Insert("notification_reads", pgtest.Row{"user_id": f.Owner, "mode": "live", "category": "payouts", "day": at, "notification_id": id, "read_at": at})
		f.Insert("announcements", pgtest.Row{"id": affiliate.NewID[notification.AnnouncementID](at), "title": "t", "body": "b", "created_at": at})
	}
	// The watermark has dismissed a notification 31 days ago.
	f.Insert("notifications", pgtest.Row{
		"feed_id": f.Scope.Workspace, "mode": "live", "category": "commissions", "day": now.AddDate(0, 0, -32),
		"id": affiliate.NewID[notification.ID](now.AddDate(0, 0, -32)), "type": "commission.created", "facts": "{}",
	})
	watermark := affiliate.FirstID[notification.ID](now.AddDate(0, 0, -31))
	f.Insert("notification_dismissals", pgtest.Row{
		"feed_id": f.Scope.Workspace, "mode": "live", "category": "commissions", "dismissed_day": now.AddDate(0, 0, -31), "dismissed_before": watermark,
		"dismissed_at": now.AddDate(0, 0, -31), "purge_at": now.AddDate(0, 0, -1),
	})
	for i, age := range []time.Duration{0, 59 * time.Minute, 61 * time.Minute, 23 * time.Hour, 25 * time.Hour, 26 * time.Hour} {
		at, id := now.Add(-age), affiliate.NewID[notification.StreamID](now)
		f.Insert("notification_stream_tickets", pgtest.Row{
			"digest": []byte{byte(i)}, "session_id": id, "kind": "merchant", "mode": "live", "created_at": at, "expires_at": at.Add(15 * time.Minute),
		})
		f.Insert("notification_streams", pgtest.Row{"id": id, "user_id": f.Owner, "seen_at": at})
		f.Insert("notification_positions", pgtest.Row{
			"feed_id": f.Scope.Workspace, "seq": 100 - i, "mode": "live", "category": "payouts", "day": at,
			"notification_id": affiliate.NewID[notification.ID](at), "created_at": at,
		})
		f.Insert("notification_feeds", pgtest.Row{"feed_id": id, "last_seq": i, "replay_after": 0, "version": 0, "streamed_until": at})
	}
	f.Insert("notification_feeds", pgtest.Row{"feed_id": f.Scope.Workspace, "last_seq": 100, "replay_after": 95, "version": 0, "streamed_until": now})
	for range 2 {
		if err := worker.Work(ctx, nil); err != nil {
			t.Fatal(err)
		}
		f.WantCount(1, "tickets", `select count(*) from notification_stream_tickets`)
		f.WantCount(2, "streams", `select count(*) from notification_streams`)
		f.WantCount(4, "positions", `select count(*) from notification_positions`)
		f.WantCount(96, "the number after which the feed can be replayed", `select replay_after from notification_feeds where feed_id = $1`, f.Scope.Workspace)
		f.WantCount(6, "feeds", `select count(*) from notification_feeds`)
		f.WantCount(1, "notifications", `select count(*) from notifications`)
		f.WantCount(3, "read notifications", `select count(*) from notification_reads`)
		f.WantCount(3, "announcements", `select count(*) from announcements`)
	}
}

func TestRun_DeletesExpiredAndAbandonedExports(t *testing.T) {
	t.Parallel()
	clock := pgtest.NewRunningClock()
	f := pgtest.Open(t, clock.Now)
	insert := func(createdAt time.Time, readyAt, expiresAt any) {
		f.Insert("exports", pgtest.Row{
			"id": affiliate.NewID[privacy.ExportID](createdAt), "kind": "partner", "subject_id": affiliate.NewID[affiliate.UserID](createdAt), "request_mode": "live",
			"queued": false, "lease_until": createdAt, "lease": affiliate.NewID[privacy.ExportID](createdAt), "progress": "{}",
			"created_at": createdAt, "ready_at": readyAt, "expires_at": expiresAt,
		})
	}
	now := clock.Now()
	insert(now.Add(-24*time.Hour), now.Add(-24*time.Hour), now)
	insert(now.Add(-23*time.Hour), now.Add(-23*time.Hour), now.Add(time.Hour))
	insert(now.Add(-24*time.Hour), nil, nil)
	insert(now.Add(-23*time.Hour), nil, nil)
	if err := upkeep.NewWorker(f.DB, slog.New(slog.DiscardHandler), clock.Now).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.WantCount(2, "exports that can be downloaded or continued", `select count(*) from exports where created_at > $1`, now.Add(-24*time.Hour+time.Minute))
	f.WantCount(2, "exports", `select count(*) from exports`)
}
