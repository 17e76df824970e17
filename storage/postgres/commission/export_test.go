package commission

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// SelectDue is the statement that finds the commissions whose hold period has ended.
const SelectDue = selectDue

// LockCommissionsSQL is the first statement of every transaction that changes commissions.
var LockCommissionsSQL = LockSQL

// UpdateCommissionsSQL returns the statement that updates commissions, and its arguments.
// The statement updates postgres.MaxRows rows, which is the maximum for one statement.
func UpdateCommissionsSQL(before, after commission.Commission) (sql string, args []any) {
	batch := &pgx.Batch{}
	updateCommissions.Queue(batch, slices.Repeat([]changedCommission{{before.Version, after}}, postgres.MaxRows)...)
	return batch.QueuedQueries[0].SQL, batch.QueuedQueries[0].Arguments
}

// CommissionSQL contains the statements that read commissions with a filter, and their
// arguments.
type CommissionSQL struct {
	Page, Total, Stats, Export                 string
	PageArgs, TotalArgs, StatsArgs, ExportArgs []any
}

// CommissionStatements returns the statements of a list, of the stats and of an export with the
// given filter. Page is the last statement of a list. An earlier statement finds the
// start of the page.
func CommissionStatements(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter commission.Filter, order commission.Order, page affiliate.Page,
) (sql CommissionSQL, err error) {
	err = db.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		where, err := commissionConditions(ctx, tx, scope, filter)
		if err != nil {
			return err
		}
		sql.Export, sql.ExportArgs = commissionExportSQL(where, order), where.Args
		if countsRows(filter) {
			sql.Page, sql.PageArgs = commissionPageSQL(where, order), append(slices.Clone(where.Args), page.Size, page.Offset())
			sql.Total, sql.TotalArgs = TotalSQL(where, affiliate.MaxTotalOf(filter.Search)), where.Args
			sql.Stats, sql.StatsArgs = searchGroupsSQL(where, affiliate.MaxTotalOf(filter.Search))
			return nil
		}
		counts, spans := countedConditions(scope, filter), spansFor(filter)
		sql.Total, sql.TotalArgs = countSpansSQL(counts, spans)
		sql.Stats, sql.StatsArgs = groupsSQL(counts, spans)
		within, offset, _, err := startOfPage(ctx, tx, scope, filter, order, page)
		where = countedConditions(scope, within)
		where.Within("c.created_at", within.Created)
		sql.Page, sql.PageArgs = commissionPageSQL(where, order), append(slices.Clone(where.Args), page.Size, offset)
		return err
	})
	return sql, err
}

// CountSpan is a part of a period. Grain says how its rows are counted: by the counters of
// months or of days, or row by row.
type CountSpan struct {
	Grain  string
	Period affiliate.Period
}

// SpansOf calls spansOf.
func SpansOf(p affiliate.Period) []CountSpan {
	var spans []CountSpan
	for _, s := range spansOf(p) {
		spans = append(spans, CountSpan{string(s.Grain), s.Period})
	}
	return spans
}

// ExportPlan is the SQL statement that sets the planner settings in the transaction of an
// export.
const ExportPlan = postgres.ExportPlan
