package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/tributary-hq/tributary/test/service"
)

const (
	// manyNotifications and fewNotifications are the numbers of notifications in the feeds
	// of the two workspaces. SCALE multiplies them.
	manyNotifications = 1_000_000
	fewNotifications  = 1_000
	// unreadNotifications is the number of notifications in each feed that are not read,
	// in the row with read notifications.
	unreadNotifications = 500
)

// measureNotifications measures the feed of a workspace that has a thousand times as many
// notifications as a second workspace. Both workspaces are in the same database.
func measureNotifications(ctx context.Context, b *bench) error {
	database, err := b.newDatabase(ctx, "notifications", "")
	if err != nil {
		return err
	}
	defer database.drop()
	core, err := b.startCore(ctx, database)
	if err != nil {
		return err
	}
	defer core.stop()
	large, err := openProgram(ctx, core.address, "large")
	if err != nil {
		return core.fail(err)
	}
	small, err := openProgram(ctx, core.address, "small")
	if err != nil {
		return core.fail(err)
	}
	if err := execute(ctx, database.url, `select ensure_week_partitions('notifications', current_date - 180, current_date)`); err != nil {
		return err
	}
	now := time.Now().UTC()
	feeds := []feed{{large, manyNotifications * b.scale, now}, {small, fewNotifications * b.scale, now}}
	for _, f := range feeds {
		b.say("notifications: making %d notifications", f.notifications)
		if err := f.fill(ctx, database); err != nil {
			return err
		}
	}
	if err := execute(ctx, database.url, "vacuum analyze"); err != nil {
		return err
	}
	measure := func(id, what, path, goal string) error {
		got, err := b.takeTurns(ctx, what, large.get(core, "/notifications"+path), b.yardstick(small.get(core, "/notifications"+path)))
		if err != nil {
			return err
		}
		b.compare(id, fmt.Sprintf("%s, of %d, p50", what, manyNotifications*b.scale), fmt.Sprintf("of %d", fewNotifications*b.scale), goal, got[0], got[1], p50, millis)
		return nil
	}
	if err := measure("N1", "notifications, page 1", "", "≤ 1.3"); err != nil {
		return err
	}
	if err := measure("", "unread notifications, page 1", "?unread=true", "≤ 1.3"); err != nil {
		return err
	}
	// The count stops at 10,000, so the large feed counts ten times as many as the small one.
	if err := measure("", "unread-count, nothing read", "/unread-count", "≤ 2"); err != nil {
		return err
	}
	for _, f := range feeds {
		if err := f.readAllBut(ctx, core, unreadNotifications); err != nil {
			return err
		}
	}
	return measure("N2", fmt.Sprintf("unread-count of %d", unreadNotifications), "/unread-count", "≤ 1.3")
}

// feed is the feed of a workspace. newest is the time of its newest notification.
type feed struct {
	listedProgram
	notifications int
	newest        time.Time
}

// feedPeriod is the time over which the notifications of a feed are distributed.
const feedPeriod = 170 * 24 * time.Hour

// fill inserts notifications about conversions and commissions into the feed of the
// workspace. The first has the time newest, and the others have earlier times in steps of
// the same length.
func (f feed) fill(ctx context.Context, db *database) error {
	return execute(ctx, db.url, fmt.Sprintf(`
		insert into notifications (feed_id, mode, category, day, id, type, workspace_id, program_id, resource_id, facts)
		select w, 'live', case n %% 2 when 0 then 'conversions' else 'commissions' end, (at at time zone 'UTC')::date,
			encode(substring(int8send((extract(epoch from at) * 1000)::bigint) from 3) || '\x7000800000000000'::bytea || substring(int4send(n) from 3), 'hex')::uuid,
			case n %% 2 when 0 then 'conversion.created' else 'commission.created' end, w, p, gen_random_uuid(), '{"amount": "1.00 EUR", "event": "purchase"}'
		from (
			select workspace_id as w, id as p, n, timestamptz '%s' - n * interval '%d milliseconds' as at
			from programs, generate_series(0, %d) n where id = '%s'
		) made`, f.newest.Format(time.RFC3339Nano), f.step().Milliseconds(), f.notifications-1, f.program))
}

func (f feed) step() time.Duration { return feedPeriod / time.Duration(f.notifications) }

// readAllBut marks all notifications as read, except the newest ones.
func (f feed) readAllBut(ctx context.Context, core *process, unread int) error {
	before := f.newest.Add(-f.step()*time.Duration(unread) + f.step()/2)
	api := service.API{Address: core.address}
	return api.Call(ctx, http.MethodPost, "/notifications/read-all", f.AccessToken, object{"before": before.Format(time.RFC3339Nano)}, &struct{}{})
}
