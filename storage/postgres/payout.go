package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// payoutColumns name the fields of affiliate.Payout, of a row called p. The
// workspace is not among them: every statement is given it.
const payoutColumns = `
	p.id, p.mode, p.batch_id as batch, p.program_id as program, p.participant_id as participant, p.partner_id as partner,
	p.amount_cents, p.currency, p.commission_count, p.adjustment_cents, p.status, p.method, p.reference, p.failure_reason,
	p.period_start, p.period_end, p.initiated_at, p.paid_at, p.version, p.created_at, p.updated_at`

// payoutRow is a payout as its columns name it.
type payoutRow struct {
	affiliate.Payout
	Mode affiliate.Mode
}

func (r payoutRow) payout(workspace affiliate.WorkspaceID) affiliate.Payout {
	p := r.Payout
	p.Scope = affiliate.Scope{Workspace: workspace, Mode: r.Mode}
	p.PeriodStart, p.PeriodEnd, p.InitiatedAt, p.PaidAt = UTC(p.PeriodStart), UTC(p.PeriodEnd), UTC(p.InitiatedAt), UTC(p.PaidAt)
	p.CreatedAt, p.UpdatedAt = p.CreatedAt.UTC(), p.UpdatedAt.UTC()
	return p
}

// lockPayouts locks those of a locked batch's payouts that have one of the
// statuses, in the order of their ids.
func lockPayouts(ctx context.Context, tx *Tx, batch affiliate.PayoutBatch, statuses ...affiliate.PayoutStatus) ([]affiliate.Payout, error) {
	const lock = `
		select ` + payoutColumns + `
		from payouts p
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.status = any($4)
		order by p.id
		for no key update`
	rows, _ := tx.Query(ctx, lock, batch.Scope.Workspace, batch.Scope.Mode, batch.ID, statuses)
	return collectPayouts(rows, batch.Scope.Workspace)
}

func collectPayouts(rows pgx.Rows, workspace affiliate.WorkspaceID) ([]affiliate.Payout, error) {
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (affiliate.Payout, error) {
		r, err := pgx.RowToStructByNameLax[payoutRow](row)
		return r.payout(workspace), err
	})
	if err != nil {
		return nil, fmt.Errorf("payouts: %w", err)
	}
	return found, nil
}

// insertPayouts adds the payouts of a new batch.
func insertPayouts(ctx context.Context, tx *Tx, batch affiliate.PayoutBatch, payouts []affiliate.Payout) error {
	const insert = `
		insert into payouts (workspace_id, mode, batch_id, created_at, updated_at, status, version,
			id, program_id, participant_id, partner_id, amount_cents, currency, commission_count, adjustment_cents, method, period_start, period_end)
		select $1, $2, $3, $4, $4, 'draft', 1,
			id, program_id, participant_id, partner_id, amount_cents, currency, commission_count, adjustment_cents, method, period_start, period_end
		from unnest($5::uuid[], $6::uuid[], $7::uuid[], $8::uuid[], $9::bigint[], $10::text[], $11::bigint[], $12::bigint[], $13::text[],
			$14::timestamptz[], $15::timestamptz[])
			as t (id, program_id, participant_id, partner_id, amount_cents, currency, commission_count, adjustment_cents, method, period_start, period_end)`
	var c payoutRows
	for _, p := range payouts {
		c.add(p)
	}
	_, err := tx.Exec(ctx, insert, batch.Scope.Workspace, batch.Scope.Mode, batch.ID, batch.CreatedAt,
		c.ids, c.programs, c.participants, c.partners, c.amounts, c.currencies, c.counts, c.adjustments, c.methods, c.starts, c.ends)
	if err != nil {
		return fmt.Errorf("payouts: %w", err)
	}
	return nil
}

// payoutRows are payouts by column, as unnest takes them.
type payoutRows struct {
	ids                          []affiliate.PayoutID
	programs                     []affiliate.ProgramID
	participants                 []affiliate.ParticipantID
	partners                     []affiliate.UserID
	amounts, counts, adjustments []int64
	currencies                   []string
	methods                      []affiliate.PayoutMethod
	statuses                     []affiliate.PayoutStatus
	references, failures         []*string
	starts, ends, begun, paid    []*time.Time
	versions                     []int
}

func (c *payoutRows) add(p affiliate.Payout) {
	c.ids, c.programs, c.participants = append(c.ids, p.ID), append(c.programs, p.Program), append(c.participants, p.Participant)
	c.partners, c.currencies = append(c.partners, p.Partner), append(c.currencies, p.Currency)
	c.amounts, c.counts = append(c.amounts, p.AmountCents), append(c.counts, p.CommissionCount)
	c.adjustments, c.methods = append(c.adjustments, p.AdjustmentCents), append(c.methods, p.Method)
	c.statuses, c.versions = append(c.statuses, p.Status), append(c.versions, p.Version)
	c.references, c.failures = append(c.references, p.Reference), append(c.failures, p.FailureReason)
	c.starts, c.ends = append(c.starts, p.PeriodStart), append(c.ends, p.PeriodEnd)
	c.begun, c.paid = append(c.begun, p.InitiatedAt), append(c.paid, p.PaidAt)
}

