package export

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// omitted lists the columns of exported tables that no bundle contains, with the reason. All
// other columns of these tables are read by the statements of this package.
var omitted = map[string]map[string]string{
	"users": {
		"password_hash": secret, "erased_at": "an erased account is not exported", "version": internal,
		"unclaimed": internal,
	},
	"workspaces": {
		"version": internal, "erased_at": "an erased workspace is not exported", "billing_active": "the operator's record", "test_data_reset_at": internal,
		"logo_digest": "names a file that everybody can download",
	},
	"members":        {"workspace_id": scope},
	"sessions":       {"browser_digest": secret},
	"user_origins":   {"ua_hash": hash},
	"user_devices":   {},
	"second_factors": {"user_id": internal, "secret": secret, "created_at": internal, "last_step": internal, "failures": internal},
	"payout_methods": {},
	"member_invites": {"digest": secret, "mail_digest": secret, "workspace_id": scope},
	"api_keys":       {"digest": secret, "workspace_id": scope},
	"service_tokens": {"digest": secret, "workspace_id": scope},
	"programs":       {"workspace_id": scope, "version": internal, "fraud_updated_at": internal},
	"program_rules":  {"workspace_id": scope},
	"groups":         {"workspace_id": scope, "version": internal},
	"participants":   {"version": internal, "proposal_id": internal, "proposed_account": "proposed_account_hint has its masked form"},
	"referral_codes": {},
	"links":          {"version": internal},
	"promo_codes":    {"version": internal},
	"analytics_days": {
		"dimension": values, "value": values, "link_id": "the day of all links", "currency": "the day of all currencies", "quarters": "the day of all quarters of an hour",
		"bot_clicks": values, "new_customers": values, "approved": values, "paid": values, "orders": values, "revenue_cents": values, "refunded_cents": values, "commission_cents": values,
	},
	"clicks": {
		"created_at": internal, "language": visitor, "screen": visitor, "ip_hash": hash, "ip_prefix": visitor, "ua_hash": hash,
	},
	"conversions": {
		"decision_id": internal, "customer_email_hash": hash, "customer_email_domain": ofBuyer, "subscription_id": ofBuyer, "line_items": ofBuyer,
		"metadata": "free text of the merchant about the buyer", "customer_ip_hash": hash, "customer_ua_hash": hash,
		"fraud_signals": "evidence can describe the buyer; fraud_events has the rules", "version": internal, "processor": ofBuyer,
		"buyer_erased_at": internal,
	},
	"commissions": {
		"partner_id": "participant_id names the partner", "decision_id": internal, "rule_snapshot": "rules has all versions of the rules", "version": internal,
	},
	"commission_history": {"workspace_id": scope},
	"ledger_entries":     {"partner_id": "participant_id names the partner"},
	"payouts":            {"partner_id": "participant_id names the partner", "account": "a copy of the account in the profile, until 30 days after the payment", "version": internal},
	"payout_batches":     {"workspace_id": scope, "first_confirmed_user": "first_confirmed_by names the member or the service token", "program_ids": "the payouts name the programmes", "version": internal},
	"refunds":            {"workspace_id": scope, "reason": ofBuyer},
	"fraud_events":       {},
	"participant_invites": {
		"digest": secret, "mail_digest": secret, "workspace_id": scope,
	},
	"webhook_endpoints": {
		"workspace_id": scope, "secret": secret, "previous_secret": secret, "previous_until": internal, "epoch": internal, "version": internal,
		"consecutive_failures": internal, "failing_since": internal, "dead_letters": internal, "sender": internal, "sender_until": internal,
		"last_dead_letter_day": internal,
	},
	"processor_connections": {
		"workspace_id": scope, "key": secret, "endpoint_id": internal, "secret": secret, "previous_secret": secret, "previous_secret_until": internal,
		"failure_notified_on": internal, "endpoint_failing": internal, "resync_number": internal, "resync_since": internal, "resync_from": internal,
	},
	"notifications":            {},
	"notification_preferences": {},
	"mails": {
		"kind": internal, "logged": internal, "account_kind": "the account is the profile or a member", "recipient_name": "the account has the name",
		"facts": "the subject says what the mail is about", "secret": secret, "sender": internal, "html": "the notification log shows it", "text": "the notification log shows it",
	},
	"audit_log":         {},
	"account_audit_log": {},
}

