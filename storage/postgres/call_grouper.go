package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/tributary-hq/tributary/affiliate"
)

// callGrouper processes calls that are made at the same time in groups. Calls that
// arrive while a group is running wait and form the next group. A call never waits for
// others to arrive, so a single call runs at once.
type callGrouper[T comparable] struct {
	maxCalls  int // maximum number of calls in a group
	maxGroups int // maximum number of groups that run at the same time
	// timeout bounds the work for a group, and then the work for its calls if they are
	// repeated one by one. The work does not stop when a caller's context ends.
	timeout time.Duration
	// groupPool serves groups. singlePool serves calls that are repeated one by one.
	groupPool, singlePool *pgxpool.Pool
	// exclusive returns the keys that a call needs exclusively; nil means no keys. No
	// two calls of a group have the same key, so that each call sees the changes of the
	// call before it.
	exclusive func(T) []exclusiveKey
	// work processes a group. An error applies to the whole group. If final is false,
	// nothing was done. If final is true, the work may have been done in spite of the
	// error.
	work func(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error)

	mu      sync.Mutex
	waiting []*call[T] // in the order of arrival
	running int        // number of running groups
}

type call[T any] struct {
	arg  T
	err  error         // the error of the group
	done chan struct{} // closed after err is set
}

// exclusiveKey names something that only one call of a group may use.
type exclusiveKey struct {
	scope      affiliate.Scope
	kind, name string
}

// do returns the error of the call's group when the work is done, or the context's
// error when the context ends. If the context ends while the call is still waiting, the
// call is never processed. If the call is already being processed, its outcome is
// unknown.
func (g *callGrouper[T]) do(ctx context.Context, of T) error {
	c := &call[T]{arg: of, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	if g.running < g.maxGroups {
		g.running++
		go g.run()
	}
	g.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting = slices.DeleteFunc(g.waiting, func(other *call[T]) bool { return other == c })
		return ctx.Err()
	}
}

// run processes groups until no call waits.
func (g *callGrouper[T]) run() {
	for {
		group := g.nextGroup()
		if len(group) == 0 {
			return
		}
		g.runGroup(group)
	}
}

// nextGroup removes the next group from the waiting calls. It returns no calls if none
// waits. The calling goroutine must then end, because it is no longer counted as
// running.
func (g *callGrouper[T]) nextGroup() []*call[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	var group, later []*call[T]
	taken := map[exclusiveKey]bool{}
	for i, c := range g.waiting {
		if len(group) == g.maxCalls {
			later = append(later, g.waiting[i:]...)
			break
		}
		free := true
		if g.exclusive != nil {
			// The keys of a waiting call are taken too, so that a later call with the
			// same key cannot overtake it.
			for _, key := range g.exclusive(c.arg) {
				free = free && !taken[key]
				taken[key] = true
			}
		}
		if free {
			group = append(group, c)
		} else {
			later = append(later, c)
		}
	}
	g.waiting = later
	if len(group) == 0 {
		g.running--
	}
	return group
}

// maxParallelSingles bounds the calls of one group that are repeated at the same time.
const maxParallelSingles = 8

// runGroup processes a group. If the group fails and nothing was done, each call is
// repeated on its own in the background, while the next group starts. A call that
// cannot succeed, or that waits for a lock, then does not hold up the others. Calls are
// not repeated if the database could not be reached.
func (g *callGrouper[T]) runGroup(group []*call[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	all := make([]T, len(group))
	for i, c := range group {
		all[i] = c.arg
	}
	final, err := g.runWork(ctx, g.groupPool, all)
	if err != nil && !final && reachedDatabase(err) {
		go g.runEach(group)
		return
	}
	for _, c := range group {
		c.err = err
		close(c.done)
	}
}

// runEach processes calls one by one.
func (g *callGrouper[T]) runEach(group []*call[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	var some errgroup.Group
	some.SetLimit(maxParallelSingles)
	for _, c := range group {
		some.Go(func() error {
			_, c.err = g.runWork(ctx, g.singlePool, []T{c.arg})
			close(c.done)
			return nil
		})
	}
	_ = some.Wait()
}

// runWork calls work and turns a panic into an error.
func (g *callGrouper[T]) runWork(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return g.work(ctx, pool, group)
}

// reachedDatabase reports whether an error came from the database, rather than from the
// connection or a timeout.
func reachedDatabase(err error) bool {
	var connectErr *pgconn.ConnectError
	return !errors.As(err, &connectErr) && !pgconn.Timeout(err)
}

const (
	// maxLookups bounds the look-ups of one round trip.
	maxLookups    = 64
	lookupTimeout = 5 * time.Second
)

// Lookups combines look-ups that are made at the same time into one round trip. It uses
// connections of its own. Each element is a look-up with a field for its result.
type Lookups[T comparable] struct{ grouper callGrouper[T] }

// NewLookups returns Lookups that call read for each group. read fills in the results
// of the group and must have no other effect. It runs for one group at a time.
func NewLookups[T comparable](db *DB, read func(ctx context.Context, pool *pgxpool.Pool, group []T) error) *Lookups[T] {
	return &Lookups[T]{callGrouper[T]{
		maxCalls: maxLookups, maxGroups: 1, timeout: lookupTimeout, groupPool: db.groups, singlePool: db.pool,
		work: func(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error) {
			return false, read(ctx, pool, group)
		},
	}}
}

// Do returns when the look-up has its result, with the error of its group, or when the
// context ends.
func (l *Lookups[T]) Do(ctx context.Context, lookup T) error { return l.grouper.do(ctx, lookup) }
