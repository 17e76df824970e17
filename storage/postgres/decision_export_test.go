package postgres

import "github.com/tributary-hq/tributary/affiliate"

// The statements whose plans are asserted.
const (
	DecisionOfSQL         = selectDecision
	DecisionOfExternalSQL = selectDecisionOfExternal
	SeeClickSQL           = selectClick
	ConversionsOfClickSQL = conversionsOfClick
)

// DecisionListSQL gives the statements of a list, for the first page of 20, with
// their arguments.
func DecisionListSQL(scope affiliate.Scope, filter affiliate.DecisionFilter) (page string, pageArgs []any, count string, countArgs []any) {
	where := decisionConditions(scope, filter)
	page, count = decisionListSQL(where)
	return page, append(append([]any{}, where.args...), 20, 0), count, where.args
}
