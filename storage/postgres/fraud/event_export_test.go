package fraud

import (
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
)

// FraudEventListSQL returns the statements for a page of fraud events and for the total,
// and the arguments of both.
func FraudEventListSQL(scope affiliate.Scope, filter fraud.EventFilter) (page, count string, args pgx.NamedArgs) {
	page, count = fraudEventListSQL(filter)
	return page, count, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "status": filter.Status, "program": filter.Program,
		"participant": filter.Participant, "from": filter.Created.From, "before": filter.Created.Before, "limit": 20, "offset": 0,
	}
}
