package pgtest

import (
	"testing"
	"time"
)

const (
	waitTimeout  = 30 * time.Second
	pollInterval = 20 * time.Millisecond
)

// Eventually waits until condition returns true. It ends the test if this takes longer
// than 30 seconds. description is a clause that describes the condition. It is used in
// the message of the failure.
func Eventually(t testing.TB, description string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); !condition(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("the condition %q is not true after %s", description, waitTimeout)
		}
	}
}
