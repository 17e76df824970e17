package export

// Statements about workspaces, programmes and participants.

const workspace = `
	select {w}
	from workspaces w
	where w.id = @workspace and w.id > @after_id
	limit @limit`

const members = `
	select m.user_id, u.email, u.name, m.role, u.email_verified_at, f.confirmed_at as second_factor_at, u.created_at as account_at, m.created_at as joined_at
	from members m
	join users u on u.id = m.user_id
	left join second_factors f on f.user_id = u.id
	where m.workspace_id = @workspace and m.user_id > @after_id
	order by m.user_id
	limit @limit`

const memberInvites = `
	select {i}
	from member_invites i
	where i.workspace_id = @workspace and i.id > @after_id
	order by i.id
	limit @limit`

const apiKeys = `
	select {k}
	from api_keys k
	where k.workspace_id = @workspace and k.id > @after_id
	order by k.id
	limit @limit`

const serviceTokens = `
	select {t}
	from service_tokens t
	where t.workspace_id = @workspace and t.id > @after_id
	order by t.id
	limit @limit`

const endpoints = `
	select {e}
	from webhook_endpoints e
	where e.workspace_id = @workspace and e.id > @after_id
	order by e.id
	limit @limit`

const connections = `
	select {c}
	from processor_connections c
	where c.workspace_id = @workspace and c.id > @after_id
	order by c.id
	limit @limit`

const programs = `
	select {p}
	from programs p
	where p.workspace_id = @workspace and p.id > @after_id
	order by p.id
	limit @limit`

const groups = `
	select {g}
	from groups g
	where g.workspace_id = @workspace and g.id > @after_id
	order by g.id
	limit @limit`

const rules = `
	select {r}
	from program_rules r
	where r.workspace_id = @workspace and (r.program_id, r.version) > (@after_id, @after_number)
	order by r.program_id, r.version
	limit @limit`

const participantInvites = `
	select {i}
	from participant_invites i
	where i.workspace_id = @workspace and i.id > @after_id
	order by i.id
	limit @limit`

const participantProfile = `
	select t.id, case when t.partner_consent is null then t.partner_id end as partner_id, t.partner_name, t.partner_email
	from participants t
	where t.workspace_id = @workspace and t.mode = @mode and t.id = @participant and t.id > @after_id
	limit @limit`

const participation = `
	select {t}
	from participants t
	where t.workspace_id = @workspace and t.mode = @mode and t.id = @participant and t.id > @after_id
	limit @limit`

const workspaceParticipants = `
	select {t}
	from participants t
	where t.workspace_id = @workspace and t.id > @after_id
	order by t.id
	limit @limit`

const consentColumns = `
	t.workspace_id, t.program_id, t.id as participant_id, t.mode, 'programme_terms' as type, p.terms_url, t.terms_accepted_at`

const participantConsents = `
	select ` + consentColumns + `
	from participants t
	join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id
	where t.workspace_id = @workspace and t.mode = @mode and t.id = @participant and t.id > @after_id and t.terms_accepted_at is not null
	limit @limit`

const workspaceConsents = `
	select ` + consentColumns + `
	from participants t
	join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id
	where t.workspace_id = @workspace and t.id > @after_id and t.terms_accepted_at is not null
	order by t.id
	limit @limit`

// Each link has a referral code, also a deleted one. No index contains the deleted links of a
// participant.
const participantLinks = `
	select {l}
	from links l
	where l.workspace_id = @workspace and l.mode = @mode and l.participant_id = @participant and l.id > @after_id
		and l.id in (select r.link_id from referral_codes r where r.workspace_id = @workspace and r.participant_id = @participant)
	order by l.id
	limit @limit`

const workspaceLinks = `
	select {l}
	from links l
	where l.workspace_id = @workspace and l.id > @after_id
	order by l.id
	limit @limit`

const codeOrder = ` and (r.mode, r.code) > (@after_first, @after_second)
	order by r.mode, r.code
	limit @limit`

const participantCodes = `
	select {r}
	from referral_codes r
	where r.workspace_id = @workspace and r.mode = @mode and r.participant_id = @participant` + codeOrder

const workspaceCodes = `
	select {r}
	from referral_codes r
	where r.workspace_id = @workspace` + codeOrder

const participantPromoCodes = `
	select {c}
	from promo_codes c
	where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = @participant and (c.created_at, c.id) > (@after_at, @after_id)
	order by c.created_at, c.id
	limit @limit`

const workspacePromoCodes = `
	select {c}
	from promo_codes c
	where c.workspace_id = @workspace and c.id > @after_id
	order by c.id
	limit @limit`
