package webhook

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestSlots_LimitWorkspacesAndHangingEndpoints(t *testing.T) {
	a, b := affiliate.WorkspaceID{UUID: uuid.New()}, affiliate.WorkspaceID{UUID: uuid.New()}
	// In each step, one workspace makes twelve requests for a slot. A slot is the
	// permission for one attempt in flight.
	type step struct {
		workspace   affiliate.WorkspaceID
		hanging     bool
		wantGranted int
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"one workspace leaves slots to the next workspace", []step{{a, false, 6}}},
		{"two workspaces leave slots to the next workspace", []step{{a, false, 6}, {b, false, 4}}},
		{"hanging endpoints leave half of the slots to others", []step{{a, true, 6}, {b, true, 0}, {b, false, 4}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSlots(12)
			for _, step := range tc.steps {
				granted := 0
				for range 12 {
					if s.acquire(&slotRequest{workspace: step.workspace, hanging: step.hanging, granted: func() {}}) {
						granted++
					}
				}
				if granted != step.wantGranted {
					t.Fatalf("%d of 12 requests were granted, want %d", granted, step.wantGranted)
				}
			}
		})
	}
}

func TestSlots_AreGrantedInTheOrderOfRequests(t *testing.T) {
	s := newSlots(2)
	var order []string
	request := func(name string, hanging bool) *slotRequest {
		r := &slotRequest{workspace: affiliate.WorkspaceID{UUID: uuid.New()}, hanging: hanging}
		r.granted = func() { order = append(order, name) }
		return r
	}
	first, second := request("first", true), request("second", false)
	if !s.acquire(first) || !s.acquire(second) {
		t.Fatal("free slots were not granted")
	}
	hanging, third, canceled, fourth := request("hanging", true), request("third", false), request("canceled", false), request("fourth", false)
	for _, r := range []*slotRequest{hanging, third, canceled, fourth} {
		if s.acquire(r) {
			t.Fatal("more slots were granted than exist")
		}
	}
	s.cancel(canceled)
	s.release(second) // the request first, of a hanging endpoint, still uses half of the slots
	s.release(first)
	s.release(third)
	if want := []string{"third", "hanging", "fourth"}; !slices.Equal(order, want) {
		t.Errorf("requests were granted in the order %v, want %v", order, want)
	}
	s.cancel(fourth) // the request was granted, so this releases its slot
	s.release(hanging)
	if n := s.inFlight(); n != 0 || len(s.byWorkspace) != 0 || s.inUseByHanging != 0 {
		t.Errorf("%d slots are in use, by %d workspaces, %d by hanging endpoints, want none", n, len(s.byWorkspace), s.inUseByHanging)
	}
}
