// Package notification has the SQL for the notification feeds, the read state and the
// preferences of users.
//
// Package postgres inserts notifications, in the transaction of their cause. This package reads and changes
// them. The cost of a list or count does not depend on the number of notifications in the feed: a list reads
// each category only up to the end of the page, and a count stops at notification.MaxNotificationCount.
//
// The time of a notification is the time in its id. A transaction that was still running
// when a user marked all notifications as read may add a notification with an earlier
// time, which then counts as read.
package notification

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// ranges is a CTE with the parts of a feed that a statement reads: one row for each category of a mode, with the
// watermarks of the user (read notifications) and of the feed (dismissed notifications). A row stands for one range
// of the primary key, from the newest notification down to a watermark.
const ranges = `
	ranges as (
		select r.mode, r.category, r.personal,
			coalesce(w.read_day, '-infinity') as read_day, coalesce(w.read_before, '00000000-0000-0000-0000-000000000000') as read_before, w.read_at,
			coalesce(d.dismissed_day, '-infinity') as dismissed_day,
			coalesce(d.dismissed_before, '00000000-0000-0000-0000-000000000000') as dismissed_before, d.dismissed_at
		from unnest(@modes::text[], @categories::text[], @personal::boolean[]) as r (mode, category, personal)
		left join notification_watermarks w on w.user_id = @user and w.mode = r.mode and w.category = r.category
		left join notification_dismissals d on d.feed_id = @feed and d.mode = r.mode and d.category = r.category
	)`

// visible selects the notifications n of a range r that the reader can see: not too old, not dismissed, and
// about the reader if the range is personal. The conditions on the day let Postgres skip partitions.
const visible = `
	n.feed_id = @feed and n.mode = r.mode and n.category = r.category
	and n.day >= @oldest and n.day >= r.dismissed_day and n.id >= r.dismissed_before
	and n.dismissed_at is null and (not r.personal or n.user_id = @user)`

const unread = `
	and n.day >= r.read_day and n.id >= r.read_before
	and not exists (
		select from notification_reads x
		where x.user_id = @user and x.mode = n.mode and x.category = n.category and x.day = n.day and x.notification_id = n.id
	)`

// readAt is the time at which the user has read a notification n of a range r.
const readAt = `
	coalesce(
		(
			select x.read_at from notification_reads x
			where x.user_id = @user and x.mode = n.mode and x.category = n.category and x.day = n.day and x.notification_id = n.id
		),
		case when n.id < r.read_before then r.read_at end
	)`

// entryColumns selects a notification n as a notification.Entry, in a statement with nameJoins.
// The facts of an announcement are its title and text. The name of a partner is the copy in the row of the
// participant. The name of a user is empty unless the user is the reader or a member of the workspace, because
// a workspace must not learn the current name of a person who has left it.
const entryColumns = `
	n.id, n.feed_id, case when n.feed_id = n.workspace_id then 'merchant' else 'partner' end as audience,
	nullif(n.mode, '` + notification.NotificationsBothModes + `') as mode, n.type, n.workspace_id, n.user_id, n.program_id, n.participant_id, n.resource_id,
	case when a.id is null then n.facts else json_build_object('title', a.title, 'text', a.body) end as facts,
	n.read_at, n.dismissed_at, coalesce(p.name, '') as program_name, coalesce(t.partner_name, '') as partner_name,
	coalesce((
		select s.name from users s
		where s.id = n.user_id and s.erased_at is null
			and (s.id = @user or exists (select from members m where m.workspace_id = n.workspace_id and m.user_id = s.id))
	), '') as user_name`

const nameJoins = `
	left join programs p on p.workspace_id = n.workspace_id and p.id = n.program_id
	left join participants t on t.workspace_id = n.workspace_id and t.id = n.participant_id and t.erased_at is null
	left join announcements a on a.id = n.resource_id`

// arguments returns the arguments that all statements on a feed have in common. A notification is too old to
// be shown if it is older than notification.Life at the given time.
func arguments(reader notification.Reader, list []notification.FeedRange, now time.Time) pgx.NamedArgs {
	modes, categories, personal := make([]string, len(list)), make([]string, len(list)), make([]bool, len(list))
	for i, r := range list {
		modes[i], categories[i], personal[i] = string(r.Mode), string(r.Category), r.Personal
	}
	return pgx.NamedArgs{
		"feed": reader.Feed, "user": reader.User, "modes": modes, "categories": categories, "personal": personal,
		"oldest": now.Add(-notification.Life).UTC().Truncate(24 * time.Hour),
	}
}

