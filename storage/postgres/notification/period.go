package notification

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
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
	rows, err := db.Query(ctx, workspacesWithout, pgx.NamedArgs{
		"after": after, "mode": notification.NotificationsBothModes, "type": notification.NotifyWeeklySummary, "period": period, "limit": limit,
	})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[notification.WorkspaceZone])
}

// partnersWithout reads partners in the order of their ids who take part in a live
// programme. It skips those who have got a notification of the type for the period. Its
// cost grows with the number of users.
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

// PartnersWithout returns at most limit partners after an id, in the order of their ids,
// who have not got a notification of a type for a period. They take part in a programme
// in live mode.
func PartnersWithout(
	ctx context.Context, db *postgres.DB, mode affiliate.Mode, kind notification.Type, period time.Time, after affiliate.UserID, limit int,
) ([]affiliate.UserID, error) {
	rows, err := db.Query(ctx, partnersWithout, pgx.NamedArgs{
		"after": after, "mode": mode, "type": kind, "period": period, "limit": limit,
	})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[affiliate.UserID])
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
			where p.workspace_id = @workspace and p.mode = 'live') as applications`

// WeekCounts returns the numbers of conversions and of new participants of a workspace in
// a period, in live mode.
func WeekCounts(ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, week affiliate.Period) (conversions, applications int64, err error) {
	args := pgx.NamedArgs{"workspace": workspace, "from": *week.From, "before": *week.Before}
	err = db.QueryRow(ctx, countWeek, args).Scan(&conversions, &applications)
	return conversions, applications, err
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

// PartnerMonth returns what a partner has earned in a period, in live mode.
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

// owedWithoutMethod adds up the positive balances of a partner who has no payout method.
const owedWithoutMethod = `
	select b.currency, sum(b.balance_cents)::bigint
	from participants t
	join ledger_balances b on b.workspace_id = t.workspace_id and b.participant_id = t.id
	where t.partner_id = @partner and t.mode = 'live' and not exists (select from payout_methods m where m.user_id = t.partner_id)
	group by b.currency
	having sum(b.balance_cents) > 0`

// OwedWithoutMethod returns the amounts by currency that are owed to a partner in live
// mode. There are none if the partner has a payout method.
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

// ClaimPeriod stores that a feed has got the notification of a type for a period. claimed
// is false if another call has stored it.
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
