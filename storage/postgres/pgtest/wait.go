package pgtest

import (
	"testing"
	"time"
)

const (
	waitTimeout  = 30 * time.Second
	pollInterval = 5 * time.Millisecond
)

// Eventually waits until condition returns true. It ends the test if that takes longer
// than 30 seconds. awaited describes the condition in the message of the failure, for
// example "all clicks are stored".
func Eventually(t testing.TB, awaited string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); !condition(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("this is not true after %s: %s", waitTimeout, awaited)
		}
	}
}
