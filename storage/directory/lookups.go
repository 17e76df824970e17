package directory

import "sync"

// lookups lets requests for one key that wait at the same time share one read from
// Redis. A request shares a read only if the read begins after the request arrived,
// so that its result includes every write that was acknowledged before the request
// was sent. At most one read per key runs and at most one waits for it.
type lookups struct {
	mu   sync.Mutex
	last map[string]*sharedLookup // the newest unfinished one of each key
}

// sharedLookup is one read. Its result is set before done is closed.
type sharedLookup struct {
	begun bool // guarded by lookups.mu
	done  chan struct{}
	value any
	state State
}

func newLookups() *lookups { return &lookups{last: make(map[string]*sharedLookup)} }

// do returns the result of a read that began after the call. After a read without
// a result the requests that waited for it get none either: each of them would wait
// for the same timeout again.
func (l *lookups) do(key string, read func() (any, State)) (any, State) {
	l.mu.Lock()
	running := l.last[key]
	if running != nil && !running.begun {
		l.mu.Unlock()
		<-running.done
		return running.value, running.state
	}
	own := &sharedLookup{begun: running == nil, done: make(chan struct{}), state: Blind}
	l.last[key] = own
	l.mu.Unlock()
	// A read that panics still ends the wait of the others.
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
		own.begun = true
		l.mu.Unlock()
		if running.state == Blind {
			return nil, Blind
		}
	}
	own.value, own.state = read()
	return own.value, own.state
}
