package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// ProgramListSQL are the statements of a list, with the arguments of both.
func ProgramListSQL(scope affiliate.Scope, filter affiliate.ProgramFilter) (page, count string, args pgx.NamedArgs) {
	page, count = programListSQL(filter)
	return page, count, programListArgs(scope, filter, affiliate.Page{Number: 1, Size: 20})
}

// The statements whose plans are under test.
const (
	PublicKeysAfterSQL = publicKeysAfter
	ProgramTargetsSQL  = programReferralTargets
	TargetsAfterSQL    = referralTargetsAfter
)
