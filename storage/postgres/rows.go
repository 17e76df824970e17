package postgres

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/jackc/pgx/v5"
)

// MaxRows is the maximum number of rows in one statement. More rows would not make a
// statement faster, and each connection keeps the plans of all statements that it has
// prepared.
const MaxRows = 32

// rowSizes are the numbers of rows for which there is a statement. Small numbers of
// rows are frequent, so each small number has its own statement.
var rowSizes = [...]int{1, 2, 3, 4, 5, 6, 7, 8, 16, MaxRows}

// MultiRow is a statement for any number of rows of type T, a struct whose fields are
// the columns. queue splits the rows into statements with one of rowSizes rows each.
// The text of a statement does not depend on the values, so a connection prepares each
// statement only once.
type MultiRow[T any] struct {
	sql [len(rowSizes)]string // one statement for each of rowSizes
}

// RowsOf builds the statements from a text. In the text, %[1]s stands for the column
// names and %[2]s for the rows: (…), (…). The tag db of a field is the name of its
// column. The tag sql is the type of the column. In an INSERT … VALUES, Postgres infers
// the types, and the fields do not need the tag sql. In any other VALUES list, Postgres
// cannot infer the types, and the fields need the tag.
func RowsOf[T any](statement string) MultiRow[T] {
	row := reflect.TypeFor[T]()
	names, types := make([]string, row.NumField()), make([]string, row.NumField())
	for i := range row.NumField() {
		tag := row.Field(i).Tag
		if names[i] = tag.Get("db"); names[i] == "" {
			panic(fmt.Sprintf("postgres: field %s of %s has no column", row.Field(i).Name, row))
		}
		if t := tag.Get("sql"); t != "" {
			types[i] = "::" + t
		}
	}
	var m MultiRow[T]
	for size, n := range rowSizes {
		var rows strings.Builder
		for i := range n {
			if i > 0 {
				rows.WriteString(", ")
			}
			rows.WriteString("(")
			for column := range names {
				if column > 0 {
					rows.WriteString(", ")
				}
				fmt.Fprintf(&rows, "$%d", i*len(names)+column+1)
				if i == 0 { // the types in the first row apply to all rows
					rows.WriteString(types[column])
				}
			}
			rows.WriteString(")")
		}
		m.sql[size] = fmt.Sprintf(statement, strings.Join(names, ", "), rows.String())
	}
	return m
}

// Queue adds the statements for the rows to a batch, in the order of the rows. It
// returns the statements, so that the caller can read their results.
func (m MultiRow[T]) Queue(batch *pgx.Batch, rows ...T) []QueuedRows {
	var queued []QueuedRows
	for len(rows) > 0 {
		size := len(rowSizes) - 1
		for rowSizes[size] > len(rows) {
			size--
		}
		n := rowSizes[size]
		columns := reflect.TypeFor[T]().NumField()
		args := make([]any, 0, n*columns)
		for i := range n {
			row := reflect.ValueOf(&rows[i]).Elem()
			for column := range columns {
				args = append(args, row.Field(column).Interface())
			}
		}
		queued = append(queued, QueuedRows{QueuedQuery: batch.Queue(m.sql[size], args...), N: n})
		rows = rows[n:]
	}
	return queued
}

// QueuedRows is one statement of a MultiRow, for n rows.
type QueuedRows struct {
	*pgx.QueuedQuery
	N int
}
