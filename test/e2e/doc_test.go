// Package e2e_test runs the whole service and uses it like a client: through REST, gRPC
// and the collector. The tests describe the behaviour of the product.
//
//	walk_test.go               the main use case, from a click to an approved commission
//	routes_test.go             which credentials may call each route of the API
//	contract_test.go           the format of requests and responses
//	limits_test.go             the rate limits
//	isolation_test.go          workspaces and modes cannot see each other's data
//	grpc_walk_test.go          the main use case over gRPC
//	codes_test.go              every error code is returned in at least one test
//	outage_test.go             responses while Redis or Postgres is not available
//	webhooks_test.go           webhook endpoints
//	webhook_deliveries_test.go webhook deliveries
//	separate_gateway_test.go   the gateway in a process of its own
//
// Each test starts its own system with a new database and a new Redis, so tests run in
// parallel. The system's clock is set by the test. For work in the background, a test
// repeats a request until it gets the expected response or a time limit ends.
package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that stopped systems leave no goroutines. After a run of all tests it
// also checks that every error code of the API was returned at least once.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if missing := missingCodes(); code == 0 && flag.Lookup("test.run").Value.String() == "" && len(missing) > 0 {
			fmt.Fprintln(os.Stderr, "no test received the error codes", strings.Join(missing, ", "))
			code = 1
		}
		os.Exit(code)
	}))
}
