package webhook

import (
	"context"
	"slices"
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

// slots limits the number of attempts in flight of a process. Each attempt in flight uses
// one slot. Three rules prevent an endpoint or a workspace from using too many slots:
//
//   - All endpoints whose last attempt timed out share at most half of all slots.
//   - If at least half of all slots are in use, a workspace gets at most an equal share
//     of all slots. One share is reserved for a workspace that has no slot yet.
//   - Waiting requests are granted in their order. Requests that another of these rules
//     does not allow yet are skipped. An endpoint has at most one waiting request.
type slots struct {
	total int

	mu             sync.Mutex
	inUse          int
	inUseByHanging int
	byWorkspace    map[affiliate.WorkspaceID]int
	waiting        []*slotRequest
}

// slotRequest is a request for one slot. After the request was granted, it represents the
// slot.
type slotRequest struct {
	workspace affiliate.WorkspaceID
	// hanging means that the last attempt of the endpoint timed out.
	hanging bool
	// granted is called when a waiting request is granted. It is called without the lock,
	// in the goroutine that released a slot.
	granted func()
}

func newSlots(total int) *slots {
	return &slots{total: total, byWorkspace: map[affiliate.WorkspaceID]int{}}
}

// acquire grants the request and returns true. If the request cannot be granted now,
// acquire adds it to the waiting requests and returns false.
func (s *slots) acquire(r *slotRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The request can be granted before waiting requests, because these may wait for a
	// limit that does not apply to this request.
	if s.allowed(r) {
		s.occupy(r)
		return true
	}
	s.waiting = append(s.waiting, r)
	return false
}

// release releases a slot and grants waiting requests.
func (s *slots) release(r *slotRequest) {
	s.mu.Lock()
	s.inUse--
	if r.hanging {
		s.inUseByHanging--
	}
	if s.byWorkspace[r.workspace]--; s.byWorkspace[r.workspace] == 0 {
		delete(s.byWorkspace, r.workspace)
	}
	granted := s.grant()
	s.mu.Unlock()
	for _, g := range granted {
		g.granted()
	}
}

// cancel removes a waiting request. If the request was already granted, cancel releases
// its slot.
func (s *slots) cancel(r *slotRequest) {
	s.mu.Lock()
	i := slices.Index(s.waiting, r)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		s.release(r)
	}
}

// grant grants the waiting requests that are allowed now, oldest first, and returns them.
func (s *slots) grant() (granted []*slotRequest) {
	s.waiting = slices.DeleteFunc(s.waiting, func(r *slotRequest) bool {
		if !s.allowed(r) {
			return false
		}
		s.occupy(r)
		granted = append(granted, r)
		return true
	})
	return granted
}

func (s *slots) occupy(r *slotRequest) {
	s.inUse++
	if r.hanging {
		s.inUseByHanging++
	}
	s.byWorkspace[r.workspace]++
}

func (s *slots) allowed(r *slotRequest) bool {
	switch {
	case s.inUse >= s.total:
		return false
	case r.hanging && s.inUseByHanging >= s.total/2:
		return false
	case s.inUse < s.total/2:
		return true
	default:
		return s.byWorkspace[r.workspace] < s.share(r.workspace)
	}
}

// share returns the maximum number of slots of a workspace while at least half of all
// slots are in use.
func (s *slots) share(workspace affiliate.WorkspaceID) int {
	workspaces := len(s.byWorkspace)
	if s.byWorkspace[workspace] == 0 {
		workspaces++
	}
	return max(1, s.total/(workspaces+1))
}

func (s *slots) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUse
}
