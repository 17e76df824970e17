// Package inflight lets simultaneous requests for a key share one call.
//
// A request shares a call only if the call starts after the request has arrived. Therefore
// the result includes every write that was acknowledged before the request was sent. For each
// key, at most one call is running, and at most one other call waits for its end. If the
// running call fails, the waiting call is not made, and the requests that share it fail too.
// Otherwise these requests would wait for a second timeout.
package inflight

import (
	"errors"
	"sync"
)

// Group is a set of calls. The zero value is ready. It is safe for concurrent use.
type Group[T any] struct {
	mu   sync.Mutex
	last map[string]*call[T] // the newest unfinished call of each key
}

type call[T any] struct {
	started  bool  // guarded by Group.mu; no more requests can join the call
	requests int64 // guarded by Group.mu
	done     chan struct{}
	// result and err are set before done is closed.
	result T
	err    error
}

// errAbandoned is the error of a call that has panicked.
var errAbandoned = errors.New("the call was abandoned")

// Do returns the result of a call that starts after Do was called. do makes the call for the
// given number of requests. position is the number of requests that have joined the call
// before this one.
func (g *Group[T]) Do(key string, do func(requests int64) (T, error)) (result T, position int64, err error) {
	g.mu.Lock()
	previous := g.last[key]
	if previous != nil && !previous.started {
		position = previous.requests
		previous.requests++
		g.mu.Unlock()
		<-previous.done
		return previous.result, position, previous.err
	}
	own := &call[T]{started: previous == nil, requests: 1, done: make(chan struct{}), err: errAbandoned}
	if g.last == nil {
		g.last = make(map[string]*call[T])
	}
	g.last[key] = own
	g.mu.Unlock()
	// The function is deferred, so that the other requests do not wait forever after a panic.
	defer func() {
		g.mu.Lock()
		if g.last[key] == own {
			delete(g.last, key)
		}
		g.mu.Unlock()
		close(own.done)
	}()
	if previous != nil {
		<-previous.done
		g.mu.Lock()
		own.started = true
		g.mu.Unlock()
		if previous.err != nil {
			own.err = previous.err
			return own.result, 0, own.err
		}
	}
	own.result, own.err = do(own.requests)
	return own.result, 0, own.err
}
