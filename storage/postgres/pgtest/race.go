package pgtest

import (
	"iter"
	"time"
)

// HeadStarts returns the rounds of a test in which two calls run in parallel, and in which
// each of them must be first at least once. An element says how long each of the two calls
// must wait before it begins: one call waits in the odd rounds, the other one in the even
// rounds. The wait doubles from 1 ms to 2 s. With a short wait the calls overlap. With a
// long wait the first call ends before the other one begins, even on a busy machine. The
// test must end the loop when it has seen both orders.
func HeadStarts() iter.Seq[[2]time.Duration] {
	return func(yield func([2]time.Duration) bool) {
		for wait := time.Millisecond; wait < 4*time.Second; wait *= 2 {
			if !yield([2]time.Duration{0, wait}) || !yield([2]time.Duration{wait, 0}) {
				return
			}
		}
	}
}
