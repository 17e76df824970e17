package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// maxRows bounds the rows of one statement. Larger ones save no more time, and
// every connection keeps the plans of those it has prepared.
const maxRows = 32

// rowSizes are those for which there is a statement: few rows, which are the
// common case, take one.
var rowSizes = [...]int{1, 2, 3, 4, 5, 6, 7, 8, 16, maxRows}

// manyRows is a statement over many rows, each of as many values as there are
// columns. Any number of rows takes few statements, whose texts do not depend on
// the number, so that each is prepared once.
type manyRows struct {
	columns int
	sql     [len(rowSizes)]string // by rowSizes
}

// rowsOf makes the statement from its text, in which %s stands for the list of
// rows: (…), (…). types are those of the columns; none are needed where the
// database knows them, as it does in an insert.
func rowsOf(statement string, columns int, types ...string) manyRows {
	if len(types) > 0 && len(types) != columns {
		panic(fmt.Sprintf("postgres: %d types of %d columns", len(types), columns))
	}
	m := manyRows{columns: columns}
	for size, n := range rowSizes {
		var rows strings.Builder
		for row := range n {
			for column := range columns {
				switch {
				case column > 0:
					rows.WriteString(", ")
				case row > 0:
					rows.WriteString("), (")
				default:
					rows.WriteString("(")
				}
				fmt.Fprintf(&rows, "$%d", row*columns+column+1)
				if row == 0 && len(types) > 0 {
					rows.WriteString("::" + types[column])
				}
			}
		}
		rows.WriteString(")")
		m.sql[size] = fmt.Sprintf(statement, rows.String())
	}
	return m
}

// queue adds the statements for the rows to a batch, in the rows' order, and
// returns them, so that results can be read.
func (m manyRows) queue(batch *pgx.Batch, rows ...[]any) []queuedRows {
	var queued []queuedRows
	for len(rows) > 0 {
		size := len(rowSizes) - 1
		for rowSizes[size] > len(rows) {
			size--
		}
		n := rowSizes[size]
		args := make([]any, 0, n*m.columns)
		for _, row := range rows[:n] {
			if len(row) != m.columns {
				panic(fmt.Sprintf("postgres: %d values for %d columns", len(row), m.columns))
			}
			args = append(args, row...)
		}
		queued = append(queued, queuedRows{QueuedQuery: batch.Queue(m.sql[size], args...), n: n})
		rows = rows[n:]
	}
	return queued
}

// queuedRows is one of the statements, for n of the rows.
type queuedRows struct {
	*pgx.QueuedQuery
	n int
}