// rangePlan makes Postgres read the ranges from the end and stop at the limit. The
// statistics do not say how many notifications the feed has in a category. Postgres would
// assume an average number and read the partitions of whole weeks.
const rangePlan = `
	select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`

// newBatch returns a batch whose statements run with the settings of rangePlan, which end with the transaction.
// The caller must not add a BEGIN, because the statements of a batch without BEGIN are one transaction.
func newBatch() *pgx.Batch {
	batch := &pgx.Batch{}
	batch.Queue(rangePlan)
	return batch
}

// List returns a page of the notifications that a filter selects, newest first. It also
// counts the selected notifications; the number stops at notification.MaxNotificationCount.
func List(
	ctx context.Context, db *postgres.DB, reader notification.Reader, filter notification.Filter, page affiliate.Page, now time.Time,
) (entries []notification.Entry, total int64, err error) {
	args := arguments(reader, filter.Ranges, now)
	args["limit"], args["offset"], args["reach"] = page.Size, page.Offset(), page.Offset()+int64(page.Size)
	batch := newBatch()
	postgres.QueueList(batch, &entries, listStatement(filter.UnreadOnly), args)
	batch.Queue(countStatement(filter.UnreadOnly), args).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	err = db.SendBatch(ctx, batch).Close()
	return entries, total, err
}

func listStatement(unreadOnly bool) string {
	return `
		with ` + ranges + `, n as (
			select n.*,
				` + readAt + ` as read_at
			from ranges r cross join lateral (
				select * from notifications n where ` + listConditions(unreadOnly) + `
				order by n.day desc, n.id desc limit @reach
			) n
			order by n.day desc, n.id desc limit @limit offset @offset
		)
		select ` + entryColumns + ` from n ` + nameJoins + ` order by n.day desc, n.id desc`
}

func countStatement(unreadOnly bool) string { return countIn(listConditions(unreadOnly)) }

func listConditions(unreadOnly bool) string {
	if unreadOnly {
		return visible + unread
	}
	return visible
}

// countIn returns a statement that counts notifications under the given conditions. The
// limit in the subquery keeps the subquery separate: without the limit, Postgres may read the
// notifications of all categories in parallel and then look for their ranges.
func countIn(conditions string) string {
	return `with ` + ranges + ` ` + postgres.CountUpTo(notification.MaxNotificationCount, fmt.Sprintf(`
		from ranges r cross join lateral (select from notifications n where %s limit %d) n`, conditions, notification.MaxNotificationCount+1))
}

// CountUnread counts the notifications of the ranges that the reader has not read. The
// number stops at notification.MaxNotificationCount.
func CountUnread(ctx context.Context, db *postgres.DB, reader notification.Reader, list []notification.FeedRange, now time.Time) (count int64, err error) {
	batch := newBatch()
	batch.Queue(countStatement(true), arguments(reader, list, now)).QueryRow(func(row pgx.Row) error { return row.Scan(&count) })
	err = db.SendBatch(ctx, batch).Close()
	return count, err
}

