package pgtest

import (
	"testing"
	"time"
)

const (
	waitTimeout  = 30 * time.Second
	pollInterval = 20 * time.Millisecond
)

// Eventually calls condition repeatedly until it returns true. It ends the test if this
// takes longer than 30 seconds. A pause between two calls is at least an eighth of the time
// so far, so that a long wait needs few calls. description is a clause that describes the
// condition. It is used in the message of the failure.
func Eventually(t testing.TB, description string, condition func() bool) {
	t.Helper()
	for began := time.Now(); !condition(); time.Sleep(max(pollInterval, time.Since(began)/8)) {
		if time.Since(began) > waitTimeout {
			t.Fatalf("the condition %q is not true after %s", description, waitTimeout)
		}
	}
}
