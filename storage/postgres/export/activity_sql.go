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

const participantClicks = `
	select {c}
	from clicks c
	where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = @participant
		and c.clicked_at >= @since and c.clicked_at >= @after_at and (c.clicked_at, c.id) > (@after_at, @after_id)
	order by c.clicked_at, c.id
	limit @limit`

// clicked_at is the time in the id, so the ids have the same order. The condition on
// clicked_at leaves out the partitions that were read before.
const workspaceClicks = `
	select {c}
	from clicks c
	where c.workspace_id = @workspace and c.clicked_at >= @since and c.clicked_at >= @after_at and c.id > @after_id
	order by c.id
	limit @limit`

const participantConversions = `
	select {c}
	from conversions c
	where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = @participant and (c.created_at, c.id) > (@after_at, @after_id)
	order by c.created_at, c.id
	limit @limit`

const workspaceConversions = `
	select {c}
	from conversions c
	where c.workspace_id = @workspace and c.id > @after_id
	order by c.id
	limit @limit`

const refunds = `
	select {r}
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

const participantCommissions = `
	select {c}
	from commissions c
	where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = @participant and (c.created_at, c.id) > (@after_at, @after_id)
	order by c.created_at, c.id
	limit @limit`

const workspaceCommissions = `
	select {c}
	from commissions c
	where c.workspace_id = @workspace and c.id > @after_id
	order by c.id
	limit @limit`

const commissionHistory = `
	select {h}
	from commission_history h
	where h.workspace_id = @workspace and (h.commission_id, h.seq) > (@after_id, @after_number)
	order by h.commission_id, h.seq
	limit @limit`

const participantPayouts = `
	select {p}
	from payouts p
	where p.workspace_id = @workspace and p.mode = @mode and p.participant_id = @participant and (p.created_at, p.id) > (@after_at, @after_id)
	order by p.created_at, p.id
	limit @limit`

const workspacePayouts = `
	select {p}
	from payouts p
	where p.workspace_id = @workspace and p.id > @after_id
	order by p.id
	limit @limit`

const payoutBatches = `
	select {b}
	from payout_batches b
	where b.workspace_id = @workspace and b.id > @after_id
	order by b.id
	limit @limit`

const participantLedger = `
	select {l}
	from ledger_entries l
	where l.workspace_id = @workspace and l.mode = @mode and l.participant_id = @participant and (l.created_at, l.id) > (@after_at, @after_id)
	order by l.created_at, l.id
	limit @limit`

const workspaceLedger = `
	select {l}
	from ledger_entries l
	where l.workspace_id = @workspace and l.id > @after_id
	order by l.id
	limit @limit`
