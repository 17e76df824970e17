package notification

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// LockFeed locks the read state of a feed until the end of the transaction. Otherwise
// concurrent transactions would count the same notifications, and each would report that it
// has changed them.
func LockFeed(ctx context.Context, tx *postgres.Tx, feed notification.FeedID) error {
	const lock = `select pg_advisory_xact_lock(hashtextextended('notification_feed:' || $1::uuid, 0))`
	return postgres.Exec(ctx, tx, lock, feed)
}

const entryStatement = `
	with ` + ranges + `, n as (
		select n.id, n.feed_id, n.mode, n.type, n.workspace_id, n.user_id, n.program_id, n.participant_id, n.resource_id, n.facts,
			coalesce(n.dismissed_at, case when n.id < r.dismissed_before then r.dismissed_at end) as dismissed_at,
			` + readAt + ` as read_at
		from ranges r cross join lateral (
			select * from notifications n
			where n.feed_id = @feed and n.mode = r.mode and n.category = r.category and n.day = @day and n.id = @id
				and n.day >= @oldest and (not r.personal or n.user_id = @user)
		) n
	)
	select ` + entryColumns + ` from n ` + nameJoins

// Entry returns a notification of the ranges, even if it is dismissed. Errors: NOT_FOUND.
func Entry(
	ctx context.Context, tx *postgres.Tx, reader notification.Reader, list []notification.FeedRange, id notification.ID, now time.Time,
) (notification.Entry, error) {
	args := arguments(reader, list, now)
	args["id"], args["day"] = id, dayOf(id)
	return postgres.OneRow[notification.Entry](tx.Query(ctx, entryStatement, args))
}

// dayOf returns the day in the id of a notification, which determines the partition. For
// an id that contains no time, it returns a day that no notification has.
func dayOf(id notification.ID) time.Time {
	at, _ := id.Time()
	return at.Truncate(24 * time.Hour)
}

// The condition n.day = any(@item_days) lets Postgres skip partitions.
const readTimes = `
	with ` + ranges + `
	select n.id, ` + readAt + ` as read_at
	from unnest(@item_modes::text[], @item_categories::text[], @item_days::date[], @item_ids::uuid[]) as i (mode, category, day, id)
	join ranges r on r.mode = i.mode and r.category = i.category
	cross join lateral (
		select * from notifications n where ` + visible + ` and n.day = any(@item_days) and n.day = i.day and n.id = i.id
	) n`

// ReadTimes returns the times at which the reader has read notifications. The time of an unread notification
// is nil. The map contains only notifications that are visible in the ranges.
func ReadTimes(
	ctx context.Context, db *postgres.DB, reader notification.Reader, list []notification.FeedRange, positions []notification.FeedPosition, now time.Time,
) (map[notification.ID]*time.Time, error) {
	args, n := arguments(reader, list, now), len(positions)
	modes, categories, days, ids := make([]string, n), make([]string, n), make([]time.Time, n), make([][16]byte, n)
	for i, p := range positions {
		modes[i], categories[i], days[i], ids[i] = string(p.StoredMode()), string(p.Category), dayOf(p.ID), p.ID.UUID
	}
	args["item_modes"], args["item_categories"], args["item_days"], args["item_ids"] = modes, categories, days, ids
	times := make(map[notification.ID]*time.Time, n)
	batch := newBatch()
	batch.Queue(readTimes, args).Query(func(rows pgx.Rows) error {
		var id notification.ID
		var at *time.Time
		_, err := pgx.ForEachRow(rows, []any{&id, &at}, func() error {
			times[id] = at
			return nil
		})
		return err
	})
	return times, db.SendBatch(ctx, batch).Close()
}

// MarkRead stores that a user has read a notification. It does nothing if this is stored
// already.
func MarkRead(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, n notification.Notification, at time.Time) error {
	const insert = `
		insert into notification_reads (user_id, mode, category, day, notification_id, read_at)
		values (@user, @mode, @category, @day, @id, @at)
		on conflict do nothing`
	return postgres.Exec(ctx, tx, insert, pgx.NamedArgs{
		"user": user, "mode": n.StoredMode(), "category": n.Rule().Category, "day": dayOf(n.ID), "id": n.ID, "at": at,
	})
}

// MarkDismissed stores that a notification is dismissed.
func MarkDismissed(ctx context.Context, tx *postgres.Tx, n notification.Notification, at time.Time) error {
	const update = `
		update notifications set dismissed_at = @at
		where feed_id = @feed and mode = @mode and category = @category and day = @day and id = @id and dismissed_at is null`
	return postgres.Exec(ctx, tx, update, pgx.NamedArgs{
		"at": at, "feed": n.Feed, "mode": n.StoredMode(), "category": n.Rule().Category, "day": dayOf(n.ID), "id": n.ID,
	})
}

