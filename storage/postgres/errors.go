package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
)

// SQLSTATE codes that the service handles (PostgreSQL documentation, appendix A).
const (
	codeForeignKeyViolation  = "23503"
	CodeUniqueViolation      = "23505"
	codeCheckViolation       = "23514"
	codeReadOnly             = "25006"
	CodeSerializationFailure = "40001"
	codeDeadlock             = "40P01"
	codeLockTimeout          = "55P03"
)

// uniqueRefusals contains the unique indexes that the values of a request can violate. It
// maps each of them to the reason of the refusal. A violation of any other unique index is
// an internal error.
var uniqueRefusals = map[string]affiliate.Reason{
	"programs_slug":            affiliate.ReasonSlugTaken,
	"promo_codes_code":         affiliate.ReasonPromoCodeTaken,
	"participants_external_id": affiliate.ReasonExternalIDTaken,
}

// Refusal returns the *affiliate.Error for a unique violation that a caller's values
// cause. It returns every other error unchanged.
func Refusal(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == CodeUniqueViolation {
		if reason, ok := uniqueRefusals[pgErr.ConstraintName]; ok {
			return affiliate.Refuse(reason)
		}
	}
	return err
}

// RefuseIfNone returns a refusal if a successful statement has changed no row.
func RefuseIfNone(tag pgconn.CommandTag, err error, reason affiliate.Reason) error {
	if err == nil && tag.RowsAffected() == 0 {
		return affiliate.Refuse(reason)
	}
	return err
}
