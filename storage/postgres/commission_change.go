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

// updateCommissions is the one statement that changes commissions; to be held by a
// payout is no change of them (payout_hold.go). Their rows are locked, and the guard
// holds the database to what the changes were decided on.
const updateCommissions = `
	update commissions c set
		status = t.status, amount_cents = t.amount_cents, needs_review = t.needs_review, review_reasons = t.review_reasons,
		dispute_status = t.dispute_status, override_reason = t.override_reason, override_by = t.override_by,
		rejection_reason = t.rejection_reason, rejection_code = t.rejection_code, approved_at = t.approved_at, approved_by = t.approved_by,
		rejected_at = t.rejected_at, paid_at = t.paid_at, refunded_at = t.refunded_at, payout_id = t.payout_id,
		version = t.version, updated_at = t.updated_at
	from (values %s) as t (workspace_id, mode, id, from_status, from_version,
		status, amount_cents, needs_review, review_reasons, dispute_status, override_reason, override_by, rejection_reason, rejection_code,
		approved_at, approved_by, rejected_at, paid_at, refunded_at, payout_id, version, updated_at)
	where c.workspace_id = t.workspace_id and c.mode = t.mode and c.id = t.id and c.status = t.from_status and c.version = t.from_version`

const insertHistory = `
	insert into commission_history (workspace_id, commission_id, seq, at, actor, from_status, to_status, amount_cents, reason)
	values %s`

var (
	changedRows = rowsOf(updateCommissions, 22,
		"uuid", "text", "uuid", "text", "integer",
		"text", "bigint", "boolean", "text[]", "text", "text", "uuid", "text", "text",
		"timestamptz", "text", "timestamptz", "timestamptz", "timestamptz", "uuid", "integer", "timestamptz")
	historyRows = rowsOf(insertHistory, 9)
)

// settle writes changes of commissions with everything that follows from them but
// their events: history, ledger, balances and counts. A transaction calls it, or
// queueSettlement, once, last of all that it locks, with all its changes: rows
// that others want too are then taken in one order. One that has too many changes
// for that makes a settlement of its own.
func settle(ctx context.Context, tx *Tx, changes ...affiliate.CommissionChange) error {
	s := newSettlement()
	if err := s.write(ctx, tx, changes...); err != nil {
		return err
	}
	return s.end(ctx, tx)
}

// queueSettlement is settle within a batch. A commission that came into being is
// inserted by queueCommissions, and what it brings to its participant's totals is
// the conversion's; of the others the totals change here.
func queueSettlement(batch *pgx.Batch, changes ...affiliate.CommissionChange) {
	s := newSettlement()
	s.queue(batch, changes...)
	s.queueEnd(batch)
}

// settlement is settle in parts: any number of writes, which touch nothing that
// others want too, and one end.
type settlement struct {
	entries []affiliate.LedgerEntry
	counts  commissionCounts
}

func newSettlement() *settlement { return &settlement{counts: commissionCounts{}} }

// queue writes changes and their history, and keeps the rest for the end.
func (s *settlement) queue(batch *pgx.Batch, changes ...affiliate.CommissionChange) {
	var updates, history [][]any
	var deltas []affiliate.StatsDelta
	updated := map[affiliate.CommissionID]int{}
	for _, change := range changes {
		after, at := change.After, change.Transition.At
		var from *affiliate.CommissionStatus
		if before := change.Before; before != nil {
			from = &before.Status
			if i, again := updated[after.ID]; again {
				// One statement sees a row once: it takes the row from the first to the last.
				updates[i] = changedRow(updates[i][:guardColumns:guardColumns], after)
			} else {
				updated[after.ID] = len(updates)
				updates = append(updates, changedRow([]any{before.Scope.Workspace, before.Scope.Mode, before.ID, before.Status, before.Version}, after))
			}
			s.counts.add(*before, -1)
			if cents := change.EarnedCents(); cents != 0 {
				// Hours that were reported already stay as they are: it counts in this one.
				deltas = append(deltas, affiliate.StatsDelta{
					Scope: after.Scope, Program: after.Program, Participant: after.Participant, At: at,
					Currency: after.Currency, CommissionCents: cents,
				})
			}
		}
		s.counts.add(after, 1)
		history = append(history, []any{
			after.Scope.Workspace, after.ID, after.Version, at, change.Transition.Actor.String(), from, after.Status, after.AmountCents, change.Note(),
		})
		if entry := change.LedgerEntry(); entry != nil {
			s.entries = append(s.entries, *entry)
		}
	}
	for _, q := range changedRows.queue(batch, updates...) {
		q.Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() != int64(q.n) {
				return fmt.Errorf("%d of %d commissions are as they were locked", tag.RowsAffected(), q.n)
			}
			return nil
		})
	}
	queueDeltas(batch, deltas...)
	historyRows.queue(batch, history...)
}

// guardColumns are those of updateCommissions that say what a change was decided
// on.
const guardColumns = 5

// changedRow adds to the guard of a commission what it becomes.
func changedRow(guard []any, after affiliate.Commission) []any {
	return append(guard, after.Status, after.AmountCents, after.NeedsReview, nonNil(after.ReviewReasons), after.Dispute,
		after.OverrideReason, after.OverrideBy, after.RejectionReason, after.RejectionCode,
		after.ApprovedAt, after.ApprovedBy, after.RejectedAt, after.PaidAt, after.RefundedAt, after.Payout,
		after.Version, after.UpdatedAt)
}

// queueEnd writes what others want too, in one order.
func (s *settlement) queueEnd(batch *pgx.Batch) {
	slot := anySlot()
	queueLedger(batch, slot, s.entries...)
	s.counts.queue(batch, slot)
}

// write is queue in a round trip of its own.
func (s *settlement) write(ctx context.Context, tx *Tx, changes ...affiliate.CommissionChange) error {
	batch := &pgx.Batch{}
	s.queue(batch, changes...)
	return send(ctx, tx, batch)
}

// end is queueEnd in a round trip of its own.
func (s *settlement) end(ctx context.Context, tx *Tx) error {
	batch := &pgx.Batch{}
	s.queueEnd(batch)
	return send(ctx, tx, batch)
}

func send(ctx context.Context, tx *Tx, batch *pgx.Batch) error {
	if batch.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("settle commissions: %w", err)
	}
	return nil
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
