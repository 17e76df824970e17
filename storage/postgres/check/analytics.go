package check

// The checks of clicks and of conversions skip days and conversions with entries in the log,
// which are not yet added to the sums.

// sampledDays are yesterday, and one more day of the last 60 days, another one every night.
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

// checkAnalyticsConversions compares every conversion with the values that were added to the sums.
const checkAnalyticsConversions = `
	select case when a.conversion_id is null then format(
			'workspace %s, %s: the analytics do not contain the conversion %s', t.workspace_id, t.mode, c.id)
		when c.id is null then format('workspace %s, %s: the analytics contain the conversion %s, which does not exist', t.workspace_id, t.mode, a.conversion_id)
		when (a.program_id, a.participant_id, a.amount_cents, a.refunded_cents, a.commission_status, a.commission_cents, coalesce(a.customer_ref, ''))
			<> (case when c.attributed then coalesce(c.program_id, n.id) else n.id end, case when c.attributed then coalesce(c.participant_id, n.id) else n.id end,
				c.amount_cents, c.refunded_amount_cents, coalesce(m.status, ''), coalesce(m.amount_cents, 0),
				case when c.attributed then coalesce(c.customer_ref, '') else '' end) then format(
			'workspace %s, %s: the analytics contain an earlier state of the conversion %s', t.workspace_id, t.mode, c.id)
		when a.without_customer <> (c.attributed and c.customer_ref is null and c.buyer_erased_at is null) and w.erased_at is null then format(
			'workspace %s, %s: the analytics count the customer of the conversion %s wrongly', t.workspace_id, t.mode, c.id)
		end as line
	from conversions c
	left join commissions m on m.workspace_id = c.workspace_id and m.mode = c.mode and m.decision_id = c.decision_id
	full join analytics_conversions a on a.workspace_id = c.workspace_id and a.mode = c.mode and a.conversion_id = c.id
	cross join lateral (select coalesce(c.workspace_id, a.workspace_id) as workspace_id, coalesce(c.mode, a.mode) as mode) as t
	cross join (select '00000000-0000-0000-0000-000000000000'::uuid as id) as n
	left join workspaces w on w.id = c.workspace_id
	left join (select distinct unnest(conversions) as id from analytics_log) as waiting on waiting.id = coalesce(c.id, a.conversion_id)
	where waiting.id is null`

// checkAnalyticsSums compares the numbers of conversions in the totals of programmes with the
// counted conversions. It first counts the conversions by both of their currencies, because the
// amount of a sale and its commission can have different currencies. Each result is one number
// of a programme, day and currency.
const checkAnalyticsSums = `
	with counted as (
		select c.workspace_id, c.mode, c.program_id, (c.occurred_at at time zone 'UTC')::date as day, c.currency, c.commission_currency,
			count(*) as conversions,
			count(*) filter (where c.event_type in ('signup', 'lead')) as signups,
			count(*) filter (where f.conversion_id is not null or c.without_customer) as new_customers,
			count(*) filter (where c.commission_status in ('approved', 'paid')) as approved,
			count(*) filter (where c.commission_status = 'paid') as paid,
			count(*) filter (where c.event_type in ('purchase', 'renewal')) as orders,
			sum(c.amount_cents) filter (where c.event_type in ('purchase', 'renewal')) as revenue,
			sum(c.refunded_cents) filter (where c.event_type in ('purchase', 'renewal')) as refunded,
			sum(c.commission_cents) filter (where c.commission_status in ('pending', 'approved', 'paid')) as commission
		from analytics_conversions c
		left join analytics_customers f using (workspace_id, mode, customer_ref, conversion_id)
		group by 1, 2, 3, 4, 5, 6
	), expected as (
		select workspace_id, mode, program_id, day, n.currency, n.name, sum(n.number) as number
		from counted c
		cross join lateral (values
			('', 'conversions', conversions), ('', 'signups', signups), ('', 'new customers', new_customers),
			('', 'approved commissions', approved), ('', 'paid commissions', paid),
			(c.currency, 'orders', orders), (c.currency, 'cents of revenue', revenue), (c.currency, 'refunded cents', refunded),
			(c.commission_currency, 'cents of commissions', commission)
		) as n (currency, name, number)
		where n.number <> 0
		group by 1, 2, 3, 4, 5, 6
	), summed as (
		select workspace_id, mode, program_id, day, currency, n.name, sum(n.number) as number
		from analytics_days
		cross join lateral (values
			('conversions', conversions), ('signups', signups), ('new customers', new_customers),
			('approved commissions', approved), ('paid commissions', paid),
			('orders', orders), ('cents of revenue', revenue_cents), ('refunded cents', refunded_cents),
			('cents of commissions', commission_cents)
		) as n (name, number)
		where dimension = '' and participant_id = '00000000-0000-0000-0000-000000000000' and n.number <> 0
		group by 1, 2, 3, 4, 5, 6
	)
	select case when coalesce(s.number, 0) <> coalesce(e.number, 0) then format(
			'workspace %s, %s: programme %s, %s: the analytics have %s %s, expected %s',
			workspace_id, mode, program_id, day, coalesce(s.number, 0), concat_ws(' in ', name, nullif(currency, '')), coalesce(e.number, 0))
		end as line
	from expected e
	full join summed s using (workspace_id, mode, program_id, day, currency, name)`

