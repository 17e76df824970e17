package conversion

import (
	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
)

// Statements whose query plans the tests check.
var (
	SelectDecisionSQL           = selectDecision
	SelectDecisionOfExternalSQL = selectDecisionOfExternal
	SelectClickSQL              = selectClick
	ConversionsOfClickSQL       = conversionsOfClick
)

// DecisionListSQL returns the statements for the first page of 20 decisions and for the
// total, and their arguments.
func DecisionListSQL(scope affiliate.Scope, filter attribution.DecisionFilter) (page string, pageArgs []any, count string, countArgs []any) {
	where := decisionConditions(scope, filter)
	page, count = decisionListSQL(where)
	return page, append(append([]any{}, where.Args...), 20, 0), count, where.Args
}
