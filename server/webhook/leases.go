package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

const (
	// leaseTime is the duration of a lease. If a process crashes, other processes can
	// claim its endpoints after this time.
	leaseTime = 30 * time.Second
	// leaseMargin is the minimum remaining time of the lease when an attempt starts.
	leaseMargin = attemptTimeout + time.Second
	// renewBefore is the remaining time of a lease at which the lease is renewed.
	renewBefore = 20 * time.Second
	// renewRetry is the time after which a failed renewal is repeated. A renewal can fail
	// because another transaction has locked the row.
	renewRetry = 500 * time.Millisecond
	// claimRetry is the minimum time between two claims of the same endpoint.
	claimRetry = time.Second
	// searchInterval is how often a sender searches for endpoints that have due
	// deliveries but no lease.
	searchInterval = 10 * time.Second
	// searchLimit is the maximum number of endpoints that a search returns.
	searchLimit = 1000
)

// leases manages the leases of this process: it claims endpoints, and renews and releases
// their leases.
type leases struct {
	db     *postgres.DB
	sender affiliate.SenderID
	now    func() time.Time

	// requested receives a value after requestClaim.
	requested chan struct{}

	mu        sync.Mutex
	leases    map[webhook.EndpointKey]lease
	requests  map[webhook.EndpointKey]claimRequest
	toRelease map[webhook.EndpointKey]bool // leases that the next call of release ends
	searched  time.Time                    // time of the last search
}

type lease struct{ until, renew time.Time }

// claimRequest is a request to claim an endpoint. If another process has the lease, the
// claim is refused. It is then repeated once, because the other process may have been
// about to release its lease.
type claimRequest struct {
	nextClaim time.Time // earliest time of the next claim
	pending   bool      // the endpoint must be claimed at nextClaim
	refused   bool      // the first claim was refused
}

func newLeases(db *postgres.DB, sender affiliate.SenderID, now func() time.Time) *leases {
	return &leases{
		db: db, sender: sender, now: now, requested: make(chan struct{}, 1),
		leases: map[webhook.EndpointKey]lease{}, requests: map[webhook.EndpointKey]claimRequest{}, toRelease: map[webhook.EndpointKey]bool{},
	}
}

// requestClaim requests that the next call of claim claims the endpoint. It does not
// block.
func (l *leases) requestClaim(key webhook.EndpointKey) {
	l.mu.Lock()
	request, ok := l.requests[key]
	if !ok {
		request.nextClaim = l.now()
	}
	request.pending = true
	l.requests[key] = request
	l.mu.Unlock()
	select {
	case l.requested <- struct{}{}:
	default:
	}
}

// returnLease must be called when the goroutine of an endpoint has ended. The next call
// of release then releases the endpoint's lease.
func (l *leases) returnLease(key webhook.EndpointKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, key)
	l.toRelease[key] = true
}

func (l *leases) has(key webhook.EndpointKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, leased := l.leases[key]
	return leased
}

func (l *leases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.leases)
}

// claim renews leases and claims the requested endpoints. It returns the endpoints whose
// leases were granted or renewed, with the end of each lease.
func (l *leases) claim(ctx context.Context) (granted map[webhook.EndpointKey]time.Time, err error) {
	now := l.now()
	claimed := l.keysToClaim(now)
	if len(claimed) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	until := now.Add(leaseTime)
	keys, err := webhooks.Claim(ctx, l.db, l.sender, claimed, now, until)
	l.mu.Lock()
	defer l.mu.Unlock()
	granted = make(map[webhook.EndpointKey]time.Time, len(keys))
	for _, key := range keys {
		granted[key] = until
		l.leases[key] = lease{until, until.Add(-renewBefore)}
		delete(l.requests, key)
		delete(l.toRelease, key)
	}
	for _, key := range claimed {
		request, ok := l.requests[key]
		if !ok {
			continue
		}
		request.nextClaim = now.Add(claimRetry)
		if err != nil || !request.refused {
			request.pending = true
		}
		if err == nil {
			request.refused = !request.refused
		}
		l.requests[key] = request
	}
	return granted, err
}

// keysToClaim returns the endpoints whose leases must be renewed now and the endpoints
// that must be claimed now. It also deletes claim requests that are no longer pending.
func (l *leases) keysToClaim(now time.Time) (keys []webhook.EndpointKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, current := range l.leases {
		if !current.renew.After(now) {
			keys = append(keys, key)
			l.leases[key] = lease{current.until, now.Add(renewRetry)}
		}
	}
	for key, request := range l.requests {
		switch _, leased := l.leases[key]; {
		case request.nextClaim.After(now):
		case !request.pending:
			delete(l.requests, key)
		default:
			request.pending = false
			l.requests[key] = request
			if !leased {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// release releases the leases for which returnLease was called. It keeps a lease if there
// is a new request to claim the endpoint.
func (l *leases) release(ctx context.Context) error {
	l.mu.Lock()
	var keys []webhook.EndpointKey
	for key := range l.toRelease {
		if _, requested := l.requests[key]; !requested {
			keys = append(keys, key)
		}
		delete(l.toRelease, key)
	}
	l.mu.Unlock()
	return l.releaseKeys(ctx, keys)
}

func (l *leases) releaseAll(ctx context.Context) error {
	l.mu.Lock()
	var keys []webhook.EndpointKey
	for key := range l.leases {
		keys = append(keys, key)
	}
	for key := range l.toRelease {
		keys = append(keys, key)
	}
	l.mu.Unlock()
	return l.releaseKeys(ctx, keys)
}

func (l *leases) releaseKeys(ctx context.Context, keys []webhook.EndpointKey) error {
	if len(keys) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	return webhooks.Release(ctx, l.db, l.sender, keys)
}

// search requests claims for endpoints that have due deliveries but no lease. An endpoint
// is in this state if the process with its lease has crashed, or if a delivery has become
// due after the lease was released.
func (l *leases) search(ctx context.Context) error {
	now := l.now()
	if now.Sub(l.searched) < searchInterval {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := webhooks.Unclaimed(ctx, l.db, now, searchLimit)
	if err != nil {
		return err
	}
	l.searched = now
	for _, key := range found {
		l.requestClaim(key)
	}
	return nil
}