// checkAnalyticsValues compares the sums of values with the counted conversions that have these
// values, on the sampled days. The names of the dimensions are in the order of dimension_values.
const checkAnalyticsValues = `
	with days as (` + sampledDays + `),
	counted as (
		select c.workspace_id, c.mode, c.program_id, d.day, v.dimension, count(*) as conversions
		from days d
		join analytics_conversions c on (c.occurred_at at time zone 'UTC')::date = d.day
		cross join lateral unnest(
			array['country', 'device', 'browser', 'os', 'referrer', 'landing_page', 'utm_source', 'utm_medium', 'utm_campaign', 'sub_id', 'promo_code', 'event_type'],
			c.dimension_values) as v (dimension, value)
		where v.value <> ''
		group by 1, 2, 3, 4, 5
	), summed as (
		select workspace_id, mode, program_id, day, dimension, sum(conversions) as conversions
		from analytics_days
		where day in (select day from days) and dimension <> '' and participant_id = '00000000-0000-0000-0000-000000000000' and conversions <> 0
		group by 1, 2, 3, 4, 5
	)
	select case when coalesce(s.conversions, 0) <> coalesce(c.conversions, 0) then format(
			'workspace %s, %s: programme %s, %s: the values of %s have %s conversions, expected %s',
			workspace_id, mode, program_id, day, dimension, coalesce(s.conversions, 0), coalesce(c.conversions, 0))
		end as line
	from counted c
	full join summed s using (workspace_id, mode, program_id, day, dimension)`

// checkAnalyticsValueClicks compares the clicks in the sums of values with those in the totals of
// programmes, for all dimensions of the sampled days. Clicks without a value are only in the totals.
const checkAnalyticsValueClicks = `
	with summed as (
		select workspace_id, mode, program_id, day, dimension, sum(coalesce(clicks, 0) + coalesce(bot_clicks, 0)) as clicks
		from analytics_days
		where day in (` + sampledDays + `) and participant_id = '00000000-0000-0000-0000-000000000000'
		group by 1, 2, 3, 4, 5
	)
	select case when s.clicks > coalesce(t.clicks, 0) then format(
			'workspace %s, %s: programme %s, %s: the values of %s have %s clicks with those of bots, expected at most %s',
			s.workspace_id, s.mode, s.program_id, s.day, s.dimension, s.clicks, coalesce(t.clicks, 0))
		end as line
	from summed s
	left join summed t on t.workspace_id = s.workspace_id and t.mode = s.mode and t.program_id = s.program_id and t.day = s.day and t.dimension = ''
	where s.dimension <> ''`