// excluded lists the tables that no bundle contains, with the reason.
var excluded = map[string]string{
	"analytics_values":             values,
	"analytics_log":                values,
	"analytics_conversions":        values,
	"analytics_customers":          "conversions have the customers",
	"analytics_cohorts":            "conversions have the customers",
	"analytics_locks":              "locks",
	"erasures":                     "the audit log has the erasures",
	"erasure_participants":         "rows of running erasures",
	"buyer_erasures":               "the audit log has the erasures",
	"buyer_erasure_keys":           "keys of requests",
	"buyer_erasure_sales":          "rows of running erasures",
	"buyer_erasure_customers":      "rows of running erasures",
	"test_data_resets":             "the audit log has the deletions",
	"refresh_tokens":               secret,
	"login_failures":               "keyed hashes, kept for 15 minutes",
	"former_emails":                "keyed hashes of addresses",
	"email_tokens":                 secret,
	"recovery_codes":               secret,
	"login_challenges":             secret,
	"email_requests":               "deleted when the mail is sent",
	"mail_suppressions":            "keyed hashes of addresses; the preferences of a user say whether mail is suppressed",
	"mail_provider_messages":       internal,
	"click_dead_letters":           "clicks that belong to no participant",
	"awaited_clicks":               "names a click and a conversion for a day",
	"click_rolls":                  internal,
	"click_days":                   "click_summary has the counts of the days",
	"attribution_decisions":        "explains a conversion, with hashes of the buyer; the audit endpoints return it",
	"customers":                    ofBuyer,
	"customer_payments":            ofBuyer,
	"commission_counts":            sums,
	"stats_deltas":                 sums,
	"participant_totals":           sums,
	"link_totals":                  sums,
	"list_counts":                  sums,
	"ledger_balances":              sums,
	"payout_commissions":           "commissions name their payout",
	"idempotency_keys":             "repeats responses, kept for 24 hours",
	"fx_rates":                     "belongs to nobody",
	"check_results":                "belongs to nobody",
	"key_fingerprints":             "belongs to nobody",
	"events":                       "repeats the records that are exported",
	"webhook_deliveries":           "repeats the records that are exported",
	"workspace_logos":              "a file that everybody can download",
	"announcements":                "the same text for all partners of a programme",
	"notification_arrivals":        internal,
	"notification_reads":           "which notification a user has opened, kept with the notification",
	"notification_watermarks":      "which notification a user has opened, kept with the notification",
	"notification_dismissals":      internal,
	"notification_digests":         internal,
	"notification_feeds":           internal,
	"notification_positions":       internal,
	"notification_streams":         internal,
	"notification_stream_tickets":  secret,
	"notification_periods":         internal,
	"processor_signature_failures": internal,
	"processor_events":             ofBuyer,
	"conversion_aliases":           ofBuyer,
	"processor_charges":            ofBuyer,
	"processor_charge_aliases":     ofBuyer,
	"processor_disputes":           ofBuyer,
	"processor_promo_codes":        "repeats the promo codes",
	"erased_values":                "keyed hashes of what was erased",
	"exports":                      internal,
	"export_chunks":                "the bundles themselves",
	"export_tokens":                secret,
	"export_recipients":            internal,
	"goose_db_version":             internal,
}

// The reasons that several tables and columns have in common.
const (
	secret   = "a secret, or the digest of one"
	hash     = "a keyed hash, which says nothing to the person"
	internal = "bookkeeping of the service, without data about a person"
	scope    = "the workspace is the subject of the bundle"
	visitor  = "data of the visitor and not of the subject"
	ofBuyer  = "data of the buyer, who has a pseudonym in bundles"
	sums     = "sums of records that are exported"
	values   = "clicks, conversions and commissions have the values"
)

// A new table or column is exported, or the lists above say why it is not. Otherwise the test
// fails.
func TestStatements_ReadEveryColumnThatIsNotOmitted(t *testing.T) {
	t.Parallel()
	f := pgtest.Open(t, time.Now)
	columns := map[string][]string{}
	for _, line := range f.Texts(`
		select c.relname || ' ' || a.attname
		from pg_class c
		join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition`) {
		table, column, _ := strings.Cut(line, " ")
		columns[table] = append(columns[table], column)
	}
	read := columnsRead()
	for _, table := range slices.Sorted(maps.Keys(columns)) {
		reasons, isExported := omitted[table]
		switch _, isExcluded := excluded[table]; {
		case isExported == isExcluded:
			t.Errorf("the table %s must be in one of the lists omitted and excluded: decide whether bundles contain it", table)
		case isExcluded && read[table] != nil:
			t.Errorf("the table %s is in excluded, and a statement reads it", table)
		case isExported:
			for _, column := range columns[table] {
				if (reasons[column] != "") == read[table][column] {
					t.Errorf("the column %s.%s must be either exported or in the list omitted with a reason", table, column)
				}
			}
		}
		for column := range reasons {
			if !slices.Contains(columns[table], column) {
				t.Errorf("the list omitted has the column %s.%s, which does not exist", table, column)
			}
		}
	}
	for _, table := range slices.Concat(slices.Collect(maps.Keys(omitted)), slices.Collect(maps.Keys(excluded))) {
		if columns[table] == nil {
			t.Errorf("the lists have the table %s, which does not exist", table)
		}
	}
}

var (
	tableAliases = regexp.MustCompile(`(?:from|join) ([a-z_]+) ([a-z])\b`)
	column       = regexp.MustCompile(`\b([a-z])\.([a-z_0-9]+)`)
)

// columnsRead returns the columns that the statements read, by table. It takes the aliases of
// the tables from the statements.
func columnsRead() map[string]map[string]bool {
	read := map[string]map[string]bool{}
	add := func(table, name string) {
		if read[table] == nil {
			read[table] = map[string]bool{}
		}
		read[table][name] = true
	}
	for _, parts := range queries {
		for _, q := range parts {
			aliases := map[string]string{}
			sql := q.sql(false)
			for _, match := range tableAliases.FindAllStringSubmatch(sql, -1) {
				aliases[match[2]] = match[1]
			}
			selected, _, _ := strings.Cut(sql, " from "+q.from)
			for _, match := range column.FindAllStringSubmatch(selected, -1) {
				if table := aliases[match[1]]; table != "" {
					add(table, match[2])
				}
			}
		}
	}
	// These columns are the conditions of the statements or are read under another alias.
	add("notifications", "feed_id")
	add("payout_methods", "user_id")
	return read
}
