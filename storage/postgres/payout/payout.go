// Package payout has the SQL of payouts and their batches, and of the payouts that follow a change
// of their commissions. Transactions lock participants, commissions and payouts in this order.
package payout

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
)

// payoutColumns are the fields of payout.Payout, selected from payouts p. The
// workspace is missing: a merchant's statements get the workspace as an argument, and
// partners do not receive it.
const payoutColumns = `
	p.id, p.mode, p.batch_id as batch, p.program_id as program, p.participant_id as participant, p.partner_id as partner,
	p.amount_cents, p.currency, p.commission_count, p.adjustment_cents, p.status, p.method, p.reference, p.failure_reason,
	p.period_start, p.period_end, p.initiated_at, p.paid_at, p.version, p.created_at, p.updated_at`

// payoutRow is a row with payoutColumns.
type payoutRow struct {
	payout.Payout
	Mode affiliate.Mode
}

func (r payoutRow) payout(workspace affiliate.WorkspaceID) payout.Payout {
	p := r.Payout
	p.Scope = affiliate.Scope{Workspace: workspace, Mode: r.Mode}
	return p
}

// lockPayouts locks and returns those payouts that are in a locked batch and have one of
// the given statuses, in the order of their ids.
func lockPayouts(ctx context.Context, tx *postgres.Tx, batch payout.Batch, statuses ...payout.Status) ([]payout.Payout, error) {
	const lock = `
		select ` + payoutColumns + `
		from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = any($4)
		order by p.id
		for no key update`
	rows, _ := tx.Query(ctx, lock, batch.Scope.Workspace, batch.Scope.Mode, batch.ID, statuses)
	return collectPayouts(rows, batch.Scope.Workspace)
}

func collectPayouts(rows pgx.Rows, workspace affiliate.WorkspaceID) ([]payout.Payout, error) {
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (payout.Payout, error) {
		r, err := pgx.RowToStructByNameLax[payoutRow](row)
		return r.payout(workspace), err
	})
	if err != nil {
		return nil, fmt.Errorf("read payouts: %w", err)
	}
	return found, nil
}

// insertPayouts inserts the payouts of a new batch.
func insertPayouts(ctx context.Context, tx *postgres.Tx, batch payout.Batch, payouts []payout.Payout) error {
	const insert = `
		insert into payouts (workspace_id, mode, batch_id, created_at, updated_at, status, version,
			id, program_id, participant_id, partner_id, amount_cents, currency, commission_count, adjustment_cents, method, period_start, period_end)
		select @workspace, @mode, @batch, @at, @at, 'draft', 1,
			id, program_id, participant_id, partner_id, amount_cents, currency, commission_count, adjustment_cents, method, period_start, period_end
		from unnest(@ids::uuid[], @programs::uuid[], @participants::uuid[], @partners::uuid[], @amounts::bigint[], @currencies::text[],
			@counts::bigint[], @adjustments::bigint[], @methods::text[], @period_starts::timestamptz[], @period_ends::timestamptz[])
			as t (id, program_id, participant_id, partner_id, amount_cents, currency, commission_count, adjustment_cents, method, period_start, period_end)`
	if _, err := tx.Exec(ctx, insert, payoutArgs(batch, batch.CreatedAt, payouts)); err != nil {
		return fmt.Errorf("insert payouts: %w", err)
	}
	return nil
}

// payoutArgs returns the arguments of statements that write payouts of one batch. The
// arguments contain one array for each column.
func payoutArgs(batch payout.Batch, at time.Time, payouts []payout.Payout) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace":       batch.Scope.Workspace,
		"mode":            batch.Scope.Mode,
		"batch":           batch.ID,
		"at":              at,
		"ids":             column(payouts, func(p payout.Payout) affiliate.PayoutID { return p.ID }),
		"programs":        column(payouts, func(p payout.Payout) affiliate.ProgramID { return p.Program }),
		"participants":    column(payouts, func(p payout.Payout) affiliate.ParticipantID { return p.Participant }),
		"partners":        column(payouts, func(p payout.Payout) affiliate.UserID { return p.Partner }),
		"amounts":         column(payouts, func(p payout.Payout) int64 { return p.AmountCents }),
		"currencies":      column(payouts, func(p payout.Payout) string { return p.Currency }),
		"counts":          column(payouts, func(p payout.Payout) int64 { return p.CommissionCount }),
		"adjustments":     column(payouts, func(p payout.Payout) int64 { return p.AdjustmentCents }),
		"statuses":        column(payouts, func(p payout.Payout) payout.Status { return p.Status }),
		"methods":         column(payouts, func(p payout.Payout) payout.Method { return p.Method }),
		"references":      column(payouts, func(p payout.Payout) *string { return p.Reference }),
		"failure_reasons": column(payouts, func(p payout.Payout) *string { return p.FailureReason }),
		"period_starts":   column(payouts, func(p payout.Payout) *time.Time { return p.PeriodStart }),
		"period_ends":     column(payouts, func(p payout.Payout) *time.Time { return p.PeriodEnd }),
		"initiated_at":    column(payouts, func(p payout.Payout) *time.Time { return p.InitiatedAt }),
		"paid_at":         column(payouts, func(p payout.Payout) *time.Time { return p.PaidAt }),
		"versions":        column(payouts, func(p payout.Payout) int { return p.Version }),
	}
}

