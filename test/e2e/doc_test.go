// Package e2e_test runs the whole service and meets it as its users do: through
// REST, gRPC and the collector. It reads as the product's manual.
//
//	walk_test.go       one click becomes an approved commission, point by point
//	routes_test.go     who may call what, for every route of the contract
//	contract_test.go   the shape of requests and answers
//	limits_test.go     what a caller may send in a minute
//	isolation_test.go  workspaces and modes see nothing of each other
//	grpc_walk_test.go  the walk as an internal service makes it
//	codes_test.go      every error code has a request that produces it
//	outage_test.go     what is said when a dependency is lost
//	webhooks_test.go   endpoints that are told of events, and webhook_deliveries_test.go what becomes of each delivery
//	apart_test.go      the gateway as a process of its own
//
// Every test has a system of its own with a fresh database and a fresh Redis, so
// tests run side by side. Time is a clock that the test sets; what is done in
// the background is waited for by asking again, with a deadline.
package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain makes sure that a system that was stopped has left nothing running,
// and that a whole run has met every error code of the contract.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if missing := neverAnswered(); code == 0 && flag.Lookup("test.run").Value.String() == "" && len(missing) > 0 {
			fmt.Fprintln(os.Stderr, "no test produced", strings.Join(missing, ", "))
			code = 1
		}
		os.Exit(code)
	}))
}
