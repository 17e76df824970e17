package webhook

import (
	"slices"
	"sync"

	"github.com/tributary-hq/tributary/affiliate"
)

// places bounds the attempts of a process. A place is one attempt in flight. While
// they are scarce, three rules keep one endpoint's places from another:
//
//   - Endpoints whose last attempt timed out have at most half of all places together.
//   - Once half of all places are taken, no workspace gets more than an equal share, and
//     one share stays free for a workspace that comes next.
//   - Endpoints that wait get a place in the order in which they began to wait, one each.
type places struct {
	total int

	mu             sync.Mutex
	taken          int
	takenByHanging int
	byWorkspace    map[affiliate.WorkspaceID]int
	waiting        []*placeRequest
}

// placeRequest asks for one place.
type placeRequest struct {
	workspace affiliate.WorkspaceID
	// hanging: the last attempt of the endpoint timed out.
	hanging bool
	// granted is called if the place was not free at once, in another goroutine and
	// without a lock.
	granted func()
}

func newPlaces(total int) *places {
	return &places{total: total, byWorkspace: map[affiliate.WorkspaceID]int{}}
}

// acquire takes a place and returns true, or queues the request and returns false.
func (p *places) acquire(r *placeRequest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Requests that wait are above a bound that this one may not be above.
	if p.allowed(r) {
		p.take(r)
		return true
	}
	p.waiting = append(p.waiting, r)
	return false
}

// release gives a place back, and grants waiting requests.
func (p *places) release(r *placeRequest) {
	p.mu.Lock()
	p.taken--
	if r.hanging {
		p.takenByHanging--
	}
	if p.byWorkspace[r.workspace]--; p.byWorkspace[r.workspace] == 0 {
		delete(p.byWorkspace, r.workspace)
	}
	granted := p.grant()
	p.mu.Unlock()
	for _, g := range granted {
		g.granted()
	}
}

// cancel ends a request: it leaves the queue, or gives the place back.
func (p *places) cancel(r *placeRequest) {
	p.mu.Lock()
	i := slices.Index(p.waiting, r)
	if i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 {
		p.release(r)
	}
}

// grant takes places for waiting requests, the oldest first.
func (p *places) grant() (granted []*placeRequest) {
	p.waiting = slices.DeleteFunc(p.waiting, func(r *placeRequest) bool {
		if !p.allowed(r) {
			return false
		}
		p.take(r)
		granted = append(granted, r)
		return true
	})
	return granted
}

func (p *places) take(r *placeRequest) {
	p.taken++
	if r.hanging {
		p.takenByHanging++
	}
	p.byWorkspace[r.workspace]++
}

func (p *places) allowed(r *placeRequest) bool {
	switch {
	case p.taken >= p.total:
		return false
	case r.hanging && p.takenByHanging >= p.total/2:
		return false
	case p.taken < p.total/2:
		return true
	default:
		return p.byWorkspace[r.workspace] < p.share(r.workspace)
	}
}

// share returns the bound of a workspace while places are scarce.
func (p *places) share(asking affiliate.WorkspaceID) int {
	workspaces := len(p.byWorkspace)
	if p.byWorkspace[asking] == 0 {
		workspaces++
	}
	return max(1, p.total/(workspaces+1))
}

// inFlight returns the number of places that are taken.
func (p *places) inFlight() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
