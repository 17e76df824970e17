package commission

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/storage/postgres"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

// updateCommissions updates commissions. Other statements only set and clear payout_id
// (payout/hold.go), or remove personal data (erasures). The transaction must have locked the
// rows. The condition on the version fails if a row differs from the state on which the change
// was based.
var updateCommissions = postgres.RowsOf[changedCommission](`
	update commissions c set {changes}
	from (values {typed rows}) as t ({columns})
	where c.workspace_id = t.workspace_id and c.mode = t.mode and c.id = t.id and c.version = t.from_version`)

// changedCommission is a commission with the version that it had when it was locked.
type changedCommission struct {
	FromVersion int `db:"from_version,fixed"`
	commission.Commission
}

var insertHistory = postgres.RowsOf[historyRow](`insert into commission_history ({columns}) values {rows}`)

type historyRow struct {
	WorkspaceID  affiliate.WorkspaceID  `db:"workspace_id"`
	CommissionID affiliate.CommissionID `db:"commission_id"`
	Seq          int                    `db:"seq"`
	At           time.Time              `db:"at"`
	Actor        string                 `db:"actor"`
	FromStatus   *commission.Status     `db:"from_status"`
	ToStatus     commission.Status      `db:"to_status"`
	AmountCents  int64                  `db:"amount_cents"`
	Reason       *string                `db:"reason"`
	Code         *string                `db:"code"`
}

// StoreChanges stores changes of commissions and everything that follows from
// them except the events: history, ledger entries, balances, counts and participants'
// totals. It does not add a new commission to the totals, because the transaction that
// attributes the conversion adds the commission together with the conversion.
//
// A transaction calls StoreChanges or QueueChanges once, with all its changes, after it
// has locked all other rows that it needs. It locks rows of balances and counts, which
// many transactions update, in a fixed order, so there is no deadlock. A transaction with
// too many changes for one call uses a Writer.
func StoreChanges(ctx context.Context, tx *postgres.Tx, changes ...commission.Change) error {
	s := NewWriter()
	if err := s.Write(ctx, tx, changes...); err != nil {
		return err
	}
	return s.End(ctx, tx)
}

// QueueChanges adds the statements of StoreChanges to a batch.
func QueueChanges(batch *pgx.Batch, changes ...commission.Change) {
	s := NewWriter()
	s.queue(batch, changes...)
	s.queueEnd(batch)
}

// Writer does the work of StoreChanges in several calls of Write and one of End. Only End
// locks the rows of balances and counters, which many transactions update.
type Writer struct {
	entries []ledger.Entry
	counts  commissionCounts
}

// NewWriter returns a Writer without changes.
func NewWriter() *Writer { return &Writer{counts: commissionCounts{}} }

// queue adds the statements for the changes, the totals and the history to a batch. It
// collects the ledger entries and counts for queueEnd.
func (s *Writer) queue(batch *pgx.Batch, changes ...commission.Change) {
	var updates []changedCommission
	var history []historyRow
	var deltas []analytics.StatsDelta
	changed := map[affiliate.Scope][]affiliate.ConversionID{}
	indexes := map[affiliate.CommissionID]int{}
	for _, change := range changes {
		after, at := change.After, change.Transition.At
		var from *commission.Status
		if before := change.Before; before != nil {
			from = &before.Status
			// A statement can update a row only once. If there are several changes of
			// one commission, they therefore become one update, from the state before
			// the first change to the state after the last change.
			if i, again := indexes[after.ID]; again {
				updates[i].Commission = after
			} else {
				indexes[after.ID] = len(updates)
				updates = append(updates, changedCommission{before.Version, after})
				changed[after.Scope] = append(changed[after.Scope], after.Conversion)
			}
			s.counts.add(*before, -1)
			if cents := change.EarnedCents(); cents != 0 {
				// The delta has the time of the change, because the numbers of past hours must not change.
				deltas = append(deltas, analytics.StatsDelta{
					Scope: after.Scope, Program: after.Program, Participant: after.Participant, At: at,
					Currency: after.Currency, CommissionCents: cents,
				})
			}
		}
		s.counts.add(after, 1)
		history = append(history, historyRow{
			WorkspaceID: after.Workspace, CommissionID: after.ID, Seq: after.Version, At: at,
			Actor: change.Transition.Actor.String(), FromStatus: from, ToStatus: after.Status, AmountCents: after.AmountCents,
			Reason: change.Note(), Code: change.Transition.Code,
		})
		if entry := change.LedgerEntry(); entry != nil {
			s.entries = append(s.entries, *entry)
		}
	}
	for _, q := range updateCommissions.Queue(batch, updates...) {
		q.Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() != int64(q.N) {
				return fmt.Errorf("only %d of %d locked commissions have the expected status and version", tag.RowsAffected(), q.N)
			}
			return nil
		})
	}
	counters.Queue(batch, deltas...)
	for scope, conversions := range changed {
		postgres.QueueConversionLog(batch, scope, conversions...)
	}
	insertHistory.Queue(batch, history...)
}

