package webhook

import (
	"net/http"
	"testing"
	"time"
)

func TestLimit_FollowsOutcomes(t *testing.T) {
	ok, failure, timeout := ResponseOutcome(http.StatusOK, 0), ResponseOutcome(http.StatusInternalServerError, 0), Outcome{ErrorCode: Timeout}
	times := func(n int, o Outcome) (all []Outcome) {
		for range n {
			all = append(all, o)
		}
		return all
	}
	for _, tc := range []struct {
		name     string
		outcomes []Outcome
		inFlight int
		timedOut bool
		paused   bool
	}{
		{"no outcome known", nil, 2, false, false},
		{"success", []Outcome{ok}, 10, false, false},
		{"failure in time", []Outcome{failure}, 10, false, false},
		{"timeout", []Outcome{ok, timeout}, 1, true, false},
		{"success after a timeout", []Outcome{timeout, ok}, 10, false, false},
		{"nine failures", times(9, failure), 10, false, false},
		{"ten failures", times(10, failure), 1, false, true},
		{"success after ten failures", append(times(10, failure), ok), 10, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l Limit
			for _, o := range tc.outcomes {
				l.Count(o, noon)
			}
			if l.InFlight() != tc.inFlight || l.LastAttemptTimedOut() != tc.timedOut || l.Paused(noon) != tc.paused {
				t.Errorf("InFlight() = %d, LastAttemptTimedOut() = %v, Paused() = %v; want %d, %v, %v",
					l.InFlight(), l.LastAttemptTimedOut(), l.Paused(noon), tc.inFlight, tc.timedOut, tc.paused)
			}
			if l.Paused(noon.Add(BreakerPause)) {
				t.Error("the pause is longer than BreakerPause")
			}
		})
	}
}

func TestLimit_LoadsStoredState(t *testing.T) {
	last := noon.Add(-30 * time.Second)
	for _, tc := range []struct {
		name     string
		failures int
		inFlight int
		paused   bool
	}{
		{"healthy", 0, 2, false},
		{"failed once, cause unknown", 1, 1, false},
		{"open breaker", 10, 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l Limit
			l.Load(Target{ConsecutiveFailures: tc.failures, LastDeliveryAt: &last})
			if l.InFlight() != tc.inFlight || l.Paused(noon) != tc.paused {
				t.Errorf("InFlight() = %d, Paused() = %v; want %d, %v", l.InFlight(), l.Paused(noon), tc.inFlight, tc.paused)
			}
			if l.Paused(noon.Add(30 * time.Second)) {
				t.Error("paused one minute after the last failure")
			}
			l.Load(Target{}) // the endpoint was enabled again
			if l.Paused(noon) || l.LastAttemptTimedOut() {
				t.Error("the failures were not reset")
			}
		})
	}
}
