package commission

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The number of commissions that match a filter is read from the counters in
// commission_counts. The transactions that change commissions update them. A period is
// split into parts, each counted by the largest unit that fits:
//
//	  from                                                             before
//	   ▼                                                                 ▼
//	···├─rows─┼─day─┼─day─┼───month───┼───month───┼─day─┼─day─┼──rows──┤···
//
// The parts called "rows" are at most two incomplete days, whose commissions are counted row by
// row. The cost of the other parts does not depend on the number of commissions. A search is
// always counted row by row, up to affiliate.MaxSearchTotal.

// grain is the length of the period that a counter in commission_counts covers. byRow
// means that no counter is used and the rows of the table commissions are counted.
type grain string

const (
	byRow   grain = ""
	byDay   grain = "day"
	byMonth grain = "month"
	allTime grain = "ever"
)

// starts returns the start of the day or month that contains t.
func (g grain) starts(t time.Time) time.Time {
	year, month, day := t.UTC().Date()
	if g == byMonth {
		day = 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// ends returns the end of the day or month that begins at start.
func (g grain) ends(start time.Time) time.Time {
	if g == byMonth {
		return start.AddDate(0, 1, 0)
	}
	return start.AddDate(0, 0, 1)
}

// inner returns the largest period of full days (or months) inside p. If p contains no
// start of a day (or month), From is after Before in the result.
func (g grain) inner(p affiliate.Period) affiliate.Period {
	var whole affiliate.Period
	if p.From != nil {
		from := g.starts(*p.From)
		if from.Before(*p.From) {
			from = g.ends(from)
		}
		whole.From = &from
	}
	if p.Before != nil {
		before := g.starts(*p.Before)
		whole.Before = &before
	}
	return whole
}

func inverted(p affiliate.Period) bool {
	return p.From != nil && p.Before != nil && p.From.After(*p.Before)
}

// span is a part of a period that is counted with one grain.
type span struct {
	Grain grain
	affiliate.Period
}

// spansOf splits a period into consecutive spans.
func spansOf(p affiliate.Period) []span {
	if p.From == nil && p.Before == nil {
		return []span{{allTime, p}}
	}
	days := byDay.inner(p)
	if inverted(days) {
		return nonEmpty(span{byRow, p})
	}
	months := byMonth.inner(days)
	if inverted(months) {
		// No month starts within the full days. All of them are in the span of days before the
		// months. The span of months and the span of days after it are empty.
		months = affiliate.Period{From: days.Before, Before: days.Before}
	}
	var spans []span
	if p.From != nil {
		spans = append(spans, span{byRow, affiliate.Period{From: p.From, Before: days.From}}, span{byDay, affiliate.Period{From: days.From, Before: months.From}})
	}
	spans = append(spans, span{byMonth, months})
	if p.Before != nil {
		spans = append(spans,
			span{byDay, affiliate.Period{From: months.Before, Before: days.Before}}, span{byRow, affiliate.Period{From: days.Before, Before: p.Before}})
	}
	return nonEmpty(spans...)
}

// spansFor returns the spans for counting the commissions that match a filter. An index
// finds the rows of a single participant, so they are counted row by row.
func spansFor(filter commission.Filter) []span {
	if filter.Participant != nil {
		return nonEmpty(span{byRow, filter.Created})
	}
	return spansOf(filter.Created)
}

func nonEmpty(spans ...span) []span {
	return slices.DeleteFunc(spans, func(s span) bool {
		return s.From != nil && s.Before != nil && !s.From.Before(*s.Before)
	})
}

// spansSQL returns a statement that counts the commissions of the spans, and its arguments. The
// given conditions apply to commissions c and commission_counts c. selectList returns the
// SELECT list for a span.
func spansSQL(where postgres.Conditions, spans []span, selectList func(i int, g grain) string, groupBy string) (string, []any) {
	var parts []string
	for i, s := range spans {
		table, column := "commission_counts c", "c.starts"
		// All parts use the arguments of where. Each part appends its own arguments.
		part := postgres.Conditions{Terms: slices.Clone(where.Terms), Args: where.Args}
		if s.Grain == byRow {
			table, column = "commissions c", "c.created_at"
		} else {
			part.Add("c.grain = '" + string(s.Grain) + "'")
		}
		part.Within(column, s.Period)
		parts = append(parts, "select "+selectList(i, s.Grain)+" from "+table+" where "+part.SQL()+" group by "+groupBy)
		where.Args = part.Args
	}
	return strings.Join(parts, " union all "), where.Args
}

// spanCount is the number of commissions in a day, a month or another span.
type spanCount struct {
	span
	N int64
}

// countSpans counts the commissions of spans. The result is ordered by time. A span of
// days or months becomes one count per day or month.
func countSpans(ctx context.Context, db postgres.Queryer, where postgres.Conditions, spans []span) ([]spanCount, error) {
	if len(spans) == 0 {
		return nil, nil
	}
	sql, args := countSpansSQL(where, spans)
	rows, _ := db.Query(ctx, sql, append([]any{postgres.PlanForArgs}, args...)...)
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (spanCount, error) {
		var i int
		var starts *time.Time
		var c spanCount
		err := row.Scan(&i, &starts, &c.N)
		if err != nil {
			return c, err
		}
		c.span = spans[i]
		if c.Grain == byDay || c.Grain == byMonth {
			ends := c.Grain.ends(*starts)
			c.Period = affiliate.Period{From: starts, Before: &ends}
		}
		return c, nil
	})
}

func countSpansSQL(where postgres.Conditions, spans []span) (string, []any) {
	sql, args := spansSQL(where, spans, func(i int, g grain) string {
		if g == byRow {
			return strconv.Itoa(i) + " as span, null::date as starts, count(*) as n"
		}
		return strconv.Itoa(i) + " as span, c.starts, sum(c.n)::bigint as n"
	}, "starts")
	return sql + " order by span, starts", args
}

func totalOf(all []spanCount) (n int64) {
	for _, c := range all {
		n += c.N
	}
	return n
}

// locate returns the count whose span contains the row at the given offset, and the row's
// offset in this span. The counts are in the order of the list. The row must exist.
func locate(all []spanCount, offset int64) (part spanCount, partOffset int64) {
	for _, part = range all {
		if offset < part.N {
			break
		}
		offset -= part.N
	}
	return part, offset
}

// groupsSQL counts and sums commissions for the stats, grouped by commissionGroupBy.
func groupsSQL(where postgres.Conditions, spans []span) (string, []any) {
	return spansSQL(where, spans, func(_ int, g grain) string {
		count := "sum(c.n)::bigint"
		if g == byRow {
			count = "count(*)"
		}
		return commissionGroupBy + ", " + count + " as count, sum(c.amount_cents)::bigint as amount_cents"
	}, commissionGroupBy)
}

const commissionGroupBy = "c.status, c.needs_review, c.currency"

// searchGroupsSQL does the same as groupsSQL for commissions that are counted row by row. It stops at limit.
func searchGroupsSQL(where postgres.Conditions, limit int64) (string, []any) {
	return fmt.Sprintf(`
		select %[1]s, count(*) as count, sum(c.amount_cents)::bigint as amount_cents
		from (select %[1]s, c.amount_cents from commissions c where %[2]s limit %[3]d) c
		group by %[1]s`, commissionGroupBy, where.SQL(), limit), where.Args
}

// Stats counts and sums the commissions that match a filter, in one snapshot.
// If the filter has a search text or a condition on the hold period, it counts at most
// affiliate.MaxTotalOf commissions. Errors: NOT_FOUND if the filter's programme or participant does not exist.
func Stats(ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter commission.Filter) (stats commission.Stats, err error) {
	if err := postgres.CheckFilter(ctx, db, scope, nil, filter.Participant, nil); err != nil {
		return stats, err
	}
	err = db.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		currency, err := currencyOf(ctx, tx, scope, filter.Program)
		if err != nil {
			return fmt.Errorf("currency: %w", err)
		}
		groups, err := commissionGroups(ctx, tx, scope, filter)
		if err != nil {
			return fmt.Errorf("commission stats: %w", err)
		}
		stats = commission.NewStats(currency, groups)
		limit := affiliate.MaxTotalOf(filter.Search)
		if stats.OnHold, stats.Ready, err = countPending(ctx, tx, scope, filter, limit); err != nil {
			return fmt.Errorf("count pending commissions: %w", err)
		}
		stats.Capped = stats.OnHold > limit || stats.Ready > limit
		stats.OnHold, stats.Ready = min(stats.OnHold, limit), min(stats.Ready, limit)
		if !countsRows(filter) || stats.Count < limit {
			return nil
		}
		where, err := commissionConditions(ctx, tx, scope, filter)
		if err != nil {
			return err
		}
		found, err := countFound(ctx, tx, where, limit)
		stats.Capped = stats.Capped || found > limit
		return err
	})
	return stats, err
}

