package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// The statements whose plans are asserted.
const (
	FindFraudFactsSQL   = findFraudFacts
	CountFromAddressSQL = countFromAddress
	SelectPendingOfSQL  = selectPendingOf
	ReviewChunk         = reviewChunk
)

// FraudEventListSQL are the statements of a list, with the arguments of both.
func FraudEventListSQL(scope affiliate.Scope, filter affiliate.FraudEventFilter) (page, count string, args pgx.NamedArgs) {
	page, count = fraudEventListSQL(filter)
	return page, count, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "status": filter.Status, "program": filter.Program,
		"participant": filter.Participant, "from": filter.Created.From, "before": filter.Created.Before, "limit": 20, "offset": 0,
	}
}
