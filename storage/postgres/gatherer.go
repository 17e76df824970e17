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

// callGrouper lets calls that are made at the same time share their work: those that
// come while some are at work wait and are the next ones. Nobody waits for
// company, so a single call is at work at once.
type callGrouper[T comparable] struct {
	maxCalls   int // calls at work together
	maxGroups int // such groups
	// timeout ends the work for a group, and then for what is repeated of it: callers
	// may go before.
	timeout time.Duration
	// groupPool is for groups, alone for calls that are repeated one by one.
	groupPool, singlePool *pgxpool.Pool
	// exclusive is what a call wants for itself alone; nil: nothing. No two of a group
	// want the same, so that each finds what the one before has left.
	exclusive func(T) []exclusiveKey
	// work does what a group wants. An error is about all of it: nothing was done,
	// or, when it is final, something may have been.
	work func(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error)

	mu      sync.Mutex
	waiting []*call[T] // in the order in which they came
	running int        // groups
}

type call[T any] struct {
	arg   T
	err  error         // of its group
	done chan struct{} // closed behind err
}

// exclusiveKey is something that one call of a group can have.
type exclusiveKey struct {
	scope      affiliate.Scope
	kind, name string
}

// do comes back when the call's work is done, with the error of its group, or when
// the context ends. A call that was not at work by then never will be; of others it
// is unknown.
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

// run works until nothing waits.
func (g *callGrouper[T]) run() {
	for {
		group := g.nextGroup()
		if len(group) == 0 {
			return
		}
		g.runGroup(group)
	}
}

// nextGroup picks the next group; none when nothing waits, and whoever asks is at its
// end then.
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
		alone := true
		if g.exclusive != nil {
			// What comes behind one that has to wait may not overtake it.
			for _, w := range g.exclusive(c.arg) {
				alone = alone && !taken[w]
				taken[w] = true
			}
		}
		if alone {
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

// runGroup works for a group. When that fails, and nothing was done, each of its calls
// is repeated alone, so that one for which it cannot be done, or that waits for a
// lock, keeps none of the others from theirs; the next group goes on meanwhile.
// When the database does not answer at all, it would not do so then.
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

// runEach works for calls one by one.
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

// runWork is work, of which a panic is a failure like others.
func (g *callGrouper[T]) runWork(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return g.work(ctx, pool, group)
}

// reachedDatabase reports whether an error is about what was asked for, and not about the
// way to the database.
func reachedDatabase(err error) bool {
	var connectErr *pgconn.ConnectError
	return !errors.As(err, &connectErr) && !pgconn.Timeout(err)
}

const (
	// maxLookups bounds the look-ups of one round trip.
	maxLookups    = 64
	lookupTimeout = 5 * time.Second
)

// Lookups lets look-ups that are made at the same time share a round trip on
// connections of their own. An element is a look-up with room for its result.
type Lookups[T comparable] struct{ grouper callGrouper[T] }

// NewLookups returns Lookups that read with the given function, which fills in the
// results of a group and must have no other effect. The function runs for one group
// at a time.
func NewLookups[T comparable](db *DB, read func(ctx context.Context, pool *pgxpool.Pool, group []T) error) *Lookups[T] {
	return &Lookups[T]{callGrouper[T]{
		maxCalls: maxLookups, maxGroups: 1, timeout: lookupTimeout, groupPool: db.groups, singlePool: db.pool,
		work: func(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error) {
			return false, read(ctx, pool, group)
		},
	}}
}

// Do returns once the look-up has its result, or with the error of its group, or
// when the context ends.
func (l *Lookups[T]) Do(ctx context.Context, lookup T) error { return l.grouper.do(ctx, lookup) }
