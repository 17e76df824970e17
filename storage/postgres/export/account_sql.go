package export

// Statements about accounts: of a partner (parameter user) or of the members of a workspace.

const userProfile = `
	select u.id, u.kind, u.email, u.name, u.country, u.company_name, u.website_url, u.email_verified_at, u.previous_email, u.email_changed_at,
		f.confirmed_at as second_factor_at, u.created_at,
		p.method, p.account as sealed_account, p.account_hint, p.updated_at as method_updated_at, p.held_until
	from users u
	left join payout_methods p on p.user_id = u.id
	left join second_factors f on f.user_id = u.id
	where u.id = @user and u.id > @after_id
	limit @limit`

const userSessions = `
	select {s}
	from sessions s
	where s.user_id = @user and s.id > @after_id
	order by s.id
	limit @limit`

const memberSessions = `
	select {s}
	from members m
	join sessions s on s.user_id = m.user_id
	where m.workspace_id = @workspace and s.id > @after_id
	order by s.id
	limit @limit`

// The user agents of a network are keyed hashes, which are not exported.
const userNetworks = `
	select o.user_id, o.ip_prefix, max(o.seen_at) as seen_at
	from user_origins o
	where o.user_id = @user and (o.user_id, o.ip_prefix) > (@after_id, @after_text)
	group by o.user_id, o.ip_prefix
	order by o.user_id, o.ip_prefix
	limit @limit`

const memberNetworks = `
	select o.user_id, o.ip_prefix, max(o.seen_at) as seen_at
	from members m
	join user_origins o on o.user_id = m.user_id
	where m.workspace_id = @workspace and (o.user_id, o.ip_prefix) > (@after_id, @after_text)
	group by o.user_id, o.ip_prefix
	order by o.user_id, o.ip_prefix
	limit @limit`

const userDevices = `
	select {d}
	from user_devices d
	where d.user_id = @user and (d.user_id, d.device) > (@after_id, decode(@after_text, 'hex'))
	order by d.user_id, d.device
	limit @limit`

const memberDevices = `
	select {d}
	from members m
	join user_devices d on d.user_id = m.user_id
	where m.workspace_id = @workspace and (d.user_id, d.device) > (@after_id, decode(@after_text, 'hex'))
	order by d.user_id, d.device
	limit @limit`

const userPreferences = `
	select {p}
	from notification_preferences p
	where p.user_id = @user and (p.user_id, p.category) > (@after_id, @after_text)
	order by p.user_id, p.category
	limit @limit`

const memberPreferences = `
	select {p}
	from members m
	join notification_preferences p on p.user_id = m.user_id
	where m.workspace_id = @workspace and (p.user_id, p.category) > (@after_id, @after_text)
	order by p.user_id, p.category
	limit @limit`

const notificationOrder = `
		and (n.mode, n.category, n.day, n.id) > (@after_first, @after_second, @after_at::date, @after_id)
	order by n.mode, n.category, n.day, n.id
	limit @limit`

const userNotifications = `
	select {n}
	from notifications n
	where n.feed_id = @user` + notificationOrder

// The notifications of the partner about the participation. They are in the partner's feed.
const participantNotifications = `
	select {n}
	from notifications n
	where n.feed_id = @user and n.workspace_id = @workspace and n.participant_id = @participant and n.mode = @mode` + notificationOrder

const workspaceNotifications = `
	select {n}
	from notifications n
	where n.feed_id = @workspace` + notificationOrder

const userMails = `
	select {m}
	from mails m
	where m.user_id = @user and (m.created_at, m.id) > (@after_at, @after_id)
	order by m.created_at, m.id
	limit @limit`

const workspaceMails = `
	select {m}
	from mails m
	where m.workspace_id = @workspace and m.logged and m.status <> 'pending' and (m.created_at, m.id) > (@after_at, @after_id)
	order by m.created_at, m.id
	limit @limit`

const userAudit = `
	select {a}
	from account_audit_log a
	where a.user_id = @user and a.id > @after_id
	order by a.id
	limit @limit`

const auditColumns = `
	a.id, a.workspace_id, a.mode, a.at, a.actor, a.action, a.resource_type, a.resource_id, a.before, a.after, a.request_id, a.participant_token`

const auditOrder = ` and (a.at, a.id) > (@after_at, @after_id)
	order by a.at, a.id
	limit @limit`

// The networks of the merchant's members are not exported with a participant.
const participantAudit = `
	select ` + auditColumns + `, case when a.actor = @user::uuid::text then a.ip_prefix end as ip_prefix
	from audit_log a
	where a.workspace_id = @workspace and a.resource_id = @participant and a.mode = @mode` + auditOrder

// The actions of the partner in a workspace. The entries have no programme, so they are read
// with the partner's first participation in the workspace and mode.
const partnerAudit = `
	select ` + auditColumns + `, a.ip_prefix
	from audit_log a
	where a.workspace_id = @workspace and a.actor = @user::uuid::text and a.mode = @mode
		and not exists (
			select from participants t
			where t.workspace_id = @workspace and t.partner_id = @user and t.mode = @mode and t.id < @participant
		)` + auditOrder

const workspaceAudit = `
	select ` + auditColumns + `, a.ip_prefix
	from audit_log a
	where a.workspace_id = @workspace` + auditOrder
