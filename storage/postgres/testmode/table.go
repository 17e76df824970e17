package testmode

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// step deletes rows of one table. Several steps can delete different rows of a table.
type step struct{ table, sql string }

// steps are the deletions in an order that respects the foreign keys: a row is deleted
// before the rows to which it refers. Clicks and events have their own methods.
var steps = []step{
	{"mails", deleteLoggedMails},
	{"mails", deleteTestMails},
	{"notifications", deleteNotifications},
	{"notifications", deletePartnerNotifications},
	{"notification_digests", deleteDigests},
	{"announcements", deleteAnnouncements},
	{"webhook_deliveries", deleteDeliveries},
	{"awaited_clicks", deleteAwaitedClicks},
	{"fraud_events", deleteFraudEvents},
	{"refunds", deleteRefunds},
	{"payout_commissions", deletePayoutCommissions},
	{"ledger_entries", deleteLedgerEntries},
	{"ledger_balances", deleteLedgerBalances},
	{"payouts", deletePayouts},
	{"payout_batches", deletePayoutBatches},
	{"commission_history", deleteCommissionHistory},
	{"commissions", deleteCommissions},
	{"commission_counts", deleteCommissionCounts},
	{"attribution_decisions", deleteDecisions},
	{"conversions", deleteConversions},
	{"conversion_aliases", deleteConversionAliases},
	{"processor_charge_aliases", deleteChargeAliases},
	{"processor_charges", deleteCharges},
	{"processor_disputes", deleteDisputes},
	{"processor_events", deleteProcessorEvents},
	{"processor_promo_codes", deleteProcessorPromoCodes},
	{"customer_payments", deleteCustomerPayments},
	{"customers", deleteCustomers},
	{"idempotency_keys", deleteIdempotencyKeys},
	{"erased_values", deleteErasedValues},
	{"stats_deltas", deleteStatsDeltas},
	{"analytics_locks", byMode("analytics_locks")},
	{"analytics_log", byMode("analytics_log")},
	{"analytics_days", byMode("analytics_days")},
	{"analytics_values", byMode("analytics_values")},
	{"analytics_conversions", byMode("analytics_conversions")},
	{"analytics_customers", byMode("analytics_customers")},
	{"analytics_cohorts", byMode("analytics_cohorts")},
	{"click_days", deleteClickDays},
	{"link_totals", deleteLinkTotals},
	{"participant_totals", deleteParticipantTotals},
	{"promo_codes", deletePromoCodes},
	{"referral_codes", deleteReferralCodes},
	{"links", deleteLinks},
	{"participant_invites", deleteInvites},
	{"participants", deleteParticipants},
	{"groups", deleteGroups},
	{"list_counts", deleteListCounts},
	{"program_rules", deleteProgramRules},
	{"programs", deletePrograms},
}

// The subqueries with LATERAL and OFFSET 0 make Postgres begin with the programmes, endpoints,
// commissions or payouts of test mode and search the rows of each of them. Otherwise it could
// read all rows of the workspace, also those of live mode, and look up the mode of each.

// byMode returns a statement that deletes rows of a table with a column mode. An index of
// the table begins with the workspace, and in most tables the mode follows. The other tables
// have few rows in a workspace.
func byMode(table string) string {
	return `delete from ` + table + ` where workspace_id = @workspace and mode = 'test' and ctid = any (array(
		select ctid from ` + table + ` where workspace_id = @workspace and mode = 'test' limit @limit))`
}

// byProgram returns a statement that deletes rows of the programmes of test mode.
func byProgram(table string) string {
	return `delete from ` + table + ` where workspace_id = @workspace and ctid = any (array(
		select x.ctid from programs p
		cross join lateral (select x.ctid from ` + table + ` x where x.workspace_id = p.workspace_id and x.program_id = p.id offset 0) x
		where p.workspace_id = @workspace and p.mode = 'test' limit @limit))`
}

// byParticipant returns a statement that deletes rows of the participants of test mode.
func byParticipant(table string) string {
	return `delete from ` + table + ` where workspace_id = @workspace and ctid = any (array(
		select x.ctid from programs p
		cross join lateral (select t.workspace_id, t.id, t.partner_id from participants t where t.workspace_id = p.workspace_id and t.program_id = p.id offset 0) t
		cross join lateral (select x.ctid from ` + table + ` x where x.workspace_id = t.workspace_id and x.participant_id = t.id offset 0) x
		where p.workspace_id = @workspace and p.mode = 'test' limit @limit))`
}

