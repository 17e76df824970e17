package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// The statements whose plans are asserted.
const (
	CountFromAddressSQL = countFromAddress
	SelectPendingOfSQL  = selectPendingOf
	ReviewChunk         = reviewChunk
)

// FindFraudFactsSQL is the statement as Postgres gets it.
func FindFraudFactsSQL(t *testing.T) string {
	t.Helper()
	sql, _, err := (&fraudQuery{}).args().RewriteQuery(t.Context(), nil, findFraudFacts, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sql
}

// FraudEventListSQL are the statements of a list, with the arguments of both.
func FraudEventListSQL(scope affiliate.Scope, filter affiliate.FraudEventFilter) (page, count string, args pgx.NamedArgs) {
	page, count = fraudEventListSQL(filter)
	return page, count, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "status": filter.Status, "program": filter.Program,
		"participant": filter.Participant, "from": filter.Created.From, "before": filter.Created.Before, "limit": 20, "offset": 0,
	}
}
