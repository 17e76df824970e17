package analytics

import (
	"context"
	"time"
)

// lockPause is the time between two attempts to get the lock of the sums.
const lockPause = 20 * time.Millisecond

// budget limits the work of a caller that adds entries of the log.
type budget struct {
	until time.Time     // no further transaction begins after this time
	wait  time.Duration // for the lock of the sums
}

// requestBudget returns the budget of a request for all its workspaces. longBudget returns the
// budget of an erasure or a recount for one workspace and mode.
func requestBudget() *budget {
	return &budget{until: time.Now().Add(maxAdding), wait: 300 * time.Millisecond}
}

func longBudget() *budget { return &budget{until: time.Now().Add(24 * time.Hour), wait: time.Minute} }

// pause waits until the next attempt to get the lock. It returns false if the budget does not
// allow this.
func (b *budget) pause(ctx context.Context) (bool, error) {
	if b.wait < lockPause {
		return false, nil
	}
	b.wait -= lockPause
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(lockPause):
		return true, nil
	}
}

// result is the result of one call of fold.
type result struct {
	busy bool // another transaction changes the sums, so nothing was done
	more bool // entries may be left
}
