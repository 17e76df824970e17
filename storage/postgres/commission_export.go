package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tributary-hq/tributary/affiliate"
)

// commissionRowColumns are the fields of affiliate.CommissionRow in their order,
// over c, p and u.
const commissionRowColumns = `
	c.id, c.created_at, c.status, c.commission_type, p.name, u.name, c.amount_cents, c.currency,
	c.sale_amount_cents, c.sale_currency, c.external_transaction_id, c.promo_code, c.needs_review,
	c.hold_until, c.approved_at, c.rejected_at, c.paid_at, c.refunded_at, c.payout_id`

func commissionExportSQL(where conditions, order affiliate.CommissionOrder) string {
	return `
		select ` + commissionRowColumns + `
		from commissions c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		join users u on u.id = c.partner_id
		where ` + where.sql() + ` order by ` + commissionSortOf(order)
}

// ExportCommissions hands every row of a list to each, in the list's order, as
// one snapshot has them. The row is one and the same, filled anew. It reads on as
// each takes them, so its memory does not grow, and ends with the first error
// that each returns.
func (s *Store) ExportCommissions(
	ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter, order affiliate.CommissionOrder,
	each func(*affiliate.CommissionRow) error,
) error {
	return s.inExport(ctx, scope.Workspace, func(ctx context.Context, tx pgx.Tx) error {
		where, err := commissionConditions(ctx, tx, scope, filter)
		if err != nil {
			return err
		}
		// A result that is not read to its end would be read to it by Close.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		rows, err := tx.Query(ctx, commissionExportSQL(where, order), append([]any{planned}, where.args...)...)
		if err != nil {
			return fmt.Errorf("export commissions: %w", err)
		}
		defer rows.Close()
		var row affiliate.CommissionRow
		into := scanCommissionRow(&row)
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return fmt.Errorf("export commissions: %w", err)
			}
			if err := each(&row); err != nil {
				cancel()
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("export commissions: %w", err)
		}
		return nil
	})
}

// scanCommissionRow is where the columns go. Texts stay where they were received
// until the next row comes: copies of them would be most of an export's garbage.
func scanCommissionRow(row *affiliate.CommissionRow) []any {
	text := func(b *[]byte) *pgtype.DriverBytes { return (*pgtype.DriverBytes)(b) }
	return []any{
		&row.ID, &row.CreatedAt, text(&row.Status), text(&row.Type), text(&row.ProgramName), text(&row.PartnerName),
		&row.AmountCents, text(&row.Currency), &row.SaleAmountCents, text(&row.SaleCurrency),
		text(&row.ExternalTransactionID), text(&row.PromoCode), &row.NeedsReview,
		&row.HoldUntil, &row.ApprovedAt, &row.RejectedAt, &row.PaidAt, &row.RefundedAt, &row.Payout,
	}
}
