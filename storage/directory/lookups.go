package directory

import "sync"

// lookups lets simultaneous requests for a key share one read from Redis. A request
// shares a read only if the read starts after the request has arrived. Therefore the
// result includes every write that was acknowledged before the request was sent. For each
// key, at most one read is running, and at most one other read waits for the end of the
// running read.
type lookups struct {
	mu   sync.Mutex
	last map[string]*sharedLookup // the newest unfinished read of each key
}

// sharedLookup is a read that several requests share. value and state are set before done
// is closed.
type sharedLookup struct {
	started bool // guarded by lookups.mu
	done    chan struct{}
	value   any
	state   State
}

func newLookups() *lookups { return &lookups{last: make(map[string]*sharedLookup)} }

// do returns the result of a read that starts after do was called. If the running read
// fails, the waiting read is not made, and the requests that share the waiting read fail
// too. Otherwise these requests would wait for a second timeout.
func (l *lookups) do(key string, read func() (any, State)) (any, State) {
	l.mu.Lock()
	previous := l.last[key]
	if previous != nil && !previous.started {
		l.mu.Unlock()
		<-previous.done
		return previous.value, previous.state
	}
	own := &sharedLookup{started: previous == nil, done: make(chan struct{}), state: Unknown}
	l.last[key] = own
	l.mu.Unlock()
	// The function is deferred, so that the other requests do not wait forever if read
	// panics.
	defer func() {
		l.mu.Lock()
		if l.last[key] == own {
			delete(l.last, key)
		}
		l.mu.Unlock()
		close(own.done)
	}()

	if previous != nil {
		<-previous.done
		l.mu.Lock()
		own.started = true
		l.mu.Unlock()
		if previous.state == Unknown {
			return nil, Unknown
		}
	}
	own.value, own.state = read()
	return own.value, own.state
}
