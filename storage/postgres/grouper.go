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
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/tributary-hq/tributary/affiliate"
)

// Grouper combines calls that are made at the same time into groups and processes each group at
// once. Calls that arrive while MaxGroups groups are running wait and form the next group. A
// call never waits for other calls to arrive, so a single call runs immediately. The statements
// of a group belong to the trace of the group's first call that has a recorded trace.
type Grouper[T comparable] struct {
	DB        *DB
	MaxCalls  int // maximum number of calls in a group
	MaxGroups int // maximum number of groups that run at the same time
	// Timeout limits the time for the work on a group. If the calls of the group are
	// then repeated one by one, Timeout also limits the total time for these
	// repetitions. The work does not stop when a caller's context ends.
	Timeout time.Duration
	// Exclusive returns the keys of a call; nil means that calls have no keys. A group
	// never contains two calls with the same key, so that each call sees the changes of
	// earlier calls with its key.
	Exclusive func(T) []ExclusiveKey
	// Work processes a group on a connection of pool. An error applies to all calls of the group. If Work
	// returns an error and final is false, it has changed nothing, and the calls can be
	// repeated. If final is true, it may have made its changes in spite of the error.
	Work func(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error)

	mu      sync.Mutex
	waiting []*call[T] // in the order of arrival
	running int        // number of running groups
}

type call[T any] struct {
	arg  T
	span trace.Span
	err  error         // the error of the call, or of its group
	done chan struct{} // closed after err is set
}

// ExclusiveKey identifies something, such as a customer, that only one call of a group
// may use.
type ExclusiveKey struct {
	Scope      affiliate.Scope
	Kind, Name string
}

// Do adds a call, waits until the call is done, and returns its error. If the context
// ends first, Do returns the context's error. In this case, a call that is still waiting
// for its group is never processed, and the outcome of a call that is already being
// processed is unknown.
func (g *Grouper[T]) Do(ctx context.Context, arg T) error {
	c := &call[T]{arg: arg, span: trace.SpanFromContext(ctx), done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	if g.running < g.MaxGroups {
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

// run processes groups until no call is waiting.
func (g *Grouper[T]) run() {
	for {
		group := g.nextGroup()
		if len(group) == 0 {
			return
		}
		g.runGroup(group)
	}
}

// nextGroup removes the next group from the waiting calls. If no call is waiting, it
// returns an empty group and no longer counts the calling goroutine as running. The
// goroutine must then end.
func (g *Grouper[T]) nextGroup() []*call[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	var group, later []*call[T]
	taken := map[ExclusiveKey]bool{}
	for i, c := range g.waiting {
		if len(group) == g.MaxCalls {
			later = append(later, g.waiting[i:]...)
			break
		}
		keysFree := true
		if g.Exclusive != nil {
			// A call that stays in the queue takes its keys too, so that no later call
			// with the same key can overtake it.
			for _, key := range g.Exclusive(c.arg) {
				keysFree = keysFree && !taken[key]
				taken[key] = true
			}
		}
		if keysFree {
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

// maxParallelSingles limits how many calls of one group are repeated at the same time.
const maxParallelSingles = 8

// runGroup processes a group. If the group fails without having changed anything, each
// call is repeated on its own in the background, while the next group starts. A call that
// cannot succeed, or that waits for a lock, therefore does not delay other calls. Calls
// are not repeated if no connection could be opened or if the time of the group was over.
func (g *Grouper[T]) runGroup(group []*call[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), g.Timeout)
	defer cancel()
	all := make([]T, len(group))
	for i, c := range group {
		all[i] = c.arg
	}
	if i := slices.IndexFunc(group, func(c *call[T]) bool { return c.span.IsRecording() }); i >= 0 {
		ctx = trace.ContextWithSpan(ctx, group[i].span)
	}
	final, err := g.runWork(ctx, g.DB.groups, all)
	if err != nil && !final && reachedDatabase(err) {
		go g.runEach(group)
		return
	}
	for _, c := range group {
		c.err = err
		close(c.done)
	}
}

// runEach processes each call of a group on its own.
func (g *Grouper[T]) runEach(group []*call[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), g.Timeout)
	defer cancel()
	var singles errgroup.Group
	singles.SetLimit(maxParallelSingles)
	for _, c := range group {
		singles.Go(func() error {
			_, c.err = g.runWork(trace.ContextWithSpan(ctx, c.span), g.DB.pool, []T{c.arg})
			close(c.done)
			return nil
		})
	}
	_ = singles.Wait()
}

// runWork calls Work and turns a panic into an error.
func (g *Grouper[T]) runWork(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return g.Work(ctx, pool, group)
}

// reachedDatabase reports whether the work got as far as the database. It returns false
// if no connection could be opened or if a timeout ended the work.
func reachedDatabase(err error) bool {
	var connectErr *pgconn.ConnectError
	return !errors.As(err, &connectErr) && !pgconn.Timeout(err)
}

const (
	// maxLookups limits the number of look-ups in one round trip.
	maxLookups    = 64
	lookupTimeout = 5 * time.Second
)

// Lookups combines look-ups that are made at the same time into one round trip. It uses
// connections that are not shared with other calls. T describes a look-up and has a
// field for the result.
type Lookups[T comparable] struct{ grouper Grouper[T] }

// NewLookups returns Lookups that call the function read for each group. read stores the
// result in each look-up of the group and must have no other effect. It runs for one
// group at a time.
func NewLookups[T comparable](db *DB, read func(ctx context.Context, pool *pgxpool.Pool, group []T) error) *Lookups[T] {
	return &Lookups[T]{Grouper[T]{
		DB: db, MaxCalls: maxLookups, MaxGroups: 1, Timeout: lookupTimeout,
		Work: func(ctx context.Context, pool *pgxpool.Pool, group []T) (final bool, err error) {
			return false, read(ctx, pool, group)
		},
	}}
}

// Do returns when the look-up has its result, or when the context ends. If no connection
// can be opened or the time of the group is over, all look-ups of the group fail. After
// any other error, each look-up of the group is repeated on its own.
func (l *Lookups[T]) Do(ctx context.Context, lookup T) error { return l.grouper.Do(ctx, lookup) }

// Counts returns the number of groups that are running, and of calls that wait for a group.
func (g *Grouper[T]) Counts() (running, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, len(g.waiting)
}
