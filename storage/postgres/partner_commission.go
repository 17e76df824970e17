package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// A partner's commissions are in many workspaces, so the statements name the
// partner and the mode in place of a workspace; those of one programme name the
// participation's workspace, which has one partner.
//
// A page in the order of age is read from an index in that order
// (commissions_by_partner, with a status commissions_by_partner_status, of one
// programme commissions_by_participant) and costs its offset and its size; in
// any other order it costs one pass over the rows that the filter leaves. The
// total is an index-only count of those rows that stops at
// affiliate.MaxTotal, and is left out where the page itself says it; status
// and programme together have to look at the rows.

// partnerCommissionColumns are what a partner may see, over c and p.
const partnerCommissionColumns = `
	c.id, c.program_id as program, p.name as program_name, c.participant_id as participant, c.mode, c.status,
	c.commission_type as type, c.event_type, c.rate_bps, c.flat_amount_cents as flat_cents, c.amount_cents,
	c.original_amount_cents, c.currency, c.sale_amount_cents, c.sale_currency, c.recurring_index, c.promo_code,
	c.hold_until, c.rejection_code, c.approved_at, c.rejected_at, c.paid_at, c.refunded_at, c.created_at`

// PartnerCommissions is one page of a partner's commissions in the mode, and how
// many rows all its pages have, counted up to affiliate.MaxTotal. The order is by
// age, amount or status. Errors: NOT_FOUND for a programme that the partner does not
// take part in.
func (s *Store) PartnerCommissions(
	ctx context.Context, partner affiliate.UserID, mode affiliate.Mode,
	filter affiliate.PartnerCommissionFilter, order affiliate.CommissionOrder, page affiliate.Page,
) ([]affiliate.PartnerCommission, int64, error) {
	where, err := s.partnerCommissionConditions(ctx, partner, mode, filter)
	if err != nil {
		return nil, 0, err
	}
	pageSQL, countSQL := partnerCommissionsSQL(where, order)
	args := append([]any{planned}, where.args...)
	rows, err := s.pool.Query(ctx, pageSQL, append(args, page.Size, page.Offset())...)
	if err != nil {
		return nil, 0, fmt.Errorf("partner's commissions: %w", err)
	}
	commissions, err := pgx.CollectRows(rows, pgx.RowToStructByName[affiliate.PartnerCommission])
	if err != nil {
		return nil, 0, fmt.Errorf("partner's commissions: %w", err)
	}
	if n := int64(len(commissions)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// The list ends on this page.
		return commissions, page.Offset() + n, nil
	}
	var total int64
	if err := s.pool.QueryRow(ctx, countSQL, args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count partner's commissions: %w", err)
	}
	return commissions, total, nil
}

// partnerCommissionConditions say which rows of c the filter leaves. Errors:
// NOT_FOUND for a programme that the partner does not take part in.
func (s *Store) partnerCommissionConditions(
	ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, filter affiliate.PartnerCommissionFilter,
) (where conditions, err error) {
	if filter.Program == nil {
		where.add("c.partner_id = ?", partner)
		where.add("c.mode = ?", mode)
	} else {
		const participation = `
			select workspace_id, id from participants where partner_id = $1 and mode = $2 and program_id = $3`
		var workspace affiliate.WorkspaceID
		var participant affiliate.ParticipantID
		err := s.pool.QueryRow(ctx, participation, partner, mode, *filter.Program).Scan(&workspace, &participant)
		if errors.Is(err, pgx.ErrNoRows) {
			return where, affiliate.Refuse(affiliate.ReasonNotFound)
		}
		if err != nil {
			return where, fmt.Errorf("participation: %w", err)
		}
		where.add("c.workspace_id = ?", workspace)
		where.add("c.mode = ?", mode)
		where.add("c.participant_id = ?", participant)
	}
	if filter.Status != "" {
		where.add("c.status = ?", filter.Status)
	}
	if filter.Created.From != nil {
		where.add("c.created_at >= ?", *filter.Created.From)
	}
	if filter.Created.Before != nil {
		where.add("c.created_at < ?", *filter.Created.Before)
	}
	return where, nil
}

// partnerCommissionsSQL are the statements for a page, whose last two arguments
// are its size and offset, and for the total.
func partnerCommissionsSQL(where conditions, order affiliate.CommissionOrder) (page, count string) {
	direction := " desc"
	if order.Ascending {
		direction = " asc"
	}
	sorted := commissionSorts[order.By] + direction + ", c.created_at desc, c.id desc"
	page = `
		select ` + partnerCommissionColumns + `
		from (select c.* from commissions c where ` + where.sql() + ` order by ` + sorted +
		` limit ` + where.placeholder(1) + ` offset ` + where.placeholder(2) + `) c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		order by ` + sorted
	return page, commissionTotalSQL(where, affiliate.MaxTotal)
}

// partnerBalances sums the partner's ledger in the mode, and what of its
// commissions is not there yet or was paid: an index-only sum
// (commissions_by_partner_status) that costs as much as there are.
const partnerBalances = `
	select currency, sum(balance_cents)::bigint as balance_cents, sum(pending_cents)::bigint as pending_cents, sum(paid_cents)::bigint as paid_cents
	from (
		select b.currency, b.balance_cents, 0 as pending_cents, 0 as paid_cents
		from participants t
		join ledger_balances b on b.workspace_id = t.workspace_id and b.participant_id = t.id
		where t.partner_id = $1 and t.mode = $2
		union all
		select c.currency, 0, case c.status when 'pending' then c.amount_cents else 0 end, case c.status when 'paid' then c.amount_cents else 0 end
		from commissions c
		where c.partner_id = $1 and c.mode = $2 and c.status in ('pending', 'paid')
	) sums
	group by currency
	order by currency`

// PartnerBalances sums what a partner is owed and has earned in the mode, by
// currency.
func (s *Store) PartnerBalances(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode) ([]affiliate.PartnerBalance, error) {
	rows, err := s.pool.Query(ctx, partnerBalances, partner, mode)
	if err != nil {
		return nil, fmt.Errorf("balances: %w", err)
	}
	balances, err := pgx.CollectRows(rows, pgx.RowToStructByName[affiliate.PartnerBalance])
	if err != nil {
		return nil, fmt.Errorf("balances: %w", err)
	}
	return balances, nil
}
