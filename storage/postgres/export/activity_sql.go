package export

// Statements about clicks, conversions and money.

// clickDayCounts are the counts of a day without the counts of values, orders and bots.
const clickDayCounts = `
	coalesce(sum(a.clicks), 0)::bigint as clicks, coalesce(sum(a.unique_clicks), 0)::bigint as unique_clicks,
	coalesce(sum(a.signups), 0)::bigint as signups, coalesce(sum(a.conversions), 0)::bigint as conversions`

// isClickDay selects the rows that clickDayCounts adds up: one for each link.
const isClickDay = `a.dimension = '' and a.currency = '' and num_nonnulls(a.clicks, a.conversions) > 0`

const participantClickDays = `
	select a.workspace_id, a.program_id, a.participant_id, a.mode, a.day, ` + clickDayCounts + `
	from analytics_days a
	where a.workspace_id = @workspace and a.mode = @mode and a.participant_id = @participant
		and a.program_id = (select t.program_id from participants t where t.workspace_id = @workspace and t.mode = @mode and t.id = @participant)
		and a.day > @after_at::date and ` + isClickDay + `
	group by a.workspace_id, a.program_id, a.participant_id, a.mode, a.day
	order by a.day
	limit @limit`

// workspaceClickDays reads the days of one participant after another.
const workspaceClickDays = `
	select p.workspace_id, p.program_id, p.id as participant_id, p.mode, d.day, d.clicks, d.unique_clicks, d.signups, d.conversions
	from participants p
	cross join lateral (
		select a.day, ` + clickDayCounts + `
		from analytics_days a
		where a.workspace_id = p.workspace_id and a.mode = p.mode and a.program_id = p.program_id and a.participant_id = p.id
			and (p.id > @after_id or a.day > @after_at::date) and ` + isClickDay + `
		group by a.day
	) d
	where p.workspace_id = @workspace and p.id >= @after_id
	order by p.id, d.day
	limit @limit`

const clickColumns = `
	c.id, c.workspace_id, c.program_id, c.participant_id, c.link_id, c.mode, c.referral_code, c.clicked_at, c.received_at, c.expires_at, c.occurred_at,
	c.landing_url, c.referrer_domain, c.utm_source, c.utm_medium, c.utm_campaign, c.utm_term, c.utm_content, c.sub_id, c.consent,
	c.country, c.region, c.device, c.browser, c.os, c.paid_platform, c.is_unique, c.is_bot, c.bot_reason, c.foreign_origin`

const participantClicks = `
	select ` + clickColumns + `
	from clicks c
	where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = @participant
		and c.clicked_at >= @since and c.clicked_at >= @after_at and (c.clicked_at, c.id) > (@after_at, @after_id)
	order by c.clicked_at, c.id
	limit @limit`

// clicked_at is the time in the id, so the ids have the same order. The condition on
// clicked_at leaves out the partitions that were read before.
const workspaceClicks = `
	select ` + clickColumns + `
	from clicks c
	where c.workspace_id = @workspace and c.clicked_at >= @since and c.clicked_at >= @after_at and c.id > @after_id
	order by c.id
	limit @limit`

const conversionColumns = `
	c.id, c.workspace_id, c.program_id, c.participant_id, c.link_id, c.click_id, c.mode, c.event_type, c.amount_cents, c.currency, c.occurred_at,
	c.created_at, c.status, c.refunded_amount_cents, c.attributed, c.reason_code, c.promo_code, c.sub_id, c.is_recurring, c.recurring_index,
	c.customer_ref, c.external_transaction_id, c.source, c.tax_cents, c.shipping_cents, c.fee_cents, c.discount_cents, c.product_ids, c.fraud_score`

const participantConversions = `
	select ` + conversionColumns + `
	from conversions c
	where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = @participant and (c.created_at, c.id) > (@after_at, @after_id)
	order by c.created_at, c.id
	limit @limit`

const workspaceConversions = `
	select ` + conversionColumns + `
	from conversions c
	where c.workspace_id = @workspace and c.id > @after_id
	order by c.id
	limit @limit`

const refunds = `
	select r.id, r.mode, r.external_refund_id, r.external_transaction_id, r.conversion_id, r.asked_cents, r.amount_cents, r.created_at, r.applied_at, r.expires_at
	from refunds r
	where r.workspace_id = @workspace and r.id > @after_id
	order by r.id
	limit @limit`

