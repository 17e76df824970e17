package webhook

import (
	"testing"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestSlots_LimitWorkspacesAndHangingEndpoints(t *testing.T) {
	a, b := affiliate.WorkspaceID{UUID: uuid.New()}, affiliate.WorkspaceID{UUID: uuid.New()}
	type requests struct {
		workspace affiliate.WorkspaceID
		hanging   bool
		granted   int // of twelve requests
	}
	for _, tc := range []struct {
		name  string
		steps []requests
	}{
		{"one workspace leaves a share to the next", []requests{{a, false, 6}}},
		{"two workspaces leave a share to the next", []requests{{a, false, 6}, {b, false, 4}}},
		{"hanging endpoints leave half to the others", []requests{{a, true, 6}, {b, true, 0}, {b, false, 4}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newSlots(12)
			for _, step := range tc.steps {
				granted := 0
				for range 12 {
					if p.acquire(&slotRequest{workspace: step.workspace, hanging: step.hanging, granted: func() {}}) {
						granted++
					}
				}
				if granted != step.granted {
					t.Fatalf("%d granted, want %d", granted, step.granted)
				}
			}
		})
	}
}

func TestSlots_AreGrantedInTheOrderOfRequests(t *testing.T) {
	p := newSlots(2)
	var order []string
	request := func(name string, hanging bool) *slotRequest {
		r := &slotRequest{workspace: affiliate.WorkspaceID{UUID: uuid.New()}, hanging: hanging}
		r.granted = func() { order = append(order, name) }
		return r
	}
	first, second := request("first", true), request("second", false)
	if !p.acquire(first) || !p.acquire(second) {
		t.Fatal("free slots were not granted")
	}
	hangs, third, canceled, fourth := request("hangs", true), request("third", false), request("canceled", false), request("fourth", false)
	for _, r := range []*slotRequest{hangs, third, canceled, fourth} {
		if p.acquire(r) {
			t.Fatal("more slots were granted than exist")
		}
	}
	p.cancel(canceled)
	p.release(second) // a hanging endpoint still uses the other slot
	p.release(first)
	p.release(third)
	if len(order) != 3 || order[0] != "third" || order[1] != "hangs" || order[2] != "fourth" {
		t.Errorf("granted %v", order)
	}
	p.cancel(fourth) // it was granted, so its slot is released
	p.release(hangs)
	if n := p.inFlight(); n != 0 || len(p.byWorkspace) != 0 || p.inUseByHanging != 0 {
		t.Errorf("%d slots are in use", n)
	}
}
