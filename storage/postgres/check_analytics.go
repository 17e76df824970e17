package postgres

// The checks of the analytics skip conversions and days that have entries in the log, because the
// sums do not contain these entries yet.

// sampledDays are the days whose clicks are compared: yesterday, and another day of the last
// 60 days, which is a different day each night.
const sampledDays = `
	select (now() at time zone 'UTC')::date - back as day
	from (values (1), (2 + ((now() at time zone 'UTC')::date - date '2026-01-01') % 59)) as d (back)`

// checkAnalyticsClicks compares the clicks of sampled days. The time in the id of a click differs
// by some minutes from the time of its receipt, so the clicks of a day are in few partitions.
const checkAnalyticsClicks = `
	with days as (` + sampledDays + `),
	raw as (
		select c.workspace_id, c.mode, c.participant_id, d.day, count(*) filter (where not c.is_bot) as clicks,
			count(*) filter (where c.is_unique and not c.is_bot) as unique_clicks, count(*) filter (where c.is_bot) as bot_clicks
		from days d
		join clicks c on c.clicked_at >= d.day - interval '1 hour' and c.clicked_at < d.day + interval '25 hours'
			and c.received_at >= d.day::timestamp at time zone 'UTC' and c.received_at < (d.day + 1)::timestamp at time zone 'UTC'
		group by 1, 2, 3, 4
	), summed as (
		select s.workspace_id, s.mode, s.participant_id, s.day,
			coalesce(sum(s.clicks), 0) as clicks, coalesce(sum(s.unique_clicks), 0) as unique_clicks, coalesce(sum(s.bot_clicks), 0) as bot_clicks
		from analytics_days s
		where s.day in (select day from days) and s.dimension = '' and s.currency = ''
			and s.participant_id <> '00000000-0000-0000-0000-000000000000'
		group by 1, 2, 3, 4
		having coalesce(sum(s.clicks), 0) <> 0 or coalesce(sum(s.bot_clicks), 0) <> 0
	)
	select case when (coalesce(r.clicks, 0), coalesce(r.unique_clicks, 0), coalesce(r.bot_clicks, 0))
			<> (coalesce(s.clicks, 0), coalesce(s.unique_clicks, 0), coalesce(s.bot_clicks, 0)) then format(
			'workspace %s, %s: participant %s, %s: the analytics have %s clicks (%s unique) and %s of bots, expected %s (%s) and %s',
			t.workspace_id, t.mode, t.participant_id, t.day, coalesce(s.clicks, 0), coalesce(s.unique_clicks, 0), coalesce(s.bot_clicks, 0),
			coalesce(r.clicks, 0), coalesce(r.unique_clicks, 0), coalesce(r.bot_clicks, 0))
		end as line
	from raw r
	full join summed s using (workspace_id, mode, participant_id, day)
	cross join lateral (select workspace_id, mode, participant_id, day) as t
	where not exists (
		select from analytics_log l
		where l.workspace_id = t.workspace_id and l.mode = t.mode and l.oldest_click < (t.day + 1)::timestamp at time zone 'UTC')`

// checkAnalyticsConversions compares every conversion with its counted form.
const checkAnalyticsConversions = `
	select case when a.conversion_id is null then format(
			'workspace %s, %s: the analytics do not contain the conversion %s', t.workspace_id, t.mode, c.id)
		when c.id is null then format('workspace %s, %s: the analytics contain the conversion %s, which does not exist', t.workspace_id, t.mode, a.conversion_id)
		when (a.program_id, a.participant_id, a.amount_cents, a.refunded_cents, a.commission_status, a.commission_cents, coalesce(a.customer_ref, ''))
			<> (case when c.attributed then coalesce(c.program_id, n.id) else n.id end, case when c.attributed then coalesce(c.participant_id, n.id) else n.id end,
				c.amount_cents, c.refunded_amount_cents, coalesce(m.status, ''), coalesce(m.amount_cents, 0),
				case when c.attributed then coalesce(c.customer_ref, '') else '' end) then format(
			'workspace %s, %s: the analytics contain an earlier state of the conversion %s', t.workspace_id, t.mode, c.id)
		end as line
	from conversions c
	left join commissions m on m.workspace_id = c.workspace_id and m.mode = c.mode and m.decision_id = c.decision_id
	full join analytics_conversions a on a.workspace_id = c.workspace_id and a.mode = c.mode and a.conversion_id = c.id
	cross join lateral (select coalesce(c.workspace_id, a.workspace_id) as workspace_id, coalesce(c.mode, a.mode) as mode) as t
	cross join (select '00000000-0000-0000-0000-000000000000'::uuid as id) as n
	left join (select distinct unnest(conversions) as id from analytics_log) as waiting on waiting.id = coalesce(c.id, a.conversion_id)
	where waiting.id is null`

