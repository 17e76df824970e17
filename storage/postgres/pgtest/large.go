package pgtest

import "testing"

// LargeData skips a test that stores so much data that it takes seconds, if `go test` runs
// with -short. `make test` uses -short. CI runs all tests.
func LargeData(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("the test stores much data; it runs without -short")
	}
}
