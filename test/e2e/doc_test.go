// Package e2e_test runs the whole service and uses it like a client: through REST, gRPC
// and the collector. The tests describe the behaviour of the product. To get an overview,
// read these files first:
//
//	main_use_case_test.go      the main use case, from a click to an approved commission
//	main_use_case_grpc_test.go the main use case over gRPC
//	routes_test.go             which credentials may call each route of the API
//	contract_test.go           the format of requests and responses
//	limits_test.go             the rate limits
//	isolation_test.go          workspaces and modes cannot see each other's data
//	codes_test.go              every error code is returned in at least one test
//	outage_test.go             responses while Redis or Postgres is not available
//	webhooks_test.go           webhook endpoints
//	webhook_deliveries_test.go webhook deliveries
//	notifications_test.go      notifications of merchants and partners
//	notification_stream_test.go the stream of notifications, and its examples in a browser
//	separate_gateway_test.go   the gateway in its own process
//
// Each test starts its own system with a new database and a new Redis, so tests can run
// in parallel. The test can stop and advance the clock of its system. To wait for work in
// the background, a test repeats a request until the response is as expected, or until a
// timeout.
package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// TestMain checks that no goroutines remain after all systems have stopped. If all tests
// ran, it also checks that every error code of the API was received at least once.
func TestMain(m *testing.M) {
	if os.Getenv(asCore) != "" {
		if err := runFastCore(); err != nil {
			fmt.Fprintln(os.Stderr, "core:", err)
		}
		os.Exit(1)
	}
	// A Redis pool that cannot connect tries again each second, and ends up to a second
	// after it was closed.
	reconnect := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
	goleak.VerifyTestMain(pgtest.Main{M: m}, reconnect, goleak.Cleanup(func(code int) {
		if missing := missingCodes(); code == 0 && flag.Lookup("test.run").Value.String() == "" && len(missing) > 0 {
			fmt.Fprintln(os.Stderr, "no test received the error codes", strings.Join(missing, ", "))
			code = 1
		}
		os.Exit(code)
	}))
}
