package payout

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Lists of payouts. All lists have the same order: newest first. Five indexes have this
// order: the index of a mode, of a status, of a programme, of a participant and of a
// partner. A page is read from one of these indexes, except a page of one batch, for
// which Postgres reads all payouts of the batch. Postgres skips the rows that do not
// match the other conditions of the filter. A total stops at affiliate.MaxTotal.

// payoutNames joins the names of programmes and partners to payouts p.
const payoutNames = `
	join programs g on g.workspace_id = p.workspace_id and g.id = p.program_id
	join participants t on t.workspace_id = p.workspace_id and t.id = p.participant_id`

// listPayouts returns a page of the payouts that match where and the filter, and their number.
func listPayouts(
	ctx context.Context, db *postgres.DB, where postgres.Conditions, filter payout.Filter, page affiliate.Page,
) ([]payout.Item, int64, error) {
	payoutConditions(&where, filter)
	pageSQL, countSQL := payoutListSQL(where)
	return postgres.Page[payout.Item](ctx, db, where, page, pageSQL, countSQL)
}

func payoutConditions(where *postgres.Conditions, filter payout.Filter) {
	if filter.Status != "" {
		where.Add("p.status = ?", filter.Status)
	}
	if filter.Program != nil {
		where.Add("p.program_id = ?", *filter.Program)
	}
	if filter.Participant != nil {
		where.Add("p.participant_id = ?", *filter.Participant)
	}
	if filter.Batch != nil {
		where.Add("p.batch_id = ?", *filter.Batch)
	}
	where.Within("p.created_at", filter.Created)
}

// payoutListSQL returns the statements for a page and for the total. The statement for a
// page takes the arguments of where, and then the size and the offset of the page. The
// statement for the total takes only the arguments of where.
func payoutListSQL(where postgres.Conditions) (page, count string) {
	const newest = ` order by p.created_at desc, p.id desc`
	page = `
		select ` + payoutColumns + `, g.name as program_name, coalesce(p.payee_name, t.partner_name) as partner_name
		from (select p.* from payouts p where ` + where.SQL() + newest +
		` limit ` + where.Placeholder(1) + ` offset ` + where.Placeholder(2) + `) p` + payoutNames + newest
	return page, postgres.CountUpTo(affiliate.MaxTotal, `from payouts p where `+where.SQL())
}

// List returns one page of payouts, newest first, and the number of payouts on all pages,
// up to MaxTotal. Errors: NOT_FOUND if the filter has an unknown programme, participant or batch.
func List(ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter payout.Filter, page affiliate.Page) ([]payout.Item, int64, error) {
	if err := postgres.CheckFilter(ctx, db, scope, filter.Program, filter.Participant, filter.Batch); err != nil {
		return nil, 0, err
	}
	var where postgres.Conditions
	where.Add("p.workspace_id = ?", scope.Workspace)
	where.Add("p.mode = ?", scope.Mode)
	return listPayouts(ctx, db, where, filter, page)
}

// ListOfPartner does the same for a partner's payouts in a mode, without those that were
// never confirmed. Errors: NOT_FOUND for a programme without the partner.
func ListOfPartner(
	ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, filter payout.Filter, page affiliate.Page,
) ([]payout.Item, int64, error) {
	if err := postgres.CheckParticipation(ctx, db, partner, mode, filter.Program); err != nil {
		return nil, 0, err
	}
	var where postgres.Conditions
	where.Add("p.partner_id = ?", partner)
	where.Add("p.mode = ?", mode)
	where.Add("p.initiated_at is not null")
	return listPayouts(ctx, db, where, filter, page)
}

// Get returns one payout. Errors: NOT_FOUND.
func Get(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, id affiliate.PayoutID) (payout.Item, error) {
	read := `
		select ` + payoutColumns + `, g.name as program_name, coalesce(p.payee_name, t.partner_name) as partner_name
		from payouts p` + payoutNames + `
		where p.workspace_id = $1 and p.mode = $2 and p.id = $3`
	return postgres.OneRow[payout.Item](db.Query(ctx, read, scope.Workspace, scope.Mode, id))
}

