package landing

import (
	"context"
	"log/slog"
	"sync"
	"time"

	landingv1 "github.com/tributary-hq/tributary/gen/landing/v1"
)

const (
	// countLifetime is the time for which a process caches the counter (SPEC.md section 8).
	countLifetime = 45 * time.Second
	// countPause is the time without a new query after a query has failed.
	countPause = time.Second
)

// counter caches the counter of the waitlist.
//
// If the database fails, get returns the last known value, however old it is, because an
// old number is more useful to a visitor than an error. It returns an error only if there
// is no such value.
type counter struct {
	base, total int32
	count       func(context.Context) (int64, error)
	log         *slog.Logger
	now         func() time.Time

	// mu is locked during a query, so that concurrent requests share it.
	mu      sync.Mutex
	last    *landingv1.GetWaitlistCountResponse // nil before the first query that succeeds
	err     error                               // the error of the last query
	expires time.Time                           // the time of the next query
}

func newCounter(config Config) *counter {
	return &counter{base: config.WaitlistBase, total: config.WaitlistTotal, count: config.Store.CountWaitlist, log: config.Log, now: config.Now}
}

// get returns the counter. The query does not use the context of a request, because other
// requests wait for its result too.
func (c *counter) get() (*landingv1.GetWaitlistCountResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.now().Before(c.expires) {
		c.query()
	}
	if c.last == nil {
		return nil, c.err
	}
	return c.last, nil
}

func (c *counter) query() {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	var n int64
	if n, c.err = c.count(ctx); c.err != nil {
		c.log.LogAttrs(ctx, slog.LevelWarn, "the waitlist cannot be counted", slog.Any("error", c.err))
		c.expires = c.now().Add(countPause)
		return
	}
	taken := min(n+int64(c.base), int64(c.total))
	c.last = &landingv1.GetWaitlistCountResponse{Taken: int32(taken), Total: c.total} // #nosec G115 -- at most total
	c.expires = c.now().Add(countLifetime)
}
