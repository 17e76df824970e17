package program

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Statements whose query plans the tests check.
var ListRulesSQL = listRules

const CountGroupMembersSQL = countGroupMembers

// Statements whose query plans the tests check.
var (
	ListGroupsSQL  = listGroups
	CountGroupsSQL = countGroups
)

// ProgramListSQL returns the statements for a page of programmes and for the total, and
// the arguments of both.
func ProgramListSQL(scope affiliate.Scope, filter program.Filter) (page, count string, args pgx.NamedArgs) {
	page, count = programListSQL(filter)
	return page, count, programListArgs(scope, filter, affiliate.Page{Number: 1, Size: 20})
}
