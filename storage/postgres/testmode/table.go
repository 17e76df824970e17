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
// before the rows to which it refers. Clicks and events have their own functions.
var steps = []step{
	// The notification log is deleted too. It also has account mail, which has no mode. Pending
	// account mail is not in the log; it stays and is sent.
	deleteRows("mails", `select ctid from mails where workspace_id = @workspace and logged and status <> 'pending'`),
	deleteRows("mails", ofMode("mails")),
	{"notifications", deleteNotifications},
	{"notifications", deletePartnerNotifications},
	deleteRows("notification_digests", digestsOfMembers),
	deleteRows("announcements", ofPrograms("announcements")),
	{"webhook_deliveries", deleteDeliveries},
	deleteRows("awaited_clicks", ofMode("awaited_clicks")),
	deleteRows("fraud_events", ofMode("fraud_events")),
	deleteRows("refunds", ofMode("refunds")),
	deleteRows("payout_commissions", ofParents("payouts", "payout_commissions", "payout_id")),
	deleteAsOwner("ledger_entries", ofParticipants("ledger_entries")),
	deleteRows("ledger_balances", ofParticipants("ledger_balances")),
	deleteRows("payouts", ofMode("payouts")),
	deleteRows("payout_batches", ofMode("payout_batches")),
	deleteAsOwner("commission_history", ofParents("commissions", "commission_history", "commission_id")),
	deleteRows("commissions", ofMode("commissions")),
	deleteRows("commission_counts", ofMode("commission_counts")),
	deleteAsOwner("attribution_decisions", ofMode("attribution_decisions")),
	deleteRows("conversions", ofMode("conversions")),
	deleteRows("conversion_aliases", ofMode("conversion_aliases")),
	deleteRows("processor_charge_aliases", ofMode("processor_charge_aliases")),
	deleteRows("processor_charges", ofMode("processor_charges")),
	deleteRows("processor_disputes", ofMode("processor_disputes")),
	deleteRows("processor_events", ofMode("processor_events")),
	// Promotion codes that are active at a connected processor stay. A job deactivates them there
	// and needs their ids.
	deleteRows("processor_promo_codes", ofMode("processor_promo_codes")+` and not (active
		and exists (select from processor_connections x where x.workspace_id = @workspace and x.mode = 'test' and x.deleted_at is null))`),
	deleteRows("customer_payments", ofMode("customer_payments")),
	deleteRows("customers", ofMode("customers")),
	deleteRows("idempotency_keys", ofMode("idempotency_keys")),
	deleteRows("erased_values", ofMode("erased_values")),
	deleteRows("stats_deltas", ofMode("stats_deltas")),
	deleteRows("analytics_locks", ofMode("analytics_locks")),
	deleteRows("analytics_log", ofMode("analytics_log")),
	deleteRows("analytics_days", ofMode("analytics_days")),
	deleteRows("analytics_values", ofMode("analytics_values")),
	deleteRows("analytics_conversions", ofMode("analytics_conversions")),
	deleteRows("analytics_customers", ofMode("analytics_customers")),
	deleteRows("analytics_cohorts", ofMode("analytics_cohorts")),
	deleteAsOwner("click_days", ofMode("click_days")),
	deleteRows("link_totals", `
		select x.ctid from programs p`+eachParticipant+eachLink+`
		cross join lateral (select x.ctid from link_totals x where x.workspace_id = l.workspace_id and x.link_id = l.id offset 0) x
		where p.workspace_id = @workspace and p.mode = 'test'`),
	deleteRows("participant_totals", ofParticipants("participant_totals")),
	deleteRows("promo_codes", ofMode("promo_codes")),
	// The next two steps return the deleted codes and the short keys of deleted links, for the
	// edge directory. The codes of programmes that are not archived stay, because the edge may
	// still know them. The result is null for a link that was already marked as deleted.
	deleteRows("referral_codes", ofPrograms("referral_codes")+" and p.status = 'archived'").returning("code"),
	deleteRows("links", `select l.ctid from programs p`+eachParticipant+eachLink+` where p.workspace_id = @workspace and p.mode = 'test'`).
		returning("case when deleted_at is null then short_key end"),
	deleteRows("participant_invites", ofMode("participant_invites")),
	deleteRows("participants", ofPrograms("participants")),
	deleteRows("groups", ofPrograms("groups")),
	deleteRows("list_counts", ofPrograms("list_counts")),
	deleteAsOwner("program_rules", ofPrograms("program_rules")),
	deleteRows("programs", ofMode("programs")),
}

