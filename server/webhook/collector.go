package webhook

import (
	"context"
	"sync"
	"time"
)

// collector hands items from many goroutines to one, which takes all that have come
// while it was busy with the last ones.
type collector[T any] struct {
	mu    sync.Mutex
	items []T
	added chan struct{} // has a value if items may have become non-empty
}

func newCollector[T any]() *collector[T] { return &collector[T]{added: make(chan struct{}, 1)} }

// add appends items. It does not block.
func (c *collector[T]) add(items ...T) {
	c.mu.Lock()
	c.items = append(c.items, items...)
	c.mu.Unlock()
	select {
	case c.added <- struct{}{}:
	default:
	}
}

// take waits for items and returns the oldest, at most n; none when ctx ends.
func (c *collector[T]) take(ctx context.Context, n int) []T {
	for {
		if taken := c.tryTake(n); len(taken) > 0 {
			return taken
		}
		select {
		case <-c.added:
		case <-ctx.Done():
			return nil
		}
	}
}

// tryTake returns the oldest items, at most n.
func (c *collector[T]) tryTake(n int) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, len(c.items))
	taken := c.items[:n:n]
	c.items = c.items[n:]
	return taken
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
