package pgtest

import "testing"

// Slow skips a test that takes seconds of processor time, if `go test` runs with -short.
// `make test` and `make e2e` use -short. `make test-all` runs all tests.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("the test is slow; it runs without -short")
	}
}
