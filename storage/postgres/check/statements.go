package check

// The statements of the checks that `core check` runs. They read the rows of all
// workspaces. Each violation that they return names its workspace and mode.

// The amount owed for a commission is its amount if it is approved or paid, otherwise
// zero.
const checkCommissionLedger = `
	select case when c.cents is null or coalesce(e.cents, 0) <> c.cents then format(
			'workspace %s, %s: commission %s: the ledger has %s %s for participant %s, %s',
			workspace_id, mode, id, coalesce(e.cents, 0), currency, participant_id,
			coalesce('expected ' || c.cents, 'which has no such commission'))
		end as line
	from (
		select workspace_id, mode, participant_id, currency, id,
			case when status in ('approved', 'paid') then amount_cents else 0 end as cents
		from commissions
	) c
	full join (
		select workspace_id, mode, participant_id, currency, commission_id as id, sum(amount_cents) as cents
		from ledger_entries
		where commission_id is not null
		group by 1, 2, 3, 4, 5
	) e using (workspace_id, mode, participant_id, currency, id)`

const checkBalances = `
	select case when coalesce(b.cents, 0) <> coalesce(e.cents, 0) then format(
			'workspace %s, %s: participant %s: the balance is %s %s, the entries sum to %s',
			workspace_id, coalesce(e.mode, 'no mode'), participant_id, coalesce(b.cents, 0), currency, coalesce(e.cents, 0))
		end as line
	from (
		select workspace_id, participant_id, currency, sum(balance_cents) as cents
		from ledger_balances
		group by 1, 2, 3
	) b
	full join (
		select workspace_id, participant_id, currency, min(mode) as mode, sum(amount_cents) as cents
		from ledger_entries
		group by 1, 2, 3
	) e using (workspace_id, participant_id, currency)`

// A payout that is processing or paid reduces the balance by its amount. Other payouts do not.
const checkPayoutLedger = `
	select case when p.cents is null or coalesce(e.cents, 0) <> p.cents then format(
			'workspace %s, %s: payout %s: the ledger has %s %s for participant %s, %s',
			workspace_id, mode, id, coalesce(e.cents, 0), currency, participant_id,
			coalesce('expected ' || p.cents, 'which has no such payout'))
		end as line
	from (
		select workspace_id, mode, participant_id, currency, id,
			case when status in ('processing', 'paid') then -amount_cents else 0 end as cents
		from payouts
	) p
	full join (
		select workspace_id, mode, participant_id, currency, payout_id as id, sum(amount_cents) as cents
		from ledger_entries
		where payout_id is not null
		group by 1, 2, 3, 4, 5
	) e using (workspace_id, mode, participant_id, currency, id)`

// A rejected or refunded commission may still refer to the payout that it was part of.
const checkCommissionPayout = `
	select case
		when c.payout_id is null then format(
			'workspace %s, %s: commission %s is paid but refers to no payout', c.workspace_id, c.mode, c.id)
		when p.id is null or p.mode <> c.mode or p.participant_id <> c.participant_id or p.currency <> c.currency then format(
			'workspace %s, %s: commission %s refers to payout %s, which is not a payout of its participant in its currency',
			c.workspace_id, c.mode, c.id, c.payout_id)
		when c.status = 'pending'
			or c.status = 'approved' and p.status not in ('draft', 'pending', 'processing')
			or c.status = 'paid' and p.status <> 'paid' then format(
			'workspace %s, %s: commission %s is %s and refers to payout %s, which is %s',
			c.workspace_id, c.mode, c.id, c.status, c.payout_id, p.status)
		when c.status in ('approved', 'paid') and l.payout_id is null then format(
			'workspace %s, %s: commission %s refers to payout %s, which does not list it', c.workspace_id, c.mode, c.id, c.payout_id)
		end as line
	from commissions c
	left join payouts p on p.workspace_id = c.workspace_id and p.id = c.payout_id
	left join payout_commissions l on l.workspace_id = c.workspace_id and l.payout_id = c.payout_id and l.commission_id = c.id
	where c.payout_id is not null or c.status = 'paid'`

const checkPayoutCommission = `
	select case when c.payout_id is distinct from p.id then format(
			'workspace %s, %s: payout %s is %s and lists the approved commission %s, which refers to %s',
			p.workspace_id, p.mode, p.id, p.status, c.id, coalesce('payout ' || c.payout_id, 'no payout'))
		end as line
	from payouts p
	join payout_commissions l on l.workspace_id = p.workspace_id and l.payout_id = p.id
	join commissions c on c.workspace_id = l.workspace_id and c.id = l.commission_id
	where p.status in ('draft', 'pending', 'processing') and c.status = 'approved'`

