package conversion

import (
	"testing"
)

// Statements whose query plans the tests check.
const (
	CountFromAddressSQL = countFromAddress
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