// checkAnalyticsSums compares the sums of conversions of programmes with the counted conversions.
const checkAnalyticsSums = `
	with counted as (
		select workspace_id, mode, program_id, (occurred_at at time zone 'UTC')::date as day, count(*) as conversions,
			sum(case when event_type in ('purchase', 'renewal') then amount_cents else 0 end) as revenue,
			sum(case when event_type in ('purchase', 'renewal') then refunded_cents else 0 end) as refunded,
			sum(case when commission_status in ('pending', 'approved', 'paid') then commission_cents else 0 end) as commission
		from analytics_conversions
		group by 1, 2, 3, 4
	), summed as (
		select workspace_id, mode, program_id, day, sum(conversions) as conversions, sum(revenue_cents) as revenue,
			sum(refunded_cents) as refunded, sum(commission_cents) as commission
		from analytics_days
		where dimension = '' and participant_id = '00000000-0000-0000-0000-000000000000'
		group by 1, 2, 3, 4
		having num_nonnulls(sum(conversions), sum(orders), sum(commission_cents)) > 0
	)
	select case when (coalesce(c.conversions, 0), coalesce(c.revenue, 0), coalesce(c.refunded, 0), coalesce(c.commission, 0))
			<> (coalesce(s.conversions, 0), coalesce(s.revenue, 0), coalesce(s.refunded, 0), coalesce(s.commission, 0)) then format(
			'workspace %s, %s: programme %s, %s: the analytics have %s conversions with the amounts %s, %s and %s, expected %s with %s, %s and %s',
			t.workspace_id, t.mode, t.program_id, t.day,
			coalesce(s.conversions, 0), coalesce(s.revenue, 0), coalesce(s.refunded, 0), coalesce(s.commission, 0),
			coalesce(c.conversions, 0), coalesce(c.revenue, 0), coalesce(c.refunded, 0), coalesce(c.commission, 0))
		end as line
	from counted c
	full join summed s using (workspace_id, mode, program_id, day)
	cross join lateral (select workspace_id, mode, program_id, day) as t`

// checkAnalyticsPrograms compares the sums of programmes with those of their participants, for
// all dimensions of the sampled days.
const checkAnalyticsPrograms = `
	select case when s.program_sum <> s.participant_sum then format(
			'workspace %s, %s: programme %s, %s: the value %L of %s has the sum %s, but the sum of its participants is %s',
			s.workspace_id, s.mode, s.program_id, s.day, s.value, s.dimension, s.program_sum, s.participant_sum)
		end as line
	from (
		select d.workspace_id, d.mode, d.program_id, d.day, d.dimension, d.value, d.currency,
			coalesce(sum(d.total) filter (where d.participant_id = '00000000-0000-0000-0000-000000000000'), 0) as program_sum,
			coalesce(sum(d.total) filter (where d.participant_id <> '00000000-0000-0000-0000-000000000000'), 0) as participant_sum
		from (
			select s.*, coalesce(s.clicks, 0) + coalesce(s.bot_clicks, 0) + coalesce(s.conversions, 0) + coalesce(s.revenue_cents, 0)
				+ coalesce(s.refunded_cents, 0) + coalesce(s.commission_cents, 0) as total
			from analytics_days s
			where s.day in (` + sampledDays + `) and s.program_id <> '00000000-0000-0000-0000-000000000000'
		) as d
		group by 1, 2, 3, 4, 5, 6, 7
	) as s`