// GetDetail returns one payout with its commissions. Errors: NOT_FOUND.
func GetDetail(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.PayoutID) (payout.Detail, error) {
	const commissions = `
		select c.id, h.amount_cents, c.external_transaction_id, c.event_type, c.approved_at, c.created_at
		from payout_commissions h
		join commissions c on c.workspace_id = h.workspace_id and c.id = h.commission_id
		where h.workspace_id = $1 and c.mode = $2 and h.payout_id = $3
		order by c.approved_at, c.id
		limit $4`
	const hint = `
		select case p.status when 'draft' then m.account_hint else p.account_hint end
		from payouts p
		left join payout_methods m on m.user_id = p.partner_id and m.method = p.method
		where p.workspace_id = $1 and p.mode = $2 and p.id = $3`
	item, err := Get(ctx, db, scope, id)
	if err != nil {
		return payout.Detail{}, err
	}
	detail := payout.Detail{Item: item}
	detail.Commissions, err = postgres.List[payout.Commission](
		ctx, db, commissions, scope.Workspace, scope.Mode, id, payout.MaxPayoutCommissions)
	if err != nil {
		return detail, err
	}
	detail.AccountHint, err = postgres.Value[*string](ctx, db, hint, scope.Workspace, scope.Mode, id)
	return detail, err
}

// payoutOfPartner finds the workspace of a partner's payout. It reads the payouts of the
// partner, because the primary key begins with the workspace.
const payoutOfPartner = `
	select p.workspace_id, w.name from payouts p join workspaces w on w.id = p.workspace_id
	where p.partner_id = $1 and p.mode = $2 and p.id = $3 and p.initiated_at is not null`

// GetOfPartner returns one payout of a partner with its commissions, and the name of the
// workspace that pays. Errors: NOT_FOUND, also if the payout was never confirmed.
func GetOfPartner(
	ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, id affiliate.PayoutID,
) (detail payout.Detail, merchant string, err error) {
	scope := affiliate.Scope{Mode: mode}
	err = db.QueryRow(ctx, payoutOfPartner, partner, mode, id).Scan(&scope.Workspace, &merchant)
	if errors.Is(err, pgx.ErrNoRows) {
		return detail, "", affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return detail, "", err
	}
	detail, err = GetDetail(ctx, db, scope, id)
	return detail, merchant, err
}

// Exports of a batch. After the confirmation, the payouts of one method and one currency are
// numbered by id, and the numbers do not change. A part of an export is a range of numbers. So
// a payout is in the same part whenever the part is exported, even if other payouts were paid
// or canceled in the meantime.

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
	// deletePayeeNames scans the payouts with a payee name. They are few: the paid payouts of
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

// ExportTotals counts a batch's confirmed payouts by currency, of one method or all.
func ExportTotals(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id payout.BatchID, method *payout.Method,
) ([]payout.ExportTotal, error) {
	return postgres.List[payout.ExportTotal](ctx, db, countExport, scope.Workspace, scope.Mode, id, method)
}

// Export returns the pending and processing payouts of one part of an export with
// their sealed accounts, ordered by currency and partner name. A payout is in the same part
// in every export. All payouts come from one snapshot. As with postgres.Export, a loop over the result
// uses a connection and an export slot. Errors: SERVICE_UNAVAILABLE if too many exports are running.
func Export(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id payout.BatchID, export payout.Export,
) iter.Seq2[payout.ExportedPayout, error] {
	after, last := export.Positions()
	return postgres.Export(ctx, db, scope.Workspace, pgx.RowToStructByName[payout.ExportedPayout], selectExport,
		scope.Workspace, scope.Mode, id, export.Method, export.Currency, after, last)
}

// DeleteAccounts deletes the payment accounts of at most limit payouts that were paid before the
// given time, but not their masked form (account_hint). It returns the number of changed payouts.
func DeleteAccounts(ctx context.Context, db *postgres.DB, paidBefore time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, deletePayoutAccounts, paidBefore, limit)
	return tag.RowsAffected(), err
}

// DeletePayeeNames deletes the names of erased partners from at most limit payouts after
// their retention (Workspace.RetainPayeeYears). It returns how many have changed.
func DeletePayeeNames(ctx context.Context, db *postgres.DB, now time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, deletePayeeNames, now, limit)
	return tag.RowsAffected(), err
}

// Search returns the payouts whose id is the text or whose reference starts with it.
func Search(ctx context.Context, db *postgres.DB, scope affiliate.Scope, text string) ([]affiliate.Hit, error) {
	search := `
		select p.id, coalesce(p.payee_name, t.partner_name) as title, p.reference as subtitle, p.program_id
		from (
			select @id::uuid as id
			union
			(select p.id from payouts p
			where p.workspace_id = @workspace and p.mode = @mode and lower(p.reference) like lower(@pattern)
			order by lower(p.reference) using ~<~
			limit @limit)
		) k
		join payouts p on p.workspace_id = @workspace and p.mode = @mode and p.id = k.id` + payoutNames + `
		order by lower(p.reference) using ~<~, p.created_at desc, p.id desc
		limit @limit`
	return postgres.Hits(ctx, db, scope, text, search)
}
