package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// How many commissions a filter leaves is read from commission_counts, which the
// transactions that change commissions keep:
//
//	  from                                                             before
//	   ▼                                                                 ▼
//	···├─rows─┼─day─┼─day─┼───month───┼───month───┼─day─┼─day─┼──rows──┤···
//
// So it costs the same whatever the number of commissions, but for the rows of
// two days at most. A search is counted row by row, as far as
// affiliate.MaxSearchTotal.

// grain is what a row of commission_counts is about, or byRow: the rows of
// commissions themselves.
type grain string

const (
	byRow   grain = ""
	byDay   grain = "day"
	byMonth grain = "month"
	forEver grain = "ever"
)

// starts is the beginning of the day or month that an instant lies in.
func (g grain) starts(t time.Time) time.Time {
	year, month, day := t.UTC().Date()
	if g == byMonth {
		day = 1
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// ends is the end of the day or month that begins at an instant.
func (g grain) ends(start time.Time) time.Time {
	if g == byMonth {
		return start.AddDate(0, 1, 0)
	}
	return start.AddDate(0, 0, 1)
}

// whole is the period without the days, or months, that it does not hold
// altogether. It is backwards where there is not even the seam of two of them.
func (g grain) whole(p affiliate.Period) affiliate.Period {
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

func backwards(p affiliate.Period) bool {
	return p.From != nil && p.Before != nil && p.From.After(*p.Before)
}

// span is a part of a period that is counted by one grain.
type span struct {
	Grain grain
	affiliate.Period
}

// spansOf takes a period apart into spans that follow each other.
func spansOf(p affiliate.Period) []span {
	if p.From == nil && p.Before == nil {
		return []span{{forEver, p}}
	}
	days := byDay.whole(p)
	if backwards(days) {
		return nonEmpty(span{byRow, p})
	}
	head, tail := byDay, byDay
	months := byMonth.whole(days)
	if backwards(months) {
		// All days are of one month: they are the head.
		months, tail = affiliate.Period{From: days.Before, Before: days.Before}, byRow
	}
	var spans []span
	if p.From != nil {
		spans = append(spans, span{byRow, affiliate.Period{From: p.From, Before: days.From}}, span{head, affiliate.Period{From: days.From, Before: months.From}})
	}
	spans = append(spans, span{byMonth, months})
	if p.Before != nil {
		spans = append(spans, span{tail, affiliate.Period{From: months.Before, Before: days.Before}}, span{byRow, affiliate.Period{From: days.Before, Before: p.Before}})
	}
	return nonEmpty(spans...)
}

// spansFor are the spans by which the commissions of a filter are counted. One
// participant's commissions are counted in their index, row by row.
func spansFor(filter affiliate.CommissionFilter) []span {
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

// spansSQL is a statement that counts spans: selected says what of each, of
// commissions or of commission_counts, both of which are called c and share the
// columns of where, and groups by what.
func spansSQL(where conditions, spans []span, selected func(i int, of grain) string, groups string) (string, []any) {
	var parts []string
	for i, s := range spans {
		table, column := "commission_counts c", "c.starts"
		// The parts share the arguments, and each adds its own.
		part := conditions{terms: slices.Clone(where.terms), args: where.args}
		if s.Grain == byRow {
			table, column = "commissions c", "c.created_at"
		} else {
			part.add("c.grain = '" + string(s.Grain) + "'")
		}
		part.within(column, s.Period)
		parts = append(parts, "select "+selected(i, s.Grain)+" from "+table+" where "+part.sql()+" group by "+groups)
		where.args = part.args
	}
	return strings.Join(parts, " union all "), where.args
}

// counted is how many commissions there are of a day, of a month, or of a span
// that is counted otherwise.
type counted struct {
	span
	N int64
}

// countSpans counts day by day, month by month, in the order of time.
func countSpans(ctx context.Context, db Queryer, where conditions, spans []span) ([]counted, error) {
	if len(spans) == 0 {
		return nil, nil
	}
	sql, args := countSpansSQL(where, spans)
	rows, err := db.Query(ctx, sql, append([]any{planned}, args...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (counted, error) {
		var i int
		var starts *time.Time
		var c counted
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

func countSpansSQL(where conditions, spans []span) (string, []any) {
	sql, args := spansSQL(where, spans, func(i int, of grain) string {
		if of == byRow {
			return strconv.Itoa(i) + " as span, null::date as starts, count(*) as n"
		}
		return strconv.Itoa(i) + " as span, c.starts, sum(c.n)::bigint as n"
	}, "starts")
	return sql + " order by span, starts", args
}

func totalOf(all []counted) (n int64) {
	for _, c := range all {
		n += c.N
	}
	return n
}

// locate finds where in a list that runs in the order of all a row stands: in
// which part of it, behind how many rows of that part. There must be such a row.
func locate(all []counted, offset int64) (part counted, rest int64) {
	for _, part = range all {
		if offset < part.N {
			break
		}
		offset -= part.N
	}
	return part, offset
}

// groupsSQL is the statement for the sums that stats are made of.
func groupsSQL(where conditions, spans []span) (string, []any) {
	return spansSQL(where, spans, func(_ int, of grain) string {
		count := "sum(c.n)::bigint"
		if of == byRow {
			count = "count(*)"
		}
		return commissionGroupBy + ", " + count + " as count, sum(c.amount_cents)::bigint as amount_cents"
	}, commissionGroupBy)
}

const commissionGroupBy = "c.status, c.needs_review, c.currency"

// searchGroupsSQL is groupsSQL for what a search finds.
func searchGroupsSQL(where conditions) (string, []any) {
	return fmt.Sprintf(`
		select %[1]s, count(*) as count, sum(c.amount_cents)::bigint as amount_cents
		from (select %[1]s, c.amount_cents from commissions c where %[2]s limit %[3]d) c
		group by %[1]s`, commissionGroupBy, where.sql(), affiliate.MaxSearchTotal), where.args
}
