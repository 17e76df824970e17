package notification

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

const deleteDismissed = `
	with old as (
		select feed_id, mode, category, day, id from notifications where dismissed_at < @before limit @limit
	)
	delete from notifications n using old
	where n.feed_id = old.feed_id and n.mode = old.mode and n.category = old.category and n.day = old.day and n.id = old.id`

// DeleteDismissed deletes notifications that were dismissed one by one before the given
// time, at most limit of them. It returns their number.
func (s *Store) DeleteDismissed(ctx context.Context, before time.Time, limit int) (int64, error) {
	tag, err := s.db.Pool().Exec(ctx, deleteDismissed, pgx.NamedArgs{"before": before, "limit": limit})
	return tag.RowsAffected(), err
}

// purgeDismissed selects one watermark of dismissed notifications that is due and deletes
// notifications below it, at most @limit of them. If there are no more, it schedules the
// deletion of the notifications below the current watermark, if this was raised in the
// meantime. It returns no row if no watermark is due.
const purgeDismissed = `
	with due as (
		select feed_id, mode, category, purge_day, purge_before, dismissed_day, dismissed_before, dismissed_before > purge_before as raised
		from notification_dismissals
		where purge_at <= @now order by purge_at limit 1 for update skip locked
	), gone as (
		delete from notifications n
		using due d cross join lateral (
			select o.day, o.id from notifications o
			where o.feed_id = d.feed_id and o.mode = d.mode and o.category = d.category and o.day <= d.purge_day and o.id < d.purge_before
			order by o.day, o.id limit @limit
		) o
		where n.feed_id = d.feed_id and n.mode = d.mode and n.category = d.category and n.day = o.day and n.id = o.id
		returning n.id
	), counted as (
		select count(*) as deleted from gone
	), scheduled as (
		update notification_dismissals w
		set purge_day = case when raised then d.dismissed_day end, purge_before = case when raised then d.dismissed_before end,
			purge_at = case when raised then @next::timestamptz end
		from counted, due d
		where deleted < @limit and w.feed_id = d.feed_id and w.mode = d.mode and w.category = d.category
	)
	select deleted from counted, due`

// PurgeDismissed deletes notifications that were dismissed together, by a watermark, at
// least affiliate.DismissedNotificationLife before now. It deletes at most limit of them
// and returns their number.
func (s *Store) PurgeDismissed(ctx context.Context, now time.Time, limit int) (total int64, err error) {
	for total < int64(limit) {
		rows, err := s.db.Pool().Query(ctx, purgeDismissed, pgx.NamedArgs{
			"now": now, "next": now.Add(affiliate.DismissedNotificationLife), "limit": int64(limit) - total,
		})
		if err != nil {
			return total, err
		}
		deleted, err := pgx.CollectRows(rows, pgx.RowTo[int64])
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
func (s *Store) DeleteOldReads(ctx context.Context, before time.Time, limit int) (int64, error) {
	tag, err := s.db.Pool().Exec(ctx, deleteOldReads, pgx.NamedArgs{"day": before.UTC().Truncate(24 * time.Hour), "limit": limit})
	return tag.RowsAffected(), err
}

const deleteOldAnnouncements = `
	delete from announcements where ctid = any (array(select ctid from announcements where id < @first order by id limit @limit))`

// DeleteOldAnnouncements deletes announcements that were created before the day of the
// given time, at most limit of them. It returns their number.
func (s *Store) DeleteOldAnnouncements(ctx context.Context, before time.Time, limit int) (int64, error) {
	first := affiliate.FirstID[affiliate.Announcement](before.UTC().Truncate(24 * time.Hour))
	tag, err := s.db.Pool().Exec(ctx, deleteOldAnnouncements, pgx.NamedArgs{"first": first, "limit": limit})
	return tag.RowsAffected(), err
}