// column returns a slice with one value of each row.
func column[R, T any](rows []R, value func(R) T) []T {
	values := make([]T, len(rows))
	for i, row := range rows {
		values[i] = value(row)
	}
	return values
}

// movePayouts stores changes of locked payouts of one batch. It also stores what
// follows from the changes: ledger entries, the status of the batch, and events. It
// deletes the accounts of canceled payouts, because nothing is paid to them any more. The
// caller adds commissions to the payouts or removes them. The returned batch has no
// counts and totals.
func movePayouts(
	ctx context.Context, tx *postgres.Tx, batch payout.Batch, at time.Time, changes ...payout.Change,
) (payout.Batch, error) {
	const update = `
		update payouts p set
			amount_cents = t.amount_cents, commission_count = t.commission_count, adjustment_cents = t.adjustment_cents,
			status = t.status, method = t.method, reference = t.reference, failure_reason = t.failure_reason,
			period_start = t.period_start, period_end = t.period_end, initiated_at = t.initiated_at, paid_at = t.paid_at,
			account = case when t.status = 'canceled' then null else p.account end,
			version = t.version, updated_at = @at
		from unnest(@ids::uuid[], @amounts::bigint[], @counts::bigint[], @adjustments::bigint[], @statuses::text[], @methods::text[],
			@references::text[], @failure_reasons::text[], @period_starts::timestamptz[], @period_ends::timestamptz[],
			@initiated_at::timestamptz[], @paid_at::timestamptz[], @versions::integer[])
			as t (id, amount_cents, commission_count, adjustment_cents, status, method, reference, failure_reason,
				period_start, period_end, initiated_at, paid_at, version)
		where p.workspace_id = @workspace and p.mode = @mode and p.batch_id = @batch and p.id = t.id and p.version = t.version - 1`
	moved := column(changes, func(change payout.Change) payout.Payout { return change.After })
	tag, err := tx.Exec(ctx, update, payoutArgs(batch, at, moved))
	if err == nil && tag.RowsAffected() != int64(len(changes)) {
		err = fmt.Errorf("only %d of %d locked payouts have the expected version", tag.RowsAffected(), len(changes))
	}
	if err != nil {
		return batch, fmt.Errorf("move payouts: %w", err)
	}
	if batch, err = updateBatchStatus(ctx, tx, batch, at); err != nil {
		return batch, err
	}
	listed, err := listedCommissions(ctx, tx, batch.Scope, column(moved, func(p payout.Payout) affiliate.PayoutID { return p.ID }))
	if err != nil {
		return batch, err
	}
	var entries []ledger.Entry
	var events []affiliate.Event
	for _, change := range changes {
		if entry := change.LedgerEntry(); entry != nil {
			entries = append(entries, *entry)
		}
		if event, ok := change.Event(listed[change.After.ID]); ok {
			events = append(events, event)
		}
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return batch, err
	}
	ledger := &pgx.Batch{}
	ledgers.Queue(ledger, postgres.RandomSlot(), entries...)
	if err := tx.SendBatch(ctx, ledger).Close(); err != nil {
		return batch, fmt.Errorf("write ledger entries: %w", err)
	}
	return batch, nil
}

// auditedPayout has the fields of a payout that a member can change, with their names
// in audit records.
type auditedPayout struct {
	Status      payout.Status `json:"status"`
	AmountCents int64         `json:"amount_cents"`
	Reference   *string       `json:"reference,omitempty"`
	Failure     *string       `json:"failure_reason,omitempty"`
}

func auditedPayoutOf(p payout.Payout) auditedPayout {
	return auditedPayout{p.Status, p.AmountCents, p.Reference, p.FailureReason}
}

func auditPayout(ctx context.Context, tx *postgres.Tx, change payout.Change) error {
	p, t := change.After, change.Transition
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: p.Scope.Workspace, Mode: &p.Scope.Mode, Actor: t.Actor, At: t.At,
		Action: "payout." + string(t.Move), ResourceType: "payout", ResourceID: p.ID,
		Before: auditedPayoutOf(change.Before), After: auditedPayoutOf(p),
	})
}

// auditBatch writes an audit record about a member's action on a batch.
func auditBatch(ctx context.Context, tx *postgres.Tx, batch payout.Batch, verb string, at time.Time, by affiliate.Actor, before, after any) error {
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: batch.Scope.Workspace, Mode: &batch.Scope.Mode, Actor: by, At: at,
		Action: "payout_batch." + verb, ResourceType: "payout_batch", ResourceID: batch.ID, Before: before, After: after,
	})
}
