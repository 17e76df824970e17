package webhook

import (
	"errors"
	"testing"
	"time"

	"github.com/riverqueue/river"
)

func TestRunBlocks(t *testing.T) {
	failure := errors.New("connection lost")
	for name, tc := range map[string]struct {
		maxTime    time.Duration
		blocks     []int // number of deliveries in each block
		err        error // of the last block
		wantCalls  int
		wantSnooze bool
	}{
		"nothing to do":                          {time.Hour, []int{0}, nil, 1, false},
		"less than a block":                      {time.Hour, []int{jobBlockSize - 1}, nil, 1, false},
		"until a block is not full":              {time.Hour, []int{jobBlockSize, jobBlockSize, 7}, nil, 3, false},
		"the last block with deliveries is full": {time.Hour, []int{jobBlockSize, 0}, nil, 2, false},
		"until the time is over":                 {0, []int{jobBlockSize, jobBlockSize}, nil, 1, true},
		"time is over, nothing remains":          {0, []int{3}, nil, 1, false},
		"until a block fails":                    {time.Hour, []int{jobBlockSize, 0}, failure, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := runBlocks(tc.maxTime, func() (int, error) {
				n := tc.blocks[calls]
				if calls++; calls == len(tc.blocks) {
					return n, tc.err
				}
				return n, nil
			})
			var snooze *river.JobSnoozeError
			if got := errors.As(err, &snooze); got != tc.wantSnooze || !got && !errors.Is(err, tc.err) {
				t.Errorf("runBlocks returned the error %v, want %v; want a request for another run instead: %v", err, tc.err, tc.wantSnooze)
			}
			if calls != tc.wantCalls {
				t.Errorf("runBlocks ran %d blocks, want %d", calls, tc.wantCalls)
			}
		})
	}
}

// The queue treats a job as lost after rescueAfter and starts it again. Each run must end
// before that.
func TestJobTimeouts_AreShorterThanTheRescueTime(t *testing.T) {
	const rescueAfter = 6 * time.Minute // cmd/assemble
	if maxJobTime >= jobTimeout || jobTimeout >= rescueAfter {
		t.Errorf("maxJobTime is %v, jobTimeout is %v, rescueAfter is %v, want each to be longer than the one before", maxJobTime, jobTimeout, rescueAfter)
	}
}
