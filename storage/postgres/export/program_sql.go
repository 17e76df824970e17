package export

// Statements about workspaces, programmes and participants.

const workspace = `
	select w.id, w.name, w.currency, w.timezone, w.allowed_origins, w.origin_policy, w.test_mail_redirect, w.second_person_above_cents,
		w.require_second_factor, w.books_closed_until, w.retain_payee_years, w.created_at, w.updated_at
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
	select i.id, i.email, i.role, i.invited_by, i.created_at, i.expires_at, i.ended_at
	from member_invites i
	where i.workspace_id = @workspace and i.id > @after_id
	order by i.id
	limit @limit`

const apiKeys = `
	select k.id, k.mode, k.kind, k.name, k.public_text, k.prefix, k.last4, k.created_at, k.last_used_at, k.expires_at, k.revoked_at, k.rolled_at
	from api_keys k
	where k.workspace_id = @workspace and k.id > @after_id
	order by k.id
	limit @limit`

const serviceTokens = `
	select t.id, t.mode, t.name, t.role, t.allow_payouts, t.prefix, t.last4, t.created_by, t.created_at, t.expires_at, t.revoked_at,
		t.rolled_at, t.last_used_at, t.last_used_ip_prefix
	from service_tokens t
	where t.workspace_id = @workspace and t.id > @after_id
	order by t.id
	limit @limit`

const endpoints = `
	select e.id, e.mode, e.url, e.description, e.subscriptions, e.active, e.disabled_reason, e.last_delivery_at, e.created_at, e.updated_at, e.deleted_at
	from webhook_endpoints e
	where e.workspace_id = @workspace and e.id > @after_id
	order by e.id
	limit @limit`

const connections = `
	select c.id, c.mode, c.processor, c.account_id, c.create_conversions, c.include_out_of_band, c.connected_at, c.updated_at, c.deleted_at
	from processor_connections c
	where c.workspace_id = @workspace and c.id > @after_id
	order by c.id
	limit @limit`

const programs = `
	select p.id, p.mode, p.name, p.slug, p.description, p.status, p.website_url, p.allowed_domains, p.landing_url, p.currency,
		p.attribution_window_days, p.attribution_model, p.signal_precedence, p.link_param, p.auto_approve_partners, p.is_public,
		p.rules, p.rules_version, p.terms_url, p.min_payout_cents, p.payout_term_days, p.fraud_policy, p.fraud_settings, p.created_at, p.updated_at
	from programs p
	where p.workspace_id = @workspace and p.id > @after_id
	order by p.id
	limit @limit`

const groups = `
	select g.id, g.program_id, g.name, g.rate_bps, g.flat_amount_cents, g.created_at, g.updated_at
	from groups g
	where g.workspace_id = @workspace and g.id > @after_id
	order by g.id
	limit @limit`

const rules = `
	select r.program_id, r.version, r.rules, r.at, r.by
	from program_rules r
	where r.workspace_id = @workspace and (r.program_id, r.version) > (@after_id, @after_number)
	order by r.program_id, r.version
	limit @limit`

const participantInvites = `
	select i.id, i.program_id, i.mode, i.email, i.group_id, i.referral_code, i.invited_by, i.created_at, i.expires_at, i.ended_at
	from participant_invites i
	where i.workspace_id = @workspace and i.id > @after_id
	order by i.id
	limit @limit`

const participantProfile = `
	select t.id, case when t.partner_consent is null then t.partner_id end as partner_id, t.partner_name, t.partner_email
	from participants t
	where t.workspace_id = @workspace and t.mode = @mode and t.id = @participant and t.id > @after_id
	limit @limit`

const participationColumns = `
	t.id, t.workspace_id, t.program_id, t.mode, t.partner_id, t.partner_name, t.partner_email, t.status, t.referral_code, t.application_answers,
	t.terms_accepted_at, t.applied_at, t.approved_at, t.rejected_at, t.suspended_at, t.erased_at, t.created_at, t.updated_at,
	t.group_id, t.override_rate_bps, t.override_flat_amount_cents, t.tags, t.note, t.rejection_reason, t.suspension_reason,
	t.external_id, t.partner_consent`

const participation = `
	select ` + participationColumns + `
	from participants t
	where t.workspace_id = @workspace and t.mode = @mode and t.id = @participant and t.id > @after_id
	limit @limit`

const workspaceParticipants = `
	select ` + participationColumns + `
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

const linkColumns = `
	l.id, l.workspace_id, l.program_id, l.participant_id, l.mode, l.code, l.short_key, l.destination_url, l.sub_id,
	l.utm_source, l.utm_medium, l.utm_campaign, l.utm_term, l.utm_content, l.is_default, l.created_at, l.updated_at, l.deleted_at`

// Each link has a referral code, also a deleted one. No index contains the deleted links of a
// participant.
const participantLinks = `
	select ` + linkColumns + `
	from links l
	where l.workspace_id = @workspace and l.mode = @mode and l.participant_id = @participant and l.id > @after_id
		and l.id in (select r.link_id from referral_codes r where r.workspace_id = @workspace and r.participant_id = @participant)
	order by l.id
	limit @limit`

const workspaceLinks = `
	select ` + linkColumns + `
	from links l
	where l.workspace_id = @workspace and l.id > @after_id
	order by l.id
	limit @limit`

const codeColumns = `r.workspace_id, r.program_id, r.participant_id, r.link_id, r.mode, r.code, r.created_at`

const codeOrder = ` and (r.mode, r.code) > (@after_first, @after_second)
	order by r.mode, r.code
	limit @limit`

const participantCodes = `
	select ` + codeColumns + `
	from referral_codes r
	where r.workspace_id = @workspace and r.mode = @mode and r.participant_id = @participant` + codeOrder

const workspaceCodes = `
	select ` + codeColumns + `
	from referral_codes r
	where r.workspace_id = @workspace` + codeOrder

const promoCodeColumns = `
	c.id, c.workspace_id, c.program_id, c.participant_id, c.mode, c.code, c.discount_type, c.discount_value, c.currency, c.max_redemptions,
	c.redemptions, c.expires_at, c.active, c.sync_to_processor, c.sync_status, c.created_at, c.updated_at`

const participantPromoCodes = `
	select ` + promoCodeColumns + `
	from promo_codes c
	where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = @participant and (c.created_at, c.id) > (@after_at, @after_id)
	order by c.created_at, c.id
	limit @limit`

const workspacePromoCodes = `
	select ` + promoCodeColumns + `
	from promo_codes c
	where c.workspace_id = @workspace and c.id > @after_id
	order by c.id
	limit @limit`
