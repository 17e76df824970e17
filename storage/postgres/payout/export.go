package payout

import (
	"context"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Files of a batch. The payouts of a batch with one method and one currency have a fixed
// order, the order of their ids, and a fixed position in it from the confirmation on. A
// part of an export is a range of positions. So a payout is in the same part whenever the
// part is exported, even if other payouts were paid or canceled in the meantime.

const (
	// countExport counts the confirmed payouts of a batch with a method.
	countExport = `
		select p.currency, count(*) as payouts,
			count(*) filter (where p.status in ('pending', 'processing') and p.amount_cents % 100 <> 0) as fractions
		from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.initiated_at is not null and ($4::text is null or p.method = $4)
		group by p.currency
		order by p.currency`
	deletePayoutAccounts = `
		update payouts set account = null
		where (workspace_id, id) in (
			select p.workspace_id, p.id
			from payouts p
			where p.status = 'paid' and p.account is not null and p.paid_at < $1
			order by p.paid_at
			limit $2)`
	// deletePayeeNames reads all payouts with a name. They are few: the paid payouts of
	// erased partners in workspaces with a retention.
	deletePayeeNames = `
		update payouts set payee_name = null
		where (workspace_id, id) in (
			select p.workspace_id, p.id
			from payouts p
			join workspaces w on w.id = p.workspace_id
			where p.payee_name is not null and p.paid_at <= $1::timestamptz - make_interval(years => w.retain_payee_years)
			order by p.paid_at
			limit $2)`
)

// selectExport selects the payouts of one part that are still to be paid. It numbers all
// confirmed payouts of the batch with a method and a currency.
var selectExport = `
	select ` + payoutColumns + `, p.account, g.name as program_name, t.partner_name
	from (
		select p.*, row_number() over (order by p.id) as position
		from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.initiated_at is not null
			and ($4::text is null or p.method = $4) and ($5::text is null or p.currency = $5)
	) p` + payoutNames + `
	where p.status in ('pending', 'processing') and p.position > $6 and ($7::bigint is null or p.position <= $7)
	order by p.currency, lower(t.partner_name), p.id`

// ExportTotals counts the confirmed payouts of a batch with a method, or with any
// method if method is nil, for each currency.
func ExportTotals(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id payout.BatchID, method *payout.Method,
) ([]payout.ExportTotal, error) {
	return postgres.List[payout.ExportTotal](ctx, db, "count the payouts of an export", countExport, scope.Workspace, scope.Mode, id, method)
}

// Export returns the pending and processing payouts of one part of an export with
// their sealed accounts, ordered by currency and partner name. A payout is in the same part
// in every export. All payouts come from one snapshot. Export uses a connection and
// an export slot as Export does. Errors: SERVICE_UNAVAILABLE if too many exports are running.
func Export(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id payout.BatchID, export payout.Export,
) iter.Seq2[payout.ExportedPayout, error] {
	after, last := export.Positions()
	return postgres.Export(ctx, db, scope.Workspace, pgx.RowToStructByName[payout.ExportedPayout], selectExport,
		scope.Workspace, scope.Mode, id, export.Method, export.Currency, after, last)
}

// DeleteAccounts deletes the accounts of at most limit payouts that were paid before
// the given time, of all workspaces. It keeps their masked form. It returns the number of
// changed payouts.
func DeleteAccounts(ctx context.Context, db *postgres.DB, paidBefore time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, deletePayoutAccounts, paidBefore, limit)
	return tag.RowsAffected(), err
}

// DeletePayeeNames deletes the names of erased partners from at most limit payouts, of all
// workspaces, whose retention has ended (Workspace.RetainPayeeYears). It returns the number
// of changed payouts.
func DeletePayeeNames(ctx context.Context, db *postgres.DB, now time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, deletePayeeNames, now, limit)
	return tag.RowsAffected(), err
}
