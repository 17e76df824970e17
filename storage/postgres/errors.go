package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
)

// SQLSTATE codes that mean something to us (PostgreSQL documentation,
// appendix A).
const (
	codeUniqueViolation      = "23505"
	codeSerializationFailure = "40001"
	codeDeadlock             = "40P01"
)

// uniqueRefusals names, for each unique index that a caller can run into, what
// the caller is told. Where ON CONFLICT decides, no violation arises; any other
// is an accident.
var uniqueRefusals = map[string]affiliate.Reason{
	"users_kind_email_key": affiliate.ReasonEmailTaken,
	"programs_slug":        affiliate.ReasonSlugTaken,
	"promo_codes_code":     affiliate.ReasonPromoCodeTaken,
}

// oneRow reads the only row of a query by its columns' names. None is NOT_FOUND.
func oneRow[T any](rows pgx.Rows, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
	if errors.Is(err, pgx.ErrNoRows) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return row, err
}

// allRows reads all rows of a query by their columns' names, each as the value
// that as makes of it.
func allRows[R, T any](rows pgx.Rows, err error, as func(R) T) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) {
		r, err := pgx.RowToStructByName[R](row)
		if err != nil {
			var none T
			return none, err
		}
		return as(r), nil
	})
}

// refusal turns a unique violation that a caller caused into its reason and
// leaves every other error alone.
func refusal(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == codeUniqueViolation {
		if reason, ok := uniqueRefusals[pgErr.ConstraintName]; ok {
			return affiliate.Refuse(reason)
		}
	}
	return err
}
