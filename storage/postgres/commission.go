package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// commissionColumns name the fields of affiliate.Commission, of a row or a CTE
// called c. The scope is not among them: every statement is given it.
const commissionColumns = `
	c.id, c.program_id as program, c.participant_id as participant, c.partner_id as partner,
	c.conversion_id as conversion, c.decision_id as decision, c.external_transaction_id,
	c.click_id as click, c.promo_code, c.customer_ref, c.status, c.commission_type as type, c.event_type,
	c.rate_bps, c.flat_amount_cents as flat_cents, c.amount_cents, c.original_amount_cents, c.currency,
	c.base_amount_cents, c.sale_amount_cents, c.sale_currency, c.fx_rate, c.fx_date, c.recurring_index,
	c.needs_review, c.review_reasons, c.dispute_status as dispute, c.hold_until, c.auto_approve_at,
	c.override_reason, c.override_by, c.rejection_reason, c.rejection_code, c.approved_at, c.approved_by,
	c.rejected_at, c.paid_at, c.refunded_at, c.payout_id as payout, c.rule_snapshot as rule,
	c.version, c.created_at, c.updated_at`

const insertCommissions = `
	insert into commissions (
		workspace_id, mode, id, program_id, participant_id, partner_id, conversion_id, decision_id,
		external_transaction_id, click_id, promo_code, customer_ref, status, commission_type, event_type,
		rate_bps, flat_amount_cents, amount_cents, original_amount_cents, currency, base_amount_cents,
		sale_amount_cents, sale_currency, fx_rate, fx_date, recurring_index, needs_review, review_reasons,
		dispute_status, hold_until, auto_approve_at, override_reason, override_by, rejection_reason,
		rejection_code, approved_at, approved_by, rejected_at, paid_at, refunded_at, payout_id,
		rule_snapshot, version, created_at, updated_at)
	values %s`

var commissionRows = rowsOf(insertCommissions, 45)

// queueCommissions adds commissions to the transaction of the conversions that
// earn them. They may start as pending or as approved. What follows from them
// (queueSettlement) and their events are the caller's.
func queueCommissions(batch *pgx.Batch, commissions ...affiliate.Commission) {
	rows := make([][]any, len(commissions))
	for i, c := range commissions {
		rows[i] = []any{
			c.Scope.Workspace, c.Scope.Mode, c.ID, c.Program, c.Participant, c.Partner, c.Conversion, c.Decision,
			c.ExternalTransactionID, c.Click, c.PromoCode, c.CustomerRef, c.Status, c.Type, c.EventType,
			c.RateBps, c.FlatCents, c.AmountCents, c.OriginalAmountCents, c.Currency, c.BaseAmountCents,
			c.SaleAmountCents, c.SaleCurrency, c.FXRate, c.FXDate, c.RecurringIndex, c.NeedsReview, nonNil(c.ReviewReasons),
			c.Dispute, c.HoldUntil, c.AutoApproveAt, c.OverrideReason, c.OverrideBy, c.RejectionReason,
			c.RejectionCode, c.ApprovedAt, c.ApprovedBy, c.RejectedAt, c.PaidAt, c.RefundedAt, c.Payout,
			c.Rule, c.Version, c.CreatedAt, c.UpdatedAt,
		}
	}
	commissionRows.queue(batch, rows...)
}

// querier is a transaction or the pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Commission reads one commission of a programme with everything that its
// detail shows. NOT_FOUND: there is none in this scope and this programme.
func (s *Store) Commission(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID,
) (affiliate.CommissionDetail, error) {
	return commissionDetail(ctx, s.pool, scope, program, id)
}

// commissionDetail is one statement, so that a commission and its history are of
// one instant.
func commissionDetail(
	ctx context.Context, q querier, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID,
) (affiliate.CommissionDetail, error) {
	const read = `
		select ` + commissionColumns + `,
			p.name as program_name, u.name as partner_name, u.email as partner_email,
			d.method, d.reason_code, d.explanation, d.clicked_at, d.expires_at,
			(select json_agg(json_build_object('at', h.at, 'actor', h.actor, 'from', h.from_status, 'to', h.to_status, 'reason', h.reason) order by h.seq)
			from commission_history h
			where h.workspace_id = c.workspace_id and h.commission_id = c.id) as history
		from commissions c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		join users u on u.id = c.partner_id
		join attribution_decisions d on d.workspace_id = c.workspace_id and d.id = c.decision_id
		where c.workspace_id = $1 and c.mode = $2 and c.program_id = $3 and c.id = $4`
	type row struct {
		affiliate.CommissionItem
		affiliate.CommissionAttribution
		History []affiliate.CommissionHistoryEntry // oldest first
	}
	rows, _ := q.Query(ctx, read, scope.Workspace, scope.Mode, program, id)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[row])
	if errors.Is(err, pgx.ErrNoRows) {
		return affiliate.CommissionDetail{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return affiliate.CommissionDetail{}, fmt.Errorf("commission: %w", err)
	}
	found.Scope = scope
	return affiliate.CommissionDetail{
		CommissionItem: found.CommissionItem,
		Attribution:    found.CommissionAttribution,
		History:        found.History,
	}, nil
}

// ProgramScope is the workspace and mode of a programme, whoever's it is: the
// lists tell another workspace's programme from one that does not exist, so
// this one look-up must not name a workspace.
func (s *Store) ProgramScope(ctx context.Context, id affiliate.ProgramID) (affiliate.Scope, error) {
	const read = `select workspace_id as workspace, mode from programs where id = $1`
	rows, _ := s.pool.Query(ctx, read, id)
	scope, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[affiliate.Scope])
	if errors.Is(err, pgx.ErrNoRows) {
		return affiliate.Scope{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return affiliate.Scope{}, fmt.Errorf("programme: %w", err)
	}
	return scope, nil
}
