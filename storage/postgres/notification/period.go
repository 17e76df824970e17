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

// workspacesWithout reads workspaces in the order of their ids. It skips those that have
// the summary of the period already. Its cost grows with the number of workspaces.
const workspacesWithout = `
	select w.id, w.timezone
	from workspaces w
	where w.id > @after and not exists (
		select from notification_periods p
		where p.feed_id = w.id and p.mode = @mode and p.type = @type and p.period >= @period)
	order by w.id
	limit @limit`

// WorkspacesWithoutSummary returns at most limit workspaces after an id, in the order of
// their ids, that have not got the weekly summary of a period.
func WorkspacesWithoutSummary(
	ctx context.Context, db *postgres.DB, period time.Time, after affiliate.WorkspaceID, limit int,
) ([]notification.WorkspaceZone, error) {
	return postgres.List[notification.WorkspaceZone](ctx, db, workspacesWithout, pgx.NamedArgs{
		"after": after, "mode": notification.NotificationsBothModes, "type": notification.NotifyWeeklySummary, "period": period, "limit": limit,
	})
}

// partnersWithout reads partners who are in a programme in live mode, in the order of their ids.
// It skips partners who have got a notification of the type for the period. Its cost grows with
// the number of users.
const partnersWithout = `
	select u.id
	from users u
	where u.id > @after and u.kind = 'partner' and u.erased_at is null
		and exists (select from participants t where t.partner_id = u.id and t.mode = 'live')
		and not exists (
			select from notification_periods p
			where p.feed_id = u.id and p.mode = @mode and p.type = @type and p.period >= @period)
	order by u.id
	limit @limit`

// PartnersWithout returns partners who are in a programme in live mode and have not got a
// notification of a type for a period. It returns the next partners after the given id, in the
// order of their ids, at most limit.
func PartnersWithout(
	ctx context.Context, db *postgres.DB, mode affiliate.Mode, kind notification.Type, period time.Time, after affiliate.UserID, limit int,
) ([]affiliate.UserID, error) {
	return postgres.Values[affiliate.UserID](ctx, db, partnersWithout, pgx.NamedArgs{
		"after": after, "mode": mode, "type": kind, "period": period, "limit": limit,
	})
}

// countWeek counts the conversions and the new participants of a workspace in a period.
// It reads only the entries of indexes that belong to the period.
const countWeek = `
	select
		(select count(*) from conversions
			where workspace_id = @workspace and mode = 'live' and created_at >= @from and created_at < @before) as conversions,
		(select coalesce(sum(t.n), 0)::bigint from programs p cross join lateral (
			select count(*) as n from participants
			where workspace_id = p.workspace_id and program_id = p.id and created_at >= @from and created_at < @before) t
			where p.workspace_id = @workspace and p.mode = 'live') as new_participants`

// WeekCounts returns the numbers of conversions and of new participants of a workspace in
// a period, in live mode.
func WeekCounts(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, week affiliate.Period) (conversions, newParticipants int64, err error) {
	args := pgx.NamedArgs{"workspace": workspace, "from": *week.From, "before": *week.Before}
	err = db.QueryRow(ctx, countWeek, args).Scan(&conversions, &newParticipants)
	return conversions, newParticipants, err
}

// sumMonth adds up the commissions and the payouts of a partner in a period. It reads the
// commissions of the period and all payouts of the partner.
const sumMonth = `
	select currency, count(*) filter (where commission) as commissions, count(*) filter (where not commission) as payouts,
		coalesce(sum(amount_cents) filter (where commission), 0)::bigint as earned_cents,
		coalesce(sum(amount_cents) filter (where not commission), 0)::bigint as paid_cents
	from (
		select currency, amount_cents, true as commission from commissions
		where partner_id = @partner and mode = 'live' and created_at >= @from and created_at < @before
			and status not in ('rejected', 'refunded')
		union all
		select currency, amount_cents, false from payouts
		where partner_id = @partner and mode = 'live' and status = 'paid' and paid_at >= @from and paid_at < @before) sums
	group by currency`

