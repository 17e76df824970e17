package pgtest

import (
	"sync/atomic"
	"time"
)

// Clock is the clock of a test. Several goroutines may use it at the same time.
type Clock struct {
	start  time.Time    // zero if the clock runs
	offset atomic.Int64 // nanoseconds
}

// NewClock returns a clock that does not run. It shows start until Advance or Set moves
// it.
func NewClock(start time.Time) *Clock { return &Clock{start: start} }

// NewRunningClock returns a clock that shows the current time, plus the durations that
// were added with Advance.
func NewRunningClock() *Clock { return &Clock{} }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	offset := time.Duration(c.offset.Load())
	if c.start.IsZero() {
		return time.Now().Add(offset)
	}
	return c.start.Add(offset)
}

// Advance moves the clock by d. If d is negative, the clock moves back.
func (c *Clock) Advance(d time.Duration) { c.offset.Add(int64(d)) }

// Set makes the clock show t. If the clock runs, it continues from t.
func (c *Clock) Set(t time.Time) { c.Advance(t.Sub(c.Now())) }
