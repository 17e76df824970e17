// Package commission has the SQL of commissions: lists with exact totals, stats, exports, and the
// changes of locked commissions with everything that follows from them in the same transaction
// (history, ledger, balances, counts).
package commission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// commissionColumns are the fields of commission.Commission, selected from a table or
// CTE with the alias c. The scope is missing because every statement gets the scope as
// an argument.
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

// reviewerName returns an expression for the current name of a reviewer of commissions c: a
// member or a service token of the workspace. actor is an expression for the id of the
// reviewer, which can be null or the word "system". The names are read by subqueries for
// each row. With a join, Postgres could read the users of all workspaces.
func reviewerName(actor string) string {
	return `case when ` + actor + ` ~ '^[0-9a-f-]{36}$' then coalesce(
		(
			select u.name from users u join members m on m.user_id = u.id
			where u.id = (` + actor + `)::uuid and u.erased_at is null and m.workspace_id = c.workspace_id
		),
		(select 'service:' || s.name from service_tokens s where s.workspace_id = c.workspace_id and s.id = (` + actor + `)::uuid)
	) end`
}

var insertCommissions = postgres.RowsOf[newCommissionRow](`insert into commissions ({columns}) values {rows}`)

type newCommissionRow struct {
	WorkspaceID           affiliate.WorkspaceID    `db:"workspace_id"`
	Mode                  affiliate.Mode           `db:"mode"`
	ID                    affiliate.CommissionID   `db:"id"`
	ProgramID             affiliate.ProgramID      `db:"program_id"`
	ParticipantID         affiliate.ParticipantID  `db:"participant_id"`
	PartnerID             affiliate.UserID         `db:"partner_id"`
	ConversionID          affiliate.ConversionID   `db:"conversion_id"`
	DecisionID            affiliate.DecisionID     `db:"decision_id"`
	ExternalTransactionID string                   `db:"external_transaction_id"`
	ClickID               *affiliate.ClickID       `db:"click_id"`
	PromoCode             *string                  `db:"promo_code"`
	CustomerRef           *string                  `db:"customer_ref"`
	Status                commission.Status        `db:"status"`
	CommissionType        program.CommissionType   `db:"commission_type"`
	EventType             affiliate.EventType      `db:"event_type"`
	RateBps               *int64                   `db:"rate_bps"`
	FlatAmountCents       *int64                   `db:"flat_amount_cents"`
	AmountCents           int64                    `db:"amount_cents"`
	OriginalAmountCents   int64                    `db:"original_amount_cents"`
	Currency              string                   `db:"currency"`
	BaseAmountCents       int64                    `db:"base_amount_cents"`
	SaleAmountCents       int64                    `db:"sale_amount_cents"`
	SaleCurrency          string                   `db:"sale_currency"`
	FXRate                *string                  `db:"fx_rate"`
	FXDate                *time.Time               `db:"fx_date"`
	RecurringIndex        *int                     `db:"recurring_index"`
	NeedsReview           bool                     `db:"needs_review"`
	ReviewReasons         []string                 `db:"review_reasons"`
	DisputeStatus         commission.DisputeStatus `db:"dispute_status"`
	HoldUntil             *time.Time               `db:"hold_until"`
	AutoApproveAt         *time.Time               `db:"auto_approve_at"`
	OverrideReason        *string                  `db:"override_reason"`
	OverrideBy            *affiliate.ActorID       `db:"override_by"`
	RejectionReason       *string                  `db:"rejection_reason"`
	RejectionCode         *string                  `db:"rejection_code"`
	ApprovedAt            *time.Time               `db:"approved_at"`
	ApprovedBy            *string                  `db:"approved_by"`
	RejectedAt            *time.Time               `db:"rejected_at"`
	PaidAt                *time.Time               `db:"paid_at"`
	RefundedAt            *time.Time               `db:"refunded_at"`
	PayoutID              *affiliate.PayoutID      `db:"payout_id"`
	RuleSnapshot          attribution.RuleSnapshot `db:"rule_snapshot"`
	Version               int                      `db:"version"`
	CreatedAt             time.Time                `db:"created_at"`
	UpdatedAt             time.Time                `db:"updated_at"`
}