// PartnerMonth sums a partner's new commissions (not rejected or refunded) and paid payouts of a month in live mode.
func PartnerMonth(ctx context.Context, db *postgres.DB, partner affiliate.UserID, month affiliate.Period) (notification.PartnerSummary, error) {
	summary := notification.PartnerSummary{Earned: map[string]int64{}, Paid: map[string]int64{}}
	rows, err := db.Query(ctx, sumMonth, pgx.NamedArgs{"partner": partner, "from": *month.From, "before": *month.Before})
	if err != nil {
		return summary, err
	}
	var currency string
	var commissions, payouts, earned, paid int64
	_, err = pgx.ForEachRow(rows, []any{&currency, &commissions, &payouts, &earned, &paid}, func() error {
		summary.Commissions += commissions
		summary.Payouts += payouts
		summary.Earned[currency], summary.Paid[currency] = earned, paid
		return nil
	})
	return summary, err
}

const owedWithoutMethod = `
	select b.currency, sum(b.balance_cents)::bigint
	from participants t
	join ledger_balances b on b.workspace_id = t.workspace_id and b.participant_id = t.id
	where t.partner_id = @partner and t.mode = 'live' and not exists (select from payout_methods m where m.user_id = t.partner_id)
	group by b.currency
	having sum(b.balance_cents) > 0`

// OwedWithoutMethod returns the positive balances of a partner in live mode, by currency. It
// returns none if the partner has a payout method.
func OwedWithoutMethod(ctx context.Context, db *postgres.DB, partner affiliate.UserID) (map[string]int64, error) {
	rows, err := db.Query(ctx, owedWithoutMethod, pgx.NamedArgs{"partner": partner})
	if err != nil {
		return nil, err
	}
	owed := map[string]int64{}
	var currency string
	var cents int64
	_, err = pgx.ForEachRow(rows, []any{&currency, &cents}, func() error {
		owed[currency] = cents
		return nil
	})
	return owed, err
}

// ClaimPeriod stores that a feed has got the notification of a type for a period. claimed is
// false if this or a later period is already stored.
func ClaimPeriod(
	ctx context.Context, tx *postgres.Tx, feed notification.FeedID, mode affiliate.Mode, kind notification.Type, period time.Time,
) (claimed bool, err error) {
	const claim = `
		insert into notification_periods as p (feed_id, mode, type, period)
		values ($1, $2, $3, $4)
		on conflict (feed_id, mode, type) do update set period = excluded.period where p.period < excluded.period`
	tag, err := tx.Exec(ctx, claim, feed, mode, kind, period)
	return tag.RowsAffected() > 0, err
}

// LockProgram returns the status of a programme and locks the programme, so that its
// announcements are counted and made one after another. Errors: NOT_FOUND.
func LockProgram(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.ProgramID) (program.Status, error) {
	const query = `
		select status from programs where workspace_id = @workspace and id = @id and mode = @mode for no key update`
	row, err := postgres.OneRow[struct{ Status program.Status }](
		tx.Query(ctx, query, pgx.NamedArgs{"workspace": scope.Workspace, "id": id, "mode": scope.Mode}))
	return row.Status, err
}

// RecentAnnouncements counts the announcements of a programme since the given time. It also
// returns the time of the first of them. If there is none, it returns the given time.
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

// announceBlock is the largest number of feeds in one row of notification_arrivals. A distributor
// takes whole rows.
const announceBlock = 200

const storeAnnouncement = `
	insert into announcements (id, workspace_id, program_id, mode, title, body, created_by, created_at)
	values (@id, @workspace, @program, @mode, @title, @body, @by, @at)`

// notifyEach returns the statement that inserts a notification about an announcement for each
// row of a query. The rows of notification_arrivals get UUIDv7 ids, so that they are distributed
// in the order of their time. The query returns the columns feed_id, workspace_id and
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
			select (lpad(to_hex(@millis::bigint), 12, '0') || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid,
				array_agg(feed_id), array_agg(@stored_mode::text), array_agg(@type::text), array_agg(@notification::uuid),
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
// programme. It returns the number of these participants. One statement reads the participants
// and inserts the notifications.
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
