package notification

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// LockProgram returns the status of a programme and locks the programme, so that its
// announcements are counted and made one after another. Errors: NOT_FOUND.
func LockProgram(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ProgramID) (program.Status, error) {
	const query = `
		select status from programs where workspace_id = @workspace and id = @id and mode = @mode for no key update`
	rows, err := tx.Query(ctx, query, pgx.NamedArgs{"workspace": scope.Workspace, "id": id, "mode": scope.Mode})
	row, err := postgres.OneRow[struct{ Status program.Status }](rows, err)
	return row.Status, err
}

// RecentAnnouncements counts the announcements of a programme since the given time. It
// also returns the time of the first of them.
func RecentAnnouncements(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, since time.Time,
) (count int, first time.Time, err error) {
	const query = `
		select count(*), coalesce(min(created_at), @since) from announcements
		where workspace_id = @workspace and program_id = @program and mode = @mode and created_at > @since`
	err = tx.QueryRow(ctx, query, pgx.NamedArgs{
		"workspace": scope.Workspace, "program": program, "mode": scope.Mode, "since": since,
	}).Scan(&count, &first)
	return count, first.UTC(), err
}

// announceBlock is the number of feeds in one row of notification_arrivals. A distributor
// takes whole rows.
const announceBlock = 200

const storeAnnouncement = `
	insert into announcements (id, workspace_id, program_id, mode, title, body, created_by, created_at)
	values (@id, @workspace, @program, @mode, @title, @body, @by, @at)`

// notifyEach returns the statement that inserts a notification about an announcement for
// each row of a query. The ids of its arrivals are UUIDv7, so that they are distributed in
// the order of their time. The query returns the columns feed_id, workspace_id and
// participant_id. The statement returns the number of rows.
func notifyEach(query string) string {
	return `
		with stored as (
			insert into notifications (feed_id, mode, category, day, id, type, workspace_id, program_id, participant_id, resource_id, facts)
			select feed_id, @stored_mode, @category, @day, @notification, @type, workspace_id, @program, participant_id, @id, '{}'
			from (` + query + `) recipients
			returning feed_id, workspace_id
		), arrived as (
			insert into notification_arrivals (id, feed_ids, modes, types, ids, workspace_ids, user_ids)
			select (lpad(to_hex(@millis::bigint), 12, '0') || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid, array_agg(feed_id), array_agg(@stored_mode::text), array_agg(@type::text), array_agg(@notification::uuid),
				array_agg(workspace_id), array_agg(null::uuid)
			from (select *, row_number() over () / @block::bigint as block from stored) s
			group by block
		)
		select count(*) from stored`
}

var (
	notifyParticipants = notifyEach(`
		select p.partner_id as feed_id, p.workspace_id, p.id as participant_id
		from participants p
		where p.workspace_id = @workspace and p.program_id = @program and p.mode = @mode and p.status = 'approved' and p.erased_at is null`)
	notifyWorkspaces = notifyEach(`select id as feed_id, id as workspace_id, null::uuid as participant_id from workspaces`)
)

// Announce stores an announcement and a notification for each approved participant of its
// programme. It returns the number of these participants. The notifications are inserted
// by one statement that reads the participants of the programme with this status.
func Announce(ctx context.Context, tx *postgres.Tx, a notification.Announcement) (recipients int64, err error) {
	n := notification.NewNotification(affiliate.Partner, notification.FeedID{}, notification.NotifyProgramAnnouncement, &a.Scope.Mode, a.CreatedAt)
	return announce(ctx, tx, notifyParticipants, n, a, pgx.NamedArgs{
		"workspace": a.Scope.Workspace, "program": a.Program, "mode": a.Scope.Mode, "by": a.CreatedBy,
	})
}

// AnnounceProduct stores an announcement of the operator and a notification for each
// workspace. It returns the number of workspaces.
func AnnounceProduct(ctx context.Context, tx *postgres.Tx, a notification.Announcement) (recipients int64, err error) {
	n := notification.NewNotification(affiliate.Merchant, notification.FeedID{}, notification.NotifyProductAnnouncement, nil, a.CreatedAt)
	return announce(ctx, tx, notifyWorkspaces, n, a, pgx.NamedArgs{"workspace": nil, "program": nil, "mode": nil, "by": nil})
}

// announce stores an announcement and its notifications. n has the values that all
// notifications share.
func announce(ctx context.Context, tx *postgres.Tx, notify string, n notification.Notification, a notification.Announcement, args pgx.NamedArgs) (recipients int64, err error) {
	maps.Copy(args, pgx.NamedArgs{
		"id": a.ID, "title": a.Title, "body": a.Body, "at": a.CreatedAt, "stored_mode": n.StoredMode(), "category": n.Rule().Category,
		"day": dayOf(n.ID), "notification": n.ID, "type": n.Type, "block": announceBlock, "millis": a.CreatedAt.UnixMilli(),
	})
	batch := &pgx.Batch{}
	batch.Queue(storeAnnouncement, args)
	batch.Queue(notify, args).QueryRow(func(row pgx.Row) error { return row.Scan(&recipients) })
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return 0, err
	}
	postgres.Notified(tx)
	return recipients, nil
}
