package postgres

import (
	"context"
	"encoding"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// column is a column of a table, which a field of a struct holds.
type column struct {
	name     string
	sqlType  string
	fixed    bool
	nullable bool  // null stands for the zero value of the field
	path     []int // the path to the field, for reflect.Value.FieldByIndex
}

// structColumns returns the columns of a struct. Each field is a column, and the fields of an
// embedded struct are columns of the struct. The tag db of a field is the name of its
// column; without the tag it is the name of the field in snake case. A field with the tag
// db:"-" is no column.
//
// Options follow the name after commas. A column that is fixed is written once, by the
// insert. A column that is nullable is null if the field has its zero value, which is an
// empty text or an id of zeros. The tag sql is the SQL type of a column whose type differs
// from that of the field.
func structColumns(row reflect.Type) []column {
	var columns []column
	for field := range row.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("db"), ",")
		switch {
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			for _, c := range structColumns(field.Type) {
				c.path = slices.Concat(field.Index, c.path)
				columns = append(columns, c)
			}
			continue
		case name == "-" || !field.IsExported():
			continue
		case name == "":
			name = snakeCase(field.Name)
		}
		c := column{
			name: name, sqlType: field.Tag.Get("sql"), path: field.Index,
			fixed: strings.Contains(options, "fixed"), nullable: strings.Contains(options, "nullable"),
		}
		if c.sqlType == "" {
			c.sqlType = sqlType(field.Type)
		}
		columns = append(columns, c)
	}
	return columns
}

var wordStart = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// snakeCase returns FXRate as fx_rate.
func snakeCase(name string) string {
	return strings.ToLower(wordStart.ReplaceAllString(name, "${1}${3}_${2}${4}"))
}

// sqlType returns the SQL type of the values of a Go type.
func sqlType(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return sqlType(t.Elem())
	case t == reflect.TypeFor[time.Time]():
		return "timestamptz"
	case t == reflect.TypeFor[[]byte]():
		return "bytea"
	case t.Implements(reflect.TypeFor[encoding.BinaryMarshaler]()):
		return "uuid"
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Struct:
		return sqlType(t.Elem()) + "[]"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "boolean"
	case reflect.Int16:
		return "smallint"
	case reflect.Int, reflect.Int32:
		return "integer"
	case reflect.Int64:
		return "bigint"
	default:
		return "jsonb"
	}
}

// Columns returns the columns of the struct T for a select list, "c.id, c.status, …" if
// the table has the alias c.
func Columns[T any](alias string) string {
	columns := structColumns(reflect.TypeFor[T]())
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = alias + "." + c.name
		if c.nullable && c.sqlType == "text" {
			names[i] = "coalesce(" + names[i] + ", '') as " + c.name
		}
	}
	return strings.Join(names, ", ")
}

