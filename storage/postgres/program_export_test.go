package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// ProgramListSQL returns the two statements of a list and the arguments of both.
func ProgramListSQL(scope affiliate.Scope, filter affiliate.ProgramFilter) (page, count string, args pgx.NamedArgs) {
	page, count = programListSQL(filter)
	return page, count, programListArgs(scope, filter, affiliate.Page{Number: 1, Size: 20})
}

// Statements whose plans are checked.
const (
	PublicKeysAfterSQL = publicKeysAfter
	ProgramTargetsSQL  = programReferralTargets
	TargetsAfterSQL    = referralTargetsAfter
)
