package webhook

import (
	"errors"
	"testing"
	"time"

	"github.com/riverqueue/river"
)

func TestAJobGoesOnInBlocks(t *testing.T) {
	failure := errors.New("the database is gone")
	for name, tc := range map[string]struct {
		atMost  time.Duration
		blocks  []int
		err     error
		taken   int
		snoozes bool
	}{
		"nothing to do":                  {time.Hour, []int{0}, nil, 1, false},
		"less than a block":              {time.Hour, []int{jobBlock - 1}, nil, 1, false},
		"until one is not full":          {time.Hour, []int{jobBlock, jobBlock, 7}, nil, 3, false},
		"exactly full":                   {time.Hour, []int{jobBlock, 0}, nil, 2, false},
		"until its time is over":         {0, []int{jobBlock, jobBlock}, nil, 1, true},
		"over when there is no more":     {0, []int{3}, nil, 1, false},
		"until one fails, for the queue": {time.Hour, []int{jobBlock, 0}, failure, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			taken := 0
			err := inBlocks(tc.atMost, func() (int, error) {
				n := tc.blocks[taken]
				if taken++; taken == len(tc.blocks) {
					return n, tc.err
				}
				return n, nil
			})
			var snooze *river.JobSnoozeError
			if got := errors.As(err, &snooze); got != tc.snoozes || !got && !errors.Is(err, tc.err) || taken != tc.taken {
				t.Errorf("%d blocks and %v", taken, err)
			}
		})
	}
}

// The queue takes the job of a process that is silent for too long for lost.
func TestARunEndsBeforeItIsTakenForLost(t *testing.T) {
	const rescueAfter = 6 * time.Minute // cmd/assemble
	if jobRun >= jobTimeout || jobTimeout >= rescueAfter {
		t.Errorf("a run ends after %v, at the latest after %v", jobRun, jobTimeout)
	}
	workers := river.NewWorkers()
	AddWorkers(workers, nil, time.Now)
	for _, timeout := range []time.Duration{(&cancelWorker{}).Timeout(nil), (&recoverWorker{}).Timeout(nil)} {
		if timeout != jobTimeout {
			t.Errorf("a run may take %v", timeout)
		}
	}
}
