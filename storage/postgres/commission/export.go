package commission

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
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// commissionRowColumns are the columns that commissionReader reads, in the order in
// which it reads them. They are selected from commissions c, programs p and participants t.
const commissionRowColumns = `
	c.id, c.created_at, c.status, c.commission_type, p.name, t.partner_name, c.amount_cents, c.currency,
	c.sale_amount_cents, c.sale_currency, c.external_transaction_id, c.promo_code, c.needs_review,
	c.hold_until, c.approved_at, c.rejected_at, c.paid_at, c.refunded_at, c.payout_id`

// commissionExportSQL uses left joins although every commission has a programme and a
// participant. A left join shows Postgres that no row is lost. With an inner join, Postgres
// would estimate that few rows remain and choose a bad plan.
func commissionExportSQL(where postgres.Conditions, order commission.Order) string {
	return `
		select ` + commissionRowColumns + `
		from commissions c
		left join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		left join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id
		where ` + where.SQL() + ` order by ` + commissionSortOf(order)
}

// Export returns every row of a list, in the list's order. It uses a connection and an export
// slot as postgres.Export does. All elements of the sequence point to the same row value, which
// the next element overwrites. Errors: NOT_FOUND if the filter's participant does not exist,
// SERVICE_UNAVAILABLE if too many exports are running.
func Export(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter commission.Filter, order commission.Order,
) iter.Seq2[*commission.Row, error] {
	return func(yield func(*commission.Row, error) bool) {
		if err := postgres.CheckFilter(ctx, db, scope, nil, filter.Participant, nil); err != nil {
			yield(nil, err)
			return
		}
		tx, end, err := db.BeginExport(ctx, scope.Workspace)
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
			if _, err := tx.Exec(ctx, postgres.ExportPlan); err != nil {
				yield(nil, fmt.Errorf("export commissions: %w", err))
				return
			}
		}
		args := append([]any{postgres.PlanForArgs, allBinary}, where.Args...)
		var reader commissionReader
		postgres.ExportRows(ctx, tx, reader.read, commissionExportSQL(where, order), args...)(yield)
	}
}

// allBinary requests the binary format, which commissionReader reads. Text costs more:
// Postgres would format each instant and id, and the reader would parse it.
var allBinary = pgx.QueryResultFormats{pgx.BinaryFormatCode}

// commissionReader builds rows from the raw values of the driver, because scanning took
// half of the time of an export. The texts of a row point into the driver's buffer and
// are valid until the next row, like the fields of the reader.
type commissionReader struct {
	row   commission.Row
	times [5]time.Time
	// payout is the value that row.Payout points to.
	payout affiliate.PayoutID
	// values are the values of the row that are not read yet. err is set if a value cannot be read.
	values [][]byte
	err    error
}

func (r *commissionReader) read(from pgx.CollectableRow) (*commission.Row, error) {
	const columns = 19
	values := from.RawValues()
	if len(values) != columns {
		return nil, fmt.Errorf("row has %d values, want %d", len(values), columns)
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

// hasSize reports whether a value has the given size. If not, it sets r.err. The size of null is 0.
func (r *commissionReader) hasSize(value []byte, size int) bool {
	if len(value) == size {
		return true
	}
	r.err = fmt.Errorf("value has %d bytes, want %d", len(value), size)
	return false
}

func (r *commissionReader) uuid(value []byte) (id [16]byte) {
	if r.hasSize(value, len(id)) {
		copy(id[:], value)
	}
	return id
}

func (r *commissionReader) int(value []byte) int64 {
	if !r.hasSize(value, 8) {
		return 0
	}
	return int64(binary.BigEndian.Uint64(value)) //nolint:gosec // two's complement
}

func (r *commissionReader) bool(value []byte) bool { return r.hasSize(value, 1) && value[0] != 0 }

func (r *commissionReader) time(value []byte) time.Time {
	at := r.int(value)
	if at == math.MinInt64 || at == math.MaxInt64 {
		r.err = errors.New("value is an infinite instant")
	}
	return time.UnixMicro(at + postgres.PgEpoch)
}
