package landing

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestCounter_ConcurrentRequestsShareQuery(t *testing.T) {
	t.Parallel()
	var queries atomic.Int64
	release := make(chan struct{})
	started := make(chan struct{}, 1)
	c := &counter{Config: Config{WaitlistTotal: 100, Log: slog.New(slog.DiscardHandler), Now: time.Now}, count: func(context.Context) (int64, error) {
		queries.Add(1)
		started <- struct{}{}
		<-release
		return 7, nil
	}}
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			if got, err := c.get(t.Context()); err != nil || got.Taken != 7 {
				t.Errorf("get = %v, %v; want 7", got, err)
			}
		})
	}
	<-started
	close(release)
	running.Wait()
	if n := queries.Load(); n != 1 {
		t.Errorf("%d queries ran, want 1", n)
	}
}

// While the database fails, requests do not wait one after the other for its time-out.
func TestCounter_PausesAfterFailure(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var queries int
	var fail error
	c := &counter{Config: Config{WaitlistTotal: 100, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}, count: func(context.Context) (int64, error) {
		queries++
		return 7, fail
	}}
	fail = errors.New("no database")
	for range 3 {
		if _, err := c.get(t.Context()); !errors.Is(err, fail) {
			t.Errorf("get returned %v, want %v", err, fail)
		}
	}
	if queries != 1 {
		t.Errorf("%d queries ran, want 1", queries)
	}
	now, fail = now.Add(countPause), nil
	if got, err := c.get(t.Context()); err != nil || got.Taken != 7 || queries != 2 {
		t.Errorf("get = %v, %v after %d queries; want 7 after 2", got, err, queries)
	}
	now, fail = now.Add(countLifetime), errors.New("no database")
	for range 3 {
		if got, err := c.get(t.Context()); err != nil || got.Taken != 7 || queries != 3 {
			t.Errorf("get = %v, %v after %d queries; want the last value after 3", got, err, queries)
		}
	}
}

// Without a last value, a request waits for the query, and no longer than its client.
func TestCounter_WaiterEndsWithItsContext(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c := &counter{Config: Config{WaitlistTotal: 100, Log: slog.New(slog.DiscardHandler), Now: time.Now}, count: func(context.Context) (int64, error) {
		<-release
		return 7, nil
	}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if got, err := c.get(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("get = %v, %v; want %v", got, err, context.Canceled)
		}
	}
	close(release)
	if got, err := c.get(t.Context()); err != nil || got.Taken != 7 {
		t.Errorf("get = %v, %v; want 7", got, err)
	}
}
