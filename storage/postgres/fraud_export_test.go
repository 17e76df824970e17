package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
)

// Statements whose query plans the tests check.
const (
	CountFromAddressSQL = countFromAddress
	SelectPendingOfSQL  = selectPendingOf
	ReviewChunk         = reviewChunk
)

// FindFraudFactsSQL returns the statement that reads the facts for fraud signals. Its
// parameters are positional, as in the statement that Postgres receives.
func FindFraudFactsSQL(t *testing.T) string {
	t.Helper()
	sql, _, err := (&fraudQuery{}).args().RewriteQuery(t.Context(), nil, findFraudFacts, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sql
}

// FraudEventListSQL returns the statements for a page of fraud events and for the total,
// and the arguments of both.
func FraudEventListSQL(scope affiliate.Scope, filter fraud.EventFilter) (page, count string, args pgx.NamedArgs) {
	page, count = fraudEventListSQL(filter)
	return page, count, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "status": filter.Status, "program": filter.Program,
		"participant": filter.Participant, "from": filter.Created.From, "before": filter.Created.Before, "limit": 20, "offset": 0,
	}
}
