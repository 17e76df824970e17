package privacy

import (
	"github.com/tributary-hq/tributary/storage/postgres"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
)

// pageOf returns the statement that selects a page of a table with the columns workspace_id,
// mode, id and participant_id. If the parameter @participant is null, the page contains rows of
// the whole workspace.
func pageOf(table string) string {
	return `
		select id from ` + table + `
		where workspace_id = @workspace and mode in ('test', 'live') and id > @after and (@participant::uuid is null or participant_id = @participant)
		order by id limit @limit`
}

// withErasedCode selects the conversions of a page that name a promo code of the participant. @texts also has names.
// A text that is a promo code now belongs to another participant, because the participant's promo codes are replaced.
const withErasedCode = `
	from conversions c
	where c.workspace_id = @workspace and c.mode in ('test', 'live') and c.id = any(@ids) and c.promo_code = any(@texts)
		and not exists (
			select from promo_codes p where p.workspace_id = c.workspace_id and p.mode = c.mode and p.code = c.promo_code
		)`

// inBothModes selects the rows of a workspace in both modes.
const inBothModes = `workspace_id = @workspace and mode in ('test', 'live')`

const (
	auditPage = `select id from audit_log where workspace_id = @workspace and id > @after order by id limit @limit`
	mailPage  = `select id from mails where id > @after order by id limit @limit`
)

const (
	eraseHistory = `select erase_texts('commission_history', @workspace, @ids, @pseudonym)`
	eraseLedger  = `select erase_texts('ledger_entries', @workspace, @ids, @pseudonym)`
	erasePayouts = `
		update payouts set reference = null, failure_reason = null, account = null, account_hint = null
		where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids)
			and num_nonnulls(reference, failure_reason, account, account_hint) > 0`
	eraseFraudNotes = `
		update fraud_events set note = null
		where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids) and note is not null`
)

// participantSteps erase the data of a participant that the first part of the erasure has left.
var participantSteps = []step{
	directoryCodes(),
	clickTable(`
		update clicks set referral_code = @pseudonym, ` + clicks.EraseVisitColumns + `
		where workspace_id = @workspace and mode in ('test', 'live') and id > @after and id <= @last
			and clicked_at >= @from and clicked_at <= @until and participant_id = @participant and referral_code <> @pseudonym`),
	clickDays(),
	walk("conversions", pageOf("conversions"), `
		update conversions set promo_code = case when promo_code is null then null else @pseudonym end, sub_id = null
		where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids)
			and (sub_id is not null or promo_code <> @pseudonym)`,
		`select erase_texts('attribution_decisions', @workspace, @ids, @pseudonym)`, postgres.LogConversions),
	// Conversions of other participants, or of no participant, can also name a promo code of
	// this participant.
	walk("promo codes of other conversions", `
		select id from conversions
		where workspace_id = @workspace and mode in ('test', 'live') and id > @after
		order by id limit @limit`,
		`select erase_texts('attribution_decisions', @workspace, array(select c.id `+withErasedCode+`), @pseudonym)`, `
		insert into analytics_log (workspace_id, mode, conversions)
		select c.workspace_id, c.mode, array_agg(c.id) `+withErasedCode+` group by c.workspace_id, c.mode`, `
		update commissions m set promo_code = @pseudonym `+withErasedCode+`
			and m.workspace_id = @workspace and m.mode = c.mode and m.conversion_id = c.id and m.promo_code = c.promo_code`, `
		update conversions u set promo_code = @pseudonym `+withErasedCode+`
			and u.workspace_id = @workspace and u.mode = c.mode and u.id = c.id`),
	walk("commissions", pageOf("commissions"), `
		update commissions set promo_code = case when promo_code is null then null else @pseudonym end,
			override_reason = null, rejection_reason = null
		where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids)
			and (num_nonnulls(override_reason, rejection_reason) > 0 or promo_code <> @pseudonym)`,
		eraseHistory),
	walk("ledger", pageOf("ledger_entries"), eraseLedger),
	walk("payouts", pageOf("payouts"), erasePayouts),
	walk("fraud events", pageOf("fraud_events"), eraseFraudNotes),
	walk("promo codes at processors", `
		select id from promo_codes
		where workspace_id = @workspace and mode in ('test', 'live') and participant_id = @participant and id > @after
		order by id limit @limit`, `
		update processor_promo_codes set code = @pseudonym
		where workspace_id = @workspace and mode in ('test', 'live') and promo_code_id = any(@ids) and code <> @pseudonym`),
	weeks("notifications", `
		update notifications set facts = (facts::jsonb - 'reason' - 'reasons')::json
		where feed_id in (@workspace, @partner) and day >= @from::date and day < @until::date and participant_id = @participant
			and facts::jsonb ?| array['reason', 'reasons']`),
	walk("mails", mailPage, `
		delete from mails
		where id = any(@ids) and workspace_id = @workspace and (
			user_id = @partner or recipient = any(@texts)
			or exists (
				select from unnest(@texts::text[]) as t (word)
				where length(word) > 3 and strpos(concat(recipient_name, facts::text, subject, html, text), word) > 0
			))`),
	walk("audit log", auditPage, `
		select erase_texts('audit_log', @workspace, array(
			select l.id from audit_log l
			where l.workspace_id = @workspace and l.id = any(@ids) and l.action not in ('participant.erase', 'workspace.erase') and (
				l.resource_id = @participant
				or l.before ->> 'participant_id' = @participant::text or l.after ->> 'participant_id' = @participant::text
				or exists (select from links r where r.workspace_id = l.workspace_id and r.mode in ('test', 'live') and r.id = l.resource_id and r.participant_id = @participant)
				or exists (select from promo_codes r where r.workspace_id = l.workspace_id and r.mode in ('test', 'live') and r.id = l.resource_id and r.participant_id = @participant)
				or exists (select from commissions r where r.workspace_id = l.workspace_id and r.mode in ('test', 'live') and r.id = l.resource_id and r.participant_id = @participant)
				or exists (select from ledger_entries r where r.workspace_id = l.workspace_id and r.mode in ('test', 'live') and r.id = l.resource_id and r.participant_id = @participant)
				or exists (select from payouts r where r.workspace_id = l.workspace_id and r.mode in ('test', 'live') and r.id = l.resource_id and r.participant_id = @participant)
				or exists (select from fraud_events r where r.workspace_id = l.workspace_id and r.mode in ('test', 'live') and r.id = l.resource_id and r.participant_id = @participant)
				or exists (select from participant_invites r where r.workspace_id = l.workspace_id and r.mode in ('test', 'live') and r.id = l.resource_id and r.email = @pseudonym)
			)), @pseudonym)`),
	storedResponses(),
	eventBodies(),
	deadLetters(),
	streamedDeadLetters(),
}