// checkAnalyticsCustomers compares the first conversions of customers with the counted
// conversions. The lines do not contain the references of the customers, which are personal data.
const checkAnalyticsCustomers = `
	with firsts as (
		select distinct on (workspace_id, mode, customer_ref) workspace_id, mode, customer_ref, program_id, conversion_id, occurred_at as first_at
		from analytics_conversions
		where customer_ref is not null and program_id <> '00000000-0000-0000-0000-000000000000'
		order by workspace_id, mode, customer_ref, occurred_at, conversion_id
	)
	select case when a.conversion_id is null then format(
			'workspace %s, %s: programme %s, %s: the analytics do not contain the customer whose first conversion is %s',
			workspace_id, mode, f.program_id, (f.first_at at time zone 'UTC')::date, f.conversion_id)
		when f.conversion_id is null then format(
			'workspace %s, %s: the analytics contain the customer with the first conversion %s, who has no attributed conversion', workspace_id, mode, a.conversion_id)
		when (a.conversion_id, a.first_at) <> (f.conversion_id, f.first_at) then format(
			'workspace %s, %s: programme %s, %s: the analytics have %s at %s as the first conversion of a customer, expected %s at %s',
			workspace_id, mode, f.program_id, (f.first_at at time zone 'UTC')::date,
			a.conversion_id, a.first_at at time zone 'UTC', f.conversion_id, f.first_at at time zone 'UTC')
		end as line
	from firsts f
	full join analytics_customers a using (workspace_id, mode, customer_ref)`

// checkAnalyticsCohorts compares the cohorts of workspaces with the counted conversions.
const checkAnalyticsCohorts = `
	with counted as (
		select c.workspace_id, c.mode, date_trunc('month', u.first_at at time zone 'UTC')::date as cohort,
			date_trunc('month', c.occurred_at at time zone 'UTC')::date as month, count(*) as conversions, count(distinct c.customer_ref) as customers
		from analytics_conversions c
		join analytics_customers u using (workspace_id, mode, customer_ref)
		where c.program_id <> '00000000-0000-0000-0000-000000000000'
		group by 1, 2, 3, 4
	), summed as (
		select workspace_id, mode, cohort, month, conversions, customers
		from analytics_cohorts
		where program_id = '00000000-0000-0000-0000-000000000000' and currency = ''
	)
	select case when (coalesce(s.conversions, 0), coalesce(s.customers, 0)) <> (coalesce(c.conversions, 0), coalesce(c.customers, 0)) then format(
			'workspace %s, %s: the cohort of %s has %s conversions of %s customers in the month %s, expected %s of %s',
			workspace_id, mode, cohort, coalesce(s.conversions, 0), coalesce(s.customers, 0), month, coalesce(c.conversions, 0), coalesce(c.customers, 0))
		end as line
	from counted c
	full join summed s using (workspace_id, mode, cohort, month)`

// checkAnalyticsNegative finds numbers below 0. The lines do not contain values, which can be
// personal data.
const checkAnalyticsNegative = `
	select case when least(s.clicks, s.unique_clicks, s.bot_clicks, s.conversions) < 0 then format(
			'workspace %s, %s: programme %s, participant %s, %s: a sum of the dimension %L has %s clicks (%s unique), %s of bots and %s conversions, expected no number below 0',
			s.workspace_id, s.mode, s.program_id, s.participant_id, s.day, s.dimension,
			coalesce(s.clicks, 0), coalesce(s.unique_clicks, 0), coalesce(s.bot_clicks, 0), coalesce(s.conversions, 0))
		end as line
	from analytics_days s
	where s.day in (` + sampledDays + `)`

// checkAnalyticsPrograms compares the sums of programmes with the sums of their participants, for
// all dimensions of the sampled days. The lines do not contain values.
const checkAnalyticsPrograms = `
	select case when s.program_sum <> s.participant_sum then format(
			'workspace %s, %s: programme %s, %s: a value of %s has the sum %s, but the sum of its participants is %s',
			s.workspace_id, s.mode, s.program_id, s.day, s.dimension, s.program_sum, s.participant_sum)
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