// queueEnd queues the statements for ledger, balances and counts, which write their rows
// in a fixed order.
func (s *Writer) queueEnd(batch *pgx.Batch) {
	slot := postgres.RandomSlot()
	ledgers.Queue(batch, slot, s.entries...)
	s.counts.queue(batch, slot)
}

// Write runs queue in one round trip.
func (s *Writer) Write(ctx context.Context, tx *postgres.Tx, changes ...commission.Change) error {
	batch := &pgx.Batch{}
	s.queue(batch, changes...)
	return send(ctx, tx, batch)
}

// End runs queueEnd in one round trip.
func (s *Writer) End(ctx context.Context, tx *postgres.Tx) error {
	batch := &pgx.Batch{}
	s.queueEnd(batch)
	return send(ctx, tx, batch)
}

func send(ctx context.Context, tx *postgres.Tx, batch *pgx.Batch) error {
	if batch.Len() == 0 {
		return nil
	}
	return postgres.Send(ctx, tx, batch)
}

// commissionCounts collects the changes that a transaction makes to the counters in
// commission_counts. A counter covers a programme's commissions with the same status,
// review flag and currency that were created in a day, in a month or at any time.
type commissionCounts map[countKey]countSum

type countKey struct {
	Grain  string
	Starts time.Time
	commission.CountGroup
}

type countSum struct{ n, cents int64 }

// allTimeStart is the start of the counters that cover all time (grain "ever").
var allTimeStart = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)

func (counts commissionCounts) add(c commission.Commission, sign int64) {
	group := c.CountGroup()
	day := group.Day
	group.Day = time.Time{}
	month := time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC)
	for _, key := range []countKey{{"ever", allTimeStart, group}, {"month", month, group}, {"day", day, group}} {
		sum := counts[key]
		sum.n += sign
		sum.cents += sign * c.AmountCents
		counts[key] = sum
	}
}

// addCommissionCounts adds numbers to counters. The rows must be in the order of the
// primary key, so that all transactions lock counters in the same order.
var addCommissionCounts = postgres.RowsOf[commissionCountRow](`
	insert into commission_counts as c ({columns})
	values {rows}
	on conflict (workspace_id, mode, grain, starts, program_id, status, needs_review, currency, slot)
	do update set n = c.n + excluded.n, amount_cents = c.amount_cents + excluded.amount_cents`)

type commissionCountRow struct {
	countKey
	Slot        int16
	N           int64
	AmountCents int64
}

func (counts commissionCounts) queue(batch *pgx.Batch, slot int16) {
	maps.DeleteFunc(counts, func(_ countKey, sum countSum) bool { return sum == countSum{} })
	rows := make([]commissionCountRow, 0, len(counts))
	for _, key := range slices.SortedFunc(maps.Keys(counts), countKey.compare) {
		rows = append(rows, commissionCountRow{countKey: key, Slot: slot, N: counts[key].n, AmountCents: counts[key].cents})
	}
	addCommissionCounts.Queue(batch, rows...)
}

func (k countKey) compare(other countKey) int {
	return cmp.Or(
		k.Compare(other.Scope), cmp.Compare(k.Grain, other.Grain), k.Starts.Compare(other.Starts),
		bytes.Compare(k.Program.UUID[:], other.Program.UUID[:]), cmp.Compare(k.Status, other.Status),
		cmp.Compare(strconv.FormatBool(k.NeedsReview), strconv.FormatBool(other.NeedsReview)), cmp.Compare(k.Currency, other.Currency),
	)
}
