package notification

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const deleteDismissed = `
	with old as (
		select feed_id, mode, category, day, id from notifications where dismissed_at < @before limit @limit
	)
	delete from notifications n using old
	where n.feed_id = old.feed_id and n.mode = old.mode and n.category = old.category and n.day = old.day and n.id = old.id`

// DeleteDismissed deletes notifications that were dismissed one by one before the given
// time, at most limit of them. It returns their number.
func DeleteDismissed(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	return postgres.ExecCount(ctx, db, deleteDismissed, pgx.NamedArgs{"before": before, "limit": limit})
}

// purgeDismissed selects one watermark of dismissed notifications that is due and deletes
// notifications below it, at most @limit of them. If no notification is left below the watermark,
// it is not due until it is raised again. The statement returns no row if no watermark is due.
const purgeDismissed = `
	with due as (
		select feed_id, mode, category, dismissed_day, dismissed_before
		from notification_dismissals
		where purge_at <= @now order by purge_at limit 1 for update skip locked
	), gone as (
		delete from notifications n
		using due d cross join lateral (
			select o.day, o.id from notifications o
			where o.feed_id = d.feed_id and o.mode = d.mode and o.category = d.category and o.day <= d.dismissed_day and o.id < d.dismissed_before
			order by o.day, o.id limit @limit
		) o
		where n.feed_id = d.feed_id and n.mode = d.mode and n.category = d.category and n.day = o.day and n.id = o.id
		returning n.id
	), counted as (
		select count(*) as deleted from gone
	), finished as (
		update notification_dismissals w set purge_at = null
		from counted, due d
		where deleted < @limit and w.feed_id = d.feed_id and w.mode = d.mode and w.category = d.category
	)
	select deleted from counted, due`

// PurgeDismissed deletes notifications that were dismissed together, by a watermark. It
// deletes them notification.DismissedNotificationLife after the watermark was raised for the
// first time since the last deletion. Notifications that were dismissed later are deleted
// with them, so none is kept longer. PurgeDismissed deletes at most limit notifications
// and returns their number.
func PurgeDismissed(ctx context.Context, db *postgres.DB, now time.Time, limit int) (total int64, err error) {
	for total < int64(limit) {
		args := pgx.NamedArgs{"now": now, "limit": int64(limit) - total}
		deleted, err := postgres.Values[int64](ctx, db, purgeDismissed, args)
		if err != nil || len(deleted) == 0 {
			return total, err
		}
		total += deleted[0]
	}
	return total, nil
}

const deleteOldReads = `
	delete from notification_reads where ctid = any (array(select ctid from notification_reads where day < @day order by day limit @limit))`

// DeleteOldReads deletes the read state of notifications that were created before the day
// of the given time, at most limit rows. It returns their number.
func DeleteOldReads(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	return postgres.ExecCount(ctx, db, deleteOldReads, pgx.NamedArgs{"day": before.UTC().Truncate(24 * time.Hour), "limit": limit})
}

const deleteOldAnnouncements = `
	delete from announcements where ctid = any (array(select ctid from announcements where id < @first order by id limit @limit))`

// DeleteOldAnnouncements deletes announcements that were created before the day of the
// given time, at most limit of them. It returns their number.
func DeleteOldAnnouncements(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	first := affiliate.FirstID[notification.AnnouncementID](before.UTC().Truncate(24 * time.Hour))
	return postgres.ExecCount(ctx, db, deleteOldAnnouncements, pgx.NamedArgs{"first": first, "limit": limit})
}

const deleteExpiredTickets = `
	delete from notification_stream_tickets
	where ctid = any (array(select ctid from notification_stream_tickets where expires_at < @before order by expires_at limit @limit))`

// DeleteExpiredTickets deletes tickets for streams that expired before the given time, at
// most limit of them. It returns their number.
func DeleteExpiredTickets(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	return postgres.ExecCount(ctx, db, deleteExpiredTickets, pgx.NamedArgs{"before": before, "limit": limit})
}

const deleteLostStreams = `
	delete from notification_streams
	where ctid = any (array(select ctid from notification_streams where seen_at < @before order by seen_at limit @limit)) and seen_at < @before`

// DeleteLostStreams deletes streams that were last seen before the given time: the process
// that served them has crashed. It deletes at most limit of them and returns their number.
func DeleteLostStreams(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	return postgres.ExecCount(ctx, db, deleteLostStreams, pgx.NamedArgs{"before": before, "limit": limit})
}

// oldPositions selects the @limit oldest positions, and of them the highest sequence number in each feed.
const oldPositions = `
	select feed_id, max(seq)
	from (select feed_id, seq from notification_positions where created_at < @before order by created_at limit @limit) old
	group by feed_id`

const lockFeeds = `select from notification_feeds where feed_id = any(@feeds) order by feed_id for update`

const deleteOldPositions = `
	with old as (select * from unnest(@feeds::uuid[], @last::bigint[]) as o (feed_id, seq)), limited as (
		update notification_feeds f set replay_after = greatest(f.replay_after, o.seq) from old o where f.feed_id = o.feed_id
	)
	delete from notification_positions p using old o where p.feed_id = o.feed_id and p.seq <= o.seq`

// DeleteOldPositions deletes positions that were created before the given time, at most
// about limit of them. Streams cannot replay them any more. It returns their number.
func DeleteOldPositions(ctx context.Context, db *postgres.DB, before time.Time, limit int) (deleted int64, err error) {
	err = db.InTx(ctx, func(tx *postgres.Tx) error {
		rows, err := tx.Query(ctx, oldPositions, pgx.NamedArgs{"before": before, "limit": limit})
		if err != nil {
			return err
		}
		var feeds []notification.FeedID
		var last []int64
		var feed notification.FeedID
		var seq int64
		if _, err := pgx.ForEachRow(rows, []any{&feed, &seq}, func() error {
			feeds, last = append(feeds, feed), append(last, seq)
			return nil
		}); err != nil {
			return err
		}
		args := pgx.NamedArgs{"feeds": feeds, "last": last}
		// AssignSequence also locks feeds before positions, and feeds in the same order.
		if _, err := tx.Exec(ctx, lockFeeds, args); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, deleteOldPositions, args)
		deleted = tag.RowsAffected()
		return err
	})
	return deleted, err
}

const deleteOldFeeds = `
	with old as (
		select feed_id from notification_feeds where streamed_until < @before order by streamed_until limit @limit for update skip locked
	)
	delete from notification_feeds f using old o where f.feed_id = o.feed_id`

// DeleteOldFeeds deletes feeds that are not streamed since the given time, at most limit
// of them. The time must be so early that DeleteOldPositions has deleted their positions.
// It returns their number.
func DeleteOldFeeds(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	return postgres.ExecCount(ctx, db, deleteOldFeeds, pgx.NamedArgs{"before": before, "limit": limit})
}
