package export

import (
	"slices"
	"strings"
)

// query reads the records of a part. Each statement reads one page in the order of an index.
type query struct {
	// from has a table with the alias t.
	from string
	// The field columns has columns of t. The field internal has further columns of t that only
	// the merchant may see, such as notes about a partner. A bundle for a partner does not have
	// them. The field more is SQL of other columns.
	columns, internal, more string
	// The field where has the conditions. The field group is empty or has a GROUP BY clause.
	where, group string
	order        order
}

// order is the order of the records.
type order struct {
	by []string
	// after has the parameters for the columns in by. A page begins after their values.
	after string
	// position has the columns of the position. nil means the columns in by.
	position []string
}

var (
	byID   = order{by: []string{"t.id"}, after: "@after_id"}
	byTime = order{by: []string{"t.created_at", "t.id"}, after: "@after_at, @after_id"}
	byAt   = order{by: []string{"t.at", "t.id"}, after: "@after_at, @after_id"}
)

// Conditions of statements.
const (
	ofUser         = `t.user_id = @user`
	ofWorkspace    = `t.workspace_id = @workspace`
	ofParticipant  = `t.workspace_id = @workspace and t.mode = @mode and t.participant_id = @participant`
	oneParticipant = `t.workspace_id = @workspace and t.mode = @mode and t.id = @participant`
)

// sql returns the statement. The function arguments has its named parameters. Its last columns
// are the position of the record.
func (q query) sql(forPartner bool) string {
	columns := strings.Fields(q.columns)
	if !forPartner {
		columns = append(columns, strings.Fields(q.internal)...)
	}
	for i := range columns {
		columns[i] = "t." + columns[i]
	}
	if q.more != "" {
		columns = append(columns, q.more)
	}
	by := strings.Join(q.order.by, ", ")
	return "select " + strings.Join(slices.Concat(columns, q.position()), ", ") + " from " + q.from +
		" where " + q.where + " and (" + by + ") > (" + q.order.after + ")" + q.group + " order by " + by + " limit @limit"
}

// position returns the columns of the position of a record.
func (q query) position() []string {
	if q.order.position != nil {
		return q.order.position
	}
	return q.order.by
}

// with returns the query with other conditions.
func (q query) with(where string) query {
	q.where = where
	return q
}

// in returns the query in another order.
func (q query) in(by order) query {
	q.order = by
	return q
}

// ofMembers returns the query for all members of a workspace, from the query for one account.
func (q query) ofMembers() query {
	q.from = "members m join " + q.from + " on t.user_id = m.user_id"
	return q.with("m.workspace_id = @workspace")
}