// deleteRows returns a step that deletes rows of a table. The statement find selects the ctids
// of the rows. The table must not be partitioned.
func deleteRows(table, find string) step {
	return step{table, "delete from " + table + " where workspace_id = @workspace and ctid = any (array(" + find + " limit @limit))"}
}

// deleteAsOwner returns a step for a table whose rows the service may not delete. A function of the schema's owner
// deletes the rows that the statement find selects, if they belong to test mode.
func deleteAsOwner(table, find string) step {
	return step{table, "select delete_test_rows('" + table + "', @workspace, array(" + find + " limit @limit))"}
}

// returning returns the step with a result for each deleted row.
func (s step) returning(column string) step {
	s.sql += " returning " + column
	return s
}

// The subqueries with LATERAL and OFFSET 0 make Postgres begin with the programmes, endpoints,
// commissions or payouts of test mode and search the rows of each of them. Otherwise it could
// read all rows of the workspace, also those of live mode, and look up the mode of each.
const (
	eachParticipant = `
		cross join lateral (select t.workspace_id, t.id, t.partner_id from participants t where t.workspace_id = p.workspace_id and t.program_id = p.id offset 0) t`
	eachLink = `
		cross join lateral (select l.ctid, l.workspace_id, l.id from links l where l.workspace_id = t.workspace_id and l.participant_id = t.id offset 0) l`
)

// ofMode selects the rows of test mode in a table that has the column mode. An index of the table
// begins with the workspace, and in most tables the mode follows. The other tables have few rows
// in a workspace.
func ofMode(table string) string {
	return `select ctid from ` + table + ` where workspace_id = @workspace and mode = 'test'`
}

// ofParents selects the rows of a table that refer, with the given column, to rows of test mode in another table.
func ofParents(parents, table, column string) string {
	return `
		select x.ctid from ` + parents + ` p
		cross join lateral (select x.ctid from ` + table + ` x where x.workspace_id = p.workspace_id and x.` + column + ` = p.id offset 0) x
		where p.workspace_id = @workspace and p.mode = 'test'`
}

// ofPrograms selects the rows of the programmes of test mode.
func ofPrograms(table string) string { return ofParents("programs", table, "program_id") }

// ofParticipants selects the rows of the participants of test mode.
func ofParticipants(table string) string {
	return `
		select x.ctid from programs p` + eachParticipant + `
		cross join lateral (select x.ctid from ` + table + ` x where x.workspace_id = t.workspace_id and x.participant_id = t.id offset 0) x
		where p.workspace_id = @workspace and p.mode = 'test'`
}

const (
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
			from (select distinct t.partner_id from programs p` + eachParticipant + ` where p.workspace_id = @workspace and p.mode = 'test') t
			cross join lateral (
				select y.feed_id, y.category, y.day, y.id from notifications y
				where y.feed_id = t.partner_id and y.mode = 'test' and y.workspace_id = @workspace
				offset 0
			) y
			limit @limit
		) x
		where n.feed_id = x.feed_id and n.mode = 'test' and n.category = x.category and n.day = x.day and n.id = x.id`
	// digestsOfMembers selects the digests of members. Digests of partners stay, because they have
	// no workspace. They are not sent, because their notifications are deleted.
	digestsOfMembers = `
		select y.ctid from members m
		cross join lateral (
			select y.ctid from notification_digests y where y.user_id = m.user_id and y.mode = 'test' and y.workspace_id = @workspace offset 0
		) y
		where m.workspace_id = @workspace`
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
)

// Steps returns the number of steps of DeleteRows.
func Steps() int { return len(steps) }

// DeleteRows executes a step: it deletes at most limit rows of one table. The steps are
// numbered from 0, and their order respects the foreign keys. The transaction must hold the lock of
// the running deletion (LockReset). A step that deletes fewer rows than the limit has left no row, except
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