// accountSteps erase the data of a partner's account that the first part of the erasure has left.
var accountSteps = []step{
	weeks("notifications of the partner", `
		delete from notifications where feed_id = @partner and day >= @from::date and day < @until::date`),
	walk("mails", mailPage, `
		delete from mails where id = any(@ids) and (user_id = @partner or account_kind = 'partner' and recipient = any(@texts))`),
}

// workspaceSteps erase the data of a workspace that the first part of the erasure has left.
var workspaceSteps = []step{
	walk("participants", `
		select id from participants
		where workspace_id = @workspace and mode in ('test', 'live') and id > @after
		order by id limit @limit`, `
		update participants set partner_name = 'erased-' || right(partner_id::text, 8), partner_email = 'erased-' || right(partner_id::text, 8),
			referral_code = 'erased-' || right(partner_id::text, 8), application_answers = '{}', tags = '{}', note = null, external_id = null,
			proposal_id = null, proposed_method = null, proposed_account = null, proposed_account_hint = null, proposed_at = null,
			rejection_reason = null, suspension_reason = null, erased_at = @at, version = version + 1, updated_at = @at
		where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids) and erased_at is null`, `
		update promo_codes set code = 'erased-' || replace(id::text, '-', ''), active = false, sync_to_processor = false
		where workspace_id = @workspace and mode in ('test', 'live') and participant_id = any(@ids) and code <> 'erased-' || replace(id::text, '-', '')`, `
		update links set deleted_at = coalesce(deleted_at, @at), destination_url = case when is_default then null else @pseudonym end, sub_id = null,
			utm_source = null, utm_medium = null, utm_campaign = null, utm_term = null, utm_content = null
		where workspace_id = @workspace and mode in ('test', 'live') and participant_id = any(@ids)
			and (deleted_at is null or destination_url is distinct from case when is_default then null else @pseudonym end
				or num_nonnulls(sub_id, utm_source, utm_medium, utm_campaign, utm_term, utm_content) > 0)`, `
		insert into analytics_log (workspace_id, mode, erased)
		select workspace_id, mode, id from participants where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids)`),
	directoryCodes(), // the step above has deleted the links
	deleteAll("list_counts", "workspace_id = @workspace and what = 'links'"),
	deleteAll("participant_invites", inBothModes),
	clickTable(`
		update clicks c set ` + clicks.EraseColumns + `,
			country = null, region = null, device = null, browser = null, os = null, paid_platform = null
		where c.workspace_id = @workspace and c.mode in ('test', 'live') and c.id > @after and c.id <= @last
			and c.clicked_at >= @from and c.clicked_at <= @until
			and (c.referral_code <> ` + clicks.Pseudonym + ` or num_nonnulls(country, region, device, browser, os, paid_platform) > 0)`),
	clickDays(),
	walk("conversions", pageOf("conversions"), `
		update conversions set external_transaction_id = 'erased-' || replace(id::text, '-', ''),
			promo_code = case when promo_code is null then null else @pseudonym end, sub_id = null,
			customer_ref = null, customer_email_hash = null, customer_email_domain = null, subscription_id = null, product_ids = '{}',
			line_items = null, metadata = null, customer_ip_hash = null, customer_ua_hash = null, processor = null
		where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids)
			and (external_transaction_id <> 'erased-' || replace(id::text, '-', '') or promo_code <> @pseudonym or product_ids <> '{}'
				or num_nonnulls(sub_id, customer_ref, customer_email_hash, customer_email_domain, subscription_id, line_items, metadata,
					customer_ip_hash, customer_ua_hash, processor) > 0)`,
		`select erase_texts('explanations', @workspace, @ids, @pseudonym)`, postgres.LogConversions),
	walk("commissions", pageOf("commissions"), `
		update commissions set external_transaction_id = 'erased-' || replace(conversion_id::text, '-', ''),
			promo_code = case when promo_code is null then null else @pseudonym end, customer_ref = null,
			override_reason = null, rejection_reason = null
		where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids)
			and (external_transaction_id <> 'erased-' || replace(conversion_id::text, '-', '') or promo_code <> @pseudonym
				or num_nonnulls(customer_ref, override_reason, rejection_reason) > 0)`,
		eraseHistory),
	walk("ledger", pageOf("ledger_entries"), eraseLedger),
	walk("payouts", pageOf("payouts"), erasePayouts, `
		update payouts set payee_name = null
		where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids) and payee_name is not null`),
	walk("fraud events", pageOf("fraud_events"), eraseFraudNotes),
	walk("refunds", `
		select id from refunds where workspace_id = @workspace and mode in ('test', 'live') and id > @after order by id limit @limit`,
		`delete from refunds where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids) and conversion_id is null`, `
		update refunds set external_refund_id = 'erased-' || replace(id::text, '-', ''),
			external_transaction_id = 'erased-' || replace(conversion_id::text, '-', ''), reason = null
		where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids) and external_refund_id <> 'erased-' || replace(id::text, '-', '')`),
	deleteAll("customers", inBothModes),
	deleteAll("customer_payments", inBothModes),
	deleteAll("awaited_clicks", inBothModes),
	deleteAll("idempotency_keys", inBothModes),
	deleteAll("processor_events", inBothModes),
	deleteAll("conversion_aliases", inBothModes),
	deleteAll("processor_charges", inBothModes),
	deleteAll("processor_charge_aliases", inBothModes),
	deleteAll("processor_disputes", inBothModes),
	deleteAll("processor_promo_codes", inBothModes),
	deleteAll("buyer_erasure_sales", inBothModes),
	deleteAll("buyer_erasure_customers", "workspace_id = @workspace"),
	deleteAll("buyer_erasure_keys", "workspace_id = @workspace"),
	deleteAll("buyer_erasures", "workspace_id = @workspace"),
	weeks("notifications of the workspace", `
		delete from notifications where feed_id = @workspace and day >= @from::date and day < @until::date`),
	walk("mails", mailPage, `delete from mails where id = any(@ids) and (workspace_id = @workspace or account_kind = 'merchant' and recipient = any(@texts))`),
	walk("audit log", auditPage, `
		select erase_texts('audit_log', @workspace, array(
			select l.id from audit_log l where l.workspace_id = @workspace and l.id = any(@ids) and l.action <> 'workspace.erase'), @pseudonym)`),
	walk("events", `
		select id from events where workspace_id = @workspace and mode in ('test', 'live') and id > @after order by id limit @limit`, `
		update events set body = convert_to('{}', 'UTF8')
		where workspace_id = @workspace and mode in ('test', 'live') and id = any(@ids) and body <> convert_to('{}', 'UTF8')`),
	deadLetters(),
	streamedDeadLetters(),
}