// queries has the query of each part at each level.
var queries = map[Level]map[Part]query{
	LevelAccount: {
		PartProfile: {
			from:    "users t left join payout_methods p on p.user_id = t.id left join second_factors f on f.user_id = t.id",
			columns: "id kind email name country locale company_name website_url email_verified_at previous_email email_changed_at created_at",
			more:    "f.confirmed_at as second_factor_at, p.method, p.account_hint, p.updated_at, p.held_until, p.account",
			where:   "t.id = @user", order: byID,
		},
		PartSessions: sessions, PartNetworks: networks, PartDevices: devices, PartPreferences: preferences,
		PartNotifications: notifications, PartMails: mails,
		PartAudit: {from: "account_audit_log t", columns: "id user_id at action before after ip_prefix request_id", where: ofUser, order: byID},
	},
	LevelParticipation: {
		// The merchant sees the account once the partner has accepted.
		PartProfile: {
			from: "participants t", more: "case when t.partner_consent is null then t.partner_id end as partner_id, t.partner_name as name, t.partner_email as email",
			where: oneParticipant, order: byID,
		},
		PartParticipations: participants.with(oneParticipant),
		PartConsents:       consents.with(oneParticipant + " and t.terms_accepted_at is not null"),
		// The links are found by their referral codes, which deleted links also have. No index
		// contains the deleted links of a participant.
		PartLinks: links.with(ofParticipant + " and t.id in " +
			"(select r.link_id from referral_codes r where r.workspace_id = @workspace and r.participant_id = @participant)"),
		PartReferralCodes: codes.with(ofParticipant),
		PartPromoCodes:    promoCodes.with(ofParticipant).in(byTime),
		PartClickSummary: {
			from: "analytics_days t", columns: "workspace_id program_id participant_id mode day", more: clickDayCounts,
			where: ofParticipant + isClickDay +
				" and t.program_id = (select p.program_id from participants p where p.workspace_id = @workspace and p.mode = @mode and p.id = @participant)",
			group: clickDayGroup, order: order{by: []string{"t.day"}, after: "@after_at::date"},
		},
		PartClicks: clicks.with(ofParticipant + " and t.clicked_at >= @since and t.clicked_at >= @after_at").
			in(order{by: []string{"t.clicked_at", "t.id"}, after: "@after_at, @after_id"}),
		PartConversions:   conversions.with(ofParticipant).in(byTime),
		PartFraudEvents:   fraudEvents.with(ofParticipant).in(byTime),
		PartCommissions:   commissions.with(ofParticipant).in(byTime),
		PartPayouts:       payouts.with(ofParticipant).in(byTime),
		PartLedger:        ledger.with(ofParticipant).in(byTime),
		PartNotifications: notifications.with("t.feed_id = @user and " + ofParticipant),
		// The networks of the merchant's members are not exported with a participant.
		PartAudit: {
			from: audit.from, columns: audit.columns, more: "case when t.actor = @user::uuid::text then t.ip_prefix end as ip_prefix",
			where: "t.workspace_id = @workspace and t.resource_id = @participant and t.mode = @mode", order: byAt,
		},
		// The actions of the partner in a workspace. The entries have no programme, so they are
		// read with the partner's first participation in the workspace and mode.
		PartProgramAudit: audit.with(`t.workspace_id = @workspace and t.actor = @user::uuid::text and t.mode = @mode and not exists (
			select from participants p
			where p.workspace_id = @workspace and p.partner_id = @user and p.mode = @mode and p.id < @participant
		)`),
	},
	LevelWorkspace: {
		PartWorkspace: {
			from: "workspaces t", columns: "id name currency timezone allowed_origins origin_policy test_mail_redirect second_person_above_cents" +
				" require_second_factor books_closed_until retain_payee_years slug portal_name accent_color support_email website_url terms_url privacy_url" +
				" locale created_at updated_at",
			where: "t.id = @workspace", order: byID,
		},
		PartMembers: {
			from: "members t join users u on u.id = t.user_id left join second_factors f on f.user_id = u.id", columns: "user_id role",
			more:  "u.email, u.name, u.email_verified_at, f.confirmed_at as second_factor_at, u.created_at as account_created_at, t.created_at as joined_at",
			where: ofWorkspace, order: order{by: []string{"t.user_id"}, after: "@after_id"},
		},
		PartMemberInvites: {from: "member_invites t", columns: "id email role invited_by created_at expires_at ended_at", where: ofWorkspace, order: byID},
		PartSessions:      sessions.ofMembers(), PartNetworks: networks.ofMembers(), PartDevices: devices.ofMembers(), PartPreferences: preferences.ofMembers(),
		PartAPIKeys: {
			from: "api_keys t", columns: "id mode kind name prefix last4 created_at last_used_at expires_at revoked_at rolled_at",
			more: "t.public_text as public_key", where: ofWorkspace, order: byID,
		},
		PartServiceTokens: {
			from: "service_tokens t", columns: "id mode name role allow_payouts prefix last4 created_by created_at expires_at revoked_at rolled_at" +
				" last_used_at last_used_ip_prefix",
			where: ofWorkspace, order: byID,
		},
		PartEndpoints: {
			from: "webhook_endpoints t", columns: "id mode url description subscriptions active disabled_reason last_delivery_at created_at updated_at deleted_at",
			where: ofWorkspace, order: byID,
		},
		PartProcessorConnections: {
			from: "processor_connections t", columns: "id mode processor account_id create_conversions include_out_of_band connected_at updated_at deleted_at",
			where: ofWorkspace, order: byID,
		},
		PartPrograms: {
			from: "programs t", columns: "id mode name slug description status website_url allowed_domains landing_url currency attribution_window_days" +
				" attribution_model signal_precedence link_param auto_approve_partners is_public rules rules_version public_text application_questions" +
				" terms_url terms_text terms_version min_payout_cents" +
				" payout_term_days fraud_policy fraud_settings created_at updated_at",
			where: ofWorkspace, order: byID,
		},
		PartGroups: {from: "groups t", columns: "id program_id name rate_bps flat_amount_cents created_at updated_at", where: ofWorkspace, order: byID},
		PartRules: {
			from: "program_rules t", columns: "program_id version rules at by", where: ofWorkspace,
			order: order{by: []string{"t.program_id", "t.version"}, after: "@after_id, @after_number"},
		},
		PartParticipantInvites: {
			from: "participant_invites t", columns: "id program_id mode email group_id referral_code invited_by created_at expires_at ended_at",
			where: ofWorkspace, order: byID,
		},
		PartParticipants: participants, PartConsents: consents, PartLinks: links, PartReferralCodes: codes, PartPromoCodes: promoCodes,
		PartClickSummary: workspaceClickDays, PartClicks: clicks, PartConversions: conversions,
		PartRefunds: {
			from: "refunds t", columns: "id mode external_refund_id external_transaction_id conversion_id asked_cents amount_cents created_at" +
				" applied_at expires_at",
			where: ofWorkspace, order: byID,
		},
		PartFraudEvents: fraudEvents, PartCommissions: commissions,
		PartCommissionHistory: {
			from: "commission_history t", columns: "commission_id seq at actor from_status to_status amount_cents reason code", where: ofWorkspace,
			order: order{by: []string{"t.commission_id", "t.seq"}, after: "@after_id, @after_number"},
		},
		PartPayouts: payouts,
		PartPayoutBatches: {
			from: "payout_batches t", columns: "id mode status cutoff created_by first_confirmed_by first_confirmed_at confirmed_by created_at" +
				" confirmed_at completed_at",
			where: ofWorkspace, order: byID,
		},
		PartLedger: ledger, PartNotifications: notifications.with("t.feed_id = @workspace"),
		PartMails: mails.with(ofWorkspace + " and t.logged and t.status <> 'pending'"),
		PartAudit: audit,
	},
}

