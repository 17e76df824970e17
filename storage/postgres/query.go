package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Queryer is a pool, a connection or a transaction.
type Queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// OneRow reads the only row of a query into a T, by the names of its columns. Errors:
// NOT_FOUND if the query returned no row.
func OneRow[T any](rows pgx.Rows, err error) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
	if errors.Is(err, pgx.ErrNoRows) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return row, err
}

// AllRows reads all rows of a query by the names of their columns and converts each row
// with convert.
func AllRows[R, T any](rows pgx.Rows, err error, convert func(R) T) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) {
		r, err := pgx.RowToStructByName[R](row)
		if err != nil {
			var zero T
			return zero, err
		}
		return convert(r), nil
	})
}

// CountUpTo returns a statement that counts rows. from is a FROM clause and its
// conditions. The statement stops after limit+1 rows. A result greater than limit
// therefore means that there are more rows than limit. The comments on functions that
// return such a result say that the number stops at limit.
func CountUpTo(limit int64, from string) string {
	return fmt.Sprintf(`select count(*) from (select %s limit %d) counted`, from, limit+1)
}

// PgEpoch is 2000-01-01 in Unix microseconds. Postgres stores an instant as the
// number of microseconds since then.
const PgEpoch = 946_684_800_000_000