var (
	deleteAwaitedClicks     = byMode("awaited_clicks")
	deleteFraudEvents       = byMode("fraud_events")
	deleteRefunds           = byMode("refunds")
	deletePayouts           = byMode("payouts")
	deletePayoutBatches     = byMode("payout_batches")
	deleteCommissions       = byMode("commissions")
	deleteCommissionCounts  = byMode("commission_counts")
	deleteConversions       = byMode("conversions")
	deleteConversionAliases = byMode("conversion_aliases")
	deleteChargeAliases     = byMode("processor_charge_aliases")
	deleteCharges           = byMode("processor_charges")
	deleteDisputes          = byMode("processor_disputes")
	deleteProcessorEvents   = byMode("processor_events")
	deleteCustomerPayments  = byMode("customer_payments")
	deleteCustomers         = byMode("customers")
	deleteIdempotencyKeys   = byMode("idempotency_keys")
	deleteErasedValues      = byMode("erased_values")
	deleteStatsDeltas       = byMode("stats_deltas")
	deletePromoCodes        = byMode("promo_codes")
	deleteInvites           = byMode("participant_invites")
	deletePrograms          = byMode("programs")

	deleteAnnouncements     = byProgram("announcements")
	deleteParticipants      = byProgram("participants")
	deleteGroups            = byProgram("groups")
	deleteListCounts        = byProgram("list_counts")
	deleteLedgerBalances    = byParticipant("ledger_balances")
	deleteParticipantTotals = byParticipant("participant_totals")
)

const (
	// deleteLoggedMails deletes the entries of the notification log, which is a part of test
	// mode. Pending account mail is not in the log and is still sent.
	deleteLoggedMails = `
		delete from mails where workspace_id = @workspace and ctid = any (array(
			select ctid from mails where workspace_id = @workspace and logged and status <> 'pending' limit @limit))`
	deleteTestMails = `
		delete from mails where workspace_id = @workspace and ctid = any (array(
			select ctid from mails where workspace_id = @workspace and mode = 'test' limit @limit))`
	deleteNotifications = `
		delete from notifications n
		using (
			select category, day, id from notifications
			where feed_id = @workspace and mode = 'test'
			limit @limit
		) x
		where n.feed_id = @workspace and n.mode = 'test' and n.category = x.category and n.day = x.day and n.id = x.id`
	// deletePartnerNotifications deletes notifications from the feeds of the participants'
	// accounts.
	deletePartnerNotifications = `
		delete from notifications n
		using (
			select y.feed_id, y.category, y.day, y.id
			from (
				select distinct t.partner_id from programs p
				cross join lateral (select t.workspace_id, t.id, t.partner_id from participants t where t.workspace_id = p.workspace_id and t.program_id = p.id offset 0) t
				where p.workspace_id = @workspace and p.mode = 'test'
			) t
			cross join lateral (
				select y.feed_id, y.category, y.day, y.id from notifications y
				where y.feed_id = t.partner_id and y.mode = 'test' and y.workspace_id = @workspace
				offset 0
			) y
			limit @limit
		) x
		where n.feed_id = x.feed_id and n.mode = 'test' and n.category = x.category and n.day = x.day and n.id = x.id`
	// deleteDigests deletes the gathered mails of members. Digests of partners name no
	// workspace. Without notifications, they are not sent.
	deleteDigests = `
		delete from notification_digests d where d.mode = 'test' and d.workspace_id = @workspace and d.ctid = any (array(
			select y.ctid from members m
			cross join lateral (
				select y.ctid from notification_digests y where y.user_id = m.user_id and y.mode = 'test' and y.workspace_id = @workspace offset 0
			) y
			where m.workspace_id = @workspace limit @limit))`
	deleteDeliveries = `
		delete from webhook_deliveries d
		using (
			select y.endpoint_id, y.id, y.day from webhook_endpoints e
			cross join lateral (
				select y.endpoint_id, y.id, y.day from webhook_deliveries y
				where y.workspace_id = e.workspace_id and y.endpoint_id = e.id and y.mode = 'test'
				offset 0
			) y
			where e.workspace_id = @workspace and e.mode = 'test'
			limit @limit
		) x
		where d.workspace_id = @workspace and d.mode = 'test' and d.endpoint_id = x.endpoint_id and d.id = x.id and d.day = x.day`
	deletePayoutCommissions = `
		delete from payout_commissions where workspace_id = @workspace and ctid = any (array(
			select x.ctid from payouts p
			cross join lateral (select x.ctid from payout_commissions x where x.workspace_id = p.workspace_id and x.payout_id = p.id offset 0) x
			where p.workspace_id = @workspace and p.mode = 'test' limit @limit))`
	deleteLinkTotals = `
		delete from link_totals where workspace_id = @workspace and ctid = any (array(
			select x.ctid from programs p
			cross join lateral (select t.workspace_id, t.id, t.partner_id from participants t where t.workspace_id = p.workspace_id and t.program_id = p.id offset 0) t
			cross join lateral (select l.workspace_id, l.id from links l where l.workspace_id = t.workspace_id and l.participant_id = t.id offset 0) l
			cross join lateral (select x.ctid from link_totals x where x.workspace_id = l.workspace_id and x.link_id = l.id offset 0) x
			where p.workspace_id = @workspace and p.mode = 'test' limit @limit))`
	// deleteProcessorPromoCodes keeps promotion codes that are active at a connected
	// processor. A job deactivates them and needs their ids.
	deleteProcessorPromoCodes = `
		delete from processor_promo_codes where workspace_id = @workspace and mode = 'test' and ctid = any (array(
			select c.ctid from processor_promo_codes c
			where c.workspace_id = @workspace and c.mode = 'test' and not (c.active
				and exists (select from processor_connections x where x.workspace_id = @workspace and x.mode = 'test' and x.deleted_at is null))
			limit @limit))`

	// These two statements return the deleted codes and keys of links, for the edge directory. deleteReferralCodes
	// keeps the codes of programmes that are not archived, because the edge may still know
	// them. deleteLinks returns null for a link that was deleted before.
	deleteReferralCodes = `
		delete from referral_codes where workspace_id = @workspace and mode = 'test' and ctid = any (array(
			select x.ctid from programs p
			cross join lateral (select x.ctid from referral_codes x where x.workspace_id = p.workspace_id and x.program_id = p.id offset 0) x
			where p.workspace_id = @workspace and p.mode = 'test' and p.status = 'archived' limit @limit))
		returning code`
	deleteLinks = `
		delete from links where workspace_id = @workspace and mode = 'test' and ctid = any (array(
			select l.ctid from programs p
			cross join lateral (select t.workspace_id, t.id, t.partner_id from participants t where t.workspace_id = p.workspace_id and t.program_id = p.id offset 0) t
			cross join lateral (select l.ctid from links l where l.workspace_id = t.workspace_id and l.participant_id = t.id offset 0) l
			where p.workspace_id = @workspace and p.mode = 'test' limit @limit))
		returning case when deleted_at is null then short_key end`
)

