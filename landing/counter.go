package landing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	landingv1 "github.com/tributary-hq/tributary/gen/landing/v1"
)

const (
	// countLifetime is the time for which a process caches the counter.
	countLifetime = 45 * time.Second
	// countPause is the time without a new query after a query has failed.
	countPause = time.Second
	// refreshTimeout is the time after which a request gets the last value although the query
	// is still running.
	refreshTimeout = 500 * time.Millisecond
)

// counter caches the counter of the waitlist.
//
// If the database fails, get returns the last known value, however old it is, because an
// old number is more useful to a visitor than an error. It returns an error only if there
// is no such value.
type counter struct {
	Config
	count func(context.Context) (int64, error)

	mu      sync.Mutex                          // protects the fields below
	last    *landingv1.GetWaitlistCountResponse // nil before the first query that succeeds
	err     error                               // the error of the last query
	expires time.Time                           // the time of the next query
	running chan struct{}                       // closed when the running query ends; nil if none runs
}

// get returns the counter. If it has expired, concurrent callers share one query. The
// caller that starts the query waits for it, at most refreshTimeout if there is a last
// value. The other callers wait only if there is none.
func (c *counter) get(ctx context.Context) (*landingv1.GetWaitlistCountResponse, error) {
	c.mu.Lock()
	if c.Now().Before(c.expires) {
		defer c.mu.Unlock()
		return c.value()
	}
	last, running := c.last, c.running
	started := running == nil
	if started {
		running = make(chan struct{})
		c.running = running
		go c.query()
	}
	c.mu.Unlock()
	if last != nil {
		if !started {
			return last, nil
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, refreshTimeout)
		defer cancel()
	}
	select {
	case <-running:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.value()
	case <-ctx.Done():
		if last == nil {
			return nil, ctx.Err()
		}
		return last, nil
	}
}

// value returns the last value. The caller has locked mu.
func (c *counter) value() (*landingv1.GetWaitlistCountResponse, error) {
	if c.last == nil {
		return nil, c.err
	}
	return c.last, nil
}

// query counts the waitlist. It does not use the context of a request, because other
// requests use its result too.
func (c *counter) query() {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	n, err := c.count(ctx)
	if err != nil {
		c.Log.LogAttrs(ctx, slog.LevelWarn, "the waitlist cannot be counted", slog.Any("error", err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.expires = err, c.Now().Add(countPause)
	if err == nil {
		taken := min(n+int64(c.WaitlistBase), int64(c.WaitlistTotal))
		c.last = &landingv1.GetWaitlistCountResponse{Taken: int32(taken), Total: c.WaitlistTotal} // #nosec G115 -- at most total
		c.expires = c.Now().Add(countLifetime)
	}
	close(c.running)
	c.running = nil
}