// AssignSequence gives the notifications of streamed feeds their sequence numbers, in the
// given order. It returns the feeds whose notifications got numbers.
//
// The row of a feed stays locked until the commit. So a transaction that assigns numbers
// of the same feed waits, and a reader that sees a number also sees all lower numbers.
func AssignSequence(ctx context.Context, tx *postgres.Tx, arrived []notification.ArrivedNotification, now time.Time) ([]notification.FeedID, error) {
	const lock = `
		select feed_id from notification_feeds where feed_id = any($1) and streamed_until > $2 order by feed_id for update`
	const assign = `
		with item as (
			select feed_id, mode, category, day, id, row_number() over (partition by feed_id order by n) as number
			from unnest(@feeds::uuid[], @modes::text[], @categories::text[], @days::date[], @ids::uuid[])
				with ordinality as u (feed_id, mode, category, day, id, n)
		), stored as (
			insert into notification_positions (feed_id, seq, mode, category, day, notification_id, created_at)
			select i.feed_id, f.last_seq + i.number, i.mode, i.category, i.day, i.id, @now
			from item i join notification_feeds f on f.feed_id = i.feed_id
		), counted as (select feed_id, max(number) as n from item group by feed_id)
		update notification_feeds f
		set last_seq = f.last_seq + c.n, replay_after = greatest(f.replay_after, f.last_seq + c.n - @max_replay)
		from counted c where c.feed_id = f.feed_id`
	const trim = `
		delete from notification_positions p using notification_feeds f
		where f.feed_id = any($1) and p.feed_id = f.feed_id and p.seq <= f.replay_after`

	streamed, err := postgres.Values[notification.FeedID](ctx, tx, lock, notification.FeedsOf(arrived), now)
	if err != nil || len(streamed) == 0 {
		return nil, err
	}
	isStreamed := map[notification.FeedID]bool{}
	for _, feed := range streamed {
		isStreamed[feed] = true
	}
	var items struct {
		feeds, ids        [][16]byte
		modes, categories []string
		days              []time.Time
	}
	for _, n := range arrived {
		if isStreamed[n.Feed] {
			items.feeds, items.ids = append(items.feeds, n.Feed.UUID), append(items.ids, n.ID.UUID)
			items.modes, items.categories = append(items.modes, string(n.Mode)), append(items.categories, string(n.Category()))
			items.days = append(items.days, dayOf(n.ID))
		}
	}
	batch := &pgx.Batch{}
	batch.Queue(assign, pgx.NamedArgs{
		"feeds": items.feeds, "modes": items.modes, "categories": items.categories, "days": items.days, "ids": items.ids,
		"now": now, "max_replay": notification.MaxReplay,
	})
	batch.Queue(trim, streamed)
	return streamed, tx.SendBatch(ctx, batch).Close()
}

// FeedChanged increments the version of a feed, so that the counts of its open streams
// are computed again. It does nothing if the feed is not streamed.
func FeedChanged(ctx context.Context, tx *postgres.Tx, feed notification.FeedID) error {
	const update = `update notification_feeds set version = version + 1 where feed_id = $1`
	return postgres.Exec(ctx, tx, update, feed)
}

// FeedStates returns the states of feeds. A feed is missing in the result if it was never
// streamed, or was deleted by DeleteOldFeeds.
func FeedStates(ctx context.Context, db *postgres.DB, feeds []notification.FeedID) (map[notification.FeedID]notification.FeedState, error) {
	const query = `select feed_id, last_seq, replay_after, version from notification_feeds where feed_id = any($1)`
	rows, err := db.Query(ctx, query, feeds)
	if err != nil {
		return nil, err
	}
	states := map[notification.FeedID]notification.FeedState{}
	var feed notification.FeedID
	var state notification.FeedState
	_, err = pgx.ForEachRow(rows, []any{&feed, &state.LastSeq, &state.ReplayAfter, &state.Version}, func() error {
		states[feed] = state
		return nil
	})
	return states, err
}

// Positions returns the notifications of a feed with a sequence number above the given number, in the order of
// the numbers, at most limit of them. The result complete is false if some notifications above the given
// number cannot be replayed any more and may therefore be missing.
func Positions(ctx context.Context, db *postgres.DB, feed notification.FeedID, after int64, limit int) (positions []notification.FeedPosition, complete bool, err error) {
	const query = `
		select n.seq, n.category, ` + entryColumns + `
		from (
			select p.seq, n.*, null::timestamptz as read_at
			from notification_positions p
			join notifications n on n.feed_id = p.feed_id and n.mode = p.mode and n.category = p.category and n.day = p.day
				and n.id = p.notification_id
			where p.feed_id = @feed and p.seq > @after
			order by p.seq limit @limit
		) n ` + nameJoins + `
		order by n.seq`
	// This statement runs after the query, so it sees every deletion that the query saw.
	const check = `select exists (select from notification_feeds where feed_id = @feed and replay_after <= @after)`
	args := pgx.NamedArgs{"feed": feed, "after": after, "limit": limit, "user": affiliate.UserID{}}
	batch := &pgx.Batch{}
	postgres.QueueList(batch, &positions, query, args)
	batch.Queue(check, args).QueryRow(func(row pgx.Row) error { return row.Scan(&complete) })
	err = db.SendBatch(ctx, batch).Close()
	return positions, complete, err
}
