package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// commissionRowColumns are what commissionReader reads, in its order, over c, p
// and u.
const commissionRowColumns = `
	c.id, c.created_at, c.status, c.commission_type, p.name, u.name, c.amount_cents, c.currency,
	c.sale_amount_cents, c.sale_currency, c.external_transaction_id, c.promo_code, c.needs_review,
	c.hold_until, c.approved_at, c.rejected_at, c.paid_at, c.refunded_at, c.payout_id`

// commissionExportSQL joins to the left although every commission has its
// programme and its partner: so Postgres knows that the joins leave no row out,
// and does not guess that they leave few.
func commissionExportSQL(where conditions, order affiliate.CommissionOrder) string {
	return `
		select ` + commissionRowColumns + `
		from commissions c
		left join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		left join users u on u.id = c.partner_id
		where ` + where.sql() + ` order by ` + commissionSortOf(order)
}

// exportPlan makes Postgres read the rows in their order, where an index has it,
// and name them one by one. By its costs it would at times read a table of other
// workspaces' rows, or sort a million before the first goes out. What a search
// finds is few rows, which are sorted.
const exportPlan = `set local enable_sort = off; set local enable_seqscan = off`

// ExportCommissions returns every row of a list, in the list's order, as Export
// does. All elements are the same row, which is overwritten by the next one. Errors:
// NOT_FOUND for the filter's participant, SERVICE_UNAVAILABLE.
func (s *Store) ExportCommissions(
	ctx context.Context, scope affiliate.Scope, filter affiliate.CommissionFilter, order affiliate.CommissionOrder,
) iter.Seq2[*affiliate.CommissionRow, error] {
	return func(yield func(*affiliate.CommissionRow, error) bool) {
		if err := s.checkFilter(ctx, scope, nil, filter.Participant, nil); err != nil {
			yield(nil, err)
			return
		}
		tx, end, err := s.beginExport(ctx, scope.Workspace)
		if err != nil {
			yield(nil, err)
			return
		}
		defer end()
		where, err := commissionConditions(ctx, tx, scope, filter)
		if err != nil {
			yield(nil, err)
			return
		}
		if filter.Search == "" {
			if _, err := tx.Exec(ctx, exportPlan); err != nil {
				yield(nil, fmt.Errorf("export commissions: %w", err))
				return
			}
		}
		args := append([]any{planned, allBinary}, where.args...)
		var reader commissionReader
		exportRows(ctx, tx, reader.read, commissionExportSQL(where, order), args...)(yield)
	}
}

// allBinary is the format that commissionReader reads. It is cheaper for Postgres
// than text, which it would print every instant and id in, and for us.
var allBinary = pgx.QueryResultFormats{pgx.BinaryFormatCode}

// commissionReader makes rows from values as they were received. It keeps what
// its row points to, and the texts stay where they are until the next row comes:
// scanning them one by one was half of what an export cost us.
type commissionReader struct {
	row   affiliate.CommissionRow
	times [5]time.Time
	// payout is row's, where it has one.
	payout affiliate.PayoutID
	// values are left to read; the first that cannot be read makes err.
	values [][]byte
	err    error
}

func (r *commissionReader) read(from pgx.CollectableRow) (*affiliate.CommissionRow, error) {
	const columns = 19
	values := from.RawValues()
	if len(values) != columns {
		return nil, fmt.Errorf("%d values of %d", len(values), columns)
	}
	r.values = values
	row := &r.row
	row.ID = affiliate.CommissionID{UUID: r.uuid(r.next())}
	row.CreatedAt = r.time(r.next())
	row.Status, row.Type, row.ProgramName, row.PartnerName = r.next(), r.next(), r.next(), r.next()
	row.AmountCents, row.Currency = r.int(r.next()), r.next()
	row.SaleAmountCents, row.SaleCurrency = r.int(r.next()), r.next()
	row.ExternalTransactionID, row.PromoCode = r.next(), r.next()
	row.NeedsReview = r.bool(r.next())
	for i, to := range []**time.Time{&row.HoldUntil, &row.ApprovedAt, &row.RejectedAt, &row.PaidAt, &row.RefundedAt} {
		*to = nil
		if value := r.next(); value != nil {
			r.times[i] = r.time(value)
			*to = &r.times[i]
		}
	}
	row.Payout = nil
	if value := r.next(); value != nil {
		r.payout.UUID = r.uuid(value)
		row.Payout = &r.payout
	}
	return row, r.err
}

func (r *commissionReader) next() []byte {
	value := r.values[0]
	r.values = r.values[1:]
	return value
}

// sized tells whether a value has the size of its type, as a null has not.
func (r *commissionReader) sized(value []byte, size int) bool {
	if len(value) == size {
		return true
	}
	r.err = fmt.Errorf("a value of %d bytes and not %d", len(value), size)
	return false
}

func (r *commissionReader) uuid(value []byte) (id [16]byte) {
	if r.sized(value, len(id)) {
		copy(id[:], value)
	}
	return id
}

func (r *commissionReader) int(value []byte) int64 {
	if !r.sized(value, 8) {
		return 0
	}
	return int64(binary.BigEndian.Uint64(value)) //nolint:gosec // two's complement
}

func (r *commissionReader) bool(value []byte) bool { return r.sized(value, 1) && value[0] != 0 }

// postgresEpoch is the instant that Postgres counts microseconds from, in Unix
// time: 2000-01-01.
const postgresEpoch = 946_684_800_000_000

func (r *commissionReader) time(value []byte) time.Time {
	at := r.int(value)
	if at == math.MinInt64 || at == math.MaxInt64 {
		r.err = errors.New("an infinite instant")
	}
	return time.UnixMicro(at + postgresEpoch)
}
