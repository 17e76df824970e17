package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
)

// updateCommission is the one statement that changes a commission; to be held by a
// payout is no change of it (payout_hold.go). Its row is locked, and the guard holds the database to what the change was decided on.
const updateCommission = `
	update commissions set
		status = $6, amount_cents = $7, needs_review = $8, review_reasons = $9, dispute_status = $10,
		override_reason = $11, override_by = $12, rejection_reason = $13, rejection_code = $14,
		approved_at = $15, approved_by = $16, rejected_at = $17, paid_at = $18, refunded_at = $19, payout_id = $20,
		version = $21, updated_at = $22
	where workspace_id = $1 and mode = $2 and id = $3 and status = $4 and version = $5`

const insertHistory = `
	insert into commission_history (workspace_id, commission_id, seq, at, actor, from_status, to_status, amount_cents, reason)
	values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// settle writes changes of commissions with everything that follows from them but
// their events: history, ledger, balances and counts. A transaction calls it, or
// queueSettlement, once, last of all that it locks, with all its changes: rows
// that others want too are then taken in one order.
func settle(ctx context.Context, tx pgx.Tx, changes ...affiliate.CommissionChange) error {
	if len(changes) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	queueSettlement(batch, changes...)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("settle commissions: %w", err)
	}
	return nil
}

// queueSettlement is settle within a batch. A commission that came into being is
// inserted by queueCommission, and what it brings to its participant's totals is
// the conversion's; of the others the totals change here.
func queueSettlement(batch *pgx.Batch, changes ...affiliate.CommissionChange) {
	var entries []affiliate.LedgerEntry
	counts := commissionCounts{}
	for _, change := range changes {
		after, at := change.After, change.Transition.At
		var from *affiliate.CommissionStatus
		if before := change.Before; before != nil {
			from = &before.Status
			queueUpdate(batch, *before, after)
			counts.add(*before, -1)
			if cents := change.EarnedCents(); cents != 0 {
				// Hours that were reported already stay as they are: it counts in this one.
				queueDeltas(batch, affiliate.StatsDelta{
					Scope: after.Scope, Program: after.Program, Participant: after.Participant, At: at,
					Currency: after.Currency, CommissionCents: cents,
				})
			}
		}
		counts.add(after, 1)
		batch.Queue(insertHistory, after.Scope.Workspace, after.ID, after.Version, at, change.Transition.Actor.String(),
			from, after.Status, after.AmountCents, change.Note())
		if entry := change.LedgerEntry(); entry != nil {
			entries = append(entries, *entry)
		}
	}
	slot := anySlot()
	queueLedger(batch, slot, entries...)
	counts.queue(batch, slot)
}

func queueUpdate(batch *pgx.Batch, before, after affiliate.Commission) {
	batch.Queue(updateCommission, before.Scope.Workspace, before.Scope.Mode, before.ID, before.Status, before.Version,
		after.Status, after.AmountCents, after.NeedsReview, nonNil(after.ReviewReasons), after.Dispute,
		after.OverrideReason, after.OverrideBy, after.RejectionReason, after.RejectionCode,
		after.ApprovedAt, after.ApprovedBy, after.RejectedAt, after.PaidAt, after.RefundedAt, after.Payout,
		after.Version, after.UpdatedAt).
		Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 0 {
				return fmt.Errorf("commission %s changed under its lock", before.ID)
			}
			return nil
		})
}

// commissionCounts collects what a transaction changes of commission_counts.
type commissionCounts map[countKey]countSum

type countKey struct {
	Grain  string
	Starts time.Time
	affiliate.CommissionCount
}

type countSum struct{ n, cents int64 }

// foreverStarts is where the grain that has no end begins.
var foreverStarts = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)

func (counts commissionCounts) add(c affiliate.Commission, sign int64) {
	group := c.Counted()
	day := group.Day
	group.Day = time.Time{}
	month := time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC)
	for _, key := range []countKey{{"ever", foreverStarts, group}, {"month", month, group}, {"day", day, group}} {
		sum := counts[key]
		sum.n += sign
		sum.cents += sign * c.AmountCents
		counts[key] = sum
	}
}

// changeCommissionCounts takes the rows in the order of the primary key.
const changeCommissionCounts = `
	insert into commission_counts as c
		(workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot, n, amount_cents)
	select workspace_id, mode, grain, starts, program_id, status, needs_review, currency, $1, n, amount_cents
	from unnest($2::uuid[], $3::text[], $4::text[], $5::date[], $6::uuid[], $7::text[], $8::boolean[], $9::text[], $10::bigint[], $11::bigint[])
		as t (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, n, amount_cents)
	on conflict (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot)
	do update set n = c.n + excluded.n, amount_cents = c.amount_cents + excluded.amount_cents`

func (counts commissionCounts) queue(batch *pgx.Batch, slot int16) {
	maps.DeleteFunc(counts, func(_ countKey, sum countSum) bool { return sum == countSum{} })
	if len(counts) == 0 {
		return
	}
	keys := slices.SortedFunc(maps.Keys(counts), countKey.compare)
	var (
		workspaces []affiliate.WorkspaceID
		modes      []affiliate.Mode
		grains     []string
		starts     []time.Time
		programs   []affiliate.ProgramID
		statuses   []affiliate.CommissionStatus
		flags      []bool
		currencies []string
		n, cents   []int64
	)
	for _, key := range keys {
		workspaces, modes = append(workspaces, key.Scope.Workspace), append(modes, key.Scope.Mode)
		grains, starts = append(grains, key.Grain), append(starts, key.Starts)
		programs, statuses = append(programs, key.Program), append(statuses, key.Status)
		flags, currencies = append(flags, key.NeedsReview), append(currencies, key.Currency)
		n, cents = append(n, counts[key].n), append(cents, counts[key].cents)
	}
	batch.Queue(changeCommissionCounts, slot, workspaces, modes, grains, starts, programs, statuses, flags, currencies, n, cents)
}

func (k countKey) compare(other countKey) int {
	order := strings.Compare(k.Scope.Workspace.String()+string(k.Scope.Mode)+k.Grain, other.Scope.Workspace.String()+string(other.Scope.Mode)+other.Grain)
	if order == 0 {
		order = k.Starts.Compare(other.Starts)
	}
	if order == 0 {
		order = strings.Compare(k.Program.String()+string(k.Status), other.Program.String()+string(other.Status))
	}
	if order == 0 && k.NeedsReview != other.NeedsReview {
		order = 1
		if other.NeedsReview {
			order = -1
		}
	}
	if order == 0 {
		order = strings.Compare(k.Currency, other.Currency)
	}
	return order
}