// The records of accounts.
var (
	sessions = query{
		from: "sessions t", columns: "id user_id device network created_at last_used_at idle_expires_at expires_at revoked_at keep_logged_in", where: ofUser, order: byID,
	}
	// The user agents of a network are keyed hashes, which are not exported.
	networks = query{
		from: "user_origins t", columns: "user_id ip_prefix", more: "max(t.seen_at) as last_seen_at",
		where: ofUser, group: " group by t.user_id, t.ip_prefix",
		order: order{by: []string{"t.user_id", "t.ip_prefix"}, after: "@after_id, @after_text"},
	}
	devices = query{
		from: "user_devices t", columns: "user_id", more: "t.seen_at as last_used_at", where: ofUser,
		order: order{by: []string{"t.user_id", "t.device"}, after: "@after_id, decode(@after_text, 'hex')"},
	}
	preferences = query{
		from: "notification_preferences t", columns: "user_id category email in_app", where: ofUser,
		order: order{by: []string{"t.user_id", "t.category"}, after: "@after_id, @after_text"},
	}
	notifications = query{
		from: "notifications t", columns: "id mode category type workspace_id user_id program_id participant_id resource_id facts dismissed_at",
		more: timeOfID + " as created_at", where: "t.feed_id = @user",
		order: order{by: []string{"t.mode", "t.category", "t.day", "t.id"}, after: "@after_first, @after_second, @after_at::date, @after_id"},
	}
	mails = query{
		from: "mails t", columns: "id type category workspace_id mode user_id recipient status reason redirected_to subject created_at completed_at",
		where: ofUser, order: byTime,
	}
	audit = query{
		from: "audit_log t", columns: "id workspace_id mode at actor action resource_type resource_id before after request_id participant_token",
		more: "t.ip_prefix", where: ofWorkspace, order: byAt,
	}
)

// timeOfID is the time in a UUIDv7 (RFC 9562): its first 48 bits are milliseconds.
const timeOfID = `to_timestamp(('x' || translate(left(t.id::text, 13), '-', ''))::bit(48)::bigint / 1000.0)`

// buyer is the pseudonym of a buyer: the same for all records of the buyer in one workspace
// and mode. The column has a keyed hash, which the pseudonym does not contain.
const buyer = `case when t.customer_ref is not null then 'customer-' || encode(substr(sha256(convert_to(t.workspace_id::text, 'UTF8') || '\x00'
	|| convert_to(t.mode, 'UTF8') || '\x00' || convert_to(t.customer_ref, 'UTF8')), 1, 8), 'hex') end as customer`

// The records of programmes and participants.
var (
	participants = query{
		from: "participants t", columns: "id workspace_id program_id mode partner_name partner_email status referral_code application_answers" +
			" terms_accepted_at terms_version applied_at approved_at rejected_at suspended_at erased_at created_at updated_at partner_consent" +
			" proposed_method proposed_account_hint proposed_at",
		internal: "group_id override_rate_bps override_flat_amount_cents tags note rejection_reason suspension_reason external_id",
		more:     "case when @for_partner or t.partner_consent is null then t.partner_id end as partner_id", where: ofWorkspace, order: byID,
	}
	consents = query{
		from: "participants t join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id", columns: "workspace_id program_id mode",
		more:  "t.id as participant_id, 'programme_terms' as type, p.terms_url, t.terms_version, t.terms_accepted_at as accepted_at",
		where: ofWorkspace + " and t.terms_accepted_at is not null", order: byID,
	}
	links = query{
		from: "links t", columns: "id workspace_id program_id participant_id mode code short_key destination_url sub_id utm_source utm_medium utm_campaign" +
			" utm_term utm_content is_default created_at updated_at deleted_at",
		where: ofWorkspace, order: byID,
	}
	codes = query{
		from: "referral_codes t", columns: "workspace_id program_id participant_id link_id mode code created_at", where: ofWorkspace,
		order: order{by: []string{"t.mode", "t.code"}, after: "@after_first, @after_second"},
	}
	promoCodes = query{
		from: "promo_codes t", columns: "id workspace_id program_id participant_id mode code discount_type discount_value currency max_redemptions" +
			" redemptions expires_at active sync_to_processor sync_status created_at updated_at",
		where: ofWorkspace, order: byID,
	}
)

