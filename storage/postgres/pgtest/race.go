package pgtest

import (
	"iter"
	"time"
)

// HeadStarts returns the rounds of a test in which two calls run at the same time, and in
// which each call must be first at least once. The elements are the times for which the
// two calls must wait before they begin. One of the two waits, by turns. The wait doubles
// from 1 ms to 2 s: the calls overlap in the first rounds, and one of them has ended before
// the other in the last rounds, even on a busy machine. The test must end the loop when it
// has seen both orders.
func HeadStarts() iter.Seq[[2]time.Duration] {
	return func(yield func([2]time.Duration) bool) {
		for wait := time.Millisecond; wait < 4*time.Second; wait *= 2 {
			if !yield([2]time.Duration{0, wait}) || !yield([2]time.Duration{wait, 0}) {
				return
			}
		}
	}
}
