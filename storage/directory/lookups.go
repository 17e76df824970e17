package directory

import "sync"

// lookups lets simultaneous requests for a key share one read from Redis. A request
// shares a read only if the read starts after the request has arrived. Therefore the
// result includes every write that was acknowledged before the request was sent. For each
// key, at most one read runs and at most one read waits for it to end.
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

// do returns the result of a read that has started after the call of do. If the running
// read fails, the read that waits for it is not made, and its requests fail too.
// Otherwise they would wait for the same timeout again.
func (l *lookups) do(key string, read func() (any, State)) (any, State) {
	l.mu.Lock()
	running := l.last[key]
	if running != nil && !running.started {
		l.mu.Unlock()
		<-running.done
		return running.value, running.state
	}
	own := &sharedLookup{started: running == nil, done: make(chan struct{}), state: Unknown}
	l.last[key] = own
	l.mu.Unlock()
	// Deferred, so that the other requests do not wait forever if read panics.
	defer func() {
		l.mu.Lock()
		if l.last[key] == own {
			delete(l.last, key)
		}
		l.mu.Unlock()
		close(own.done)
	}()

	if running != nil {
		<-running.done
		l.mu.Lock()
		own.started = true
		l.mu.Unlock()
		if running.state == Unknown {
			return nil, Unknown
		}
	}
	own.value, own.state = read()
	return own.value, own.state
}