// The records of clicks, conversions and money.
var (
	// This query reads the days of one participant after the days of the previous participant.
	workspaceClickDays = query{
		from: `participants p cross join lateral (
			select t.workspace_id, t.program_id, t.participant_id, t.mode, t.day, ` + clickDayCounts + `
			from analytics_days t
			where t.workspace_id = p.workspace_id and t.mode = p.mode and t.program_id = p.program_id and t.participant_id = p.id
				and (p.id > @after_id or t.day > @after_at::date)` + isClickDay + `` + clickDayGroup + `
		) t`,
		columns: "workspace_id program_id participant_id mode day clicks unique_clicks signups conversions",
		where:   "p.workspace_id = @workspace and p.id >= @after_id",
		order:   order{by: []string{"p.id", "t.day"}, after: "@after_id, @after_at::date"},
	}
	// clicked_at is the time in the id, so the ids have the same order. The condition on clicked_at leaves out the
	// partitions that were read before.
	clicks = query{
		from: "clicks t", columns: "id workspace_id program_id participant_id link_id mode referral_code clicked_at received_at expires_at occurred_at" +
			" landing_url referrer_domain utm_source utm_medium utm_campaign utm_term utm_content sub_id consent country region device browser os" +
			" paid_platform is_unique is_bot bot_reason foreign_origin",
		where: ofWorkspace + " and t.clicked_at >= @since and t.clicked_at >= @after_at",
		order: order{by: []string{"t.id"}, after: "@after_id", position: []string{"t.clicked_at", "t.id"}},
	}
	conversions = query{
		from: "conversions t", columns: "id workspace_id program_id participant_id link_id click_id mode event_type amount_cents currency occurred_at" +
			" created_at status refunded_amount_cents attributed reason_code promo_code sub_id is_recurring recurring_index",
		internal: "external_transaction_id source tax_cents shipping_cents fee_cents discount_cents product_ids fraud_score",
		more:     buyer, where: ofWorkspace, order: byID,
	}
	// The evidence of a rule can describe the buyer.
	fraudEvents = query{
		from: "fraud_events t", columns: "id workspace_id program_id participant_id conversion_id commission_id mode score action status note" +
			" resolved_by resolved_at created_at",
		more: "(select coalesce(jsonb_agg(jsonb_build_object('rule', s -> 'rule', 'score', s -> 'score')), '[]') from jsonb_array_elements(t.signals) s)" +
			" as rules",
		where: ofWorkspace, order: byID,
	}
	commissions = query{
		from: "commissions t", columns: "id workspace_id program_id participant_id conversion_id click_id payout_id mode status commission_type event_type" +
			" promo_code rate_bps flat_amount_cents amount_cents original_amount_cents currency base_amount_cents sale_amount_cents sale_currency fx_rate" +
			" fx_date recurring_index rejection_code hold_until approved_at rejected_at paid_at refunded_at created_at updated_at",
		internal: "external_transaction_id needs_review review_reasons dispute_status auto_approve_at override_reason override_by rejection_reason" +
			" approved_by",
		more: buyer, where: ofWorkspace, order: byID,
	}
	payouts = query{
		from: "payouts t", columns: "id workspace_id batch_id program_id participant_id mode amount_cents currency commission_count adjustment_cents" +
			" status method payee_name account_hint reference failure_reason period_start period_end initiated_at paid_at created_at updated_at",
		where: ofWorkspace, order: byID,
	}
	ledger = query{
		from: "ledger_entries t", columns: "id workspace_id program_id participant_id mode type amount_cents currency commission_id payout_id reason" +
			" created_at occurred_at",
		internal: "created_by", where: ofWorkspace, order: byID,
	}
)

const (
	// clickDayCounts are the counts of a day without the counts of values, orders and bots.
	clickDayCounts = `coalesce(sum(t.clicks), 0)::bigint as clicks, coalesce(sum(t.unique_clicks), 0)::bigint as unique_clicks,
		coalesce(sum(t.signups), 0)::bigint as signups, coalesce(sum(t.conversions), 0)::bigint as conversions`
	// isClickDay selects the rows that clickDayCounts adds up: one for each link.
	isClickDay    = ` and t.dimension = '' and t.currency = '' and num_nonnulls(t.clicks, t.conversions) > 0`
	clickDayGroup = ` group by t.workspace_id, t.program_id, t.participant_id, t.mode, t.day`
)