// Queue adds the inserts of new commissions to a batch of the transaction that
// stores their conversions. New commissions are pending or approved. The caller also
// calls QueueChanges for them, which adds their histories, ledger entries and
// counts, and queues their events.
func Queue(batch *pgx.Batch, commissions ...commission.Commission) {
	rows := make([]newCommissionRow, len(commissions))
	for i, c := range commissions {
		rows[i] = newCommissionRow{
			WorkspaceID:           c.Scope.Workspace,
			Mode:                  c.Scope.Mode,
			ID:                    c.ID,
			ProgramID:             c.Program,
			ParticipantID:         c.Participant,
			PartnerID:             c.Partner,
			ConversionID:          c.Conversion,
			DecisionID:            c.Decision,
			ExternalTransactionID: c.ExternalTransactionID,
			ClickID:               c.Click,
			PromoCode:             c.PromoCode,
			CustomerRef:           c.CustomerRef,
			Status:                c.Status,
			CommissionType:        c.Type,
			EventType:             c.EventType,
			RateBps:               c.RateBps,
			FlatAmountCents:       c.FlatCents,
			AmountCents:           c.AmountCents,
			OriginalAmountCents:   c.OriginalAmountCents,
			Currency:              c.Currency,
			BaseAmountCents:       c.BaseAmountCents,
			SaleAmountCents:       c.SaleAmountCents,
			SaleCurrency:          c.SaleCurrency,
			FXRate:                c.FXRate,
			FXDate:                c.FXDate,
			RecurringIndex:        c.RecurringIndex,
			NeedsReview:           c.NeedsReview,
			ReviewReasons:         postgres.NonNil(c.ReviewReasons),
			DisputeStatus:         c.Dispute,
			HoldUntil:             c.HoldUntil,
			AutoApproveAt:         c.AutoApproveAt,
			OverrideReason:        c.OverrideReason,
			OverrideBy:            c.OverrideBy,
			RejectionReason:       c.RejectionReason,
			RejectionCode:         c.RejectionCode,
			ApprovedAt:            c.ApprovedAt,
			ApprovedBy:            c.ApprovedBy,
			RejectedAt:            c.RejectedAt,
			PaidAt:                c.PaidAt,
			RefundedAt:            c.RefundedAt,
			PayoutID:              c.Payout,
			RuleSnapshot:          c.Rule,
			Version:               c.Version,
			CreatedAt:             c.CreatedAt,
			UpdatedAt:             c.UpdatedAt,
		}
	}
	insertCommissions.Queue(batch, rows...)
}

// Get returns one commission of a programme with everything that its detail page
// shows. Errors: NOT_FOUND if this scope and programme have no such commission.
// It reads the commission and its history in a single statement, so that both come from the
// same snapshot.
func Get(
	ctx context.Context, q postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID,
) (commission.Detail, error) {
	read := `
		select ` + commissionColumns + `,
			p.name as program_name, t.partner_name, t.partner_email, ` + CustomerLabel + `,
			` + reviewerName("c.approved_by") + ` as approved_by_name, ` + reviewerName("c.override_by::text") + ` as override_by_name,
			d.method, d.reason_code, d.explanation, d.clicked_at, d.expires_at,
			(select json_agg(json_build_object('at', h.at, 'actor', h.actor, 'from', h.from_status, 'to', h.to_status, 'reason', h.reason,
				'name', ` + reviewerName("h.actor") + `) order by h.seq)
			from commission_history h
			where h.workspace_id = c.workspace_id and h.commission_id = c.id) as history
		from commissions c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id
		join attribution_decisions d on d.workspace_id = c.workspace_id and d.id = c.decision_id
		where c.workspace_id = $1 and c.mode = $2 and c.program_id = $3 and c.id = $4`
	type row struct {
		commission.Item
		commission.Attribution
		OverrideByName *string
		History        []commission.HistoryEntry // oldest first
	}
	rows, _ := q.Query(ctx, read, scope.Workspace, scope.Mode, program, id)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[row])
	if errors.Is(err, pgx.ErrNoRows) {
		return commission.Detail{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return commission.Detail{}, fmt.Errorf("commission: %w", err)
	}
	found.Scope = scope
	return commission.Detail{
		Item:           found.Item,
		OverrideByName: found.OverrideByName,
		Attribution:    found.Attribution,
		History:        found.History,
	}, nil
}

// ProgramOfCommission returns the programme of a commission. Errors: NOT_FOUND.
func ProgramOfCommission(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.CommissionID) (affiliate.ProgramID, error) {
	const read = `select program_id from commissions where workspace_id = $1 and mode = $2 and id = $3`
	row, err := postgres.OneRow[struct{ ProgramID affiliate.ProgramID }](db.Query(ctx, read, scope.Workspace, scope.Mode, id))
	return row.ProgramID, err
}

// ProgramScope returns the workspace and mode of any programme. The statement does not
// filter by workspace, because the callers must distinguish a programme of another
// workspace from an unknown id. Errors: NOT_FOUND.
func ProgramScope(ctx context.Context, db *postgres.DB, id affiliate.ProgramID) (affiliate.Scope, error) {
	const read = `select workspace_id as workspace, mode from programs where id = $1`
	rows, _ := db.Query(ctx, read, id)
	scope, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[affiliate.Scope])
	if errors.Is(err, pgx.ErrNoRows) {
		return affiliate.Scope{}, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return affiliate.Scope{}, fmt.Errorf("programme: %w", err)
	}
	return scope, nil
}

// CustomerLabel is an expression for the label of the customer of c, a conversion or a
// commission. A join would let Postgres read the customers of all workspaces.
const CustomerLabel = `(
	select u.label from customers u
	where u.workspace_id = c.workspace_id and u.mode = c.mode and u.ref = c.customer_ref
) as customer_label`