// A failed or canceled payout keeps its amount and its list of commissions.
const checkPayoutAmount = `
	select case when p.amount_cents <> coalesce(l.cents, 0) + p.adjustment_cents or p.commission_count <> coalesce(l.n, 0) then format(
			'workspace %s, %s: payout %s has the amount %s %s for %s commissions; it lists %s commissions with a sum of %s and an adjustment of %s',
			p.workspace_id, p.mode, p.id, p.amount_cents, p.currency, p.commission_count, coalesce(l.n, 0), coalesce(l.cents, 0), p.adjustment_cents)
		end as line
	from payouts p
	left join (
		select workspace_id, payout_id, count(*) as n, sum(amount_cents) as cents
		from payout_commissions
		group by 1, 2
	) l on l.workspace_id = p.workspace_id and l.payout_id = p.id`

const checkCommissionCounts = `
	select case when (coalesce(k.n, 0), coalesce(k.cents, 0)) <> (coalesce(c.n, 0), coalesce(c.cents, 0)) then format(
			'workspace %s, %s: programme %s, %s from %s, %s%s: the counters have %s commissions with %s %s, the tables have %s with %s',
			workspace_id, mode, program_id, grain, starts, status, case when needs_review then ' in review' else '' end,
			coalesce(k.n, 0), coalesce(k.cents, 0), currency, coalesce(c.n, 0), coalesce(c.cents, 0))
		end as line
	from (
		select workspace_id, mode, grain, starts, program_id, status, needs_review, currency, sum(n) as n, sum(amount_cents) as cents
		from commission_counts
		group by 1, 2, 3, 4, 5, 6, 7, 8
	) k
	full join (
		select d.workspace_id, d.mode, g.grain, g.starts, d.program_id, d.status, d.needs_review, d.currency, sum(d.n) as n, sum(d.cents) as cents
		from (
			select workspace_id, mode, program_id, status, needs_review, currency, (created_at at time zone 'UTC')::date as day,
				count(*) as n, sum(amount_cents) as cents
			from commissions
			group by 1, 2, 3, 4, 5, 6, 7
		) d
		cross join lateral (values
			('ever', date '0001-01-01'), ('month', date_trunc('month', d.day::timestamp)::date), ('day', d.day)) as g (grain, starts)
		group by 1, 2, 3, 4, 5, 6, 7, 8
	) c using (workspace_id, mode, grain, starts, program_id, status, needs_review, currency)`

const checkCommissionHistory = `
	select case when (h.seq, h.to_status, h.amount_cents) is distinct from (c.version, c.status, c.amount_cents) then format(
			'workspace %s, %s: commission %s is %s with %s %s in version %s, %s',
			c.workspace_id, c.mode, c.id, c.status, c.amount_cents, c.currency, c.version,
			case when h.seq is null then 'but has no history'
				else format('but its history ends with %s and %s in version %s', h.to_status, h.amount_cents, h.seq) end)
		end as line
	from commissions c
	left join (
		select distinct on (workspace_id, commission_id) workspace_id, commission_id, seq, to_status, amount_cents
		from commission_history
		order by workspace_id, commission_id, seq desc
	) h on h.workspace_id = c.workspace_id and h.commission_id = c.id`

// A commission refers to the decision that created it. When a new decision replaces
// this decision, the commission ends: it is rejected, or clawed back if it was paid.
// Every commission that has not ended must therefore refer to the decision in force.
const checkCommissionDecision = `
	select case
		when v.id is null then format('workspace %s, %s: commission %s has no conversion in its mode', c.workspace_id, c.mode, c.id)
		when v.decision_id <> c.decision_id then format(
			'workspace %s, %s: commission %s is %s and refers to decision %s, but decision %s is in force for conversion %s',
			c.workspace_id, c.mode, c.id, c.status, c.decision_id, v.decision_id, v.id)
		when v.participant_id is distinct from c.participant_id or v.program_id is distinct from c.program_id then format(
			'workspace %s, %s: commission %s belongs to participant %s, conversion %s belongs to %s', c.workspace_id, c.mode, c.id, c.participant_id, v.id,
			coalesce('participant ' || v.participant_id, 'no participant'))
		end as line
	from commissions c
	left join conversions v on v.workspace_id = c.workspace_id and v.mode = c.mode and v.id = c.conversion_id
	where c.status in ('pending', 'approved', 'paid')`

const checkConversionDecision = `
	select case
		when d.id is null then format('workspace %s, %s: conversion %s refers to decision %s, which is not one of its decisions', v.workspace_id, v.mode, v.id, v.decision_id)
		when n.supersedes is not null then format(
			'workspace %s, %s: conversion %s refers to decision %s, which was superseded', v.workspace_id, v.mode, v.id, v.decision_id)
		when (v.attributed, v.reason_code, v.program_id, v.participant_id) is distinct from (d.attributed, d.reason_code, d.program_id, d.participant_id) then format(
			'workspace %s, %s: conversion %s has %s and %s, its decision %s has %s and %s', v.workspace_id, v.mode, v.id,
			v.reason_code, coalesce('participant ' || v.participant_id, 'no participant'), d.id, d.reason_code, coalesce('participant ' || d.participant_id, 'no participant'))
		end as line
	from conversions v
	left join attribution_decisions d
		on d.workspace_id = v.workspace_id and d.mode = v.mode and d.id = v.decision_id and d.conversion_id = v.id
	left join (
		select distinct workspace_id, supersedes from attribution_decisions where supersedes is not null
	) n on n.workspace_id = v.workspace_id and n.supersedes = v.decision_id`

