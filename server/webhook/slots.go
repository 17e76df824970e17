package webhook

import (
	"slices"
	"sync"

	"github.com/tributary-hq/tributary/affiliate"
)

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