// Names returns the columns of the struct T for the list of an insert: "id, status, …".
func Names[T any]() string {
	var names []string
	for _, c := range structColumns(reflect.TypeFor[T]()) {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// Excluded returns the assignments of ON CONFLICT DO UPDATE to the columns of the struct T that are
// not fixed: "status = excluded.status, …".
func Excluded[T any]() string {
	var changes []string
	for _, c := range structColumns(reflect.TypeFor[T]()) {
		if !c.fixed {
			changes = append(changes, c.name+" = excluded."+c.name)
		}
	}
	return strings.Join(changes, ", ")
}

// Unnest returns an expression that makes rows from arrays, one array for each column of the struct T:
// "unnest(@id::uuid[], @status::text[], …) as k (id, status, …)" with the alias k. Arrays returns the arguments of
// the expression.
func Unnest[T any](alias string) string {
	return "unnest(" + ArrayParams[T]() + ") as " + alias + " (" + Names[T]() + ")"
}

// ArrayParams returns the arrays in Unnest: "@id::uuid[], @status::text[], …".
func ArrayParams[T any]() string {
	var params []string
	for _, c := range structColumns(reflect.TypeFor[T]()) {
		params = append(params, "@"+c.name+"::"+c.sqlType+"[]")
	}
	return strings.Join(params, ", ")
}

// Arrays returns the arguments of Unnest for rows of one scope. It adds the scope as the arguments workspace and
// mode. For a field whose type has a method Time, the array contains the result of this method.
func Arrays[T any](scope affiliate.Scope, rows []T) pgx.NamedArgs {
	args := pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode}
	for _, c := range structColumns(reflect.TypeFor[T]()) {
		element := reflect.TypeFor[T]().FieldByIndex(c.path).Type
		isTime := element.Implements(reflect.TypeFor[interface{ Time() time.Time }]())
		if isTime {
			element = reflect.TypeFor[time.Time]()
		}
		values := reflect.MakeSlice(reflect.SliceOf(element), len(rows), len(rows))
		for i := range rows {
			value := reflect.ValueOf(&rows[i]).Elem().FieldByIndex(c.path)
			if isTime {
				value = reflect.ValueOf(value.Interface().(interface{ Time() time.Time }).Time())
			}
			values.Index(i).Set(value)
		}
		args[c.name] = values.Interface()
	}
	return args
}

// MaxRows is the maximum number of rows in one statement. More rows would not make a
// statement faster, and each connection keeps the plans of all statements that it has
// prepared.
const MaxRows = 32

// rowSizes are the numbers of rows for which there is a statement. Small numbers of
// rows are frequent, so each small number has its own statement.
var rowSizes = [...]int{1, 2, 3, 4, 5, 6, 7, 8, 16, MaxRows}

// MultiRow is a statement for any number of rows of type T, a struct whose fields are
// the columns. Queue splits the rows into statements with one of rowSizes rows each.
// The text of a statement does not depend on the values, so a connection prepares each
// statement only once.
type MultiRow[T any] struct {
	columns []column
	sql     [len(rowSizes)]string // one statement for each of rowSizes
}

// RowsOf builds the statements from a text, in which
//
//   - {columns} stands for the names of the columns: id, status, …
//   - {rows} stands for the rows: (…), (…). Postgres infers the types of the values, as it
//     can in an INSERT.
//   - {typed rows} stands for the rows with the types of the values, which any other VALUES
//     list needs.
//   - {changes} stands for the assignments of an UPDATE … FROM (VALUES …) t to the columns
//     that are not fixed: status = t.status, …
func RowsOf[T any](statement string) MultiRow[T] {
	m := MultiRow[T]{columns: structColumns(reflect.TypeFor[T]())}
	var names, changes []string
	for _, c := range m.columns {
		names = append(names, c.name)
		if !c.fixed {
			changes = append(changes, c.name+" = t."+c.name)
		}
	}
	typed := strings.Contains(statement, "{typed rows}")
	for size, n := range rowSizes {
		rows := m.rows(n, typed)
		m.sql[size] = strings.NewReplacer(
			"{columns}", strings.Join(names, ", "), "{rows}", rows, "{typed rows}", rows, "{changes}", strings.Join(changes, ", "),
		).Replace(statement)
	}
	return m
}

// rows returns a VALUES list of n rows. If typed is true, the values of the first row have
// types, which apply to all rows.
func (m MultiRow[T]) rows(n int, typed bool) string {
	rows := make([]string, n)
	for i := range rows {
		values := make([]string, len(m.columns))
		for j, c := range m.columns {
			values[j] = fmt.Sprintf("$%d", i*len(values)+j+1)
			if typed && i == 0 {
				values[j] += "::" + c.sqlType
			}
		}
		rows[i] = "(" + strings.Join(values, ", ") + ")"
	}
	return strings.Join(rows, ", ")
}

// args appends the values of a row. A list of texts that is nil becomes an empty list,
// because no column for lists can be null.
func (m MultiRow[T]) args(args []any, row *T) []any {
	fields := reflect.ValueOf(row).Elem()
	for _, c := range m.columns {
		value := fields.FieldByIndex(c.path)
		if value.Kind() == reflect.Slice && value.IsNil() && value.Type().Elem().Kind() == reflect.String {
			value = reflect.MakeSlice(value.Type(), 0, 0)
		}
		if c.nullable && value.IsZero() {
			args = append(args, nil)
			continue
		}
		args = append(args, value.Interface())
	}
	return args
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
		args := make([]any, 0, n*len(m.columns))
		for i := range n {
			args = m.args(args, &rows[i])
		}
		queued = append(queued, QueuedRows{QueuedQuery: batch.Queue(m.sql[size], args...), N: n})
		rows = rows[n:]
	}
	return queued
}

// Exec executes the statement for one row and returns the number of affected rows.
// Errors: those of Refusal.
func (m MultiRow[T]) Exec(ctx context.Context, tx *Tx, row T) (int64, error) {
	tag, err := tx.Exec(ctx, m.sql[0], m.args(nil, &row)...)
	return tag.RowsAffected(), Refusal(err)
}

// QueuedRows is one statement of a MultiRow, for N rows.
type QueuedRows struct {
	*pgx.QueuedQuery
	N int
}