// MarkAllRead marks as read all notifications of the ranges that were created before the
// given time. It returns how many of them were not read before; the number stops at
// notification.MaxNotificationCount.
func MarkAllRead(
	ctx context.Context, tx *postgres.Tx, reader notification.Reader, list []notification.FeedRange, before, now time.Time,
) (updated int64, err error) {
	count := countIn(visible + unread + ` and n.id < @before`)
	const raise = `
		insert into notification_watermarks as w (user_id, mode, category, read_day, read_before, read_at)
		select @user, r.mode, r.category, @before_day, @before, @now
		from unnest(@modes::text[], @categories::text[]) as r (mode, category)
		on conflict (user_id, mode, category) do update
		set read_day = excluded.read_day, read_before = excluded.read_before, read_at = excluded.read_at
		where w.read_before < excluded.read_before`
	args := withBefore(arguments(reader, list, now), before, now)
	batch := newBatch()
	batch.Queue(count, args).QueryRow(func(row pgx.Row) error { return row.Scan(&updated) })
	batch.Queue(raise, args)
	err = tx.SendBatch(ctx, batch).Close()
	return updated, err
}

func withBefore(args pgx.NamedArgs, before, now time.Time) pgx.NamedArgs {
	args["before"], args["before_day"], args["now"] = affiliate.FirstID[notification.ID](before), before.UTC().Truncate(24*time.Hour), now
	return args
}

// DismissRead dismisses all notifications of the ranges that the reader has read and that
// were created before the given time. It returns their number, which stops at
// notification.MaxNotificationCount.
//
// A watermark of the feed dismisses the notifications below the reader's watermark. In a personal range it
// would also dismiss notifications of other users, so there each row is updated. Each row is also updated for
// the notifications that the reader has read one by one.
func DismissRead(
	ctx context.Context, tx *postgres.Tx, reader notification.Reader, list []notification.FeedRange, before, now time.Time,
) (updated int64, err error) {
	const isRead = ` and n.id < @before and (
		n.id < r.read_before
		or exists (
			select from notification_reads x
			where x.user_id = @user and x.mode = n.mode and x.category = n.category and x.day = n.day and x.notification_id = n.id
		)
	)`
	count := countIn(visible + isRead)
	const dismissPersonal = `
		with ` + ranges + `
		update notifications n set dismissed_at = @now
		from ranges r
		where r.personal and n.user_id = @user and n.id < r.read_before and n.id < @before
			and n.feed_id = @feed and n.mode = r.mode and n.category = r.category and n.dismissed_at is null`
	const dismissSingle = `
		with ` + ranges + `
		update notifications n set dismissed_at = @now
		from ranges r, notification_reads x
		where x.user_id = @user and x.mode = r.mode and x.category = r.category
			and n.feed_id = @feed and n.mode = x.mode and n.category = x.category and n.day = x.day and n.id = x.notification_id
			and n.id < @before and n.dismissed_at is null and (not r.personal or n.user_id = @user)`
	const raise = `
		with ` + ranges + `
		insert into notification_dismissals as d (feed_id, mode, category, dismissed_day, dismissed_before, dismissed_at, purge_at)
		select @feed, r.mode, r.category, least(r.read_day, @before_day), least(r.read_before, @before), @now, @purge_at
		from ranges r where not r.personal and r.read_at is not null
		on conflict (feed_id, mode, category) do update
		set dismissed_day = excluded.dismissed_day, dismissed_before = excluded.dismissed_before, dismissed_at = excluded.dismissed_at,
			purge_at = coalesce(d.purge_at, excluded.purge_at)
		where d.dismissed_before < excluded.dismissed_before`
	args := withBefore(arguments(reader, list, now), before, now)
	args["purge_at"] = now.Add(notification.DismissedNotificationLife)
	batch := newBatch()
	batch.Queue(count, args).QueryRow(func(row pgx.Row) error { return row.Scan(&updated) })
	for _, statement := range []string{dismissPersonal, dismissSingle, raise} {
		batch.Queue(statement, args)
	}
	err = tx.SendBatch(ctx, batch).Close()
	return updated, err
}

// Choices returns the stored preferences of a user. A category is missing if the user has not chosen.
func Choices(ctx context.Context, db postgres.Queryer, user affiliate.UserID) (notification.CategoryChoices, error) {
	const query = `select category, email, in_app from notification_preferences where user_id = $1`
	rows, _ := db.Query(ctx, query, user) // ForEachRow returns the error
	all := notification.CategoryChoices{}
	var category notification.Category
	var choice notification.CategoryChoice
	_, err := pgx.ForEachRow(rows, []any{&category, &choice.Email, &choice.InApp}, func() error {
		all[category] = choice
		choice = notification.CategoryChoice{}
		return nil
	})
	return all, err
}

// StoreChoices stores preferences of a user. A field that is nil does not change.
func StoreChoices(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, chosen notification.CategoryChoices) error {
	const upsert = `
		insert into notification_preferences as p (user_id, category, email, in_app)
		values (@user, @category, @email, @in_app)
		on conflict (user_id, category) do update
		set email = coalesce(excluded.email, p.email), in_app = coalesce(excluded.in_app, p.in_app)`
	batch := &pgx.Batch{}
	for category, choice := range chosen {
		batch.Queue(upsert, pgx.NamedArgs{"user": user, "category": category, "email": choice.Email, "in_app": choice.InApp})
	}
	return tx.SendBatch(ctx, batch).Close()
}

// Address returns the e-mail address of a user. Errors: NOT_FOUND.
func Address(ctx context.Context, db *postgres.DB, user affiliate.UserID) (string, error) {
	const query = `select email from users where id = $1 and erased_at is null`
	row, err := postgres.OneRow[struct{ Email string }](db.Query(ctx, query, user))
	return row.Email, err
}