// movePayouts writes moves of locked payouts of one batch with what follows from
// them: the ledger, where the batch stands, and the events. Commissions that they
// hold or give back are the caller's. It returns the batch as it is then, but for
// its counts and totals.
func movePayouts(
	ctx context.Context, tx *Tx, batch affiliate.PayoutBatch, at time.Time, changes ...affiliate.PayoutChange,
) (affiliate.PayoutBatch, error) {
	const update = `
		update payouts p set
			amount_cents = t.amount_cents, commission_count = t.commission_count, adjustment_cents = t.adjustment_cents,
			status = t.status, method = t.method, reference = t.reference, failure_reason = t.failure_reason,
			period_start = t.period_start, period_end = t.period_end, initiated_at = t.initiated_at, paid_at = t.paid_at,
			version = t.version, updated_at = $4
		from unnest($5::uuid[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[], $11::text[], $12::text[],
			$13::timestamptz[], $14::timestamptz[], $15::timestamptz[], $16::timestamptz[], $17::integer[])
			as t (id, amount_cents, commission_count, adjustment_cents, status, method, reference, failure_reason,
				period_start, period_end, initiated_at, paid_at, version)
		where p.workspace_id = $1 and p.mode = $2 and p.batch_id = $3 and p.id = t.id and p.version = t.version - 1`
	var c payoutRows
	var entries []affiliate.LedgerEntry
	for _, change := range changes {
		c.add(change.After)
		if entry := change.LedgerEntry(); entry != nil {
			entries = append(entries, *entry)
		}
	}
	scope := batch.Scope
	tag, err := tx.Exec(ctx, update, scope.Workspace, scope.Mode, batch.ID, at, c.ids, c.amounts, c.counts, c.adjustments, c.statuses,
		c.methods, c.references, c.failures, c.starts, c.ends, c.begun, c.paid, c.versions)
	if err == nil && tag.RowsAffected() != int64(len(changes)) {
		err = fmt.Errorf("%d of %d are as they were locked", tag.RowsAffected(), len(changes))
	}
	if err != nil {
		return batch, fmt.Errorf("move payouts: %w", err)
	}
	if batch, err = followPayouts(ctx, tx, batch, at); err != nil {
		return batch, err
	}
	named, err := namedCommissions(ctx, tx, scope, c.ids)
	if err != nil {
		return batch, err
	}
	var events []affiliate.Event
	for _, change := range changes {
		if event, ok := change.Event(named[change.After.ID]); ok {
			events = append(events, event)
		}
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return batch, err
	}
	entriesOf := &pgx.Batch{}
	queueLedger(entriesOf, anySlot(), entries...)
	if err := tx.SendBatch(ctx, entriesOf).Close(); err != nil {
		return batch, fmt.Errorf("ledger: %w", err)
	}
	return batch, nil
}

// auditedPayout is what a person's move can change.
type auditedPayout struct {
	Status      affiliate.PayoutStatus `json:"status"`
	AmountCents int64                  `json:"amount_cents"`
	Reference   *string                `json:"reference,omitempty"`
	Failure     *string                `json:"failure_reason,omitempty"`
}

func auditedPayoutOf(p affiliate.Payout) auditedPayout {
	return auditedPayout{p.Status, p.AmountCents, p.Reference, p.FailureReason}
}

func recordPayout(ctx context.Context, tx *Tx, change affiliate.PayoutChange) error {
	p, t := change.After, change.Transition
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: p.Scope.Workspace, Mode: &p.Scope.Mode, Actor: t.Actor, At: t.At,
		Action: "payout." + string(t.Move), ResourceType: "payout", ResourceID: p.ID,
		Before: auditedPayoutOf(change.Before), After: auditedPayoutOf(p),
	})
}

// recordBatch notes what a person did with a batch.
func recordBatch(ctx context.Context, tx *Tx, batch affiliate.PayoutBatch, verb string, at time.Time, by affiliate.Actor, before, after any) error {
	return tx.Audit(ctx, affiliate.AuditLine{
		Workspace: batch.Scope.Workspace, Mode: &batch.Scope.Mode, Actor: by, At: at,
		Action: "payout_batch." + verb, ResourceType: "payout_batch", ResourceID: batch.ID, Before: before, After: after,
	})
}
