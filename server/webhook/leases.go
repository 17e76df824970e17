package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// leaseTime is how long a process that dies keeps its endpoints from the others.
	// leaseMargin is what must be left of a lease when an attempt begins.
	leaseTime   = 30 * time.Second
	leaseMargin = attemptTimeout + time.Second
	// renewAt is what is left of a lease when its renewal is asked for, and renewRetry
	// the time between two tries: the row may be locked for a moment.
	renewAt    = 20 * time.Second
	renewRetry = 500 * time.Millisecond
	// claimRetry is the time between two claims of an endpoint that was not granted.
	claimRetry = time.Second
	// searchEvery is how often a sender searches for endpoints with due deliveries that
	// no process serves, searchLimit how many it takes.
	searchEvery = 10 * time.Second
	searchLimit = 1000
)

// leases are the endpoints that this process serves or wants to serve.
type leases struct {
	queue  Queue
	sender affiliate.SenderID
	now    func() time.Time

	// wanting has a value if an endpoint may have become wanted.
	wanting chan struct{}

	mu       sync.Mutex
	leases   map[affiliate.EndpointKey]lease
	wanted   map[affiliate.EndpointKey]want
	returned map[affiliate.EndpointKey]bool // to be released
	searched time.Time
}

// lease is an endpoint that this process serves.
type lease struct{ until, renew time.Time }

// want is an endpoint that this process wants to serve. An endpoint that another
// process serves is asked for at most once per claimRetry, and once more after a first
// refusal: the other process may be about to release it.
type want struct {
	at      time.Time // of the next claim
	pending bool      // there is a reason to claim
	refused bool      // once since the last reason
}

func newLeases(queue Queue, sender affiliate.SenderID, now func() time.Time) *leases {
	return &leases{
		queue: queue, sender: sender, now: now, wanting: make(chan struct{}, 1),
		leases: map[affiliate.EndpointKey]lease{}, wanted: map[affiliate.EndpointKey]want{}, returned: map[affiliate.EndpointKey]bool{},
	}
}

// want asks for an endpoint. It does not block.
func (l *leases) want(key affiliate.EndpointKey) {
	l.mu.Lock()
	w, ok := l.wanted[key]
	if !ok {
		w.at = l.now()
	}
	w.pending = true
	l.wanted[key] = w
	l.mu.Unlock()
	select {
	case l.wanting <- struct{}{}:
	default:
	}
}

// giveBack notes that an endpoint is not served any more. The next release gives its
// lease back.
func (l *leases) giveBack(key affiliate.EndpointKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, key)
	l.returned[key] = true
}

// holds reports whether this process has the lease of an endpoint.
func (l *leases) holds(key affiliate.EndpointKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, held := l.leases[key]
	return held
}

// held returns the number of leases.
func (l *leases) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.leases)
}

// claim renews leases and claims wanted endpoints. It returns those that were granted,
// with the end of their leases.
func (l *leases) claim(ctx context.Context) (granted map[affiliate.EndpointKey]time.Time, err error) {
	now := l.now()
	asked := l.toClaim(now)
	if len(asked) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	until := now.Add(leaseTime)
	keys, err := l.queue.Claim(ctx, l.sender, asked, now, until)
	l.mu.Lock()
	defer l.mu.Unlock()
	granted = make(map[affiliate.EndpointKey]time.Time, len(keys))
	for _, key := range keys {
		granted[key] = until
		l.leases[key] = lease{until, until.Add(-renewAt)}
		delete(l.wanted, key)
		delete(l.returned, key)
	}
	for _, key := range asked {
		w, ok := l.wanted[key]
		if !ok {
			continue
		}
		w.at = now.Add(claimRetry)
		if err != nil || !w.refused {
			w.pending = true
		}
		if err == nil {
			w.refused = !w.refused
		}
		l.wanted[key] = w
	}
	return granted, err
}

// toClaim returns the leases to renew and the wanted endpoints whose time has come. It
// forgets endpoints that were refused and that there is no new reason to claim.
func (l *leases) toClaim(now time.Time) (asked []affiliate.EndpointKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, held := range l.leases {
		if !held.renew.After(now) {
			asked = append(asked, key)
			l.leases[key] = lease{held.until, now.Add(renewRetry)}
		}
	}
	for key, w := range l.wanted {
		switch _, held := l.leases[key]; {
		case w.at.After(now):
		case !w.pending:
			delete(l.wanted, key)
		default:
			w.pending = false
			l.wanted[key] = w
			if !held {
				asked = append(asked, key)
			}
		}
	}
	return asked
}

// release gives back the leases of endpoints that are not served any more.
func (l *leases) release(ctx context.Context) error {
	l.mu.Lock()
	var keys []affiliate.EndpointKey
	for key := range l.returned {
		if _, wanted := l.wanted[key]; !wanted {
			keys = append(keys, key)
		}
		delete(l.returned, key)
	}
	l.mu.Unlock()
	return l.releaseKeys(ctx, keys)
}

// releaseAll gives back all leases when the process stops.
func (l *leases) releaseAll(ctx context.Context) error {
	l.mu.Lock()
	var keys []affiliate.EndpointKey
	for key := range l.leases {
		keys = append(keys, key)
	}
	for key := range l.returned {
		keys = append(keys, key)
	}
	l.mu.Unlock()
	return l.releaseKeys(ctx, keys)
}

func (l *leases) releaseKeys(ctx context.Context, keys []affiliate.EndpointKey) error {
	if len(keys) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	return l.queue.Release(ctx, l.sender, keys)
}

// search asks for endpoints that have due deliveries and no sender: those of a process
// that died, and those whose next attempt has become due.
func (l *leases) search(ctx context.Context) error {
	now := l.now()
	if now.Sub(l.searched) < searchEvery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := l.queue.Unclaimed(ctx, now, searchLimit)
	if err != nil {
		return err
	}
	l.searched = now
	for _, key := range found {
		l.want(key)
	}
	return nil
}