// The refunded amount of a conversion is the sum of the refunds that were reported to the API,
// and of the amounts of its charges that the payment processor has refunded or that were lost
// in disputes (conversion.Reversals). It is not compared with this sum if a charge has another
// currency, because such a charge can reverse any part of the sale. It is also not compared
// while the newest state of a charge is being applied, for at most ten minutes.
const checkRefunds = `
	select case
		when v.refunded is null then format('workspace %s, %s: refunds of %s refer to conversion %s, which does not exist', workspace_id, mode, r.cents, id)
		when v.refunded not between 0 and v.amount then format(
			'workspace %s, %s: conversion %s: the refunded amount is %s, which is not between 0 and %s', workspace_id, mode, id, v.refunded, v.amount)
		when not coalesce(g.converted or g.changing, false) and v.refunded <> least(v.amount, coalesce(r.cents, 0) + coalesce(g.cents, 0)) then format(
			'workspace %s, %s: conversion %s: the refunded amount is %s, its refunds sum to %s', workspace_id, mode, id, v.refunded,
			least(v.amount, coalesce(r.cents, 0) + coalesce(g.cents, 0)))
		end as line
	from (select workspace_id, mode, id, amount_cents as amount, refunded_amount_cents as refunded from conversions) v
	full join (
		select workspace_id, mode, conversion_id as id, sum(amount_cents) as cents
		from refunds
		where conversion_id is not null
		group by 1, 2, 3
	) r using (workspace_id, mode, id)
	left join (
		select c.workspace_id, c.mode, c.id, bool_or(h.currency <> coalesce(c.currency, '')) as converted,
			bool_or(h.applied_number <> h.read_number and h.updated_at > now() - interval '10 minutes') as changing, sum(least(
			case when h.amount_cents = 0 then c.amount_cents else h.amount_cents end,
			h.refunded_cents + coalesce((
				select sum(coalesce(d.amount_cents, nullif(h.amount_cents, 0), c.amount_cents)) from processor_disputes d
				where d.workspace_id = h.workspace_id and d.mode = h.mode and d.charge_id = h.id and d.status = 'lost'), 0))) as cents
		from processor_charges h
		join conversions c on c.workspace_id = h.workspace_id and c.mode = h.mode and c.id = h.conversion_id
		group by 1, 2, 3
	) g using (workspace_id, mode, id)`

// Amounts are in the programme's currency. Rejected commissions do not count.
const checkParticipantTotals = `
	select case when (t.conversions + coalesce(d.conversions, 0), t.commission_cents + coalesce(d.commission, 0))
			<> (coalesce(v.conversions, 0), coalesce(c.commission, 0)) then format(
			'workspace %s, %s: participant %s: the totals are %s conversions and %s %s, expected %s and %s',
			t.workspace_id, p.mode, t.participant_id, t.conversions + coalesce(d.conversions, 0), t.commission_cents + coalesce(d.commission, 0),
			p.currency, coalesce(v.conversions, 0), coalesce(c.commission, 0))
		end as line
	from participant_totals t
	join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id
	left join (
		select d.workspace_id, d.participant_id, sum(d.conversions) as conversions,
			coalesce(sum(d.commission_cents) filter (where d.currency = p.currency), 0) as commission
		from stats_deltas d
		join programs p on p.workspace_id = d.workspace_id and p.mode = d.mode and p.id = d.program_id
		group by 1, 2
	) d on d.workspace_id = t.workspace_id and d.participant_id = t.participant_id
	left join (
		select workspace_id, participant_id, count(*) as conversions
		from conversions
		where attributed
		group by 1, 2
	) v on v.workspace_id = t.workspace_id and v.participant_id = t.participant_id
	left join (
		select c.workspace_id, c.participant_id, sum(c.amount_cents) as commission
		from commissions c
		join programs p on p.workspace_id = c.workspace_id and p.mode = c.mode and p.id = c.program_id and p.currency = c.currency
		where c.status <> 'rejected'
		group by 1, 2
	) c on c.workspace_id = t.workspace_id and c.participant_id = t.participant_id`

const checkListCounts = `
	select case when coalesce(k.n, 0) <> coalesce(x.n, 0) then format(
			'workspace %s, %s: programme %s: the counters have %s %s, the tables have %s',
			workspace_id, coalesce(p.mode, 'no mode'), program_id, coalesce(k.n, 0), what, coalesce(x.n, 0))
		end as line
	from (select workspace_id, program_id, what, sum(n) as n from list_counts group by 1, 2, 3) k
	full join (
		select workspace_id, program_id, 'participants.' || status as what, count(*) as n from participants group by 1, 2, 3
		union all
		select workspace_id, program_id, 'links', count(*) from links where deleted_at is null group by 1, 2
		union all
		select workspace_id, program_id, 'promo_codes', count(*) from promo_codes group by 1, 2
	) x using (workspace_id, program_id, what)
	left join (select workspace_id, id as program_id, mode from programs) p using (workspace_id, program_id)`
