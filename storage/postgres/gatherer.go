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

// gatherer lets calls that are made at the same time share their work: those that
// come while some are at work wait and are the next ones. Nobody waits for
// company, so a single call is at work at once.
type gatherer[T comparable] struct {
	most   int // calls at work together
	atOnce int // such groups
	// timeout ends the work for a group, and then for what is repeated of it: callers
	// may go before.
	timeout time.Duration
	// together is for groups, alone for calls that are repeated one by one.
	together, alone *pgxpool.Pool
	// wants is what a call wants for itself alone; nil: nothing. No two of a group
	// want the same, so that each finds what the one before has left.
	wants func(T) []want
	// work does what a group wants. An error is about all of it: nothing was done,
	// or, when it is final, something may have been.
	work func(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error)

	mu      sync.Mutex
	waiting []*call[T] // in the order in which they came
	running int        // groups
}

type call[T any] struct {
	of   T
	err  error         // of its group
	done chan struct{} // closed behind err
}

// want is something that one call of a group can have.
type want struct {
	scope      affiliate.Scope
	kind, name string
}

// do comes back when the call's work is done, with the error of its group, or when
// the context ends. A call that was not at work by then never will be; of others it
// is unknown.
func (g *gatherer[T]) do(ctx context.Context, of T) error {
	c := &call[T]{of: of, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	if g.running < g.atOnce {
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
func (g *gatherer[T]) run() {
	for {
		group := g.take()
		if len(group) == 0 {
			return
		}
		g.serve(group)
	}
}

// take picks the next group; none when nothing waits, and whoever asks is at its
// end then.
func (g *gatherer[T]) take() []*call[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	var group, later []*call[T]
	taken := map[want]bool{}
	for i, c := range g.waiting {
		if len(group) == g.most {
			later = append(later, g.waiting[i:]...)
			break
		}
		alone := true
		if g.wants != nil {
			// What comes behind one that has to wait may not overtake it.
			for _, w := range g.wants(c.of) {
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

// aloneAtOnce bounds the calls of one group that are repeated at the same time.
const aloneAtOnce = 8

// serve works for a group. When that fails, and nothing was done, each of its calls
// is repeated alone, so that one for which it cannot be done, or that waits for a
// lock, keeps none of the others from theirs; the next group goes on meanwhile.
// When the database does not answer at all, it would not do so then.
func (g *gatherer[T]) serve(group []*call[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	all := make([]T, len(group))
	for i, c := range group {
		all[i] = c.of
	}
	final, err := g.try(ctx, g.together, all)
	if err != nil && !final && answered(err) {
		go g.repeat(group)
		return
	}
	for _, c := range group {
		c.err = err
		close(c.done)
	}
}

// repeat works for calls one by one.
func (g *gatherer[T]) repeat(group []*call[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	var some errgroup.Group
	some.SetLimit(aloneAtOnce)
	for _, c := range group {
		some.Go(func() error {
			_, c.err = g.try(ctx, g.alone, []T{c.of})
			close(c.done)
			return nil
		})
	}
	_ = some.Wait()
}

// try is work, of which a panic is a failure like others.
func (g *gatherer[T]) try(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return g.work(ctx, pool, group)
}

// answered reports whether an error is about what was asked for, and not about the
// way to the database.
func answered(err error) bool {
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
type Lookups[T comparable] struct{ gatherer gatherer[T] }

// NewLookups returns Lookups that read with the given function, which fills in the
// results of a group and must have no other effect. The function runs for one group
// at a time.
func NewLookups[T comparable](db *DB, read func(ctx context.Context, pool *pgxpool.Pool, group []T) error) *Lookups[T] {
	return &Lookups[T]{gatherer[T]{
		most: maxLookups, atOnce: 1, timeout: lookupTimeout, together: db.gathered, alone: db.pool,
		work: func(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error) {
			return false, read(ctx, pool, group)
		},
	}}
}

// Do returns once the look-up has its result, or with the error of its group, or
// when the context ends.
func (l *Lookups[T]) Do(ctx context.Context, lookup T) error { return l.gatherer.do(ctx, lookup) }
