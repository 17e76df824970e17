package webhook

import (
	"context"
	"sync"
	"time"
)

// batcher passes items from many goroutines to one goroutine, which processes them in
// batches. Items that are added while a batch is processed belong to the next batch.
type batcher[T any] struct {
	mu    sync.Mutex
	items []T
	added chan struct{} // receives a value when items are added
}

func newBatcher[T any]() *batcher[T] { return &batcher[T]{added: make(chan struct{}, 1)} }

// add appends items. It does not block.
func (c *batcher[T]) add(items ...T) {
	c.mu.Lock()
	c.items = append(c.items, items...)
	c.mu.Unlock()
	select {
	case c.added <- struct{}{}:
	default:
	}
}

// take waits until there are items. It then removes and returns the oldest items, at most
// n. It returns nil if ctx ends.
func (c *batcher[T]) take(ctx context.Context, n int) []T {
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

// tryTake removes and returns the oldest items, at most n. It does not wait.
func (c *batcher[T]) tryTake(n int) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, len(c.items))
	taken := c.items[:n:n]
	c.items = c.items[n:]
	return taken
}

// sleep waits for the duration d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