// The evidence of a rule can describe the buyer.
const fraudEventColumns = `
	e.id, e.workspace_id, e.program_id, e.participant_id, e.conversion_id, e.commission_id, e.mode, e.score,
	(select coalesce(jsonb_agg(jsonb_build_object('rule', s -> 'rule', 'score', s -> 'score')), '[]') from jsonb_array_elements(e.signals) s) as rules,
	e.action, e.status, e.note, e.resolved_by, e.resolved_at, e.created_at`

const participantFraudEvents = `
	select ` + fraudEventColumns + `
	from fraud_events e
	where e.workspace_id = @workspace and e.mode = @mode and e.participant_id = @participant and (e.created_at, e.id) > (@after_at, @after_id)
	order by e.created_at, e.id
	limit @limit`

const workspaceFraudEvents = `
	select ` + fraudEventColumns + `
	from fraud_events e
	where e.workspace_id = @workspace and e.id > @after_id
	order by e.id
	limit @limit`

const commissionColumns = `
	c.id, c.workspace_id, c.program_id, c.participant_id, c.conversion_id, c.click_id, c.payout_id, c.mode, c.status, c.commission_type, c.event_type,
	c.promo_code, c.rate_bps, c.flat_amount_cents, c.amount_cents, c.original_amount_cents, c.currency, c.base_amount_cents, c.sale_amount_cents,
	c.sale_currency, c.fx_rate, c.fx_date, c.recurring_index, c.customer_ref, c.rejection_code, c.hold_until, c.approved_at, c.rejected_at, c.paid_at,
	c.refunded_at, c.created_at, c.updated_at, c.external_transaction_id, c.needs_review, c.review_reasons, c.dispute_status, c.auto_approve_at,
	c.override_reason, c.override_by, c.rejection_reason, c.approved_by`

const participantCommissions = `
	select ` + commissionColumns + `
	from commissions c
	where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = @participant and (c.created_at, c.id) > (@after_at, @after_id)
	order by c.created_at, c.id
	limit @limit`

const workspaceCommissions = `
	select ` + commissionColumns + `
	from commissions c
	where c.workspace_id = @workspace and c.id > @after_id
	order by c.id
	limit @limit`

const commissionHistory = `
	select h.commission_id, h.seq, h.at, h.actor, h.from_status, h.to_status, h.amount_cents, h.reason, h.code
	from commission_history h
	where h.workspace_id = @workspace and (h.commission_id, h.seq) > (@after_id, @after_number)
	order by h.commission_id, h.seq
	limit @limit`

const payoutColumns = `
	p.id, p.workspace_id, p.batch_id, p.program_id, p.participant_id, p.mode, p.amount_cents, p.currency, p.commission_count, p.adjustment_cents,
	p.status, p.method, p.payee_name, p.account_hint, p.reference, p.failure_reason, p.period_start, p.period_end, p.initiated_at, p.paid_at, p.created_at, p.updated_at`

const participantPayouts = `
	select ` + payoutColumns + `
	from payouts p
	where p.workspace_id = @workspace and p.mode = @mode and p.participant_id = @participant and (p.created_at, p.id) > (@after_at, @after_id)
	order by p.created_at, p.id
	limit @limit`

const workspacePayouts = `
	select ` + payoutColumns + `
	from payouts p
	where p.workspace_id = @workspace and p.id > @after_id
	order by p.id
	limit @limit`

const payoutBatches = `
	select b.id, b.mode, b.status, b.cutoff, b.created_by, b.first_confirmed_by, b.first_confirmed_at, b.confirmed_by, b.created_at, b.confirmed_at, b.completed_at
	from payout_batches b
	where b.workspace_id = @workspace and b.id > @after_id
	order by b.id
	limit @limit`

const ledgerColumns = `
	l.id, l.workspace_id, l.program_id, l.participant_id, l.mode, l.type, l.amount_cents, l.currency, l.commission_id, l.payout_id, l.reason,
	l.created_at, l.occurred_at, l.created_by`

const participantLedger = `
	select ` + ledgerColumns + `
	from ledger_entries l
	where l.workspace_id = @workspace and l.mode = @mode and l.participant_id = @participant and (l.created_at, l.id) > (@after_at, @after_id)
	order by l.created_at, l.id
	limit @limit`

const workspaceLedger = `
	select ` + ledgerColumns + `
	from ledger_entries l
	where l.workspace_id = @workspace and l.id > @after_id
	order by l.id
	limit @limit`