// The service cannot delete rows of these tables. A function of the schema's owner deletes
// the rows whose ctids it gets, if they belong to test mode.
const (
	deleteLedgerEntries = `
		select delete_test_rows('ledger_entries', @workspace, array(
			select x.ctid from programs p
			cross join lateral (select t.workspace_id, t.id, t.partner_id from participants t where t.workspace_id = p.workspace_id and t.program_id = p.id offset 0) t
			cross join lateral (select x.ctid from ledger_entries x where x.workspace_id = t.workspace_id and x.participant_id = t.id and x.mode = 'test' offset 0) x
			where p.workspace_id = @workspace and p.mode = 'test' limit @limit))`
	deleteCommissionHistory = `
		select delete_test_rows('commission_history', @workspace, array(
			select x.ctid from commissions c
			cross join lateral (select x.ctid from commission_history x where x.workspace_id = c.workspace_id and x.commission_id = c.id offset 0) x
			where c.workspace_id = @workspace and c.mode = 'test' limit @limit))`
	deleteDecisions = `
		select delete_test_rows('attribution_decisions', @workspace, array(
			select ctid from attribution_decisions where workspace_id = @workspace and mode = 'test' limit @limit))`
	deleteProgramRules = `
		select delete_test_rows('program_rules', @workspace, array(
			select x.ctid from programs p
			cross join lateral (select x.ctid from program_rules x where x.workspace_id = p.workspace_id and x.program_id = p.id offset 0) x
			where p.workspace_id = @workspace and p.mode = 'test' limit @limit))`
	deleteClickDays = `
		select delete_test_rows('click_days', @workspace, array(
			select ctid from click_days where workspace_id = @workspace and mode = 'test' limit @limit))`
)

// Steps returns the number of steps of DeleteRows.
func Steps(db *postgres.DB) int { return len(steps) }

// DeleteRows executes a step: it deletes at most limit rows of one table. The steps are
// numbered from 0, and their order respects the foreign keys. The transaction must have locked
// the deletion. A step that deletes fewer rows than the limit has left no row, except
// rows that other transactions have inserted or changed at the same time.
func DeleteRows(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, number, limit int) (privacy.DeletedTestRows, error) {
	s := steps[number]
	deleted := privacy.DeletedTestRows{Table: s.table}
	rows, err := tx.Query(ctx, s.sql, pgx.NamedArgs{"workspace": workspace, "limit": limit})
	if err != nil {
		return deleted, fmt.Errorf("delete %s: %w", s.table, err)
	}
	switch s.table {
	case "ledger_entries", "commission_history", "attribution_decisions", "program_rules", "click_days":
		deleted.Rows, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
		deleted.Counted = deleted.Rows
	case "referral_codes", "links":
		var texts []*string
		texts, err = pgx.CollectRows(rows, pgx.RowTo[*string])
		deleted.Rows = int64(len(texts))
		for _, text := range texts {
			switch {
			case text == nil:
				continue
			case s.table == "links":
				deleted.Links = append(deleted.Links, *text)
			default:
				deleted.Codes = append(deleted.Codes, *text)
			}
			deleted.Counted++
		}
	default:
		rows.Close()
		err = rows.Err()
		deleted.Rows = rows.CommandTag().RowsAffected()
		deleted.Counted = deleted.Rows
	}
	if err != nil {
		return deleted, fmt.Errorf("delete %s: %w", s.table, err)
	}
	return deleted, nil
}