// countPending returns the numbers of pending commissions that match a filter and need no review: with a
// hold period that is running, and without one. Each number stops at limit + 1.
func countPending(ctx context.Context, tx pgx.Tx, scope affiliate.Scope, filter commission.Filter, limit int64) (onHold, ready int64, err error) {
	if filter.Status != "" && filter.Status != commission.Pending || filter.NeedsReview != nil && *filter.NeedsReview {
		return 0, 0, nil
	}
	filter.NeedsReview = new(false)
	count := func(holdActive bool) (int64, error) {
		if filter.HoldActive != nil && *filter.HoldActive != holdActive {
			return 0, nil
		}
		pending := filter
		pending.HoldActive = &holdActive
		where, err := commissionConditions(ctx, tx, scope, pending)
		if err != nil {
			return 0, err
		}
		return countFound(ctx, tx, where, limit)
	}
	if onHold, err = count(true); err != nil {
		return 0, 0, err
	}
	ready, err = count(false)
	return onHold, ready, err
}

// currencyOf returns the currency of the programme, or of the workspace.
func currencyOf(ctx context.Context, tx pgx.Tx, scope affiliate.Scope, program *affiliate.ProgramID) (string, error) {
	const (
		programCurrency   = `select currency from programs where workspace_id = $1 and mode = $2 and id = $3`
		workspaceCurrency = `select currency from workspaces where id = $1`
	)
	type row struct{ Currency string }
	if program != nil {
		found, err := postgres.OneRow[row](tx.Query(ctx, programCurrency, scope.Workspace, scope.Mode, *program))
		return found.Currency, err
	}
	found, err := postgres.OneRow[row](tx.Query(ctx, workspaceCurrency, scope.Workspace))
	return found.Currency, err
}

func commissionGroups(ctx context.Context, tx pgx.Tx, scope affiliate.Scope, filter commission.Filter) ([]commission.Group, error) {
	var sql string
	var args []any
	if countsRows(filter) {
		where, err := commissionConditions(ctx, tx, scope, filter)
		if err != nil {
			return nil, err
		}
		sql, args = searchGroupsSQL(where, affiliate.MaxTotalOf(filter.Search))
	} else {
		spans := spansFor(filter)
		if len(spans) == 0 {
			return nil, nil
		}
		sql, args = groupsSQL(countedConditions(scope, filter), spans)
	}
	return postgres.List[commission.Group](ctx, tx, sql, append([]any{postgres.PlanForArgs}, args...)...)
}
