// Package notification has the SQL for the notification feeds, the read state and the
// preferences of users.
//
// Package postgres inserts notifications, in the transaction of their cause. This package
// reads and changes them. It guarantees that a list, a count and a change of a whole
// category cost the same, however many notifications a feed contains: they read at most a
// page, or notification.MaxNotificationCount rows of each category.
//
// The time of a notification is the time in its id. A transaction that was still running
// when a user marked all notifications as read may add a notification with an earlier
// time, which then counts as read.
package notification

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// ranges are the parts of a feed that a statement reads, one row for each category, with
// the watermarks of the user and of the feed. Every range is one range of the primary
// key, from the newest notification to the watermark.
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

// visible are the conditions for notifications n of a range r that are not dismissed. The
// conditions on the day let Postgres skip partitions.
const visible = `
	n.feed_id = @feed and n.mode = r.mode and n.category = r.category
	and n.day >= @oldest and n.day >= r.dismissed_day and n.id >= r.dismissed_before
	and n.dismissed_at is null and (not r.personal or n.user_id = @user)`

// unread are the conditions for notifications that the user has not read.
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

// entryColumns selects a notification n with the names in its text, in a statement with
// nameJoins. The name of a partner is the participant's copy. Only members of the workspace and
// the reader have a name as users, because a workspace must not learn the current name of a
// person who has left it.
const entryColumns = `
	n.id, n.feed_id, n.mode, n.type, n.workspace_id, n.user_id, n.program_id, n.participant_id, n.resource_id, n.facts,
	n.read_at, n.dismissed_at, a.title as announced_title, a.body as announced_text, coalesce(p.name, '') as program_name, coalesce(t.partner_name, '') as partner_name,
	coalesce((
		select s.name from users s
		where s.id = n.user_id and s.erased_at is null
			and (s.id = @user or exists (select from members m where m.workspace_id = n.workspace_id and m.user_id = s.id))
	), '') as user_name`

const nameJoins = `
	left join programs p on p.workspace_id = n.workspace_id and p.id = n.program_id
	left join participants t on t.workspace_id = n.workspace_id and t.id = n.participant_id and t.erased_at is null
	left join announcements a on a.id = n.resource_id`

type entryRow struct {
	ID            notification.ID
	FeedID        notification.FeedID
	Mode          affiliate.Mode
	Type          notification.Type
	WorkspaceID   *affiliate.WorkspaceID
	UserID        *affiliate.UserID
	ProgramID     *affiliate.ProgramID
	ParticipantID *affiliate.ParticipantID
	ResourceID    *uuid.UUID
	Facts         map[string]string
	ReadAt        *time.Time
	DismissedAt   *time.Time
	// AnnouncedTitle and AnnouncedText are set if the notification is an announcement.
	AnnouncedTitle *string
	AnnouncedText  *string
	ProgramName    string
	PartnerName    string
	UserName       string
}

func (r entryRow) entry() notification.Entry {
	n := notification.Notification{
		ID: r.ID, Feed: r.FeedID, Audience: affiliate.Partner, Type: r.Type, Workspace: r.WorkspaceID, User: r.UserID,
		Program: r.ProgramID, Participant: r.ParticipantID, Resource: r.ResourceID, Facts: r.Facts,
	}
	if r.WorkspaceID != nil && notification.WorkspaceFeed(*r.WorkspaceID) == r.FeedID {
		n.Audience = affiliate.Merchant
	}
	if r.Mode != notification.NotificationsBothModes {
		n.Mode = &r.Mode
	}
	if r.AnnouncedTitle != nil {
		n.Facts = map[string]string{"title": *r.AnnouncedTitle, "text": *r.AnnouncedText}
	}
	return notification.Entry{
		Notification: n, ReadAt: r.ReadAt, DismissedAt: r.DismissedAt,
		Names: notification.Names{Program: r.ProgramName, Partner: r.PartnerName, User: r.UserName},
	}
}

// arguments returns the arguments that all statements on a feed have. now determines
// which notifications are too old to be shown.
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
// statistics do not say how many notifications the feed has in a category. With an average
// number, Postgres would read whole weeks.
const rangePlan = `
	select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`

// newBatch returns a batch whose statements run with rangePlan. The batch must not
// contain the start of a transaction, so that its statements are one transaction.
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
	batch.Queue(listStatement(filter.UnreadOnly), args).Query(func(rows pgx.Rows) error {
		entries, err = postgres.AllRows(rows, rows.Err(), entryRow.entry)
		return err
	})
	batch.Queue(countStatement(filter.UnreadOnly), args).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	err = db.SendBatch(ctx, batch).Close()
	return entries, total, err
}

func listStatement(unreadOnly bool) string {
	conditions := visible
	if unreadOnly {
		conditions += unread
	}
	return `
		with ` + ranges + `, n as (
			select n.*,
				` + readAt + ` as read_at
			from ranges r cross join lateral (
				select * from notifications n where ` + conditions + `
				order by n.day desc, n.id desc limit @reach
			) n
			order by n.day desc, n.id desc limit @limit offset @offset
		)
		select ` + entryColumns + ` from n ` + nameJoins + ` order by n.day desc, n.id desc`
}

func countStatement(unreadOnly bool) string {
	conditions := visible
	if unreadOnly {
		conditions += unread
	}
	return countIn(conditions)
}

// countIn returns a statement that counts the notifications that fulfill conditions. The
// limit in the subquery keeps the subquery separate: without it, Postgres may read the
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
